// SPDX-License-Identifier: Apache-2.0
// The square roots that PyTorch's wheels take from MKL. On an Intel processor with AVX-512: one step from the estimate
// of the instruction VRSQRT14, which is exact in its bits but not rounded; it is at most one unit in the last place
// low. On processors of other makers: two steps in SSE, without fused operations, from the estimate of RSQRTPS, whose
// bits differ from maker to maker; about a sixth of the roots is one unit low or high. Of Intel's processors with AVX2
// alone the path is not reproduced here: PyTorch's unfused forms then follow no recipe, and each relation is judged.
#include "conformance/unsharded/recipe_row.h"

#if defined(__x86_64__)
#include <immintrin.h>

bool mkl_sqrt_is_here(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f");
}

__attribute__((target("avx512f"))) static float reciprocal_root_estimate(float x)
{
    return _mm_cvtss_f32(_mm_rsqrt14_ss(_mm_setzero_ps(), _mm_set_ss(x)));
}

float mkl_sqrt(float x)
{
    if (!(x > 0) || isinf(x))
        return sqrtf(x);
    bool small = x < 0x1p-102f;
    if (small)
        x *= 0x1p40f;
    float estimate = reciprocal_root_estimate(x);
    float root = x * estimate, half = 0.5f * estimate;
    root = fmaf(fmaf(-root, root, x), half, root);
    return small ? root * 0x1p-20f : root;
}

bool mkl_sse_sqrt_is_here(void)
{
    return true;
}

float mkl_sse_sqrt(float x)
{
    if (!(x >= 0x1p-126f) || x > 0x1.ffep+127f)
        return sqrtf(x);
    float estimate = _mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(x)));
    float root = x * estimate, half = 0.5f * estimate;
    float correction = 0.5f - root * half;
    root = root * correction + root;
    half = half * correction + half;
    return (x - root * root) * half + root;
}
#else
bool mkl_sqrt_is_here(void)
{
    return false;
}

float mkl_sqrt(float x)
{
    return sqrtf(x);
}

bool mkl_sse_sqrt_is_here(void)
{
    return false;
}

float mkl_sse_sqrt(float x)
{
    return sqrtf(x);
}
#endif
