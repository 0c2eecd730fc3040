// SPDX-License-Identifier: Apache-2.0
#include "base/build.h"

#include "build_commit.h"
#include "build_flags.h"
#include "base/safe_text.h"

#include <gnu/libc-version.h>
#include <hwloc.h>
#ifdef ZG_HAVE_MPI
#include <mpi.h>
#endif
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#ifdef __clang__
const char build_compiler[] = __VERSION__;
#else
const char build_compiler[] = "GCC " __VERSION__;
#endif

// "Open MPI v4.1.4"; null in a build without MPI.
static json_t *mpi_json(void)
{
#ifdef ZG_HAVE_MPI
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);  // may be called before MPI begins
    text[strcspn(text, ",\n")] = '\0';
    return text_json(text);
#else
    return NULL;
#endif
}

// The versions at run time; for libraries that do not report theirs, the versions at build time.
static json_t *libraries_json(void)
{
    char hwloc[32], xxhash[32];
    unsigned version = hwloc_get_api_version(), digits = XXH_versionNumber();
    snprintf(hwloc, sizeof hwloc, "%u.%u.%u", version >> 16, version >> 8 & 0xff, version & 0xff);
    snprintf(xxhash, sizeof xxhash, "%u.%u.%u", digits / 10000, digits / 100 % 100, digits % 100);
    return json_pack("{s:s, s:s, s:s, s:o*, s:s, s:s, s:s}", "glibc", gnu_get_libc_version(), "hwloc API", hwloc,
                     "jansson", jansson_version_str(), "MPI", mpi_json(), "liburing", BUILD_LIBURING, "popt",
                     BUILD_POPT, "xxhash", xxhash);
}

json_t *build_facts(void)
{
    json_t *commit = BUILD_COMMIT[0] ? json_string(BUILD_COMMIT) : json_null();
    json_t *dirty = BUILD_COMMIT[0] ? json_boolean(BUILD_DIRTY) : json_null();
    return json_pack("{s:s, s:i, s:o, s:o, s:s, s:s, s:o}", "version", ZG_VERSION, "edition", ZG_SUITE_VERSION,
                     "commit", commit, "dirty", dirty, "compiler", build_compiler, "flags", BUILD_FLAGS, "libraries",
                     libraries_json());
}
