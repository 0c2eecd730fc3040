// SPDX-License-Identifier: Apache-2.0
#include "ref/arithmetic/product_library.h"

#include "ref/arithmetic/isa.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// As <cblas.h> declares them.
enum { ROW_MAJOR = 101, NOT_TRANSPOSED = 111, TRANSPOSED = 112 };
typedef void cblas_sgemm_function(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                                  const float *a, int a_stride, const float *b, int b_stride, float beta, float *c,
                                  int c_stride);
// As <oneapi/dnnl/dnnl.h> declares it: row-major.
typedef int dnnl_sgemm_function(char transpose_a, char transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
                                const float *a, int64_t a_stride, const float *b, int64_t b_stride, float beta,
                                float *c, int64_t c_stride);

static struct product_library libraries[PRODUCT_LIBRARY_MAX] = {{.key = "openblas"}, {.key = "onednn"}};

static cblas_sgemm_function *cblas_sgemm;
static dnnl_sgemm_function *dnnl_sgemm;

static void openblas_multiply(const struct matmul_product *p)
{
    cblas_sgemm(ROW_MAJOR, p->a.transposed ? TRANSPOSED : NOT_TRANSPOSED, p->b.transposed ? TRANSPOSED : NOT_TRANSPOSED,
                (int)p->m, (int)p->n, (int)p->k, 1, p->a.data, (int)p->a.stride, p->b.data, (int)p->b.stride,
                p->add ? 1 : 0, p->c, (int)p->c_stride);
}

static void onednn_multiply(const struct matmul_product *p)
{
    (void)dnnl_sgemm(p->a.transposed ? 'T' : 'N', p->b.transposed ? 'T' : 'N', (int64_t)p->m, (int64_t)p->n,
                     (int64_t)p->k, 1, p->a.data, (int64_t)p->a.stride, p->b.data, (int64_t)p->b.stride, p->add ? 1 : 0,
                     p->c, (int64_t)p->c_stride);
}

// The core for which OpenBLAS has kernels with this processor's vectors, if those for `core` lack them; null: they do
// not.
static const char *better_core(const char *core)
{
#if defined(__aarch64__)
    return isa_best() == ISA_SVE && strcasecmp(core, "armv8") == 0 ? "NEOVERSEN1" : NULL;
#else
    static const char *const narrow[] = {"Prescott",    "Core2",   "Penryn",    "Dunnington", "Nehalem",
                                         "Athlon",      "Opteron", "Barcelona", "Bobcat",     "Atom",
                                         "Sandybridge", "Nano",    "Bulldozer", NULL};
    bool is_narrow = strncasecmp(core, "Opteron", 7) == 0;
    for (size_t i = 0; narrow[i]; i++)
        is_narrow |= strcasecmp(core, narrow[i]) == 0;
    return !is_narrow || isa_best() < ISA_AVX2 ? NULL : isa_best() == ISA_AVX512 ? "SkylakeX" : "Haswell";
#endif
}

// Reads a function's address without a cast from a data pointer.
static bool find(void *handle, const char *name, void *function)
{
    void *address = dlsym(handle, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

// The core for which the library has chosen its kernels.
static const char *core_of(void *handle)
{
    char *(*corename)(void);
    return find(handle, "openblas_get_corename", &corename) ? corename() : "an unknown core";
}

static void openblas_open(struct product_library *library)
{
    static const char file[] = "libopenblas.so.0";
    // Its threads would spin for a while after each product, in the time of what is measured next.
    setenv("OPENBLAS_THREAD_TIMEOUT", "4", 0);
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const char *core = handle ? better_core(core_of(handle)) : NULL;
    bool is_corrected = core && !getenv("OPENBLAS_CORETYPE");
    if (is_corrected) {
        dlclose(handle);
        setenv("OPENBLAS_CORETYPE", core, 1);
        handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    }
    char *(*config)(void), version[32] = "";
    if (!handle || !find(handle, "cblas_sgemm", &cblas_sgemm) || !find(handle, "openblas_get_config", &config) ||
        !find(handle, "openblas_set_num_threads", &library->set_threads)) {
        snprintf(library->name, sizeof library->name, "absent (Debian: libopenblas0-pthread)");
        return;
    }
    sscanf(config(), "OpenBLAS %31s", version);
    snprintf(library->name, sizeof library->name, "OpenBLAS %s, kernels for %s%s", version, core_of(handle),
             is_corrected ? ", which it did not choose itself" : "");
    library->multiply = openblas_multiply;
}

// The version of its interface differs between systems; this function is the same in both.
static void onednn_open(struct product_library *library)
{
    static const char *const files[] = {"libdnnl.so.3", "libdnnl.so.2"};
    struct {
        int major, minor, patch;
    } const *(*version)(void);
    void *handle = NULL;
    for (size_t i = 0; !handle && i < sizeof files / sizeof *files; i++)
        handle = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (!handle || !find(handle, "dnnl_sgemm", &dnnl_sgemm) || !find(handle, "dnnl_version", &version)) {
        snprintf(library->name, sizeof library->name, "absent (Debian: libdnnl2 or libdnnl3)");
        return;
    }
    snprintf(library->name, sizeof library->name, "oneDNN %d.%d.%d", version()->major, version()->minor,
             version()->patch);
    library->multiply = onednn_multiply;
}

static void open_all(void)
{
    openblas_open(&libraries[0]);
    onednn_open(&libraries[1]);
}

const struct product_library *product_libraries(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_all);
    return libraries;
}
