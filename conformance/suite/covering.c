// SPDX-License-Identifier: Apache-2.0
// Greedy: a row begins with a tuple that is missing; every further factor takes the value that brings most of the
// missing tuples, and leaves the row legal. Of several rows, which differ in the order of the factors, the best is
// kept.
#include "conformance/suite/covering.h"

#include "base/array.h"
#include "base/err.h"
#include "conformance/suite/tuples.h"
#include "ref/arithmetic/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATE_COUNT = 12 };

// Sets a factor to the value that gains most; the seed decides between equal ones.
static size_t choose(const struct tuples *tuples, const struct factor_space *space, struct factor_vector *v, int factor,
                     uint64_t seed)
{
    int count = factor_value_count((enum factor)factor), best = -1;
    int turn = (int)random_below(random_at(seed, (uint64_t)factor), (uint64_t)count);
    size_t most = 0;
    for (int i = 0; i < count; i++) {
        int value = (turn + i) % count;
        if (!(space->values[factor] >> value & 1) || !factor_agrees(v, (enum factor)factor, value))
            continue;
        size_t here = tuples_gain(tuples, v, (enum factor)factor, value);
        struct factor_vector rest = *v;
        rest.values[factor] = (unsigned char)value;
        if ((best < 0 || here > most) && factor_complete_within(&rest, space, 0)) {
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
    struct tuples *tuples = tuples_open(space, true, strength == COVERING_TRIPLES);
    int rc = tuples ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a covering array");
    for (size_t i = 0; rc == ERR_NONE && i < covering->count; i++)
        tuples_cross_off(tuples, &covering->rows[i]);
    while (rc == ERR_NONE && tuples->missing_count > 0) {
        struct factor_vector first, best, v;
        size_t most = 0;
        tuples_first(tuples, &first);
        for (uint64_t i = 0; i < CANDIDATE_COUNT; i++) {
            v = first;
            size_t here = fill_row(tuples, space, &v, random_key(random_key(seed, covering->count), i));
            if (i == 0 || here > most) {
                best = v;
                most = here;
            }
        }
        tuples_cross_off(tuples, &best);
        rc = covering_append(covering, &best);
    }
    free(tuples);
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
    tuples_first(tuples, &v);
    for (int i = 0; i < FACTOR_COUNT && used < 128; i++)
        if (v.values[i] != FACTOR_OPEN)
            used += (size_t)snprintf(out + used, 128 - used, "%s%s %s", used ? " and " : "",
                                     factor_name((enum factor)i), factor_value_name((enum factor)i, v.values[i]));
}

static int count_one(const struct covering *covering, const struct factor_space *space, bool triples, size_t *all,
                     size_t *covered, char missing[128])
{
    struct tuples *tuples = tuples_open(space, !triples, triples);
    if (!tuples)
        return err_set(ERR_MEMORY, "no memory for a covering array");
    *all = tuples->missing_count;
    for (size_t i = 0; i < covering->count; i++)
        tuples_cross_off(tuples, &covering->rows[i]);
    *covered = *all - tuples->missing_count;
    name_missing(tuples, missing);
    free(tuples);
    return ERR_NONE;
}

int covering_count(const struct covering *covering, const struct factor_space *space, enum covering_strength strength,
                   struct coverage *out)
{
    *out = (struct coverage){0};
    TRY(count_one(covering, space, false, &out->pairs, &out->pairs_covered, out->missing));
    if (strength == COVERING_PAIRS)
        return ERR_NONE;
    return count_one(covering, space, true, &out->triples, &out->triples_covered, out->missing);
}
