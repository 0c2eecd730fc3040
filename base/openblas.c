// SPDX-License-Identifier: Apache-2.0
#include "base/openblas.h"

#include "base/err.h"
#include "base/openblas_room.h"

#include <assert.h>
#include <cblas.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

// Keeps OpenBLAS's calls of its own functions from coming here.
#define HIDDEN __attribute__((visibility("hidden")))

static struct {
    pthread_once_t once;
    char absent[512];     // the reason why OpenBLAS is not available; "" if it is
    char no_memory[256];  // the reason why it cannot be used although it is there; ""
    __typeof__(&cblas_sgemm) sgemm;
    __typeof__(&openblas_set_num_threads) set_num_threads;
    __typeof__(&openblas_get_num_threads) get_num_threads;
    __typeof__(&openblas_get_parallel) get_parallel;
    __typeof__(&openblas_get_config) get_config;
    __typeof__(&openblas_get_corename) get_corename;
} library = {.once = PTHREAD_ONCE_INIT};

// Tries the program's own folder and the system's search path, then the path found at build time.
static void *open_from_paths(void)
{
    void *handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        snprintf(library.absent, sizeof library.absent, "%s", dlerror());
    return handle ? handle : dlopen(ZG_OPENBLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
}

// OpenBLAS starts a thread for each further processor that its loader may use. Ranks have threads of their own, and
// where memory is short its threads never end: so the loader may use one processor meanwhile.
static void *open_library(void)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    bool known = sched_getaffinity(0, sizeof all, &all) == 0;
    int here = sched_getcpu();
    if (known && here >= 0 && here < CPU_SETSIZE) {
        CPU_SET((size_t)here, &one);
        known = sched_setaffinity(0, sizeof one, &one) == 0;
    }
    void *handle = open_from_paths();
    if (known)
        (void)sched_setaffinity(0, sizeof all, &all);
    return handle;
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
    openblas_room_open();
    void *handle = open_library();
    if (!handle) {
        if (strstr(library.absent, "map segment") || strstr(library.absent, "allocate memory"))
            openblas_room_explain(library.no_memory, sizeof library.no_memory);
        return;
    }
    library.absent[0] = '\0';
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address)
            snprintf(library.absent, sizeof library.absent, "it lacks %s", symbols[i].name);
        memcpy(symbols[i].function, &address, sizeof address);
    }
    if (library.absent[0] == '\0' && !openblas_room_begin(handle))
        openblas_room_explain(library.no_memory, sizeof library.no_memory);
}

static bool is_loaded(void)
{
    pthread_once(&library.once, load);
    return library.absent[0] == '\0';
}

int openblas_load(void)
{
    bool loaded = is_loaded();
    if (library.no_memory[0] != '\0')
        return err_set(ERR_MEMORY, "%s", library.no_memory);
    return loaded ? ERR_NONE
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
    assert(loaded && library.no_memory[0] == '\0');
    (void)loaded;
    openblas_room_enter();
    library.sgemm(order, transpose_a, transpose_b, m, n, k, alpha, a, a_stride, b, b_stride, beta, c, c_stride);
    openblas_room_leave();
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
