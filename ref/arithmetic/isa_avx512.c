// SPDX-License-Identifier: Apache-2.0
// The kernels for processors with AVX-512 (F, BW, DQ, VL).
#include "adam_kernel.h"
#include "dtype_kernel.h"
#include "gpt_kernel.h"
#include "isa.h"
#include "norm_kernel.h"

const struct isa_kernels isa_avx512 = ISA_KERNELS;
