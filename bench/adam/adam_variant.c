// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/adam_variant.h"

const struct adam_variant adam_variants[ADAM_VARIANT_COUNT] = {
    {"update", DTYPE_FP32, false, false, "copy_4r_3w"},     {"fused", DTYPE_FP32, true, false, "copy_4r_4w"},
    {"fused", DTYPE_BF16, true, false, "copy_4r_4w"},       {"whole", DTYPE_FP32, true, true, "read_2_copy_4r_4w"},
    {"whole", DTYPE_BF16, true, true, "read_2_copy_4r_4w"},
};
