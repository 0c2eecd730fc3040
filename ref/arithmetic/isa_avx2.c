// SPDX-License-Identifier: Apache-2.0
// The kernels' build for processors with AVX2, FMA and F16C.
#include "ref/arithmetic/adam_kernel.h"
#include "ref/arithmetic/dtype_kernel.h"
#include "ref/arithmetic/gpt_attention_kernel.h"
#include "ref/arithmetic/gpt_kernel.h"
#include "ref/arithmetic/isa.h"
#include "ref/arithmetic/llama_kernel.h"
#include "ref/arithmetic/matmul_kernel.h"
#include "ref/arithmetic/norm_kernel.h"

const struct isa_kernels isa_avx2 = ISA_KERNELS;
