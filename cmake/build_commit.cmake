# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE=DIR -DHEADER=FILE -P build_commit.cmake: writes the commit that DIR holds, and whether its files were
# changed since, into FILE; an empty commit where DIR is not the top of a repository. A file that already says so is
# left alone, so that nothing is built again.
set(commit "")
set(dirty 0)
execute_process(COMMAND git -C ${SOURCE} rev-parse --show-toplevel OUTPUT_VARIABLE top ERROR_QUIET
                OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(NOT failed)
  get_filename_component(top "${top}" REALPATH)
  get_filename_component(source "${SOURCE}" REALPATH)
  if(top STREQUAL source)
    execute_process(COMMAND git -C ${SOURCE} rev-parse --verify -q HEAD OUTPUT_VARIABLE commit ERROR_QUIET
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    execute_process(COMMAND git -C ${SOURCE} status --porcelain --untracked-files=no OUTPUT_VARIABLE changes
                    ERROR_QUIET)
    if(changes)
      set(dirty 1)
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define BUILD_COMMIT \"${commit}\"\n#define BUILD_DIRTY ${dirty}\n" @ONLY)
