// SPDX-License-Identifier: Apache-2.0
// The source and the tools of this build. CMake writes the values (CMakeLists.txt, cmake/build_commit.cmake).
#pragma once

#include <jansson.h>

extern const char build_compiler[];  // "GCC 12.2.0"

// Returns a new object with the facts that results/RECORDS.md calls `suite`: versions, commit, compiler, flags and
// libraries; null if there is no memory.
json_t *build_facts(void);
