# Shared by the scripts of this folder; sourced with the repository's root as working directory.

# Progress goes to stderr, so that a script's stdout is its result.
say() { printf '== %s\n' "$*" >&2; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Compilers and tests at once; KVANT_JOBS overrides the number of processors.
jobs_count() { printf '%s' "${KVANT_JOBS:-$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)}"; }

# configure_preset PRESET BUILD_DIR [CMAKE_ARGUMENT...]: quiet unless it fails. Configures anew
# only when there is no build yet: ninja itself notices changed CMake files.
configure_preset() {
  local preset=$1 build=$2 log
  shift 2
  [ -f "$build/build.ninja" ] && [ "$build/CMakeCache.txt" -nt CMakePresets.json ] && return 0
  say "configuring $build"
  mkdir -p "$build"
  log=$build/configure.log
  cmake --preset "$preset" -B "$build" "$@" >"$log" 2>&1 || {
    cat "$log" >&2
    die "cmake could not configure $build"
  }
}

# build_targets BUILD_DIR [TARGET...]: all targets when none is given. Progress on a terminal only.
build_targets() {
  local build=$1 quiet=()
  shift
  [ -t 2 ] || quiet=(-- --quiet)
  say "building $build"
  cmake --build "$build" -j "$(jobs_count)" ${@:+--target "$@"} ${quiet[@]+"${quiet[@]}"} >&2
}
