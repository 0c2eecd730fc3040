# SPDX-License-Identifier: Apache-2.0
# A toolchain for Linux on 64-bit ARM, with GCC's cross compiler of Debian and Ubuntu:
#     cmake --preset aarch64 -DCMAKE_SYSROOT=FOLDER
# FOLDER holds Debian's arm64 packages, unpacked; ci/aarch64 makes one. Without it, `dpkg --add-architecture arm64`
# has brought them to /usr. What is built runs here by qemu-user, where that is installed.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(triple aarch64-linux-gnu)
if(NOT CMAKE_C_COMPILER)
  set(CMAKE_C_COMPILER ${triple}-gcc)
endif()
set(CMAKE_C_COMPILER_TARGET ${triple})  # clang's
set(CMAKE_LIBRARY_ARCHITECTURE ${triple})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
if(CMAKE_SYSROOT)
  set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
  set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
  set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
endif()
set(folders ${CMAKE_SYSROOT}/usr/lib/${triple})
set(ENV{PKG_CONFIG_LIBDIR}
    ${folders}/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)

# mpicc and nvcc of this machine build for this machine.
set(ZG_MPI OFF CACHE BOOL "ranks as MPI processes, where there is an MPI")
set(ZG_CUDA OFF CACHE BOOL "the device tier on GPUs, where there is nvcc")

find_program(ZG_QEMU NAMES qemu-aarch64-static qemu-aarch64)
if(ZG_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${ZG_QEMU})
endif()
