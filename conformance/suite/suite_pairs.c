// SPDX-License-Identifier: Apache-2.0
// Where factors meet: each case is a row of a covering array. pair-001 and so on have all pairs; at the full level
// there are the rows that triples need in addition. Factors of version 3 meet in meet-001 and so on, which come behind.
#include "conformance/suite/suite_pairs.h"

#include "base/err.h"
#include "conformance/suite/factor_case.h"
#include "ref/arithmetic/random.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

// The array of the frozen cases, and the numbers in them.
enum { FROZEN_SEED = 2, MEET_SEED = 1000000 };

static uint64_t array_seed(const struct suite_choice *choice)
{
    return choice->seed > 0 ? random_key(choice->seed, FROZEN_SEED) : FROZEN_SEED;
}

uint64_t suite_pair_seed(const struct suite_choice *choice, size_t row)
{
    return random_key(array_seed(choice), row);
}

// The rows of version 2; the first quick_count are the quick level's. The first of these are without varying use, as an
// implementation that does not claim it gets them.
static int add_pairs(const struct suite_choice *choice, struct covering *array, size_t *quick_count)
{
    struct factor_space whole = factor_space_of(2), first = whole;
    first.values[FACTOR_VARYING] = 0;
    TRY(covering_extend(array, &first, COVERING_PAIRS, array_seed(choice)));
    TRY(covering_extend(array, &whole, COVERING_PAIRS, array_seed(choice)));
    *quick_count = array->count;
    if (choice->level == LEVEL_QUICK)
        return ERR_NONE;
    return covering_extend(array, &whole, COVERING_TRIPLES, array_seed(choice));
}

// The rows of version 3. The first of them are without tokens, as an implementation that does not claim these gets
// them.
static int extend_meetings(const struct suite_choice *choice, enum covering_strength strength, struct covering *array)
{
    struct factor_space whole = factor_space_of(3), first = whole;
    first.values[FACTOR_TOKENS] = 0;
    TRY(covering_extend(array, &first, strength, array_seed(choice)));
    return covering_extend(array, &whole, strength, array_seed(choice));
}

static int append(const struct covering *from, size_t begin, size_t end, struct covering *to)
{
    for (size_t row = begin; row < end; row++)
        TRY(covering_append(to, &from->rows[row]));
    return ERR_NONE;
}

// The rows that version 3 adds at the quick level, which the full level has, too.
static int add_meetings(const struct suite_choice *choice, size_t quick_count, struct covering *array)
{
    struct covering quick = {0};
    int rc = append(array, 0, quick_count, &quick);
    if (rc == ERR_NONE)
        rc = extend_meetings(choice, COVERING_PAIRS, &quick);
    if (rc == ERR_NONE)
        rc = append(&quick, quick_count, quick.count, array);
    covering_free(&quick);
    return rc;
}

static int make(const struct suite_choice *choice, struct suite_pairs *out)
{
    size_t quick_count;
    TRY(add_pairs(choice, &out->array, &quick_count));
    out->pair_count = out->array.count;
    if (suite_version(choice) < 3)
        return ERR_NONE;
    TRY(add_meetings(choice, quick_count, &out->array));
    return choice->level == LEVEL_FULL ? extend_meetings(choice, COVERING_TRIPLES, &out->array) : ERR_NONE;
}

// The array that was made last stays until the end, as a run asks for its own more than once.
static struct {
    pthread_mutex_t lock;
    struct suite_choice choice;
    struct suite_pairs pairs;  // no rows: none is made
} last = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int find(const struct suite_choice *choice)
{
    const struct suite_choice *made = &last.choice;
    bool same = made->level == choice->level && suite_version(made) == suite_version(choice);
    if (last.pairs.array.count > 0 && same && made->seed == choice->seed)
        return ERR_NONE;
    suite_pairs_close(&last.pairs);
    last.choice = *choice;
    int rc = make(choice, &last.pairs);
    if (rc != ERR_NONE)
        suite_pairs_close(&last.pairs);
    return rc;
}

int suite_pairs_open(const struct suite_choice *choice, struct suite_pairs *out)
{
    *out = (struct suite_pairs){0};
    pthread_mutex_lock(&last.lock);
    int rc = find(choice);
    if (rc == ERR_NONE)
        rc = append(&last.pairs.array, 0, last.pairs.array.count, &out->array);
    out->pair_count = last.pairs.pair_count;
    pthread_mutex_unlock(&last.lock);
    return rc;
}

void suite_pairs_close(struct suite_pairs *pairs)
{
    covering_free(&pairs->array);
}

int suite_pair_row(const struct suite_pairs *pairs, const struct check_case *c)
{
    int row = 0;
    if (sscanf(c->name, "pair-%d", &row) == 1)
        return row - 1;
    return sscanf(c->name, "meet-%d", &row) == 1 ? (int)pairs->pair_count + row - 1 : -1;
}

static int visit_row(const struct suite_choice *choice, const struct suite_pairs *pairs, size_t row,
                     int (*visit)(void *context, const struct check_case *c), void *context)
{
    char topic[32];
    struct check_case *cases = malloc(2 * sizeof *cases);
    if (!cases)
        return err_set(ERR_MEMORY, "no memory for a case");
    bool meets = row >= pairs->pair_count;
    size_t number = meets ? row - pairs->pair_count : row;
    snprintf(topic, sizeof topic, "%s-%03zu", meets ? "meet" : "pair", number + 1);
    uint64_t seed = suite_pair_seed(choice, meets ? MEET_SEED + number : number);
    int rc = ERR_NONE, count = factor_case(&pairs->array.rows[row], seed, topic, cases);
    for (int i = 0; rc == ERR_NONE && i < count; i++)
        rc = visit(context, &cases[i]);
    free(cases);
    return rc;
}

int suite_pairs_visit(const struct suite_choice *choice, int (*visit)(void *context, const struct check_case *c),
                      void *context)
{
    struct suite_pairs pairs;
    int rc = suite_pairs_open(choice, &pairs);
    for (size_t row = 0; rc == ERR_NONE && row < pairs.array.count; row++)
        rc = visit_row(choice, &pairs, row, visit, context);
    suite_pairs_close(&pairs);
    return rc;
}
