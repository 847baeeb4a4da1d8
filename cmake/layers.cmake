# clq_layer(NAME USES LAYER...): the object library clq_NAME of src/NAME/*.c and of its subfolders. CLQ_CLOSURE_NAME
# lists the layer and all layers below it, lowest first: a test or the library links these.
set(CLQ_LAYERS "")
function(clq_layer name)
  cmake_parse_arguments(layer "" "" "USES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.c ${PROJECT_SOURCE_DIR}/src/${name}/*/*.c)
  if(NOT sources)
    set(sources ${PROJECT_SOURCE_DIR}/cmake/empty.c)
  endif()
  add_library(clq_${name} OBJECT ${sources})
  clq_compile_options(clq_${name})
  target_include_directories(clq_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  set(closure "")
  foreach(used IN LISTS layer_USES)
    target_link_libraries(clq_${name} PUBLIC clq_${used})
    list(APPEND closure ${CLQ_CLOSURE_${used}})
  endforeach()
  list(APPEND closure ${name})
  list(REMOVE_DUPLICATES closure)
  set(CLQ_CLOSURE_${name} ${closure} PARENT_SCOPE)
  set(CLQ_LAYERS ${CLQ_LAYERS} ${name} PARENT_SCOPE)
endfunction()

function(clq_compile_options target)
  target_compile_definitions(${target} PRIVATE _POSIX_C_SOURCE=200809L _DEFAULT_SOURCE
    CL_TARGET_OPENCL_VERSION=120)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes
    $<$<BOOL:${CLIQUE_WERROR}>:-Werror> -fno-math-errno
    # A function that fails does not change its outputs. gcc cannot see that a failure is never CLQ_OK.
    -Wno-maybe-uninitialized)
  if(CLIQUE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${CLIQUE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${CLIQUE_SANITIZE})
  endif()
endfunction()

# Links the objects of a layer and of all layers below it into a target.
function(clq_link_layer target name)
  foreach(layer IN LISTS CLQ_CLOSURE_${name})
    target_link_libraries(${target} PRIVATE clq_${layer})
  endforeach()
endfunction()
