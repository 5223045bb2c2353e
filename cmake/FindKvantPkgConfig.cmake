# Libraries that Debian ships with pkg-config files only, as imported targets. Also used by the
# installed package, so that an embedding project finds the same ones.
find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(KVANT_XXHASH IMPORTED_TARGET GLOBAL libxxhash)
  pkg_check_modules(KVANT_PCRE2 IMPORTED_TARGET GLOBAL libpcre2-8)
  pkg_check_modules(KVANT_EDIT IMPORTED_TARGET GLOBAL libedit)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(KvantPkgConfig REQUIRED_VARS KVANT_XXHASH_FOUND KVANT_PCRE2_FOUND)
