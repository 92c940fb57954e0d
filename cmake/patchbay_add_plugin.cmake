# patchbay_add_plugin([SOURCES file...] [AVX2 file...] [AVX512 file...] [DEFINITIONS name...])
#
# Called from plugins/<kind>/<name>/CMakeLists.txt: builds lib/patchbay/plugins/<kind>/<name>.so from <name>.cpp and SOURCES.
# AVX2 and AVX512 list sources compiled for those instruction sets: they may only be called after a look at cpuid.
# <name>_test.cpp, where present, becomes part of the test program of its kind.
function(patchbay_add_plugin)
  cmake_parse_arguments(ARG "" "" "SOURCES;AVX2;AVX512" ${ARGN})
  get_filename_component(name ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  get_filename_component(kind_dir ${CMAKE_CURRENT_SOURCE_DIR} DIRECTORY)
  get_filename_component(kind ${kind_dir} NAME)
  set(target plugin_${kind}_${name})
  add_library(${target} MODULE ${name}.cpp ${ARG_SOURCES} ${ARG_AVX2} ${ARG_AVX512})
  target_link_libraries(${target} PRIVATE patchbay_core)
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/patchbay/plugins/${kind}
    BUILD_RPATH "$ORIGIN/../../.." INSTALL_RPATH "$ORIGIN/../../..")
  patchbay_simd_sources("${ARG_AVX2}" "${ARG_AVX512}")
  patchbay_warnings(${target})
  install(TARGETS ${target} LIBRARY DESTINATION lib/patchbay/plugins/${kind})
  set_property(GLOBAL APPEND PROPERTY PATCHBAY_PLUGIN_TARGETS ${target})
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${name}_test.cpp)
    set_property(GLOBAL APPEND PROPERTY PATCHBAY_PLUGIN_TESTS ${CMAKE_CURRENT_SOURCE_DIR}/${name}_test.cpp)
  endif()
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
