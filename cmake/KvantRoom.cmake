# How a room, a test program, a benchmark and a fuzzer are made. Each is a glob, so that adding a
# file needs no edit here.
include(GoogleTest)

# kvant_room(NAME [DEPS target...] [PRIVATE_DEPS target...] [TEST_DEPS target...])
#
# One library a room: every .cc of the room's folder but *_test.cc. Its headers are the room's
# public ones: each must compile alone (target all_verify_interface_header_sets). The folder's tests
# become one program, kvant_<room>_test, whose cases carry the label "unit".
function(kvant_room name)
  cmake_parse_arguments(ROOM "" "" "DEPS;PRIVATE_DEPS;TEST_DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "*.cc")
  file(GLOB headers CONFIGURE_DEPENDS "*.h")
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER headers EXCLUDE REGEX "(_inl|_test_util)\\.h$")

  add_library(kvant_${name} STATIC ${sources})
  add_library(kvant::${name} ALIAS kvant_${name})
  set_target_properties(kvant_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON
    VERIFY_INTERFACE_HEADER_SETS ON)
  target_sources(kvant_${name} PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}"
    FILES ${headers})
  target_include_directories(kvant_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(kvant_${name} PUBLIC cxx_std_20)
  target_link_libraries(kvant_${name} PUBLIC ${ROOM_DEPS}
    PRIVATE ${ROOM_PRIVATE_DEPS} $<BUILD_INTERFACE:kvant_flags>)
  set_property(GLOBAL APPEND PROPERTY KVANT_ROOMS kvant_${name})

  if(KVANT_BUILD_TESTS)
    kvant_test(kvant_${name}_test LABEL unit SOURCES ${tests} DEPS kvant_${name} ${ROOM_TEST_DEPS})
  endif()
endfunction()

# kvant_test(TARGET LABEL label SOURCES file... [DEPS target...]); no files: no program.
function(kvant_test target)
  cmake_parse_arguments(T "" "LABEL" "SOURCES;DEPS" ${ARGN})
  if(NOT T_SOURCES)
    return()
  endif()
  add_executable(${target} ${T_SOURCES})
  target_link_libraries(${target} PRIVATE ${T_DEPS} kvant_flags GTest::gmock GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE KVANT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # The sanitizers' allocators abort on requests beyond their limits unless told to fail like malloc.
  gtest_discover_tests(${target} DISCOVERY_TIMEOUT 120
    PROPERTIES LABELS "${T_LABEL}" TIMEOUT 600 ENVIRONMENT
    "ASAN_OPTIONS=allocator_may_return_null=1;TSAN_OPTIONS=allocator_may_return_null=1")
endfunction()

# kvant_bench(TARGET SOURCES file... [DEPS target...]): a Google Benchmark program.
function(kvant_bench target)
  cmake_parse_arguments(B "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${target} ${B_SOURCES})
  target_link_libraries(${target} PRIVATE ${B_DEPS} kvant_flags benchmark::benchmark_main)
  target_compile_definitions(${target} PRIVATE KVANT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
endfunction()

# kvant_fuzz(TARGET SOURCES file... [DEPS target...]): a libFuzzer program (clang only).
function(kvant_fuzz target)
  cmake_parse_arguments(F "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${target} ${F_SOURCES})
  target_link_libraries(${target} PRIVATE ${F_DEPS} kvant_flags)
  target_compile_options(${target} PRIVATE -fsanitize=fuzzer)
  target_link_options(${target} PRIVATE -fsanitize=fuzzer)
endfunction()

# kvant_top_room(VARIABLE): the highest room there is; whoever links it gets all below.
function(kvant_top_room variable)
  foreach(room serve engine model state codec kernels tensor base)
    if(TARGET kvant_${room})
      set(${variable} kvant_${room} PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()
