# clq_embed_kernels(LAYER): cl/*.cl as C strings in a generated source of that layer.
function(clq_embed_kernels layer)
  file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cl/*.cl)
  set(output ${CMAKE_BINARY_DIR}/generated/kernel_sources.c)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} "-DKERNELS=${kernels}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${kernels} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    COMMENT "Embedding the kernels" VERBATIM)
  target_sources(clq_${layer} PRIVATE ${output})
endfunction()
