# patchbay_add_plugin([TEMPLATE] [SOURCES file...] [AVX2 file...] [AVX512 file...] [GPU file.cu...] [CUDA_ARCHITECTURES number...])
#
# Called from <kind>/<name>/CMakeLists.txt: builds lib/patchbay/plugins/<kind>/<name>.so from <name>.cpp and SOURCES, in
# patchbay's own tree and, after find_package(patchbay), in any other.
# AVX2 and AVX512 list sources compiled for those instruction sets: they may only be called after a look at cpuid.
# GPU lists CUDA sources: compiled for the emulator (twice) and, where PATCHBAY_CUDA is ON, by nvcc: see patchbay_gpu.cmake. CUDA_ARCHITECTURES
# says for which GPUs, where they are fewer than the build's.
# <name>_gpu_test.cpp, where present, becomes a program test_gpu_<kind>_<name> that is linked with them; outside patchbay's tree where
# Catch2 has been found.
# TEMPLATE marks the plugin of each kind that `patchbay new` copies; the program finds it above itself, in share/patchbay/templates.
# <name>_test.cpp, where present, becomes part of the program test_plugins; outside patchbay's tree, where Catch2 has been found,
# it becomes a program and a test of its own.
function(patchbay_add_plugin)
  cmake_parse_arguments(ARG "TEMPLATE" "" "SOURCES;AVX2;AVX512;GPU;CUDA_ARCHITECTURES" ${ARGN})
  get_filename_component(name ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  get_filename_component(kind_dir ${CMAKE_CURRENT_SOURCE_DIR} DIRECTORY)
  get_filename_component(kind ${kind_dir} NAME)
  set(target plugin_${kind}_${name})
  add_library(${target} MODULE ${name}.cpp ${ARG_SOURCES} ${ARG_AVX2} ${ARG_AVX512})
  target_link_libraries(${target} PRIVATE patchbay::core)
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${name} CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/patchbay/plugins/${kind}
    BUILD_RPATH "$ORIGIN/../../.." INSTALL_RPATH "$ORIGIN/../../..")
  patchbay_simd_sources("${ARG_AVX2}" "${ARG_AVX512}")
  patchbay_warnings(${target})
  if(ARG_GPU)
    patchbay_gpu_objects(${target} ${ARG_GPU} CUDA_ARCHITECTURES ${ARG_CUDA_ARCHITECTURES})
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${name}_gpu_test.cpp)
      if(patchbay_FOUND)
        patchbay_add_outside_test(${target} gpu_${kind}_${name} ${name}_gpu_test.cpp)
        patchbay_link_kernels(${target} test_gpu_${kind}_${name})
      else()
        set_property(GLOBAL APPEND PROPERTY PATCHBAY_GPU_TESTS ${CMAKE_CURRENT_SOURCE_DIR}/${name}_gpu_test.cpp)
      endif()
    endif()
  endif()
  install(TARGETS ${target} LIBRARY DESTINATION lib/patchbay/plugins/${kind})
  if(PATCHBAY_CUDA AND ARG_GPU)
    install(FILES ${CMAKE_BINARY_DIR}/lib/patchbay/plugins/${kind}/${name}.ptxas DESTINATION lib/patchbay/plugins/${kind} OPTIONAL)
  endif()
  set_property(GLOBAL APPEND PROPERTY PATCHBAY_PLUGIN_TARGETS ${target})
  if(ARG_TEMPLATE)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/share/patchbay/templates/${kind})
    file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_BINARY_DIR}/share/patchbay/templates/${kind}/${name} SYMBOLIC)
    install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} DESTINATION share/patchbay/templates/${kind})
  endif()
  if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${name}_test.cpp)
    return()
  endif()
  if(patchbay_FOUND)
    patchbay_add_outside_test(${target} ${target} ${name}_test.cpp)
  else()
    set_property(GLOBAL APPEND PROPERTY PATCHBAY_PLUGIN_TESTS ${CMAKE_CURRENT_SOURCE_DIR}/${name}_test.cpp)
  endif()
endfunction()

# The test `name` of a plugin outside patchbay's tree: a Catch2 program test_<name> that finds the plugins of this build, then the
# installed ones.
function(patchbay_add_outside_test target name source)
  if(NOT TARGET Catch2::Catch2)
    message(STATUS "${source} is left out: find_package(Catch2) before patchbay_add_plugin() builds it")
    return()
  endif()
  if(NOT TARGET patchbay_catch_main)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/catch_main.cpp CONTENT "#define CATCH_CONFIG_MAIN\n#include <catch2/catch.hpp>\n")
    add_library(patchbay_catch_main STATIC ${CMAKE_BINARY_DIR}/catch_main.cpp)
    target_link_libraries(patchbay_catch_main PUBLIC Catch2::Catch2)
    target_compile_options(patchbay_catch_main PUBLIC -O0)  # compiled more often than it runs
  endif()
  add_executable(test_${name} ${source})
  target_link_libraries(test_${name} PRIVATE patchbay_catch_main patchbay::core)
  add_dependencies(test_${name} ${target})
  add_test(NAME ${name} COMMAND test_${name})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT PATCHBAY_PLUGIN_PATH=${CMAKE_BINARY_DIR}/lib/patchbay/plugins)
endfunction()

# Instruction-set flags per file; floating-point contraction stays off so that kernels round as they are written.
function(patchbay_simd_sources avx2 avx512)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    if(avx2)
      set_source_files_properties(${avx2} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
    endif()
    if(avx512)
      set_source_files_properties(${avx512} PROPERTIES COMPILE_OPTIONS
        "-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512vnni")
    endif()
  endif()
endfunction()
