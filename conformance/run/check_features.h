// SPDX-License-Identifier: Apache-2.0
// Which features the cases of each requirement ask for. A feature that they ask for only together with others leaves a
// program without those unasked, and its bugs unseen.
#pragma once

#include "conformance/spec/requirement.h"
#include "conformance/suite/suite_choice.h"

// Bits of enum claims_feature. A feature that another one contains, as resume in reshard, is not among them.
struct feature_row {
    const struct requirement *requirement;
    uint32_t common;    // needed by all of its cases
    uint32_t alone;     // the others that some case needs with nothing else
    uint32_t with_one;  // those that are in no such case, but in one with one other
    uint32_t crowded;   // those that come with several others alone
};

// A row for each requirement of the version that is about cases of its own, neither about all nor about those in which
// features meet, from its cases without a mesh or LoRA. Returns ERR_NONE and the rows' number, at most REQUIREMENT_MAX.
int check_features(const struct suite_choice *choice, struct feature_row rows[], int *count);

// Prints them: "R-CLIP-01  clipping: groups tied", those with one other in parentheses, the crowded in brackets.
int check_features_print(const struct suite_choice *choice);
