# What `cmake --install` adds to the program, the library and the plugins: all that a plugin outside this tree is built with
# (headers, the CMake package), the descriptions of models and the one that comes with patchbay, and the script of the report's
# plots: resources.cpp finds them.
include(CMakePackageConfigHelpers)

set(package_folder lib/cmake/patchbay)
install(DIRECTORY core/include/patchbay DESTINATION include FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")
install(FILES ${PROJECT_BINARY_DIR}/generated/patchbay/build_id.h DESTINATION include/patchbay)
install(DIRECTORY configs/models DESTINATION ${CMAKE_INSTALL_DATADIR}/patchbay/configs)
install(DIRECTORY data/tiny-shakespeare DESTINATION ${CMAKE_INSTALL_DATADIR}/patchbay/data)
install(DIRECTORY python DESTINATION ${CMAKE_INSTALL_DATADIR}/patchbay FILES_MATCHING PATTERN "*.py" PATTERN "requirements.txt")

install(EXPORT patchbay NAMESPACE patchbay:: FILE patchbayTargets.cmake DESTINATION ${package_folder})
configure_package_config_file(cmake/patchbayConfig.cmake.in ${PROJECT_BINARY_DIR}/generated/patchbayConfig.cmake
  INSTALL_DESTINATION ${package_folder})
# Interfaces are C++ classes: only the very version will do, and at load time the build id has the last word.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/patchbayConfigVersion.cmake COMPATIBILITY ExactVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/patchbayConfig.cmake ${PROJECT_BINARY_DIR}/generated/patchbayConfigVersion.cmake
  cmake/patchbay_add_plugin.cmake cmake/patchbay_gpu.cmake cmake/keep_ptxas.sh cmake/warnings.cmake DESTINATION ${package_folder})
