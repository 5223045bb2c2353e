# FlatBuffers: the compiler of schemas, and the headers that its output includes. No library is
# linked, so who embeds kvant needs neither.
find_program(KVANT_FLATC flatc REQUIRED)
find_path(KVANT_FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h REQUIRED)
add_custom_target(kvant_schemas)

# kvant_schema(TARGET FILE.fbs): FILE_generated.h, made by the build. Generated code is a system
# header: warnings are not ours to mend.
function(kvant_schema target schema)
  get_filename_component(name ${schema} NAME_WE)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/schema)
  set(header ${folder}/${name}_generated.h)
  add_custom_command(OUTPUT ${header}
    COMMAND ${KVANT_FLATC} --cpp --cpp-std c++17 --scoped-enums -o ${folder}
            ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
    DEPENDS ${schema} VERBATIM)
  add_custom_target(${target}_${name}_schema DEPENDS ${header})
  add_dependencies(kvant_schemas ${target}_${name}_schema)
  add_dependencies(${target} ${target}_${name}_schema)
  target_include_directories(${target} SYSTEM PRIVATE ${folder} ${KVANT_FLATBUFFERS_INCLUDE})
endfunction()
