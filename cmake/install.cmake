# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where, and the Debian package that `cpack -G DEB` makes of it. Everything but the program
# is the same on every processor and lies in share/; the files name each other by relative paths, so that any prefix
# will do.
include(CMakePackageConfigHelpers)

set(share ${CMAKE_INSTALL_DATADIR})
set(packaging ${CMAKE_SOURCE_DIR}/packaging)

# A wheel has the components program and libraries; the second, which goes to machines without the libraries, is
# installed where it is asked for by name.
if(ZG_PROGRAM)
  get_filename_component(installed ${ZG_PROGRAM}/../.. ABSOLUTE)
  if(NOT EXISTS ${installed}/share/doc/zerogauge/licenses)
    message(FATAL_ERROR "ZG_PROGRAM: ${ZG_PROGRAM} is not installed with its libraries, as `cmake --install` with "
                        "`--component libraries` does from a build with `-C cmake/portable.cmake`")
  endif()
  install(PROGRAMS ${ZG_PROGRAM} DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  install(DIRECTORY ${installed}/lib DESTINATION . COMPONENT program)
  install(DIRECTORY ${installed}/share/doc/zerogauge/licenses DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
  add_custom_target(zerogauge)
else()
  install(TARGETS zerogauge EXPORT zerogauge RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  install(CODE "set(installed_program $<TARGET_FILE:zerogauge>)\nset(sysroot \"${CMAKE_SYSROOT}\")" COMPONENT libraries
          EXCLUDE_FROM_ALL)
  install(SCRIPT cmake/install_libraries.cmake COMPONENT libraries EXCLUDE_FROM_ALL)
endif()
set(include ${CMAKE_INSTALL_INCLUDEDIR}/zerogauge)
install(FILES conformance/contract/contract.h DESTINATION ${include} COMPONENT program)
install(FILES conformance/adapters/contract_example.c DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT program)
install(DIRECTORY datasets/configs ${packaging}/slurm ${packaging}/kubernetes DESTINATION ${share}/zerogauge
        COMPONENT program USE_SOURCE_PERMISSIONS)
if(ZG_PROGRAM)
  return()
endif()
install(FILES ${packaging}/zerogauge.bash DESTINATION ${share}/bash-completion/completions RENAME zerogauge)
install(FILES ${packaging}/_zerogauge DESTINATION ${share}/zsh/vendor-completions)

# The C contract: a header, found by pkg-config or find_package, and all that its reader wants.
file(STRINGS conformance/contract/contract.h contract REGEX "^#define ZEROGAUGE_CONTRACT ")
string(REGEX MATCH "[0-9]+" contract "${contract}")
add_library(zerogauge_contract INTERFACE)
set_target_properties(zerogauge_contract PROPERTIES EXPORT_NAME contract)
target_include_directories(zerogauge_contract INTERFACE $<INSTALL_INTERFACE:${include}>)
install(TARGETS zerogauge_contract EXPORT zerogauge)
install(FILES conformance/CONTRACT.md conformance/SPEC.md README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
        FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png")
install(FILES conformance/adapters/zerogauge/adapters/skeleton.py
              conformance/adapters/zerogauge/adapters/skeleton_torch.py
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

install(EXPORT zerogauge NAMESPACE zerogauge:: FILE zerogaugeTargets.cmake DESTINATION ${share}/cmake/zerogauge)
configure_package_config_file(${packaging}/zerogaugeConfig.cmake.in ${CMAKE_BINARY_DIR}/zerogaugeConfig.cmake
                              INSTALL_DESTINATION ${share}/cmake/zerogauge NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/zerogaugeConfigVersion.cmake COMPATIBILITY SameMinorVersion
                                 ARCH_INDEPENDENT)
install(FILES ${CMAKE_BINARY_DIR}/zerogaugeConfig.cmake ${CMAKE_BINARY_DIR}/zerogaugeConfigVersion.cmake
        DESTINATION ${share}/cmake/zerogauge)
configure_file(${packaging}/zerogauge.pc.in ${CMAKE_BINARY_DIR}/zerogauge.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/zerogauge.pc DESTINATION ${share}/pkgconfig)

# The program writes its manual: the options of its own tables in the frame. One for another machine runs here with
# CMAKE_CROSSCOMPILING_EMULATOR alone; without, ZG_MANUAL names the manual of a native build, or none is installed.
set(ZG_MANUAL "" CACHE FILEPATH "a zerogauge.1.gz of a native build, where the program cannot run to write its own")
set(manual ${CMAKE_BINARY_DIR}/zerogauge.1)
if(ZG_MANUAL)
  install(FILES ${ZG_MANUAL} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
elseif(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  message(STATUS "no manual page: the program does not run here, and ZG_MANUAL is not set")
else()
  add_custom_command(OUTPUT ${manual}.gz COMMAND zerogauge help --manual <${packaging}/zerogauge.1.in >${manual}
                     COMMAND gzip -9nkf ${manual} DEPENDS zerogauge ${packaging}/zerogauge.1.in)
  add_custom_target(manual ALL DEPENDS ${manual}.gz)
  install(FILES ${manual}.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# Manual and change log are compressed as Debian wants them; `-n` leaves name and time out, so that bytes repeat.
function(zg_compressed file name destination)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  execute_process(COMMAND gzip -9nc ${file} OUTPUT_FILE ${CMAKE_BINARY_DIR}/${name} COMMAND_ERROR_IS_FATAL ANY)
  install(FILES ${CMAKE_BINARY_DIR}/${name} DESTINATION ${destination})
endfunction()
zg_compressed(${packaging}/changelog changelog.gz ${CMAKE_INSTALL_DOCDIR})
install(FILES ${packaging}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR zerogauge)
set(CPACK_PACKAGE_CONTACT "zerogauge <zerogauge@localhost.localdomain>" CACHE STRING "who answers for a package")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "conformance suite and benchmark for ZeRO-style training")
set(CPACK_PACKAGE_DESCRIPTION "Judges implementations of sharded training (data parallelism, ZeRO-1 to
ZeRO-3, FSDP, offload to host and NVMe) by numbered requirements, bit by bit;
measures what a machine allows and what it reaches; and trains small GPTs
itself, equal to unsharded Adam in every bit.")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "bible-kjv, fio")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "openmpi-bin, pkgconf")
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)
include(CPack)
