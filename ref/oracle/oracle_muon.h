// SPDX-License-Identifier: Apache-2.0
// Muon's update of a whole matrix, as ref/recipe/muon.h defines it, one element after the other.
#pragma once

#include "ref/recipe/muon.h"

// gradient: [rows * columns], the mean, clipped; parameter and momentum are updated. ERR_MEMORY.
int oracle_muon(const struct muon_hyper *hyper, size_t rows, size_t columns, const float *gradient, float *parameter,
                float *momentum);
