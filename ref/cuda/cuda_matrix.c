// SPDX-License-Identifier: Apache-2.0
#include "ref/cuda/cuda_matrix.h"

#include "ref/cuda/cuda_lane.h"
#include "base/err.h"

#include <cuda_runtime_api.h>

#include <stdint.h>

enum { ALIGNMENT = 16 };

struct cuda_matrix cuda_matrix_of(enum dtype dtype, struct matmul_operand operand, size_t rows, size_t columns)
{
    bool turned = operand.transposed;
    return (struct cuda_matrix){.dtype = dtype,
                                .operation = turned ? CUBLAS_OP_T : CUBLAS_OP_N,
                                .data = (void *)(uintptr_t)operand.data,
                                .rows = turned ? columns : rows,
                                .columns = turned ? rows : columns,
                                .stride = operand.stride};
}

int cuda_matrix_open(struct cuda_matrix *matrix, bool is_read)
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

int cuda_matrix_close(struct cuda_matrix *matrix, bool is_written)
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

void *cuda_matrix_data(const struct cuda_matrix *matrix)
{
    return matrix->copy ? matrix->copy : matrix->data;
}

cudaDataType cuda_matrix_type(const struct cuda_matrix *matrix)
{
    return matrix->dtype == DTYPE_BF16 ? CUDA_R_16BF : matrix->dtype == DTYPE_FP16 ? CUDA_R_16F : CUDA_R_32F;
}
