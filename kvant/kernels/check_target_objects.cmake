# cmake -DNM=... -DOBJECTS=a.o|b.o -P check_target_objects.cmake
#
# Fails if an object file built with a target's flags defines a weak symbol. A linker keeps one of
# several weak copies; if it kept this one, code that runs on every processor would hold
# instructions of a newer one.
string(REPLACE "|" ";" objects "${OBJECTS}")
list(LENGTH objects n_objects)
if(n_objects EQUAL 0)
  message(FATAL_ERROR "no object files were given")
endif()
foreach(object IN LISTS objects)
  execute_process(COMMAND "${NM}" --defined-only "${object}"
    OUTPUT_VARIABLE symbols RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "cannot read ${object}")
  endif()
  # A pointer to the exception handler, from the sanitizers' clean-up code: data, the same everywhere.
  string(REGEX REPLACE "[^\n]* DW\\.ref\\.[^\n]*" "" symbols "${symbols}")
  if(symbols MATCHES "[0-9a-f]+ [WVu] ([^\n]*)")
    message(FATAL_ERROR "${object} defines the weak symbol ${CMAKE_MATCH_1}")
  endif()
endforeach()
message(STATUS "${n_objects} objects define no weak symbol")
