# find_package(kvant) for projects that embed the library.
include(CMakePackageConfigHelpers)
get_property(rooms GLOBAL PROPERTY KVANT_ROOMS)
install(TARGETS ${rooms} EXPORT kvantTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY kvant DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT kvantTargets NAMESPACE kvant:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvant)
configure_package_config_file(cmake/kvantConfig.cmake.in kvantConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvant)
write_basic_package_version_file(kvantConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/kvantConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/kvantConfigVersion.cmake" cmake/FindKvantPkgConfig.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvant)
if(TARGET kvant_app)
  install(TARGETS kvant_app RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
