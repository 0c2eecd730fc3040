// SPDX-License-Identifier: Apache-2.0
// The kernels for any x86-64 processor.
#include "adam_kernel.h"
#include "dtype_kernel.h"
#include "gpt_kernel.h"
#include "isa.h"
#include "norm_kernel.h"

const struct isa_kernels isa_scalar = ISA_KERNELS;
