// SPDX-License-Identifier: Apache-2.0
#include "conformance/suite/suite_pair.h"

#include "base/err.h"
#include "conformance/suite/factor_case.h"
#include "ref/arithmetic/random.h"

#include <stdio.h>
#include <stdlib.h>

// The array of the frozen cases, and the numbers in them.
enum { FROZEN_SEED = 2 };

static uint64_t seed_of(const struct suite_choice *choice)
{
    return choice->seed > 0 ? random_key(choice->seed, FROZEN_SEED) : FROZEN_SEED;
}

uint64_t suite_pair_seed(const struct suite_choice *choice, size_t row)
{
    return random_key(seed_of(choice), row);
}

int suite_pair_array(const struct suite_choice *choice, struct covering *out)
{
    struct factor_space whole = factor_space_whole(), first = whole;
    *out = (struct covering){0};
    // The first rows are without varying use, as an implementation that does not claim it gets them.
    first.values[FACTOR_VARYING] = 0;
    TRY(covering_extend(out, &first, COVERING_PAIRS, seed_of(choice)));
    TRY(covering_extend(out, &whole, COVERING_PAIRS, seed_of(choice)));
    return choice->level == LEVEL_FULL ? covering_extend(out, &whole, COVERING_TRIPLES, seed_of(choice)) : ERR_NONE;
}

int suite_pair_row(const struct check_case *c)
{
    int row = 0;
    return sscanf(c->name, "pair-%d", &row) == 1 ? row - 1 : -1;
}

static int visit_row(const struct suite_choice *choice, const struct covering *array, size_t row, const char *topic,
                     int (*visit)(void *context, const struct check_case *c), void *context)
{
    struct check_case *cases = malloc(2 * sizeof *cases);
    if (!cases)
        return err_set(ERR_MEMORY, "no memory for a case");
    int rc = ERR_NONE, count = factor_case(&array->rows[row], suite_pair_seed(choice, row), topic, cases);
    for (int i = 0; rc == ERR_NONE && i < count; i++)
        rc = visit(context, &cases[i]);
    free(cases);
    return rc;
}

int suite_pairs(const struct suite_choice *choice, int (*visit)(void *context, const struct check_case *c),
                void *context)
{
    struct covering array;
    char topic[32];
    int rc = suite_pair_array(choice, &array);
    for (size_t row = 0; rc == ERR_NONE && row < array.count; row++) {
        snprintf(topic, sizeof topic, "pair-%03zu", row + 1);
        rc = visit_row(choice, &array, row, topic, visit, context);
    }
    covering_free(&array);
    return rc;
}
