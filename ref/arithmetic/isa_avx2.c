// SPDX-License-Identifier: Apache-2.0
// The kernels for processors with AVX2, FMA and F16C.
#include "adam_kernel.h"
#include "dtype_kernel.h"
#include "gpt_kernel.h"
#include "isa.h"
#include "norm_kernel.h"

const struct isa_kernels isa_avx2 = ISA_KERNELS;
