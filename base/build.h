// SPDX-License-Identifier: Apache-2.0
// The source and the tools of this build. CMake writes the values (CMakeLists.txt, cmake/build_commit.cmake).
#ifndef ZG_BUILD_H
#define ZG_BUILD_H

#include <jansson.h>

extern const char build_compiler[];  // "GCC 12.2.0"

// Returns a new object with the keys version, `edition` (the suite version), commit, dirty, compiler, flags and
// libraries (results/RECORDS.md); null if there is no memory.
json_t *build_facts(void);

#endif
