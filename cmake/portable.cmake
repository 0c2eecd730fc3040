# SPDX-License-Identifier: Apache-2.0
# cmake -C cmake/portable.cmake: the program of the wheel and the archive, which goes to other machines. It has neither
# MPI nor CUDA, and finds the libraries that lie next to it. As DT_RPATH, the path also serves the libraries' own
# libraries, and what the program loads at run time.
set(ZG_TESTS OFF CACHE BOOL "")
set(ZG_MPI OFF CACHE BOOL "")
set(ZG_CUDA OFF CACHE BOOL "")
set(CMAKE_INSTALL_LIBDIR lib CACHE STRING "")
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib" CACHE STRING "")
set(CMAKE_EXE_LINKER_FLAGS "-Wl,--disable-new-dtags" CACHE STRING "")
set(ZG_RELATIVE_NAMES ON CACHE BOOL "")
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
