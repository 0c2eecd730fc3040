// SPDX-License-Identifier: Apache-2.0
#include "ref/optimizer/clip.h"

static const float EPSILON = 1e-6f;

static float deepspeed_form(float norm, float max_norm)
{
    float excess = (norm + EPSILON) / max_norm;
    return 1.0f / (excess < 1.0f ? 1.0f : excess);  // NaN stays NaN
}

static float torch_form(float norm, float max_norm)
{
    float coefficient = 1.0f / (norm + EPSILON) * max_norm;
    return coefficient > 1.0f ? 1.0f : coefficient;  // NaN stays NaN
}

float clip_coefficient(enum clip_form form, double norm, double max_norm)
{
    if (!(max_norm > 0))
        return 1.0f;
    if (form == CLIP_TORCH)
        return torch_form((float)norm, (float)max_norm);
    return deepspeed_form((float)norm, (float)max_norm);
}
