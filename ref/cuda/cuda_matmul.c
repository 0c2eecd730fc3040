// SPDX-License-Identifier: Apache-2.0
#include "ref/cuda/cuda_matmul.h"

#include "ref/cuda/cuda_lane.h"
#include "ref/cuda/cuda_library.h"
#include "ref/cuda/isa_cuda.h"
#include "base/err.h"
#include "ref/arithmetic/matmul.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// A matrix of a product, as cuBLAS takes it. Which of its kernels fits is for cuBLAS to choose, by the addresses as
// well, of which none loads more than 16 bytes at a time; and where a parameter lies depends on how it is sharded. So a
// matrix that is not aligned is multiplied as a copy that is.
struct cuda_matrix {
    enum dtype dtype;
    cublasOperation_t operation;
    void *data, *copy;  // copy: null where data is aligned
    size_t rows, columns, stride;
};

enum { ALIGNMENT = 16 };

// op(it) is rows x columns.
static struct cuda_matrix cuda_matrix_of(enum dtype dtype, struct matmul_operand operand, size_t rows, size_t columns)
{
    bool turned = operand.transposed;
    return (struct cuda_matrix){.dtype = dtype,
                                .operation = turned ? CUBLAS_OP_T : CUBLAS_OP_N,
                                .data = (void *)(uintptr_t)operand.data,
                                .rows = turned ? columns : rows,
                                .columns = turned ? rows : columns,
                                .stride = operand.stride};
}

// Enqueues the copy, if there must be one, on the calling thread's stream; what is not read is not copied. Close it
// after the product even if opening fails.
static int cuda_matrix_open(struct cuda_matrix *matrix, bool is_read)
{
    if ((uintptr_t)matrix->data % ALIGNMENT == 0 || matrix->rows == 0)
        return ERR_NONE;
    size_t bytes = ((matrix->rows - 1) * matrix->stride + matrix->columns) * dtype_bytes(matrix->dtype);
    void *copy = NULL;
    TRY(cuda_lane_error(cudaMallocAsync(&copy, bytes, cuda_lane_stream()), "a copy of a matrix"));
    matrix->copy = copy;
    if (!is_read)
        return ERR_NONE;
    return cuda_lane_error(cudaMemcpyAsync(copy, matrix->data, bytes, cudaMemcpyDeviceToDevice, cuda_lane_stream()),
                           "a copy of a matrix");
}

static int cuda_matrix_close(struct cuda_matrix *matrix, bool is_written)
{
    int code = ERR_NONE;
    if (!matrix->copy)
        return ERR_NONE;
    size_t stride_bytes = matrix->stride * dtype_bytes(matrix->dtype);
    if (is_written)
        code = cuda_lane_error(cudaMemcpy2DAsync(matrix->data, stride_bytes, matrix->copy, stride_bytes,
                                                 matrix->columns * dtype_bytes(matrix->dtype), matrix->rows,
                                                 cudaMemcpyDeviceToDevice, cuda_lane_stream()),
                               "a copy of a matrix");
    int freed = cuda_lane_error(cudaFreeAsync(matrix->copy, cuda_lane_stream()), "a copy of a matrix");
    return code != ERR_NONE ? code : freed;
}

static void *cuda_matrix_data(const struct cuda_matrix *matrix)
{
    return matrix->copy ? matrix->copy : matrix->data;
}

static cudaDataType cuda_matrix_type(const struct cuda_matrix *matrix)
{
    return matrix->dtype == DTYPE_BF16 ? CUDA_R_16BF : matrix->dtype == DTYPE_FP16 ? CUDA_R_16F : CUDA_R_32F;
}

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
    __typeof__(cublasGemmEx_64) *gemm;
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
        {"cublasCreate_v2", &library.create},
        {"cublasDestroy_v2", &library.destroy},
        {"cublasSetStream_v2", &library.set_stream},
        {"cublasSetWorkspace_v2", &library.set_workspace},
        {"cublasSetMathMode", &library.set_math_mode},
        {"cublasSetAtomicsMode", &library.set_atomics_mode},
        {"cublasGetProperty", &library.get_property},
        {"cublasGetStatusName", &library.status_name},
        {"cublasGemmEx_64", &library.gemm},
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
    const cublasMath_t mode = (cublasMath_t)(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    TRY(check(library.set_math_mode(h->cublas, mode), "the mode of cuBLAS"));
    TRY(check(library.set_atomics_mode(h->cublas, CUBLAS_ATOMICS_NOT_ALLOWED), "the mode of cuBLAS"));
    TRY(check(library.set_stream(h->cublas, stream), "the stream of cuBLAS"));
    return check(library.set_workspace(h->cublas, h->workspace, WORKSPACE_BYTES), "the workspace of cuBLAS");
}

// Prepares the handle for the calling thread's device and stream.
static int ready(struct handle *h)
{
    TRY(cuda_matmul_load());
    struct CUstream_st *stream;
    TRY(cuda_lane_open(&stream));
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

// Tensor cores multiply 16-bit operands exactly and sum in fp32; of fp32 they would round the operands.
static cublasComputeType_t compute_of(const struct matmul_product *p)
{
    return p->dtype == DTYPE_FP32 ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F;
}

// cuBLAS is column-major and so reads a row-major matrix as its transpose: c^T = op(b)^T op(a)^T.
static int multiply(const struct matmul_product *p)
{
    const struct matmul_operand result = {p->c, p->c_stride, false};
    struct cuda_matrix a = cuda_matrix_of(p->dtype, p->a, p->m, p->k), b = cuda_matrix_of(p->dtype, p->b, p->k, p->n);
    struct cuda_matrix c = cuda_matrix_of(p->c_is_operand ? p->dtype : DTYPE_FP32, result, p->m, p->n);
    const float kept = p->add ? 1 : 0;
    TRY(ready(&own));
    int code = cuda_matrix_open(&a, true);
    code = code == ERR_NONE ? cuda_matrix_open(&b, true) : code;
    code = code == ERR_NONE ? cuda_matrix_open(&c, p->add) : code;
    if (code == ERR_NONE)
        code = check(library.gemm(own.cublas, b.operation, a.operation, (int64_t)p->n, (int64_t)p->m, (int64_t)p->k,
                                  &p->alpha, cuda_matrix_data(&b), cuda_matrix_type(&b), (int64_t)b.stride,
                                  cuda_matrix_data(&a), cuda_matrix_type(&a), (int64_t)a.stride, &kept,
                                  cuda_matrix_data(&c), cuda_matrix_type(&c), (int64_t)c.stride, compute_of(p),
                                  CUBLAS_GEMM_DEFAULT),
                     "a matrix product");
    int closed[] = {cuda_matrix_close(&a, false), cuda_matrix_close(&b, false),
                    cuda_matrix_close(&c, code == ERR_NONE)};
    for (int i = 0; i < 3; i++)
        code = code == ERR_NONE ? closed[i] : code;
    return code;
}

static bool of_library;

void cuda_matmul_choose(bool by_cublas)
{
    of_library = by_cublas;
}

void cuda_matmul(const struct matmul_product *product)
{
    if (product->dtype == DTYPE_FP32 && !of_library)
        isa_cuda_matmul(product);
    else
        cuda_lane_keep(multiply(product));
}
