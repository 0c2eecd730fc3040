// SPDX-License-Identifier: Apache-2.0
#include "ref/arithmetic/onednn.h"

#include "base/err.h"

#if __has_include(<dnnl.h>)

#include <dlfcn.h>
#include <dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define LIBRARY "libdnnl.so." TEXT(DNNL_VERSION_MAJOR)

// Version 3 creates what version 2 fills in.
#if DNNL_VERSION_MAJOR >= 3
#define FUNCTIONS_OF_VERSION(X)                                                                                        \
    X(memory_desc_create_with_strides) X(memory_desc_destroy) X(matmul_primitive_desc_create)
#else
#define FUNCTIONS_OF_VERSION(X) X(memory_desc_init_by_strides) X(matmul_desc_init) X(primitive_desc_create)
#endif
#define FUNCTIONS(X)                                                                                                   \
    X(version)                                                                                                         \
    X(get_effective_cpu_isa)                                                                                           \
    X(engine_create)                                                                                                   \
    X(stream_create)                                                                                                   \
    X(stream_wait)                                                                                                     \
    X(stream_destroy)                                                                                                  \
    X(primitive_attr_create)                                                                                           \
    X(primitive_attr_set_post_ops)                                                                                     \
    X(primitive_attr_destroy)                                                                                          \
    X(post_ops_create)                                                                                                 \
    X(post_ops_append_sum)                                                                                             \
    X(post_ops_destroy)                                                                                                \
    X(primitive_desc_destroy)                                                                                          \
    X(primitive_create)                                                                                                \
    X(primitive_execute)                                                                                               \
    X(primitive_destroy)                                                                                               \
    X(memory_create)                                                                                                   \
    X(memory_destroy)                                                                                                  \
    FUNCTIONS_OF_VERSION(X)

static struct {
    pthread_once_t once;
    char absent[512];  // the reason why it cannot be used; "" if it can
    char description[64];
    dnnl_engine_t engine;
    // Of the OpenMP runtime that oneDNN works with.
    int (*get_max_threads)(void);
    void (*set_num_threads)(int);
#define MEMBER(name) __typeof__(&dnnl_##name) name;
    FUNCTIONS(MEMBER)
} library = {.once = PTHREAD_ONCE_INIT};

static void find(void *handle, const char *name, void *function)
{
    void *address = dlsym(handle, name);
    if (!address)
        snprintf(library.absent, sizeof library.absent, "%s lacks %s", LIBRARY, name);
    memcpy(function, &address, sizeof address);
}

static void load(void)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(library.absent, sizeof library.absent, "%s; install it (Debian: libdnnl%d)", dlerror(),
                 DNNL_VERSION_MAJOR);
        return;
    }
#define FIND(name) find(handle, "dnnl_" #name, &library.name);
    FUNCTIONS(FIND)
    find(handle, "omp_get_max_threads", &library.get_max_threads);
    find(handle, "omp_set_num_threads", &library.set_num_threads);
    if (library.absent[0] != '\0')
        return;
    unsigned isa = (unsigned)library.get_effective_cpu_isa(), bf16 = (unsigned)dnnl_cpu_isa_avx512_core_bf16;
    unsigned amx = (unsigned)dnnl_cpu_isa_avx512_core_amx;
    if ((isa & bf16) != bf16) {
        snprintf(library.absent, sizeof library.absent, "this processor has neither AVX-512 BF16 nor AMX");
        return;
    }
    const dnnl_version_t *version = library.version();
    snprintf(library.description, sizeof library.description, "oneDNN %d.%d.%d, %s", version->major, version->minor,
             version->patch, (isa & amx) == amx ? "AMX" : "AVX-512 BF16");
    if (library.engine_create(&library.engine, dnnl_cpu, 0) != dnnl_success)
        snprintf(library.absent, sizeof library.absent, "oneDNN has no engine for the processor");
}

int onednn_load(void)
{
    pthread_once(&library.once, load);
    return library.absent[0] == '\0'
               ? ERR_NONE
               : err_set(ERR_USAGE, "products in bf16 need oneDNN and a processor that has them: %s", library.absent);
}

const char *onednn_describe(void)
{
    return library.description;
}

static void check(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "zerogauge: oneDNN: %s failed with status %d\n", what, (int)status);
    abort();
}
#define CHECK(call) check(library.call, #call)

struct matrix {
    dnnl_dim_t rows, columns, row_stride, column_stride;
    dnnl_data_type_t type;
    void *data;
};

#if DNNL_VERSION_MAJOR >= 3
static dnnl_memory_desc_t describe(const struct matrix *matrix)
{
    dnnl_memory_desc_t out;
    CHECK(memory_desc_create_with_strides(&out, 2, (dnnl_dims_t){matrix->rows, matrix->columns}, matrix->type,
                                          (dnnl_dims_t){matrix->row_stride, matrix->column_stride}));
    return out;
}

static dnnl_primitive_desc_t product_of(const struct matrix *a, const struct matrix *b, const struct matrix *c,
                                        const_dnnl_primitive_attr_t attributes, dnnl_memory_t memory[3])
{
    const struct matrix *const matrices[3] = {a, b, c};
    dnnl_memory_desc_t described[3];
    for (int i = 0; i < 3; i++) {
        described[i] = describe(matrices[i]);
        CHECK(memory_create(&memory[i], described[i], library.engine, matrices[i]->data));
    }
    dnnl_primitive_desc_t out;
    CHECK(
        matmul_primitive_desc_create(&out, library.engine, described[0], described[1], NULL, described[2], attributes));
    for (int i = 0; i < 3; i++)
        CHECK(memory_desc_destroy(described[i]));
    return out;
}
#else
static dnnl_primitive_desc_t product_of(const struct matrix *a, const struct matrix *b, const struct matrix *c,
                                        const_dnnl_primitive_attr_t attributes, dnnl_memory_t memory[3])
{
    const struct matrix *const matrices[3] = {a, b, c};
    dnnl_memory_desc_t described[3];
    for (int i = 0; i < 3; i++) {
        const struct matrix *matrix = matrices[i];
        CHECK(memory_desc_init_by_strides(&described[i], 2, (dnnl_dims_t){matrix->rows, matrix->columns}, matrix->type,
                                          (dnnl_dims_t){matrix->row_stride, matrix->column_stride}));
        CHECK(memory_create(&memory[i], &described[i], library.engine, matrix->data));
    }
    dnnl_matmul_desc_t product;
    CHECK(matmul_desc_init(&product, &described[0], &described[1], NULL, &described[2]));
    dnnl_primitive_desc_t out;
    CHECK(primitive_desc_create(&out, &product, attributes, library.engine, NULL));
    return out;
}
#endif

static dnnl_primitive_attr_t attributes_of(bool add)
{
    dnnl_primitive_attr_t out;
    CHECK(primitive_attr_create(&out));
    if (!add)
        return out;
    dnnl_post_ops_t after;
    CHECK(post_ops_create(&after));
#if DNNL_VERSION_MAJOR >= 3
    CHECK(post_ops_append_sum(after, 1.0f, 0, dnnl_data_type_undef));
#else
    CHECK(post_ops_append_sum(after, 1.0f));
#endif
    CHECK(primitive_attr_set_post_ops(out, after));
    CHECK(post_ops_destroy(after));
    return out;
}

static struct matrix bf16_matrix(size_t rows, size_t columns, struct onednn_operand from)
{
    dnnl_dim_t stride = (dnnl_dim_t)from.stride;
    return (struct matrix){
        (dnnl_dim_t)rows, (dnnl_dim_t)columns, from.transposed ? 1 : stride, from.transposed ? stride : 1,
        dnnl_bf16,        (void *)from.data};  // which is only read
}

// oneDNN shares a product among the threads that OpenMP would have here; its bits may depend on their number.
void onednn_bf16_product(size_t m, size_t n, size_t k, struct onednn_operand a, struct onednn_operand b, bool add,
                         float *c, size_t c_stride)
{
    const struct matrix left = bf16_matrix(m, k, a), right = bf16_matrix(k, n, b);
    const struct matrix out = {(dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)c_stride, 1, dnnl_f32, c};
    int threads = library.get_max_threads();
    library.set_num_threads(1);
    dnnl_memory_t memory[3];
    dnnl_primitive_attr_t attributes = attributes_of(add);
    dnnl_primitive_desc_t described = product_of(&left, &right, &out, attributes, memory);
    dnnl_primitive_t primitive;
    CHECK(primitive_create(&primitive, described));
    dnnl_stream_t stream;
    CHECK(stream_create(&stream, library.engine, dnnl_stream_default_flags));
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, memory[0]}, {DNNL_ARG_WEIGHTS, memory[1]}, {DNNL_ARG_DST, memory[2]}};
    CHECK(primitive_execute(primitive, stream, 3, arguments));
    CHECK(stream_wait(stream));
    CHECK(stream_destroy(stream));
    CHECK(primitive_destroy(primitive));
    CHECK(primitive_desc_destroy(described));
    CHECK(primitive_attr_destroy(attributes));
    for (int i = 0; i < 3; i++)
        CHECK(memory_destroy(memory[i]));
    library.set_num_threads(threads);
}

#else

#include <assert.h>

int onednn_load(void)
{
    return err_set(ERR_USAGE, "products in bf16 need oneDNN, which this program was built without (Debian: install "
                              "libdnnl-dev and build again)");
}

const char *onednn_describe(void)
{
    return "";
}

void onednn_bf16_product(size_t m, size_t n, size_t k, struct onednn_operand a, struct onednn_operand b, bool add,
                         float *c, size_t c_stride)
{
    (void)m, (void)n, (void)k, (void)a, (void)b, (void)add, (void)c, (void)c_stride;
    assert(!"onednn_load has failed");
}

#endif
