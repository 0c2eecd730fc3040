// SPDX-License-Identifier: Apache-2.0
#include "ref/cuda/cuda_matmul.h"

#include "ref/cuda/cuda_lane.h"
#include "ref/cuda/cuda_library.h"
#include "base/err.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define LIBRARY "libcublas.so." TEXT(CUBLAS_VER_MAJOR)

// NVIDIA's recommended size for the newest devices; older ones need less.
enum { WORKSPACE_BYTES = 32 << 20 };

// The library, loaded once per process.
static struct {
    pthread_once_t once;
    char missing[2048];  // the reason why it is not available; "" if it is
    char version[32];
    cublasStatus_t (*create)(cublasHandle_t *handle);
    cublasStatus_t (*destroy)(cublasHandle_t handle);
    cublasStatus_t (*set_stream)(cublasHandle_t handle, cudaStream_t stream);
    cublasStatus_t (*set_workspace)(cublasHandle_t handle, void *workspace, size_t bytes);
    cublasStatus_t (*set_math_mode)(cublasHandle_t handle, cublasMath_t mode);
    cublasStatus_t (*set_atomics_mode)(cublasHandle_t handle, cublasAtomicsMode_t mode);
    cublasStatus_t (*get_property)(libraryPropertyType type, int *value);
    const char *(*status_name)(cublasStatus_t status);
    cublasStatus_t (*sgemm)(cublasHandle_t handle, cublasOperation_t a_operation, cublasOperation_t b_operation,
                            int64_t m, int64_t n, int64_t k, const float *alpha, const float *a, int64_t a_stride,
                            const float *b, int64_t b_stride, const float *beta, float *c, int64_t c_stride);
    cublasStatus_t (*sgemm_batch)(cublasHandle_t handle, cublasOperation_t a_operation, cublasOperation_t b_operation,
                                  int64_t m, int64_t n, int64_t k, const float *alpha, const float *a, int64_t a_stride,
                                  long long a_step, const float *b, int64_t b_stride, long long b_step,
                                  const float *beta, float *c, int64_t c_stride, long long c_step, int64_t count);
} library = {.once = PTHREAD_ONCE_INIT};

// Of the calling thread, for its stream and device. The handle ends before the stream does.
struct handle {
    struct cuda_lane_user user;  // first, so that a pointer to it is one to the handle
    cublasHandle_t cublas;
    void *workspace;
};
static _Thread_local struct handle own;

static void close_handle(struct cuda_lane_user *user)
{
    struct handle *h = (struct handle *)user;
    if (h->cublas)
        (void)library.destroy(h->cublas);
    (void)cudaFree(h->workspace);
    *h = (struct handle){0};
}

static void load(void)
{
    const struct cuda_library_function functions[] = {
        {"cublasCreate_v2", &library.create},          {"cublasDestroy_v2", &library.destroy},
        {"cublasSetStream_v2", &library.set_stream},   {"cublasSetWorkspace_v2", &library.set_workspace},
        {"cublasSetMathMode", &library.set_math_mode}, {"cublasSetAtomicsMode", &library.set_atomics_mode},
        {"cublasGetProperty", &library.get_property},  {"cublasGetStatusName", &library.status_name},
        {"cublasSgemm_v2_64", &library.sgemm},         {"cublasSgemmStridedBatched_64", &library.sgemm_batch},
    };
    void *file;
    if (cuda_library_open((const char *const[]){LIBRARY, NULL}, "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR), &file) !=
        ERR_NONE) {
        snprintf(library.missing, sizeof library.missing, "matrix products on a GPU need cuBLAS: %s", err_message());
        return;
    }
    const char *lacking = cuda_library_find(file, functions, sizeof functions / sizeof functions[0]);
    if (lacking) {
        snprintf(library.missing, sizeof library.missing, "%s lacks %s", cuda_library_file(file), lacking);
        return;
    }
    int numbers[3] = {0};
    for (int i = 0; i < 3; i++)
        (void)library.get_property((libraryPropertyType)i, &numbers[i]);
    snprintf(library.version, sizeof library.version, "%d.%d.%d", numbers[0], numbers[1], numbers[2]);
}

int cuda_matmul_load(void)
{
    pthread_once(&library.once, load);
    return *library.missing ? err_set(ERR_USAGE, "%s", library.missing) : ERR_NONE;
}

const char *cuda_matmul_version(void)
{
    return cuda_matmul_load() == ERR_NONE ? library.version : NULL;
}

static int check(cublasStatus_t status, const char *what)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return ERR_NONE;
    int code = status == CUBLAS_STATUS_ALLOC_FAILED ? ERR_MEMORY : ERR_IO;
    return err_set(code, "CUDA: %s on device %d: %s", what, cuda_lane_device(), library.status_name(status));
}

// Sets the stream before the workspace, because cublasSetStream resets the workspace.
static int open_handle(struct handle *h, struct CUstream_st *stream)
{
    TRY(cuda_lane_error(cudaMalloc(&h->workspace, WORKSPACE_BYTES), "allocating the workspace of cuBLAS"));
    TRY(check(library.create(&h->cublas), "creating a handle of cuBLAS"));
    TRY(check(library.set_math_mode(h->cublas, CUBLAS_PEDANTIC_MATH), "the mode of cuBLAS"));
    TRY(check(library.set_atomics_mode(h->cublas, CUBLAS_ATOMICS_NOT_ALLOWED), "the mode of cuBLAS"));
    TRY(check(library.set_stream(h->cublas, stream), "the stream of cuBLAS"));
    return check(library.set_workspace(h->cublas, h->workspace, WORKSPACE_BYTES), "the workspace of cuBLAS");
}

// Prepares the handle for the calling thread's device and stream.
static int ready(struct handle *h)
{
    TRY(cuda_matmul_load());
    struct CUstream_st *stream = cuda_lane_stream();
    if (!stream)
        return cuda_lane_wait();
    if (h->cublas)
        return ERR_NONE;
    int code = open_handle(h, stream);
    if (code != ERR_NONE) {
        close_handle(&h->user);
        return code;
    }
    h->user.close = close_handle;
    cuda_lane_join(&h->user);
    return ERR_NONE;
}

static cublasOperation_t operation_of(struct matmul_operand operand)
{
    return operand.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

// A matrix that cuBLAS may take. Which of its kernels fits is for it to choose, by the addresses as well, of which none
// loads more than ALIGNMENT bytes at once; and where a parameter lies depends on how it is sharded. So a matrix that is
// not aligned is multiplied as a copy that is.
struct matrix {
    float *data, *copy;  // copy: null where data is aligned
    size_t rows, columns, stride;
};
enum { ALIGNMENT = 16 };

static int open_matrix(struct matrix *matrix, bool is_read)
{
    if ((uintptr_t)matrix->data % ALIGNMENT == 0 || matrix->rows == 0)
        return ERR_NONE;
    size_t bytes = ((matrix->rows - 1) * matrix->stride + matrix->columns) * sizeof *matrix->data;
    void *copy = NULL;
    TRY(cuda_lane_error(cudaMallocAsync(&copy, bytes, cuda_lane_stream()), "a copy of a matrix"));
    matrix->copy = copy;
    if (!is_read)
        return ERR_NONE;
    return cuda_lane_error(cudaMemcpyAsync(copy, matrix->data, bytes, cudaMemcpyDeviceToDevice, cuda_lane_stream()),
                           "a copy of a matrix");
}

static int close_matrix(struct matrix *matrix, bool is_written)
{
    int code = ERR_NONE;
    if (!matrix->copy)
        return ERR_NONE;
    if (is_written)
        code = cuda_lane_error(cudaMemcpy2DAsync(matrix->data, matrix->stride * sizeof(float), matrix->copy,
                                                 matrix->stride * sizeof(float), matrix->columns * sizeof(float),
                                                 matrix->rows, cudaMemcpyDeviceToDevice, cuda_lane_stream()),
                               "a copy of a matrix");
    int freed = cuda_lane_error(cudaFreeAsync(matrix->copy, cuda_lane_stream()), "a copy of a matrix");
    return code != ERR_NONE ? code : freed;
}

static struct matrix matrix_of(struct matmul_operand operand, size_t rows, size_t columns)
{
    return (struct matrix){.data = (float *)(uintptr_t)operand.data,
                           .rows = operand.transposed ? columns : rows,
                           .columns = operand.transposed ? rows : columns,
                           .stride = operand.stride};
}

static const float *data_of(const struct matrix *matrix)
{
    return matrix->copy ? matrix->copy : matrix->data;
}

// cuBLAS is column-major and so reads a row-major matrix as its transpose: c^T = op(b)^T op(a)^T.
static cublasStatus_t enqueue(const struct matmul_batch *p, const float *a, const float *b, float *c)
{
    cublasOperation_t a_operation = operation_of(p->a), b_operation = operation_of(p->b);
    int64_t m = (int64_t)p->n, n = (int64_t)p->m, k = (int64_t)p->k;
    int64_t a_stride = (int64_t)p->a.stride, b_stride = (int64_t)p->b.stride, c_stride = (int64_t)p->c_stride;
    if (p->count == 1)
        return library.sgemm(own.cublas, b_operation, a_operation, m, n, k, &p->alpha, b, b_stride, a, a_stride,
                             &p->beta, c, c_stride);
    return library.sgemm_batch(own.cublas, b_operation, a_operation, m, n, k, &p->alpha, b, b_stride,
                               (long long)p->b_step, a, a_stride, (long long)p->a_step, &p->beta, c, c_stride,
                               (long long)p->c_step, (int64_t)p->count);
}

static int multiply(const struct matmul_batch *p)
{
    struct matrix left = matrix_of(p->a, p->m, p->k), right = matrix_of(p->b, p->k, p->n);
    struct matrix out = {.data = p->c, .rows = p->m, .columns = p->n, .stride = p->c_stride};
    TRY(ready(&own));
    // The matrices of a batch are activations, whose alignment depends on nothing but the model's shape.
    if (p->count > 1)
        return check(enqueue(p, left.data, right.data, out.data), "matrix products");
    int code = open_matrix(&left, true);
    code = code == ERR_NONE ? open_matrix(&right, true) : code;
    code = code == ERR_NONE ? open_matrix(&out, p->beta != 0.0f) : code;
    if (code == ERR_NONE)
        code = check(enqueue(p, data_of(&left), data_of(&right), out.copy ? out.copy : out.data), "a matrix product");
    int closed[] = {close_matrix(&left, false), close_matrix(&right, false), close_matrix(&out, code == ERR_NONE)};
    for (int i = 0; i < 3; i++)
        code = code == ERR_NONE ? closed[i] : code;
    return code;
}

void cuda_matmul(const struct matmul_batch *batch)
{
    if (batch->count > 0)
        cuda_lane_keep(multiply(batch));
}
