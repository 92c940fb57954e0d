# patchbay_gpu_objects(target file.cu...): compiles CUDA sources for every world of this build and adds them to `target`:
#   simt           by g++, optimised
#   simt_checked   by g++, every memory access and basic block instrumented (-fsanitize=thread, -fsanitize-coverage=trace-pc; core answers
#                  the calls, libtsan is not linked)
#   cuda           by nvcc, where PATCHBAY_CUDA is ON; with PATCHBAY_CUDA_KERNELS alone it stays out of `target`: a module of its own, made
#                  by the target cuda_kernels, shows that every kernel compiles and links
# CUDA_ARCHITECTURES: of this target's kernels, where they are fewer than the build's ("90-real;90" is sm_90 and its PTX).
# g++ compiles a one-line .cpp that defines PATCHBAY_GPU and includes the .cu.
#   -fno-strict-aliasing   kernels read memory through vector types, as CUDA lets them
#   -gdwarf-4              addr2line of binutils 2.40 misreads the first lines of a DWARF 5 table
#   -fstack-clash-protection  a thread whose locals need more than its stack meets the page that guards it
#   pattern                locals that a kernel forgot to set hold nonsense, not what lay there
function(patchbay_gpu_objects target)
  cmake_parse_arguments(GPU "" "" "CUDA_ARCHITECTURES" ${ARGN})
  foreach(file ${GPU_UNPARSED_ARGUMENTS})
    get_filename_component(path ${file} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR})
    get_filename_component(name ${file} NAME_WE)
    foreach(world simt simt_checked)
      set(wrapper ${CMAKE_CURRENT_BINARY_DIR}/${target}_${world}/${name}.cpp)
      file(CONFIGURE OUTPUT ${wrapper} CONTENT "#define PATCHBAY_GPU ${world}\n#include \"${path}\"\n")
      list(APPEND ${world}_sources ${wrapper})
    endforeach()
    list(APPEND cuda_sources ${path})
  endforeach()
  foreach(world simt simt_checked)
    add_library(${target}_${world} OBJECT ${${world}_sources})
    # Not linked with core: its options bring AddressSanitizer, which does not go with -fsanitize=thread.
    target_include_directories(${target}_${world} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} $<TARGET_PROPERTY:patchbay::core,INTERFACE_INCLUDE_DIRECTORIES>)
    target_compile_options(${target}_${world} PRIVATE -g1 -gdwarf-4 -ffp-contract=off -fno-strict-aliasing
      -fstack-clash-protection -ftrivial-auto-var-init=pattern -Wno-unknown-pragmas)
    patchbay_warnings(${target}_${world})
    set_target_properties(${target}_${world} PROPERTIES CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
      CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${world}>)
  endforeach()
  target_compile_options(${target}_simt PRIVATE -O2)
  # Last, the indices of arrays (-fsanitize=bounds): core answers it too, but where UndefinedBehaviorSanitizer's own library would.
  target_compile_options(${target}_simt_checked PRIVATE -O1 -fno-sanitize=address,undefined -fsanitize=thread -fsanitize-coverage=trace-pc
    --param=tsan-instrument-func-entry-exit=0 -Wno-tsan)
  if(NOT PATCHBAY_SANITIZE)
    target_compile_options(${target}_simt_checked PRIVATE -fsanitize=bounds -fno-sanitize-recover=bounds)
  endif()
  if(PATCHBAY_CUDA OR PATCHBAY_CUDA_KERNELS)
    patchbay_cuda_objects(${target} "${GPU_CUDA_ARCHITECTURES}" ${cuda_sources})
  endif()
endfunction()

# What nvcc makes of `sources`: in `target`, or in lib/cuda_kernels/<target>.so. A test reads back which architectures it holds.
function(patchbay_cuda_objects target architectures)
  if(NOT architectures)
    set(architectures ${CMAKE_CUDA_ARCHITECTURES})
  endif()
  add_library(${target}_cuda OBJECT ${ARGN})
  target_include_directories(${target}_cuda PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} $<TARGET_PROPERTY:patchbay::core,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_definitions(${target}_cuda PRIVATE PATCHBAY_GPU=cuda)
  target_compile_options(${target}_cuda PRIVATE --compress-mode=size)  # a quarter of the bytes; -lineinfo would double them
  set_target_properties(${target}_cuda PROPERTIES POSITION_INDEPENDENT_CODE ON CUDA_VISIBILITY_PRESET hidden CUDA_ARCHITECTURES "${architectures}")
  if(PATCHBAY_CUDA)
    set(module ${target})
    patchbay_keep_ptxas(${target})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_cuda>)
    target_link_libraries(${target} PRIVATE CUDA::cudart)
    target_compile_definitions(${target} PRIVATE PATCHBAY_CUDA)
  else()
    set(module ${target}_cuda_module)
    set_target_properties(${target}_cuda PROPERTIES EXCLUDE_FROM_ALL ON)
    add_library(${module} MODULE EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${target}_cuda>)
    target_link_libraries(${module} PRIVATE patchbay::core CUDA::cudart)
    target_link_options(${module} PRIVATE -Wl,-z,defs)
    set_target_properties(${module} PROPERTIES LINKER_LANGUAGE CXX PREFIX "" OUTPUT_NAME ${target}
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/cuda_kernels)
  endif()
  set_property(GLOBAL APPEND PROPERTY PATCHBAY_CUDA_MODULES ${module})
  string(REPLACE ";" "," architectures "${architectures}")
  set_target_properties(${module} PROPERTIES PATCHBAY_CUDA_ARCHITECTURES "${architectures}")
endfunction()

# patchbay_link_kernels(plugin_target program): the plugin's kernels, in every world of this build, become part of a program too, which
# calls their launchers.
function(patchbay_link_kernels target program)
  target_sources(${program} PRIVATE $<TARGET_OBJECTS:${target}_simt> $<TARGET_OBJECTS:${target}_simt_checked>)
  if(PATCHBAY_CUDA)
    target_sources(${program} PRIVATE $<TARGET_OBJECTS:${target}_cuda>)
    target_link_libraries(${program} PRIVATE CUDA::cudart)
    target_compile_definitions(${program} PRIVATE PATCHBAY_CUDA)
  endif()
endfunction()

# What ptxas says of each kernel (registers, spills) beside a plugin, as <name>.ptxas: `patchbay profile` works out occupancy from it.
set(PATCHBAY_KEEP_PTXAS ${CMAKE_CURRENT_LIST_DIR}/keep_ptxas.sh)
function(patchbay_keep_ptxas target)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL MODULE_LIBRARY)
    return()
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}_ptxas)
  target_compile_options(${target}_cuda PRIVATE "SHELL:-Xptxas -v")
  set_target_properties(${target}_cuda PROPERTIES CUDA_COMPILER_LAUNCHER "sh;${PATCHBAY_KEEP_PTXAS};${folder};${CMAKE_CUDA_COMPILER_LAUNCHER}")
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM
    COMMAND sh -c "cat \"$1\"/*.ptxas > \"$2\"" sh ${folder} $<TARGET_FILE_DIR:${target}>/$<TARGET_FILE_BASE_NAME:${target}>.ptxas)
endfunction()
