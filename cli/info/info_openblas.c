// SPDX-License-Identifier: Apache-2.0
#include "cli/info/info.h"

#include <cblas.h>

#include <stddef.h>
#include <stdio.h>
#include <strings.h>

// The cores, as OpenBLAS names them, whose kernels do not use the vectors of `wide` and later instruction sets, and the
// core that does. Each list ends with null.
#if defined(__aarch64__)
static const enum isa wide = ISA_SVE;
static const char *const narrow[] = {"armv8", NULL};
static const char *core_for(enum isa best)
{
    return best == ISA_SVE ? "NEOVERSEN1" : "ARMV8";
}
#else
static const enum isa wide = ISA_AVX2;
static const char *const narrow[] = {"Prescott",    "Core2",   "Penryn",       "Dunnington", "Nehalem",
                                     "Athlon",      "Opteron", "Barcelona",    "Bobcat",     "Atom",
                                     "Sandybridge", "Nano",    "Opteron_SSE3", "Bulldozer",  NULL};
static const char *core_for(enum isa best)
{
    return best == ISA_AVX512 ? "SkylakeX" : "Haswell";
}
#endif

bool openblas_warning(const char *core, enum isa best, char out[OPENBLAS_WARNING_BYTES])
{
    bool slow = false;
    for (size_t i = 0; narrow[i]; i++)
        slow |= best >= wide && strcasecmp(core, narrow[i]) == 0;
    out[0] = '\0';
    if (slow)
        snprintf(out, OPENBLAS_WARNING_BYTES,
                 "kernels for %s, although this processor has %s: OpenBLAS does not know it, and matrix products take "
                 "several times as long; set OPENBLAS_CORETYPE=%s, or install a newer OpenBLAS",
                 core, isa_name(best), core_for(best));
    return slow;
}

json_t *info_openblas(void)
{
    static const char *const threading[] = {"one thread", "pthreads", "OpenMP"};
    char warning[OPENBLAS_WARNING_BYTES];
    int kind = openblas_get_parallel();
    bool slow = openblas_warning(openblas_get_corename(), isa_best(), warning);
    return json_pack("{s:s, s:s, s:s, s:o}", "config", openblas_get_config(), "core", openblas_get_corename(),
                     "threading", kind >= 0 && kind < 3 ? threading[kind] : "unknown", "warning",
                     slow ? json_string(warning) : json_null());
}
