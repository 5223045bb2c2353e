# find_package(kvant) for projects that embed the library (examples/embed).
include(CMakePackageConfigHelpers)
get_property(rooms GLOBAL PROPERTY KVANT_ROOMS)
set(kvant_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kvant)

install(TARGETS ${rooms} EXPORT kvantTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT kvantTargets NAMESPACE kvant:: DESTINATION ${kvant_package_dir})

configure_package_config_file(cmake/kvantConfig.cmake.in kvantConfig.cmake
  INSTALL_DESTINATION ${kvant_package_dir})
write_basic_package_version_file(kvantConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/kvantConfig.cmake"
  "${PROJECT_BINARY_DIR}/kvantConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/FindKvantPkgConfig.cmake"
  DESTINATION ${kvant_package_dir})
if(TARGET kvant_app)
  install(TARGETS kvant_app RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
