// SPDX-License-Identifier: Apache-2.0
// The claims of an implementation: which worlds, stages, precisions and features it supports, and which of the
// permitted variants it follows (claims.json, defined in CONTRACT.md). Cases outside the claims are skipped.
#pragma once

#include "conformance/cases/case.h"
#include "conformance/unsharded/unsharded.h"
#include "conformance/suite/factor.h"

enum claims_feature {
    FEATURE_ACCUMULATION,
    FEATURE_CLIPPING,
    FEATURE_STATIC_LOSS_SCALE,
    FEATURE_DYNAMIC_LOSS_SCALE,
    FEATURE_OVERFLOW_CHECK,
    FEATURE_L2,
    FEATURE_NO_BIAS_CORRECTION,
    FEATURE_LR_SCHEDULE,
    FEATURE_GROUPS,
    FEATURE_TIED,
    FEATURE_FROZEN,
    FEATURE_UNUSED,
    FEATURE_VARYING_USE,
    FEATURE_EMPTY,
    FEATURE_SCALAR,
    FEATURE_RESUME,
    FEATURE_RESHARD,
    FEATURE_WEIGHTS_ONLY,
    FEATURE_DELAYED_UPDATE,
    FEATURE_REFUSAL,
    FEATURE_COUNT
};

// Settings of the schedule that a case may turn. Cases about a knob that an implementation lacks are not put to it.
enum claims_knob { KNOB_BUCKETS, KNOB_OVERLAP, KNOB_PREFETCH, KNOB_SUB_GROUP, KNOB_COUNT };

const char *claims_feature_name(enum claims_feature feature);  // the key in the file, such as "accumulation"

enum claims_clip { CLAIMS_CLIP_EITHER, CLAIMS_CLIP_TORCH, CLAIMS_CLIP_DEEPSPEED };
enum claims_unused { CLAIMS_UNUSED_EITHER, CLAIMS_UNUSED_UNTOUCHED, CLAIMS_UNUSED_ZERO_GRADIENT };

enum { CLAIMS_WORD_BYTES = 64, CLAIMS_TEXT_BYTES = 512 };

// The bit behind those of enum dtype: the dtype of the model's gradients, whichever it is.
enum { CLAIMS_OWN_DTYPE = 3 };

struct claims {
    char name[CLAIMS_WORD_BYTES], version[CLAIMS_WORD_BYTES];
    // Bit sets. Bit w of `worlds` is a world of w + 1 ranks.
    uint64_t worlds;
    uint32_t stages, precisions, offload_optimizer, offload_param, features, knobs;
    uint32_t communication_dtypes, accumulation_dtypes;  // of enum dtype and CLAIMS_OWN_DTYPE
    uint32_t options;                                    // of enum case_option
    enum claims_clip clip;
    enum scaler_form scaler;
    enum claims_unused unused;
    struct claimed_states states;
};

// Every world, stage, precision and feature, and no option, with empty names: the claims if there is no file.
void claims_whole(struct claims *out);

// ERR_USAGE: the file cannot be read or breaks the format of CONTRACT.md; the message names file, line and key.
int claims_read(const char *file, struct claims *out);

// As claims_read, but reads from memory; messages call the text `file`.
int claims_parse(const char *file, const char *text, size_t bytes, struct claims *out);

// Takes the values of factors that are not claimed out of a space.
void claims_narrow(const struct claims *claims, struct factor_space *space);

// The dtypes of a set that holds CLAIMS_OWN_DTYPE or does not, for a precision.
uint32_t claims_dtypes(uint32_t set, enum dtype precision);

// The features that a case needs, as bits; one that is resumed at another world is not told from others.
uint32_t claims_features(const struct check_case *c);

// Returns how much that a case needs is not claimed: 0 where the case is, as every one is without claims; a stage, a
// world and a precision count more than a feature. `why` receives all of it, such as "the feature \"tied\" is not
// claimed". A case that resumes is claimed if both of its halves are: `other` is the other half, or null for a whole
// case.
int claims_lack(const struct claims *claims, const struct check_case *c, const struct check_case *other,
                char why[CLAIMS_TEXT_BYTES]);
