// SPDX-License-Identifier: Apache-2.0
// The factors of a case: everything that can be set about it, each with a few values. A vector has one value of each.
// The table in factor.c is the only list of factors, of their values, and of the values that cannot occur together.
//
// Value 0 of a factor is its plainest: what is left of a case when the factor is left out.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum factor {
    FACTOR_WORLD,
    FACTOR_STAGE,
    FACTOR_PRECISION,
    FACTOR_COMMUNICATION,
    FACTOR_ACCUMULATE_IN,
    FACTOR_OPTIMIZER_TIER,
    FACTOR_PARAM_TIER,
    FACTOR_SIZES,
    FACTOR_GROUPS,
    FACTOR_TIED,
    FACTOR_FROZEN,
    FACTOR_UNUSED,
    FACTOR_EMPTY,
    FACTOR_SCALAR,
    FACTOR_CLIPPING,
    FACTOR_LOSS_SCALE,
    FACTOR_OVERFLOW,
    FACTOR_ACCUMULATION,
    FACTOR_DELAYED,
    FACTOR_CHECKPOINT,
    FACTOR_CORRECTION,
    FACTOR_DECAY,
    FACTOR_SCHEDULE,
    FACTOR_OVERLAP,
    FACTOR_CONTIGUOUS,
    FACTOR_SCATTER,
    FACTOR_BUCKET,
    FACTOR_PREFETCH,
    FACTOR_SUB_GROUP,
    FACTOR_VARYING,
    FACTOR_GROUP_MODE,
    FACTOR_GROUP_CORRECTION,
    FACTOR_GROUP_BETAS,
    FACTOR_GROUP_EPS,
    FACTOR_GROUP_DECAY,
    FACTOR_GROUP_SCHEDULE,
    FACTOR_FIRST_MICRO,
    FACTOR_TOKENS,
    FACTOR_COUNT,
    FACTOR_FIRST_OF_VERSION_3 = FACTOR_GROUP_MODE  // those from here on are in no case of an earlier version
};

// Values that code asks for by name, in the order of the table.
enum { SIZES_EVEN, SIZES_PRIME, SIZES_TINY };
enum { VARYING_NO, VARYING_STEPS, VARYING_MICRO_STEPS };
enum { CLIPPING_OFF, CLIPPING_BELOW, CLIPPING_ABOVE, CLIPPING_AROUND };
enum { OVERFLOW_UNCHECKED, OVERFLOW_NONE, OVERFLOW_INF, OVERFLOW_NAN };
enum { CHECKPOINT_NONE, CHECKPOINT_SAME, CHECKPOINT_RESHARD, CHECKPOINT_WEIGHTS };
enum { WEIGHT_DECAY_NONE, WEIGHT_DECAY_DECOUPLED, WEIGHT_DECAY_L2 };
enum { BUCKET_ALL, BUCKET_SOME, BUCKET_SMALL };
enum { PREFETCH_ALL, PREFETCH_SOME, PREFETCH_NONE };

enum { FACTOR_VALUE_MAX = 4 };

const char *factor_name(enum factor factor);  // "overlap"
int factor_value_count(enum factor factor);
const char *factor_value_name(enum factor factor, int value);  // "off"; null past the last

// By factor the index of its value; FACTOR_OPEN in a vector that is not complete.
enum { FACTOR_OPEN = 255 };
struct factor_vector {
    unsigned char values[FACTOR_COUNT];
};

// True if a factor's value is in conflict with no other factor's of a vector; open ones are in none.
bool factor_agrees(const struct factor_vector *vector, enum factor factor, int value);

// True if no two values of a vector are in conflict.
bool factor_is_legal(const struct factor_vector *vector);

// The values that may be used, bit V for value V: all, or those that an implementation supports. None: the factor is
// left out, and has its plainest value; the others are drawn as if it were not in the table, where it is last.
struct factor_space {
    unsigned char values[FACTOR_COUNT];
    // By the value of precision, those that communicate and accumulate may have with it.
    unsigned char communicate[FACTOR_VALUE_MAX], accumulate[FACTOR_VALUE_MAX];
};
struct factor_space factor_space_whole(void);

// All values of the factors that the cases of a suite version have; the others are left out.
struct factor_space factor_space_of(int suite_version);

// Sets every open value to one, chosen by the seed, so that the vector is legal. Returns false, with the vector as it
// was, if there are none.
bool factor_complete(struct factor_vector *vector, uint64_t seed);
bool factor_complete_within(struct factor_vector *vector, const struct factor_space *space, uint64_t seed);

// A legal vector, drawn by a seed: every factor open, then completed.
void factor_draw(struct factor_vector *out, uint64_t seed);

// "world 3, stage 2, tied, ...": the factors that are not at value 0, of `bytes` bytes with the zero. Returns out.
const char *factor_text(const struct factor_vector *vector, char *out, size_t bytes);
