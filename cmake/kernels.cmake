# clq_embed(OUTPUT HEADER TYPE TABLE FILE...): a generated source that contains the files (cmake/embed.cmake).
function(clq_embed output header type table)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DHEADER=${header} -DTYPE=${type} -DTABLE=${table} "-DFILES=${ARGN}"
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    COMMENT "Embedding ${table}" VERBATIM)
endfunction()

# clq_embed_kernels(LAYER): cl/*.cl as C strings in a generated source of that layer.
function(clq_embed_kernels layer)
  file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cl/*.cl)
  set(output ${CMAKE_BINARY_DIR}/generated/kernel_sources.c)
  clq_embed(${output} device/program/sources.h clq_kernel_source clq_kernel_sources ${kernels})
  target_sources(clq_${layer} PRIVATE ${output})
endfunction()
