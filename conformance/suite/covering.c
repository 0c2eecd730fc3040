// SPDX-License-Identifier: Apache-2.0
// Greedy: a row begins with a tuple that is missing; every further factor takes the value that brings most of the
// missing tuples, and leaves the row legal. Of several rows, which differ in the order of the factors, the best is
// kept.
#include "conformance/suite/covering.h"

#include "base/array.h"
#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATE_COUNT = 12, POINT_COUNT = FACTOR_COUNT * FACTOR_VALUE_MAX };

// Factors that read and write the same state of an implementation: three of them together can meet there.
#define ONE(factor) (1ull << (factor))
static const uint64_t shared[] = {
    // The gradient on its way into its shard: who adds what, in which dtype, in which buffer.
    ONE(FACTOR_WORLD) | ONE(FACTOR_STAGE) | ONE(FACTOR_PRECISION) | ONE(FACTOR_COMMUNICATION) |
        ONE(FACTOR_ACCUMULATE_IN) | ONE(FACTOR_ACCUMULATION) | ONE(FACTOR_TIED) | ONE(FACTOR_UNUSED) |
        ONE(FACTOR_VARYING) | ONE(FACTOR_TOKENS) | ONE(FACTOR_OVERLAP) | ONE(FACTOR_CONTIGUOUS) | ONE(FACTOR_SCATTER) |
        ONE(FACTOR_BUCKET),
    // The decision about a step and its coefficient, which every shard of every group must follow.
    ONE(FACTOR_STAGE) | ONE(FACTOR_OPTIMIZER_TIER) | ONE(FACTOR_GROUPS) | ONE(FACTOR_CLIPPING) |
        ONE(FACTOR_LOSS_SCALE) | ONE(FACTOR_OVERFLOW) | ONE(FACTOR_ACCUMULATION) | ONE(FACTOR_DELAYED) |
        ONE(FACTOR_VARYING),
    // Moments, master parameters and counters: what a step leaves to the next one, or to a checkpoint.
    ONE(FACTOR_OPTIMIZER_TIER) | ONE(FACTOR_GROUPS) | ONE(FACTOR_OVERFLOW) | ONE(FACTOR_DELAYED) |
        ONE(FACTOR_CHECKPOINT) | ONE(FACTOR_CORRECTION) | ONE(FACTOR_DECAY) | ONE(FACTOR_SCHEDULE) |
        ONE(FACTOR_SUB_GROUP) | ONE(FACTOR_VARYING),
    // Where the elements of a parameter lie, and who gathers them.
    ONE(FACTOR_WORLD) | ONE(FACTOR_STAGE) | ONE(FACTOR_PARAM_TIER) | ONE(FACTOR_SIZES) | ONE(FACTOR_TIED) |
        ONE(FACTOR_FROZEN) | ONE(FACTOR_EMPTY) | ONE(FACTOR_CHECKPOINT) | ONE(FACTOR_PREFETCH),
};
enum { SHARED_COUNT = sizeof shared / sizeof *shared };

// --- tuples ---

// A point is a value of a factor. Of points a < b < c, a pair is a, b, b.
static size_t point(int factor, int value)
{
    return (size_t)factor * FACTOR_VALUE_MAX + (size_t)value;
}

static size_t at(size_t a, size_t b, size_t c)
{
    return (a * POINT_COUNT + b) * POINT_COUNT + c;
}

struct tuples {
    bool triples;
    unsigned char *missing;  // by at(): 1 if the tuple can occur and does not
    size_t missing_count;
};

static bool share_state(int a, int b, int c)
{
    uint64_t all = ONE(a) | ONE(b) | ONE(c);
    for (int i = 0; i < SHARED_COUNT; i++)
        if ((shared[i] & all) == all)
            return true;
    return false;
}

// True if a legal vector has these values; c may be b.
static bool can_occur(const struct factor_space *space, int a, int av, int b, int bv, int c, int cv)
{
    struct factor_vector v;
    if (!(space->values[a] >> av & 1) || !(space->values[b] >> bv & 1) || !(space->values[c] >> cv & 1))
        return false;
    memset(v.values, FACTOR_OPEN, sizeof v.values);
    v.values[a] = (unsigned char)av;
    v.values[b] = (unsigned char)bv;
    v.values[c] = (unsigned char)cv;
    return factor_complete_within(&v, space, 0);
}

static void want_triples(struct tuples *tuples, const struct factor_space *space, int a, int av, int b, int bv)
{
    for (int c = b + 1; c < FACTOR_COUNT; c++)
        for (int cv = 0; share_state(a, b, c) && cv < factor_value_count((enum factor)c); cv++) {
            bool wanted = can_occur(space, a, av, b, bv, c, cv);
            tuples->missing[at(point(a, av), point(b, bv), point(c, cv))] = wanted;
            tuples->missing_count += wanted;
        }
}

static int tuples_open(struct tuples *tuples, const struct factor_space *space, bool pairs, bool triples)
{
    *tuples = (struct tuples){.triples = triples};
    tuples->missing = calloc((size_t)POINT_COUNT * POINT_COUNT * POINT_COUNT, 1);
    if (!tuples->missing)
        return err_set(ERR_MEMORY, "no memory for a covering array");
    for (int a = 0; a < FACTOR_COUNT; a++)
        for (int b = a + 1; b < FACTOR_COUNT; b++)
            for (int av = 0; av < factor_value_count((enum factor)a); av++)
                for (int bv = 0; bv < factor_value_count((enum factor)b); bv++) {
                    bool wanted = can_occur(space, a, av, b, bv, b, bv);
                    tuples->missing[at(point(a, av), point(b, bv), point(b, bv))] = pairs && wanted;
                    tuples->missing_count += pairs && wanted;
                    if (triples && wanted)
                        want_triples(tuples, space, a, av, b, bv);
                }
    return ERR_NONE;
}

// The missing tuples that a value of a factor makes with the values that a vector has already.
static size_t gain(const struct tuples *tuples, const struct factor_vector *v, int factor, int value)
{
    size_t points[FACTOR_COUNT], count = 0, sum = 0;
    int factors[FACTOR_COUNT];
    for (int i = 0; i < FACTOR_COUNT; i++)
        if (i == factor || v->values[i] != FACTOR_OPEN) {
            factors[count] = i;
            points[count++] = point(i, i == factor ? value : v->values[i]);
        }
    for (size_t a = 0; a < count; a++)
        for (size_t b = a + 1; b < count; b++) {
            bool has = factors[a] == factor || factors[b] == factor;
            sum += has && tuples->missing[at(points[a], points[b], points[b])];
            for (size_t c = b + 1; tuples->triples && c < count; c++)
                if (has || factors[c] == factor)
                    sum += tuples->missing[at(points[a], points[b], points[c])];
        }
    return sum;
}

static void cross_off(struct tuples *tuples, const struct factor_vector *v)
{
    for (int a = 0; a < FACTOR_COUNT; a++)
        for (int b = a + 1; b < FACTOR_COUNT; b++)
            for (int c = b; c < FACTOR_COUNT; c++) {
                unsigned char *one =
                    &tuples->missing[at(point(a, v->values[a]), point(b, v->values[b]), point(c, v->values[c]))];
                tuples->missing_count -= *one;
                *one = 0;
            }
}

// --- rows ---

// A vector with the first missing tuple from `begin` on.
static size_t begin_row(const struct tuples *tuples, size_t begin, struct factor_vector *v)
{
    while (!tuples->missing[begin])
        begin++;
    size_t points[] = {begin / POINT_COUNT / POINT_COUNT, begin / POINT_COUNT % POINT_COUNT, begin % POINT_COUNT};
    memset(v->values, FACTOR_OPEN, sizeof v->values);
    for (int i = 0; i < 3; i++)
        v->values[points[i] / FACTOR_VALUE_MAX] = (unsigned char)(points[i] % FACTOR_VALUE_MAX);
    return begin;
}

// Sets a factor to the value that gains most; the seed decides between equal ones.
static size_t choose(const struct tuples *tuples, const struct factor_space *space, struct factor_vector *v, int factor,
                     uint64_t seed)
{
    int count = factor_value_count((enum factor)factor), best = -1;
    int turn = (int)random_below(random_at(seed, (uint64_t)factor), (uint64_t)count);
    size_t most = 0;
    for (int i = 0; i < count; i++) {
        int value = (turn + i) % count;
        struct factor_vector rest = *v;
        if (!(space->values[factor] >> value & 1) || !factor_agrees(v, (enum factor)factor, value))
            continue;
        rest.values[factor] = (unsigned char)value;
        if (!factor_complete_within(&rest, space, 0))
            continue;
        size_t here = gain(tuples, v, factor, value);
        if (best < 0 || here > most) {
            best = value;
            most = here;
        }
    }
    v->values[factor] = (unsigned char)best;
    return most;
}

static size_t fill_row(const struct tuples *tuples, const struct factor_space *space, struct factor_vector *v,
                       uint64_t seed)
{
    int order[FACTOR_COUNT], count = 0;
    size_t sum = 0;
    for (int i = 0; i < FACTOR_COUNT; i++) {
        if (space->values[i])
            order[count++] = i;
        else
            v->values[i] = 0;
    }
    for (int i = count; i > 1; i--) {
        int k = (int)random_below(random_at(seed, (uint64_t)(count + i)), (uint64_t)i), last = order[i - 1];
        order[i - 1] = order[k];
        order[k] = last;
    }
    for (int i = 0; i < count; i++)
        if (v->values[order[i]] == FACTOR_OPEN)
            sum += choose(tuples, space, v, order[i], seed);
    return sum;
}

int covering_append(struct covering *covering, const struct factor_vector *row)
{
    TRY(array_grow(&covering->rows, &covering->room, covering->count, sizeof *covering->rows,
                   "rows of a covering array"));
    covering->rows[covering->count++] = *row;
    return ERR_NONE;
}

int covering_extend(struct covering *covering, const struct factor_space *space, enum covering_strength strength,
                    uint64_t seed)
{
    struct tuples tuples;
    size_t begin = 0;
    int rc = tuples_open(&tuples, space, true, strength == COVERING_TRIPLES);
    for (size_t i = 0; rc == ERR_NONE && i < covering->count; i++)
        cross_off(&tuples, &covering->rows[i]);
    while (rc == ERR_NONE && tuples.missing_count > 0) {
        struct factor_vector first, best, v;
        size_t most = 0;
        begin = begin_row(&tuples, begin, &first);
        for (uint64_t i = 0; i < CANDIDATE_COUNT; i++) {
            v = first;
            size_t here = fill_row(&tuples, space, &v, random_key(random_key(seed, covering->count), i));
            if (i == 0 || here > most) {
                best = v;
                most = here;
            }
        }
        cross_off(&tuples, &best);
        rc = covering_append(covering, &best);
    }
    free(tuples.missing);
    return rc;
}

void covering_free(struct covering *covering)
{
    free(covering->rows);
    *covering = (struct covering){0};
}

// --- counting ---

static void name_missing(const struct tuples *tuples, char out[128])
{
    struct factor_vector v;
    size_t used = 0;
    if (tuples->missing_count == 0 || out[0] != '\0')
        return;
    begin_row(tuples, 0, &v);
    for (int i = 0; i < FACTOR_COUNT && used < 128; i++)
        if (v.values[i] != FACTOR_OPEN)
            used += (size_t)snprintf(out + used, 128 - used, "%s%s %s", used ? " and " : "",
                                     factor_name((enum factor)i), factor_value_name((enum factor)i, v.values[i]));
}

static int count_one(const struct covering *covering, const struct factor_space *space, bool triples, size_t *all,
                     size_t *covered, char missing[128])
{
    struct tuples tuples;
    TRY(tuples_open(&tuples, space, !triples, triples));
    *all = tuples.missing_count;
    for (size_t i = 0; i < covering->count; i++)
        cross_off(&tuples, &covering->rows[i]);
    *covered = *all - tuples.missing_count;
    name_missing(&tuples, missing);
    free(tuples.missing);
    return ERR_NONE;
}

int covering_count(const struct covering *covering, const struct factor_space *space, struct coverage *out)
{
    *out = (struct coverage){0};
    TRY(count_one(covering, space, false, &out->pairs, &out->pairs_covered, out->missing));
    return count_one(covering, space, true, &out->triples, &out->triples_covered, out->missing);
}
