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

// Products that cuBLAS gets in one call.
enum { BATCH_MAX = 512 };

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
    cublasStatus_t (*gemm)(cublasHandle_t handle, cublasOperation_t a_operation, cublasOperation_t b_operation,
                           int64_t m, int64_t n, int64_t k, const void *alpha, const void *a, cudaDataType a_type,
                           int64_t a_stride, const void *b, cudaDataType b_type, int64_t b_stride, const void *beta,
                           void *c, cudaDataType c_type, int64_t c_stride, cublasComputeType_t compute,
                           cublasGemmAlgo_t algorithm);
    cublasStatus_t (*gemm_batch)(cublasHandle_t handle, cublasOperation_t a_operation, cublasOperation_t b_operation,
                                 int64_t m, int64_t n, int64_t k, const void *alpha, const void *const a[],
                                 cudaDataType a_type, int64_t a_stride, const void *const b[], cudaDataType b_type,
                                 int64_t b_stride, const void *beta, void *const c[], cudaDataType c_type,
                                 int64_t c_stride, int64_t count, cublasComputeType_t compute,
                                 cublasGemmAlgo_t algorithm);
} library = {.once = PTHREAD_ONCE_INIT};

// Of the calling thread, for its stream and device. The handle ends before the stream does.
struct handle {
    struct cuda_lane_user user;  // first, so that a pointer to it is one to the handle
    cublasHandle_t cublas;
    void *workspace;
    const void **pointers;  // there, to the matrices of a batch
};
static _Thread_local struct handle own;

static void close_handle(struct cuda_lane_user *user)
{
    struct handle *h = (struct handle *)user;
    if (h->cublas)
        (void)library.destroy(h->cublas);
    (void)cudaFree(h->workspace);
    (void)cudaFree(h->pointers);
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
        {"cublasGemmBatchedEx_64", &library.gemm_batch},
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
    void *pointers;
    TRY(cuda_lane_error(cudaMalloc(&pointers, 3 * BATCH_MAX * sizeof *h->pointers), "allocating pointers for cuBLAS"));
    h->pointers = pointers;
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

static cublasOperation_t operation_of(struct matmul_operand operand)
{
    return operand.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

// A matrix that cuBLAS may take. Which of its kernels fits is for it to choose, by the addresses as well, of which none
// loads more than ALIGNMENT bytes at once; and where a parameter lies depends on how it is sharded. So a matrix that is
// not aligned is multiplied as a copy that is.
struct matrix {
    enum dtype dtype;
    void *data, *copy;  // copy: null where data is aligned
    size_t rows, columns, stride;
};
enum { ALIGNMENT = 16 };

static int open_matrix(struct matrix *matrix, bool is_read)
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

static int close_matrix(struct matrix *matrix, bool is_written)
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

static struct matrix matrix_of(enum dtype dtype, struct matmul_operand operand, size_t rows, size_t columns)
{
    return (struct matrix){.dtype = dtype,
                           .data = (void *)(uintptr_t)operand.data,
                           .rows = operand.transposed ? columns : rows,
                           .columns = operand.transposed ? rows : columns,
                           .stride = operand.stride};
}

static void *data_of(const struct matrix *matrix)
{
    return matrix->copy ? matrix->copy : matrix->data;
}

static cudaDataType type_of(const struct matrix *matrix)
{
    return matrix->dtype == DTYPE_BF16 ? CUDA_R_16BF : matrix->dtype == DTYPE_FP16 ? CUDA_R_16F : CUDA_R_32F;
}

// Tensor cores multiply 16-bit operands exactly and sum in fp32; of fp32 they would round the operands.
static cublasComputeType_t compute_of(const struct matmul_batch *p)
{
    return p->dtype == DTYPE_FP32 ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F;
}

// cuBLAS is column-major and so reads a row-major matrix as its transpose: c^T = op(b)^T op(a)^T.
static int multiply_one(const struct matmul_batch *p, struct matrix a, struct matrix b, struct matrix c)
{
    int code = open_matrix(&a, true);
    code = code == ERR_NONE ? open_matrix(&b, true) : code;
    code = code == ERR_NONE ? open_matrix(&c, p->beta != 0.0f) : code;
    if (code == ERR_NONE)
        code = check(library.gemm(own.cublas, operation_of(p->b), operation_of(p->a), (int64_t)p->n, (int64_t)p->m,
                                  (int64_t)p->k, &p->alpha, data_of(&b), type_of(&b), (int64_t)b.stride, data_of(&a),
                                  type_of(&a), (int64_t)a.stride, &p->beta, data_of(&c), type_of(&c), (int64_t)c.stride,
                                  compute_of(p), CUBLAS_GEMM_DEFAULT),
                     "a matrix product");
    int closed[] = {close_matrix(&a, false), close_matrix(&b, false), close_matrix(&c, code == ERR_NONE)};
    for (int i = 0; i < 3; i++)
        code = code == ERR_NONE ? closed[i] : code;
    return code;
}

// The matrix of a product of the batch.
static struct matrix matrix_at(struct matrix first, struct matmul_steps steps, const struct matmul_batch *p,
                               size_t index)
{
    first.data =
        (char *)first.data + matmul_offset(steps, index / p->count, index % p->count) * dtype_bytes(first.dtype);
    return first;
}

// Whether all of a batch's matrices are aligned: those in 16 bits must be if cuBLAS gets pointers to them, because it
// cannot choose by addresses that lie on the device.
static bool are_aligned(const struct matrix *matrix, struct matmul_steps steps)
{
    size_t bytes = dtype_bytes(matrix->dtype);
    return bytes == sizeof(float) || ((uintptr_t)matrix->data % ALIGNMENT == 0 && steps.step * bytes % ALIGNMENT == 0 &&
                                      steps.group_step * bytes % ALIGNMENT == 0);
}

// The products [first, first + count) of a batch. The pointers are copied to the device before the call returns, and in
// the stream's order, so that their memory there serves every batch.
static int multiply_some(const struct matmul_batch *p, const struct matrix matrices[3], size_t first, size_t count)
{
    const struct matmul_steps steps[] = {p->a_steps, p->b_steps, p->c_steps};
    const void *pointers[3 * BATCH_MAX];
    for (size_t i = 0; i < 3 * count; i++)
        pointers[i] = matrix_at(matrices[i / count], steps[i / count], p, first + i % count).data;
    TRY(cuda_lane_error(cudaMemcpyAsync(own.pointers, pointers, 3 * count * sizeof *pointers, cudaMemcpyHostToDevice,
                                        cuda_lane_stream()),
                        "pointers for cuBLAS"));
    const struct matrix *a = matrices, *b = matrices + 1, *c = matrices + 2;
    return check(library.gemm_batch(own.cublas, operation_of(p->b), operation_of(p->a), (int64_t)p->n, (int64_t)p->m,
                                    (int64_t)p->k, &p->alpha, own.pointers + count, type_of(b), (int64_t)b->stride,
                                    own.pointers, type_of(a), (int64_t)a->stride, &p->beta,
                                    (void *const *)(own.pointers + 2 * count), type_of(c), (int64_t)c->stride,
                                    (int64_t)count, compute_of(p), CUBLAS_GEMM_DEFAULT),
                 "matrix products");
}

static int multiply(const struct matmul_batch *p)
{
    const struct matrix matrices[] = {matrix_of(p->dtype, p->a, p->m, p->k),
                                      matrix_of(p->dtype, p->b, p->k, p->n),
                                      {.dtype = p->c_is_operand ? p->dtype : DTYPE_FP32,
                                       .data = p->c,
                                       .rows = p->m,
                                       .columns = p->n,
                                       .stride = p->c_stride}};
    size_t all = p->group_count * p->count;
    bool aligned = are_aligned(&matrices[0], p->a_steps) && are_aligned(&matrices[1], p->b_steps) &&
                   are_aligned(&matrices[2], p->c_steps);
    TRY(ready(&own));
    for (size_t i = 0; (all == 1 || !aligned) && i < all; i++)
        TRY(multiply_one(p, matrix_at(matrices[0], p->a_steps, p, i), matrix_at(matrices[1], p->b_steps, p, i),
                         matrix_at(matrices[2], p->c_steps, p, i)));
    for (size_t first = 0; all > 1 && aligned && first < all; first += BATCH_MAX)
        TRY(multiply_some(p, matrices, first, all - first < BATCH_MAX ? all - first : BATCH_MAX));
    return ERR_NONE;
}

void cuda_matmul(const struct matmul_batch *batch)
{
    cuda_lane_keep(multiply(batch));
}
