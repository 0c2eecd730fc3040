# SPDX-License-Identifier: Apache-2.0
# The target `standin`: the program, and the test programs that need a GPU, with stand-ins for CUDA's runtime and cuBLAS
# (ci/standin/standin.h) and for NCCL (ci/standin/nccl.h) in build/standin. All else of them is what the GPU's programs
# consist of.
include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
  return()
endif()
enable_language(CXX)
set(ZG_STANDIN ${CMAKE_BINARY_DIR}/standin)
set(folder ${CMAKE_CURRENT_LIST_DIR})

add_library(standin_cudart SHARED EXCLUDE_FROM_ALL ${folder}/block.c ${folder}/copy.c ${folder}/count.c
            ${folder}/device.c
            ${folder}/graph.c ${folder}/memory.c ${folder}/stream.c)
target_include_directories(standin_cudart PRIVATE ${CMAKE_SOURCE_DIR})
target_include_directories(standin_cudart SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(standin_cudart PRIVATE zg_flags Threads::Threads)
set_target_properties(standin_cudart PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${ZG_STANDIN})

# Under its name it is loaded where cuBLAS would be.
file(STRINGS ${CUDAToolkit_INCLUDE_DIRS}/cublas_api.h version REGEX "define CUBLAS_VER_MAJOR")
string(REGEX MATCH "[0-9]+" version "${version}")
file(GLOB products CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ref/arithmetic/*.c)
list(FILTER products EXCLUDE REGEX "_test\\.c$|_stand_in\\.c$|/isa_neon|/isa_sve")
add_library(standin_cublas MODULE EXCLUDE_FROM_ALL ${folder}/cublas.c ${products} base/array.c base/err.c)
target_link_options(standin_cublas PRIVATE -Wl,-z,defs)
target_include_directories(standin_cublas PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(standin_cublas PRIVATE standin_cudart zg_flags ${CMAKE_DL_LIBS} m)
set_target_properties(standin_cublas PROPERTIES OUTPUT_NAME cublas SUFFIX .so.${version} BUILD_RPATH "\$ORIGIN"
                      LIBRARY_OUTPUT_DIRECTORY ${ZG_STANDIN})

if(ZG_NCCL)
  add_library(standin_nccl SHARED EXCLUDE_FROM_ALL ${folder}/nccl.c ${folder}/nccl_board.c ${folder}/nccl_group.c
              ${folder}/nccl_sum.c ${folder}/nccl_work.c)
  target_include_directories(standin_nccl PRIVATE ${CMAKE_SOURCE_DIR} PUBLIC SYSTEM ${ZG_NCCL_INCLUDE})
  target_link_options(standin_nccl PRIVATE -Wl,-z,defs)
  target_link_libraries(standin_nccl PRIVATE standin_cudart zg_flags Threads::Threads m)
  set_target_properties(standin_nccl PROPERTIES OUTPUT_NAME nccl SOVERSION 2 BUILD_RPATH "\$ORIGIN"
                        LIBRARY_OUTPUT_DIRECTORY ${ZG_STANDIN})
endif()

# zg_standin_kernels(NAME FILE...): the device code of .cu files, compiled for the host.
function(zg_standin_kernels name)
  set(generated)
  foreach(file IN LISTS ARGN)
    string(REPLACE "/" "_" text ${file})
    set(text ${ZG_STANDIN}/${text}.cpp)
    add_custom_command(OUTPUT ${text} DEPENDS ${CMAKE_SOURCE_DIR}/${file} ${folder}/launches
                       COMMAND ${folder}/launches ${CMAKE_SOURCE_DIR}/${file} > ${text})
    list(APPEND generated ${text})
  endforeach()
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${generated})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE -std=c++17 -include ${folder}/kernel.cuh -O2 -UNDEBUG -ffp-contract=off
                         -fno-fast-math -Wall -Wextra -Wno-unknown-pragmas "$<$<BOOL:${ZG_WERROR}>:-Werror>")
  target_link_libraries(${name} PUBLIC standin_cudart)
endfunction()

file(MAKE_DIRECTORY ${ZG_STANDIN})
file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/*/*/*.cu)
list(FILTER sources EXCLUDE REGEX "^build")
list(REMOVE_ITEM sources ref/cuda/isa_host.cu)
zg_standin_kernels(standin_kernels ${sources})
zg_standin_kernels(standin_isa_host ref/cuda/isa_host.cu)

# The same kernels, which say what they read and write (ci/standin/count.c), and a program of them alone.
get_target_property(counted standin_kernels SOURCES)
add_library(standin_counted_kernels OBJECT EXCLUDE_FROM_ALL ${counted})
get_target_property(flags standin_kernels COMPILE_OPTIONS)
target_compile_options(standin_counted_kernels PRIVATE ${flags} -fsanitize=thread --param
                       tsan-instrument-func-entry-exit=0)
target_include_directories(standin_counted_kernels PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(standin_counted_kernels PUBLIC standin_cudart)
add_executable(standin_counted EXCLUDE_FROM_ALL $<TARGET_OBJECTS:zerogauge> $<TARGET_OBJECTS:standin_counted_kernels>)
target_link_libraries(standin_counted PRIVATE standin_cudart zerogauge_library)
set_target_properties(standin_counted PROPERTIES OUTPUT_NAME zerogauge_counted RUNTIME_OUTPUT_DIRECTORY ${ZG_STANDIN}
                      LINKER_LANGUAGE CXX)
add_dependencies(standin_counted standin_cublas)

# zg_standin(PROGRAM LIBRARY...): the stand-in is linked before CUDA's runtime, and its kernels before those of the
# rooms, which are then left out.
function(zg_standin name)
  add_executable(standin_${name} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${name}> $<TARGET_OBJECTS:standin_kernels>)
  target_link_libraries(standin_${name} PRIVATE standin_cudart ${ARGN} zerogauge_library)
  set_target_properties(standin_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${ZG_STANDIN}
                        LINKER_LANGUAGE CXX)
  add_dependencies(standin standin_${name})
endfunction()

add_custom_target(standin DEPENDS standin_cublas $<TARGET_NAME_IF_EXISTS:standin_nccl>
                  $<TARGET_NAME_IF_EXISTS:nvml_stand_in>)
zg_standin(zerogauge)
if(ZG_TESTS)
  foreach(name IN ITEMS standin nccl nccl_undefined)
    if(name STREQUAL standin OR ZG_NCCL)
      add_executable(${name}_test EXCLUDE_FROM_ALL ${folder}/${name}_test.c)
      target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR})
      target_link_libraries(${name}_test PRIVATE $<TARGET_NAME_IF_EXISTS:standin_nccl> standin_cudart
                            PkgConfig::CRITERION zg_flags zg_test_flags)
      set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${ZG_STANDIN})
      add_dependencies(standin ${name}_test)
    endif()
  endforeach()
  if(ZG_NCCL)
    set(nccl_tests comm_nccl_ranks_test comm_nccl_test)
  endif()
  foreach(name IN ITEMS attention_cuda_test comm_cuda_test cuda_lane_test gpt_cuda_test gpt_step_cuda_test
                     isa_cuda_test tier_cuda_test train_cuda_test ${nccl_tests})
    zg_standin(${name} standin_isa_host PkgConfig::CRITERION)
  endforeach()
endif()
