# SPDX-License-Identifier: Apache-2.0
# Installs the libraries of the program next to it, without the C runtime's, each with the copyright file of the
# Debian package that it is from, as licences demand of copies. libgcc_s belongs to the runtime: every system has it,
# and it must match the C library. A sysroot has the libraries of another machine, in packages of the same names. On a
# system without Debian's packages there are no copies of licences, which is for the user's own machine; ZG_LICENSES=1
# in the environment makes that an error.
cmake_policy(VERSION 3.22)
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES "${installed_program}" RESOLVED_DEPENDENCIES_VAR libraries
     DIRECTORIES "${sysroot}/usr/lib/aarch64-linux-gnu" "${sysroot}/lib/aarch64-linux-gnu"
     POST_EXCLUDE_REGEXES "/(ld-linux.*|lib(c|m|dl|pthread|rt|resolv|gcc_s))\\.so\\.[0-9]+$")
set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
set(licenses "${root}/share/doc/zerogauge/licenses")
file(MAKE_DIRECTORY "${root}/lib" "${licenses}")
foreach(library IN LISTS libraries)
  get_filename_component(name "${library}" NAME)
  file(REAL_PATH "${library}" real)
  file(COPY_FILE "${real}" "${root}/lib/${name}")
  execute_process(COMMAND dpkg-query -S "${real}" OUTPUT_VARIABLE package ERROR_QUIET RESULT_VARIABLE unknown)
  if(unknown)  # a library of /usr/lib may be listed below /lib
    get_filename_component(listed "${real}" NAME)
    execute_process(COMMAND dpkg-query -S "*linux-gnu/${listed}" OUTPUT_VARIABLE package ERROR_QUIET
                    RESULT_VARIABLE unknown)
  endif()
  if(NOT unknown)
    string(REGEX REPLACE ":.*" "" package "${package}")
    file(COPY_FILE "${sysroot}/usr/share/doc/${package}/copyright" "${licenses}/${package}")
  elseif("$ENV{ZG_LICENSES}")
    message(FATAL_ERROR "no Debian package has ${library}, so its licence is unknown")
  endif()
endforeach()
