// SPDX-License-Identifier: Apache-2.0
#include "conformance/suite/tuples.h"

#include <stdlib.h>
#include <string.h>

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

static int point(int factor, int value)
{
    return factor * FACTOR_VALUE_MAX + value;
}

static bool has(const struct point_set *set, int p)
{
    return set->words[p / 64] >> (p % 64) & 1;
}

static void flip(struct point_set *set, int p)
{
    set->words[p / 64] ^= 1ull << (p % 64);
}

static int first_of(const struct point_set *set)
{
    for (int i = 0; i < POINT_WORD_COUNT; i++)
        if (set->words[i])
            return 64 * i + __builtin_ctzll(set->words[i]);
    return -1;
}

static size_t count_common(const struct point_set *a, const struct point_set *b)
{
    size_t count = 0;
    for (int i = 0; i < POINT_WORD_COUNT; i++)
        count += (size_t)__builtin_popcountll(a->words[i] & b->words[i]);
    return count;
}

static void flip_pair(struct tuples *tuples, int a, int b)
{
    flip(&tuples->pairs[a], b);
    flip(&tuples->pairs[b], a);
}

static void flip_triple(struct tuples *tuples, int a, int b, int c)
{
    flip(&tuples->by_two[a][b], c);
    flip(&tuples->by_two[b][a], c);
    flip(&tuples->by_two[a][c], b);
    flip(&tuples->by_two[c][a], b);
    flip(&tuples->by_two[b][c], a);
    flip(&tuples->by_two[c][b], a);
}

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
        for (int cv = 0; share_state(a, b, c) && cv < factor_value_count((enum factor)c); cv++)
            if (can_occur(space, a, av, b, bv, c, cv)) {
                flip_triple(tuples, point(a, av), point(b, bv), point(c, cv));
                tuples->missing_count++;
            }
}

struct tuples *tuples_open(const struct factor_space *space, bool pairs, bool triples)
{
    struct tuples *tuples = calloc(1, sizeof *tuples);
    if (!tuples)
        return NULL;
    tuples->triples = triples;
    for (int a = 0; a < FACTOR_COUNT; a++)
        for (int b = a + 1; b < FACTOR_COUNT; b++)
            for (int av = 0; av < factor_value_count((enum factor)a); av++)
                for (int bv = 0; bv < factor_value_count((enum factor)b); bv++) {
                    if (!can_occur(space, a, av, b, bv, b, bv))
                        continue;
                    if (pairs)
                        flip_pair(tuples, point(a, av), point(b, bv));
                    tuples->missing_count += pairs;
                    if (triples)
                        want_triples(tuples, space, a, av, b, bv);
                }
    return tuples;
}

size_t tuples_gain(const struct tuples *tuples, const struct factor_vector *v, enum factor factor, int value)
{
    struct point_set points = {0};
    int p = point((int)factor, value);
    size_t twice = 0;
    for (int i = 0; i < FACTOR_COUNT; i++)
        if (v->values[i] != FACTOR_OPEN)
            flip(&points, point(i, v->values[i]));
    for (int i = 0; tuples->triples && i < FACTOR_COUNT; i++)
        if (v->values[i] != FACTOR_OPEN)
            twice += count_common(&tuples->by_two[p][point(i, v->values[i])], &points);
    return count_common(&tuples->pairs[p], &points) + twice / 2;
}

void tuples_cross_off(struct tuples *tuples, const struct factor_vector *v)
{
    for (int i = 0; i < FACTOR_COUNT; i++)
        for (int k = i + 1; k < FACTOR_COUNT; k++) {
            int a = point(i, v->values[i]), b = point(k, v->values[k]);
            if (has(&tuples->pairs[a], b)) {
                flip_pair(tuples, a, b);
                tuples->missing_count--;
            }
            for (int l = k + 1; tuples->triples && l < FACTOR_COUNT; l++) {
                int c = point(l, v->values[l]);
                if (has(&tuples->by_two[a][b], c)) {
                    flip_triple(tuples, a, b, c);
                    tuples->missing_count--;
                }
            }
        }
}

void tuples_first(const struct tuples *tuples, struct factor_vector *v)
{
    int two = 0, last;
    while (!has(&tuples->pairs[two / POINT_COUNT], two % POINT_COUNT) &&
           first_of(&tuples->by_two[two / POINT_COUNT][two % POINT_COUNT]) < 0)
        two++;
    int a = two / POINT_COUNT, b = two % POINT_COUNT;
    last = has(&tuples->pairs[a], b) ? b : first_of(&tuples->by_two[a][b]);
    memset(v->values, FACTOR_OPEN, sizeof v->values);
    for (const int *p = (const int[]){a, b, last, -1}; *p >= 0; p++)
        v->values[*p / FACTOR_VALUE_MAX] = (unsigned char)(*p % FACTOR_VALUE_MAX);
}
