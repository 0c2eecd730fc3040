// SPDX-License-Identifier: Apache-2.0
// What this binary was built from, and with what. CMake writes the values (CMakeLists.txt, cmake/build_commit.cmake).
#ifndef ZG_BUILD_H
#define ZG_BUILD_H

#include <jansson.h>

extern const char build_compiler[];  // "GCC 12.2.0"

// A new object with the keys version, edition, commit, dirty, compiler, flags and libraries (results/RECORDS.md).
// Null: no memory.
json_t *build_facts(void);

#endif
