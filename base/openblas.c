// SPDX-License-Identifier: Apache-2.0
#include "base/openblas.h"

#include "base/err.h"

#include <assert.h>
#include <cblas.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

// Keeps OpenBLAS's calls of its own functions from coming here.
#define HIDDEN __attribute__((visibility("hidden")))

static struct {
    pthread_once_t once;
    char absent[512];  // the reason why OpenBLAS is not available; "" if it is
    __typeof__(&cblas_sgemm) sgemm;
    __typeof__(&openblas_set_num_threads) set_num_threads;
    __typeof__(&openblas_get_num_threads) get_num_threads;
    __typeof__(&openblas_get_parallel) get_parallel;
    __typeof__(&openblas_get_config) get_config;
    __typeof__(&openblas_get_corename) get_corename;
} library = {.once = PTHREAD_ONCE_INIT};

// Tries the program's own folder and the system's search path, then the path found at build time.
static void *open_library(void)
{
    void *handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        snprintf(library.absent, sizeof library.absent, "%s", dlerror());
    return handle ? handle : dlopen(ZG_OPENBLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
}

static void load(void)
{
    const struct {
        const char *name;
        void *function;  // a pointer to the function's pointer
    } symbols[] = {
        {"cblas_sgemm", &library.sgemm},
        {"openblas_set_num_threads", &library.set_num_threads},
        {"openblas_get_num_threads", &library.get_num_threads},
        {"openblas_get_parallel", &library.get_parallel},
        {"openblas_get_config", &library.get_config},
        {"openblas_get_corename", &library.get_corename},
    };
    void *handle = open_library();
    if (!handle)
        return;
    library.absent[0] = '\0';
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address)
            snprintf(library.absent, sizeof library.absent, "it lacks %s", symbols[i].name);
        memcpy(symbols[i].function, &address, sizeof address);
    }
}

static bool is_loaded(void)
{
    pthread_once(&library.once, load);
    return library.absent[0] == '\0';
}

int openblas_load(void)
{
    return is_loaded() ? ERR_NONE
                       : err_set(ERR_USAGE,
                                 "GPTs need OpenBLAS, which is not available: %s; install it (Debian: "
                                 "libopenblas0-pthread), or train a model of vectors (--model linear)",
                                 library.absent);
}

HIDDEN void cblas_sgemm(const enum CBLAS_ORDER order, const enum CBLAS_TRANSPOSE transpose_a,
                        const enum CBLAS_TRANSPOSE transpose_b, const blasint m, const blasint n, const blasint k,
                        const float alpha, const float *a, const blasint a_stride, const float *b,
                        const blasint b_stride, const float beta, float *c, const blasint c_stride)
{
    bool loaded = is_loaded();
    assert(loaded);
    (void)loaded;
    library.sgemm(order, transpose_a, transpose_b, m, n, k, alpha, a, a_stride, b, b_stride, beta, c, c_stride);
}

HIDDEN void openblas_set_num_threads(int count)
{
    if (is_loaded())
        library.set_num_threads(count);
}

HIDDEN int openblas_get_num_threads(void)
{
    return is_loaded() ? library.get_num_threads() : -1;
}

HIDDEN int openblas_get_parallel(void)
{
    return is_loaded() ? library.get_parallel() : -1;
}

HIDDEN char *openblas_get_config(void)
{
    static char absent[] = "absent";
    return is_loaded() ? library.get_config() : absent;
}

HIDDEN char *openblas_get_corename(void)
{
    static char absent[] = "absent";
    return is_loaded() ? library.get_corename() : absent;
}
