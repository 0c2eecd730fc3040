// SPDX-License-Identifier: Apache-2.0
#include "conformance/run/check_cover.h"

#include "base/err.h"
#include "conformance/run/check_select.h"
#include "conformance/run/claims.h"
#include "conformance/suite/factor_case.h"
#include "conformance/suite/suite_pair.h"

#include <stdio.h>
#include <stdlib.h>

enum { SEED_TRIES = 64 };

static enum covering_strength strength_of(const struct check_part *part)
{
    return part->choice.level == LEVEL_FULL ? COVERING_TRIPLES : COVERING_PAIRS;
}

// The rows of the level's array whose cases are asked.
static int asked_rows(const struct check_part *part, const struct check_run *run, struct covering *out)
{
    struct covering array;
    int rc = suite_pair_array(&part->choice, &array);
    for (size_t i = 0; rc == ERR_NONE && i < run->case_count; i++) {
        int row = suite_pair_row(run->cases[i]);
        if (row >= 0 && run->asked[i] && run->cases[i]->phase != PHASE_RESUME)
            rc = covering_append(out, &array.rows[row]);
    }
    covering_free(&array);
    return rc;
}

// A case of a row that is claimed: another seed may resume at another world.
static int add_row(const struct check_setting *setting, struct check_run *run, const struct covering *rows, size_t row,
                   size_t number)
{
    char topic[32], why[CLAIMS_TEXT_BYTES];
    struct check_case *cases = malloc(2 * sizeof *cases);
    if (!cases)
        return err_set(ERR_MEMORY, "no memory for a case");
    int rc = ERR_NONE, count = 0;
    bool claimed = false;
    snprintf(topic, sizeof topic, "pair-c%03zu", number);
    for (uint64_t i = 0; i < SEED_TRIES && !claimed; i++) {
        count = factor_case(&rows->rows[row], suite_pair_seed(&setting->part.choice, 1000 * (i + 1) + number), topic,
                            cases);
        claimed = claims_cover(setting->claims, &cases[0], count > 1 ? &cases[1] : NULL, why);
    }
    for (int i = 0; rc == ERR_NONE && claimed && i < count; i++)
        rc = check_add_case(run, &cases[i]);
    free(cases);
    return claimed ? rc : err_set(ERR_INTERNAL, "%s: %s", topic, why);
}

int check_cover(const struct check_setting *setting, struct check_run *run)
{
    const struct check_part *part = &setting->part;
    struct covering rows = {0};
    struct factor_space space = factor_space_whole();
    run->covers = !part->case_patterns && !part->requirements && part->world == 0 && suite_version(&part->choice) >= 2;
    if (!run->covers)
        return ERR_NONE;
    if (setting->claims)
        claims_space(setting->claims, &space);
    int rc = asked_rows(part, run, &rows);
    size_t asked = rows.count;
    if (rc == ERR_NONE)
        rc = covering_extend(&rows, &space, strength_of(part), 1);
    for (size_t row = asked; rc == ERR_NONE && row < rows.count; row++)
        rc = add_row(setting, run, &rows, row, row - asked + 1);
    if (rc == ERR_NONE)
        rc = covering_count(&rows, &space, &run->coverage);
    if (part->choice.level == LEVEL_QUICK)
        run->coverage.triples = 0;
    covering_free(&rows);
    return rc;
}

int check_cover_level(const struct check_part *part, struct coverage *out)
{
    struct covering array;
    struct factor_space whole = factor_space_whole();
    int rc = suite_pair_array(&part->choice, &array);
    if (rc == ERR_NONE)
        rc = covering_count(&array, &whole, out);
    if (part->choice.level == LEVEL_QUICK)
        out->triples = 0;
    covering_free(&array);
    return rc;
}

int check_cover_print(const struct coverage *coverage)
{
    printf("Pairs of factor values that can occur: %zu, covered: %zu", coverage->pairs, coverage->pairs_covered);
    if (coverage->triples > 0)
        printf("; triples that share state: %zu, covered: %zu", coverage->triples, coverage->triples_covered);
    printf("\n");
    if (coverage->pairs_covered < coverage->pairs ||
        (coverage->triples > 0 && coverage->triples_covered < coverage->triples))
        return err_set(ERR_INTERNAL, "no case has %s", coverage->missing);
    return ERR_NONE;
}
