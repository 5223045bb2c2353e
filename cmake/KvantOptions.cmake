# Build options and the flags that every target shares.
option(KVANT_BUILD_APPS "Build the kvant program" ${PROJECT_IS_TOP_LEVEL})
option(KVANT_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(KVANT_BUILD_BENCH "Build the Google Benchmark programs" OFF)
option(KVANT_BUILD_FUZZ "Build the libFuzzer programs (clang only)" OFF)
option(KVANT_WERROR "Treat warnings as errors" OFF)
set(KVANT_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(KVANT_CCACHE ccache)
if(KVANT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${KVANT_CCACHE}")
endif()

add_library(kvant_flags INTERFACE)
# Contraction of a*b+c is off everywhere: every fused operation is written as one (docs/numerics.md).
target_compile_options(kvant_flags INTERFACE -ffp-contract=off -Wall -Wextra -Wpedantic
  -Wconversion -Wsign-conversion -Wshadow $<$<BOOL:${KVANT_WERROR}>:-Werror>)
# g++ 12 sees overlaps in "literal" + std::string that cannot be (its bug 105651).
target_compile_options(kvant_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(KVANT_SANITIZE)
  target_compile_options(kvant_flags INTERFACE -fsanitize=${KVANT_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(kvant_flags INTERFACE -fsanitize=${KVANT_SANITIZE})
  # g++ sees uninitialised members where its own instrumentation split the standard library's code.
  target_compile_options(kvant_flags INTERFACE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
