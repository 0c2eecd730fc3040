// SPDX-License-Identifier: Apache-2.0
// Muon (ref/recipe/muon.h) as an update of whole matrices.
#pragma once

#include "ref/optimizer/whole.h"

extern const struct whole_update muon_update;
