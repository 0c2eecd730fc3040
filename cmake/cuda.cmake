# SPDX-License-Identifier: Apache-2.0
# CUDA, where nvcc is found: ON by default there, and nothing needs it. Device code is built for sm_80 and sm_90, with
# PTX for what follows them. It is arithmetic under the same contract as the C: no contraction, IEEE square root
# and division, subnormals kept.
find_program(ZG_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
# An nvcc that is older than CUDA 12, finds no host compiler that it takes, or has no libraries is as good as
# none.
if(ZG_NVCC AND NOT DEFINED ZG_NVCC_WORKS)
  file(WRITE ${CMAKE_BINARY_DIR}/nvcc_works.cu "#include <cublas_v2.h>\n#include <cuda_runtime.h>\n"
       "__global__ void kernel() {}\n"
       "static_assert(CUDART_VERSION >= 12000, \"too old\");\nint main() { kernel<<<1, 1>>>(); }\n")
  execute_process(COMMAND ${ZG_NVCC} -std=c++17 -arch=sm_90 ${CMAKE_BINARY_DIR}/nvcc_works.cu
                  -o ${CMAKE_BINARY_DIR}/nvcc_works RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  set(works OFF)
  if(status EQUAL 0)
    set(works ON)
  else()
    message(STATUS "${ZG_NVCC} does not build a program for sm_90: without CUDA, unless -DZG_CUDA=ON")
  endif()
  set(ZG_NVCC_WORKS ${works} CACHE INTERNAL "whether nvcc builds a program")
endif()
set(found OFF)
# The runtime's own threads and memory are not instrumented.
if(ZG_NVCC AND ZG_NVCC_WORKS AND NOT ZG_SANITIZE MATCHES "thread")
  set(found ON)
endif()
option(ZG_CUDA "the device tier on GPUs, where there is nvcc" ${found})
if(NOT ZG_CUDA)
  return()
endif()
if(NOT ZG_NVCC)
  message(FATAL_ERROR "ZG_CUDA is ON, and there is no nvcc: install the CUDA toolkit, name nvcc with -DZG_NVCC=FILE, "
                      "or configure with -DZG_CUDA=OFF")
endif()
set(CMAKE_CUDA_COMPILER ${ZG_NVCC})
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
endif()
if(CMAKE_C_COMPILER_LAUNCHER AND NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O3 -g -lineinfo")
find_package(CUDAToolkit REQUIRED)

add_library(zg_cuda INTERFACE)
set(ZG_CUDA_OPTIONS --fmad=false --prec-sqrt=true --prec-div=true --ftz=false
    -Xcompiler=-ffp-contract=off,-fno-fast-math,-Wall,-Wextra,-Wshadow)
if(ZG_WERROR)
  list(APPEND ZG_CUDA_OPTIONS --Werror=all-warnings -Xcompiler=-Werror)
endif()
target_compile_options(zg_cuda INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${ZG_CUDA_OPTIONS}>")
list(GET CUDAToolkit_LIBRARY_DIR 0 folder)
target_compile_definitions(zg_cuda INTERFACE ZG_HAVE_CUDA ZG_CUDA_LIBRARIES="${folder}")
# The oldest processor that there is device code for; 80 where the list has a word, such as "all".
set(least 80)
if(CMAKE_CUDA_ARCHITECTURES MATCHES "^([0-9]+)")
  set(least ${CMAKE_MATCH_1})
endif()
set_source_files_properties(ref/cuda/cuda_lane.c PROPERTIES COMPILE_DEFINITIONS ZG_CUDA_LEAST=${least})
target_link_libraries(zg_cuda INTERFACE CUDA::cudart_static)

# NCCL's header is enough: the library is loaded when ranks ask for it.
find_path(ZG_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(ZG_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/lib)
set(found OFF)
if(ZG_NCCL_INCLUDE)
  set(found ON)
endif()
option(ZG_NCCL "ranks with a GPU each through NCCL, where there is its header" ${found})
if(ZG_NCCL)
  target_include_directories(zg_cuda SYSTEM INTERFACE ${ZG_NCCL_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_definitions(zg_cuda INTERFACE ZG_HAVE_NCCL)
  set_source_files_properties(ref/comm/comm_nccl_calls.c PROPERTIES COMPILE_DEFINITIONS
    "ZG_NCCL_LIBRARY=\"$<IF:$<BOOL:${ZG_NCCL_LIBRARY}>,${ZG_NCCL_LIBRARY},libnccl.so>\"")
endif()
