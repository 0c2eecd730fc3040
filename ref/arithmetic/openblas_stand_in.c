// SPDX-License-Identifier: Apache-2.0
// For product_library_test: a libopenblas.so.0 older than the processor, which takes kernels for Prescott unless
// OPENBLAS_CORETYPE names others when it is loaded.
#include <stdlib.h>
#include <string.h>

static char core[32] = "Prescott";

static void __attribute__((constructor)) choose(void)
{
    const char *given = getenv("OPENBLAS_CORETYPE");
    if (given)
        strncpy(core, given, sizeof core - 1);
}

char *openblas_get_corename(void);
char *openblas_get_corename(void)
{
    return core;
}

char *openblas_get_config(void);
char *openblas_get_config(void)
{
    static char config[] = "OpenBLAS 0.3.21 DYNAMIC_ARCH Prescott";
    return config;
}

void openblas_set_num_threads(int count);
void openblas_set_num_threads(int count)
{
    (void)count;
}

void cblas_sgemm(void);
void cblas_sgemm(void)
{
}
