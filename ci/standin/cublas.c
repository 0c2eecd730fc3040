// SPDX-License-Identifier: Apache-2.0
// cuBLAS by the processor's products, in the order of the stream. Built
// under the name of cuBLAS, so that it is loaded where cuBLAS would be.
#include "ci/standin/standin.h"

#include "ref/arithmetic/dtype_element.h"
#include "ref/arithmetic/matmul.h"

#include <cublas_v2.h>

#include <stdlib.h>
#include <string.h>

struct cublasContext {
    cudaStream_t stream;
};

// Products of column-major matrices: c = alpha op(a) op(b) + beta c.
struct product {
    cublasOperation_t a_operation, b_operation;
    int64_t m, n, k;
    float alpha, beta;
    struct matrix {
        char *data;
        cudaDataType dtype;
        int64_t rows, columns, stride;
    } a, b, c;
};

static size_t element_bytes(cudaDataType dtype)
{
    return dtype == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
}

static enum dtype dtype_of(cudaDataType dtype)
{
    return dtype == CUDA_R_32F ? DTYPE_FP32 : dtype == CUDA_R_16BF ? DTYPE_BF16 : DTYPE_FP16;
}

static bool is_dtype(cudaDataType dtype)
{
    return dtype == CUDA_R_32F || dtype == CUDA_R_16BF || dtype == CUDA_R_16F;
}

static size_t extent(const struct matrix *matrix)
{
    return (size_t)((matrix->columns - 1) * matrix->stride + matrix->rows);
}

static bool is_on_device(const struct matrix *matrix)
{
    return standin_place_of(matrix->data, extent(matrix) * element_bytes(matrix->dtype)) == STANDIN_ON_DEVICE;
}

static float widened(const struct matrix *matrix, const char *from, size_t i)
{
    struct bf16 brain;
    struct fp16 half;
    memcpy(&brain, from + 2 * i, sizeof brain);
    memcpy(&half, from + 2 * i, sizeof half);
    return matrix->dtype == CUDA_R_16BF ? bf16_to_f32(brain) : fp16_to_f32(half);
}

// The matrix in fp32: its own memory, or a copy that the caller frees.
static float *open_matrix(const struct matrix *matrix, float **copy)
{
    char *from = matrix->data;
    *copy = NULL;
    if (matrix->dtype == CUDA_R_32F)
        return (float *)from;
    size_t count = extent(matrix);
    *copy = malloc(count * sizeof **copy);
    if (!*copy)
        standin_die("no memory to widen a matrix");
    for (size_t e = 0; e < count; e++)
        (*copy)[e] = widened(matrix, from, e);
    return *copy;
}

// Rounds a product that is not fp32, the elements between its columns excepted.
static void close_result(const struct matrix *matrix, const float *copy)
{
    char *to = matrix->data;
    for (int64_t column = 0; copy && column < matrix->columns; column++)
        for (int64_t row = 0; row < matrix->rows; row++) {
            size_t at = (size_t)(column * matrix->stride + row);
            uint16_t bits =
                dtype_of(matrix->dtype) == DTYPE_BF16 ? f32_to_bf16(copy[at]).bits : f32_to_fp16(copy[at]).bits;
            memcpy(to + at * sizeof bits, &bits, sizeof bits);
        }
}

static void touch(const struct matrix *matrix, bool writes)
{
    size_t bytes = element_bytes(matrix->dtype);
    for (int64_t column = 0; column < matrix->columns; column++)
        standin_touch(matrix->data + (size_t)(column * matrix->stride) * bytes, (size_t)matrix->rows * bytes, writes);
}

static void multiply(void *what)
{
    struct product *p = what;
    standin_count("product of the library");
    touch(&p->a, false);
    touch(&p->b, false);
    if (p->beta == 1)
        touch(&p->c, false);
    touch(&p->c, true);
    float *a_copy, *b_copy, *c_copy;
    const float *a = open_matrix(&p->a, &a_copy), *b = open_matrix(&p->b, &b_copy);
    float *c = open_matrix(&p->c, &c_copy);
    // A column here is a row of the program's product, whose operands have the other order.
    matmul(&(struct matmul_product){.m = (size_t)p->n,
                                    .n = (size_t)p->m,
                                    .k = (size_t)p->k,
                                    .alpha = p->alpha,
                                    .add = p->beta == 1,
                                    .a = {b, (size_t)p->b.stride, p->b_operation != CUBLAS_OP_N},
                                    .b = {a, (size_t)p->a.stride, p->a_operation != CUBLAS_OP_N},
                                    .c = c,
                                    .c_stride = (size_t)p->c.stride});
    close_result(&p->c, c_copy);
    free(a_copy);
    free(b_copy);
    free(c_copy);
    free(p);
}

static void *multiply_again(void *what)
{
    struct product *p = malloc(sizeof *p);
    if (p)
        *p = *(const struct product *)what;
    return p;
}

static cublasStatus_t enqueue(cublasHandle_t handle, struct product wanted)
{
    struct product *p = malloc(sizeof *p);
    if (!p)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *p = wanted;
    p->a.rows = p->a_operation == CUBLAS_OP_N ? p->m : p->k;
    p->a.columns = p->a_operation == CUBLAS_OP_N ? p->k : p->m;
    p->b.rows = p->b_operation == CUBLAS_OP_N ? p->k : p->n;
    p->b.columns = p->b_operation == CUBLAS_OP_N ? p->n : p->k;
    p->c.rows = p->m;
    p->c.columns = p->n;
    bool is_shaped = p->m > 0 && p->n > 0 && p->k > 0 && p->a.stride >= p->a.rows && p->b.stride >= p->b.rows &&
                     p->c.stride >= p->c.rows && is_dtype(p->a.dtype) && p->a.dtype == p->b.dtype &&
                     is_dtype(p->c.dtype) && (p->beta == 0 || p->beta == 1);
    bool is_there = is_shaped && is_on_device(&p->a) && is_on_device(&p->b) && is_on_device(&p->c);
    if (is_there && standin_enqueue(handle->stream, (struct standin_work){multiply, p, multiply_again}) == cudaSuccess)
        return CUBLAS_STATUS_SUCCESS;
    free(p);
    return !is_shaped ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *out)
{
    *out = calloc(1, sizeof **out);
    return *out ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

// Waits for nothing, where cuBLAS happens to wait for the whole device.
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    if (handle->stream && !standin_stream_is_open(handle->stream))
        standin_die("a handle of cuBLAS ends after its stream");
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes)
{
    (void)handle;
    return standin_place_of(workspace, bytes) == STANDIN_ON_DEVICE ? CUBLAS_STATUS_SUCCESS
                                                                   : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    (void)handle, (void)mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode)
{
    (void)handle, (void)mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value)
{
    static const int version[] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH};
    *value = version[type];
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusName(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    default:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    }
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t a_operation, cublasOperation_t b_operation,
                               int64_t m, int64_t n, int64_t k, const void *alpha, const void *a, cudaDataType a_dtype,
                               int64_t a_stride, const void *b, cudaDataType b_dtype, int64_t b_stride,
                               const void *beta, void *c, cudaDataType c_dtype, int64_t c_stride,
                               cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    (void)algorithm;
    if (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_PEDANTIC)
        return CUBLAS_STATUS_INVALID_VALUE;
    return enqueue(handle, (struct product){
                               .a_operation = a_operation,
                               .b_operation = b_operation,
                               .m = m,
                               .n = n,
                               .k = k,
                               .alpha = *(const float *)alpha,
                               .beta = *(const float *)beta,
                               .a = {.data = (char *)(uintptr_t)a, .dtype = a_dtype, .stride = a_stride},
                               .b = {.data = (char *)(uintptr_t)b, .dtype = b_dtype, .stride = b_stride},
                               .c = {.data = c, .dtype = c_dtype, .stride = c_stride},
                           });
}
