# Libraries that Debian ships with pkg-config files only, as imported targets PkgConfig::KVANT_*.
# The installed package uses this module too, so that an embedding project finds the same ones.
#
# xxHash and utf8proc are the library's; libedit serves the program and PCRE2 the tests, so those
# two may be absent.
find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  foreach(pair XXHASH=libxxhash UTF8PROC=libutf8proc PCRE2=libpcre2-8 EDIT=libedit)
    string(REPLACE "=" ";" pair ${pair})
    list(GET pair 0 name)
    list(GET pair 1 module)
    if(NOT TARGET PkgConfig::KVANT_${name})
      pkg_check_modules(KVANT_${name} QUIET IMPORTED_TARGET GLOBAL ${module})
    endif()
  endforeach()
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(KvantPkgConfig
  REQUIRED_VARS KVANT_XXHASH_FOUND KVANT_UTF8PROC_FOUND
  REASON_FAILURE_MESSAGE "libxxhash and libutf8proc are looked for with pkg-config")
