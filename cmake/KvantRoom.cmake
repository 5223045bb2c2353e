# kvant_room(NAME [DEPS target...] [PRIVATE_DEPS target...])
#
# One library a room: every .cc of the room's folder but *_test.cc. The folder's tests become one
# program, kvant_<room>_test, whose cases carry the label "unit".
include(GoogleTest)

function(kvant_room name)
  cmake_parse_arguments(ROOM "" "" "DEPS;PRIVATE_DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "*.cc")
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")

  add_library(kvant_${name} STATIC ${sources})
  add_library(kvant::${name} ALIAS kvant_${name})
  set_target_properties(kvant_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(kvant_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(kvant_${name} PUBLIC cxx_std_20)
  target_link_libraries(kvant_${name} PUBLIC ${ROOM_DEPS}
    PRIVATE ${ROOM_PRIVATE_DEPS} $<BUILD_INTERFACE:kvant_flags>)
  set_property(GLOBAL APPEND PROPERTY KVANT_ROOMS kvant_${name})

  if(KVANT_BUILD_TESTS AND tests)
    kvant_test(kvant_${name}_test LABEL unit SOURCES ${tests} DEPS kvant_${name})
  endif()
endfunction()

# kvant_test(TARGET LABEL label SOURCES file... [DEPS target...])
function(kvant_test target)
  cmake_parse_arguments(T "" "LABEL" "SOURCES;DEPS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${target} ${T_SOURCES})
  target_link_libraries(${target} PRIVATE ${T_DEPS} kvant_flags GTest::gmock GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE KVANT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(${target} DISCOVERY_TIMEOUT 120
    PROPERTIES LABELS "${T_LABEL}" TIMEOUT 600)
endfunction()
