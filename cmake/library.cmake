# libclique, shared and static, and its installed files: headers, pkg-config file, CMake package. Programs see the
# headers' declarations (CLQ_API); in the shared library, under the version node of libclique.map.
add_library(clique_shared SHARED cmake/empty.c)
clq_link_layer(clique_shared interop)
target_link_options(clique_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/libclique.map)
set_target_properties(clique_shared PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/libclique.map)

# The reason why the archive cannot have a single object; "" if it can.
set(CLQ_HIDES_NOT "")
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
set(archive_flags "${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${build_type}}")
if(NOT CMAKE_OBJCOPY)
  set(CLQ_HIDES_NOT "no objcopy")
elseif(CMAKE_CONFIGURATION_TYPES)
  set(CLQ_HIDES_NOT "a build of several configurations")
elseif(CMAKE_INTERPROCEDURAL_OPTIMIZATION OR archive_flags MATCHES "-flto")
  set(CLQ_HIDES_NOT "objects for link-time optimization") # objcopy finds no symbols in such objects
endif()

# An archive with one object, in which all hidden symbols are local: the library's internal names do not conflict with a
# program's. If that is impossible, the objects stay separate.
if(NOT CLQ_HIDES_NOT)
  # The compiler must link for its target machine.
  separate_arguments(archive_flags NATIVE_COMMAND "${archive_flags}")
  if(CMAKE_C_COMPILER_TARGET AND CMAKE_C_COMPILE_OPTIONS_TARGET)
    list(APPEND archive_flags ${CMAKE_C_COMPILE_OPTIONS_TARGET}${CMAKE_C_COMPILER_TARGET})
  endif()
  if(CMAKE_SYSROOT AND CMAKE_C_COMPILE_OPTIONS_SYSROOT)
    list(APPEND archive_flags ${CMAKE_C_COMPILE_OPTIONS_SYSROOT}${CMAKE_SYSROOT})
  endif()
  set(CLQ_WHOLE ${CMAKE_BINARY_DIR}/generated/libclique.o)
  set(objects "")
  foreach(layer IN LISTS CLQ_CLOSURE_interop)
    list(APPEND objects $<TARGET_OBJECTS:clq_${layer}>)
  endforeach()
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/generated/libclique.objects CONTENT "\"$<JOIN:${objects},\"\n\">\"\n")
  add_custom_command(OUTPUT ${CLQ_WHOLE}
    COMMAND ${CMAKE_C_COMPILER} ${archive_flags} -r -nostdlib -o ${CLQ_WHOLE} @${CMAKE_BINARY_DIR}/generated/libclique.objects
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${CLQ_WHOLE}
    DEPENDS ${objects} COMMAND_EXPAND_LISTS VERBATIM)
  add_library(clique_static STATIC cmake/empty.c ${CLQ_WHOLE})
  set_source_files_properties(${CLQ_WHOLE} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
else()
  add_library(clique_static STATIC cmake/empty.c)
  clq_link_layer(clique_static interop)
endif()

set_target_properties(clique_shared clique_static PROPERTIES OUTPUT_NAME clique VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})

install(TARGETS clique_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT dev)
install(TARGETS clique_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/clique DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# The tree may be installed in, or moved to, any folder: paths in clique.pc are relative to the file.
file(RELATIVE_PATH CLIQUE_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/clique.pc.in ${CMAKE_BINARY_DIR}/generated/clique.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/generated/clique.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

include(CMakePackageConfigHelpers)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/clique-config.cmake.in ${CMAKE_BINARY_DIR}/generated/clique-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/clique)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/clique-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/clique-config.cmake ${CMAKE_BINARY_DIR}/generated/clique-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/clique)
