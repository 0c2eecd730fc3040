// SPDX-License-Identifier: Apache-2.0
// The matrices of a product, as cuBLAS takes them. Which of its kernels fits is for cuBLAS to choose, by the
// addresses as well: a load has at most 16 bytes, and a parameter's address depends on how it is
// sharded. So a matrix that is not aligned is multiplied as a copy that is.
#ifndef ZG_CUDA_MATRIX_H
#define ZG_CUDA_MATRIX_H

#include "ref/arithmetic/gpt_math.h"

#include <cublas_v2.h>

struct cuda_matrix {
    enum dtype dtype;
    cublasOperation_t operation;
    void *data, *copy;  // copy: null where data is aligned
    size_t rows, columns, stride;
};

// op(it) is rows x columns.
struct cuda_matrix cuda_matrix_of(enum dtype dtype, struct matmul_operand operand, size_t rows, size_t columns);

// Enqueues the copy, if there must be one, on the calling thread's stream; what is not read is not copied. Close it
// after the product even if opening fails.
int cuda_matrix_open(struct cuda_matrix *matrix, bool is_read);
int cuda_matrix_close(struct cuda_matrix *matrix, bool is_written);

void *cuda_matrix_data(const struct cuda_matrix *matrix);
cudaDataType cuda_matrix_type(const struct cuda_matrix *matrix);

#endif
