// SPDX-License-Identifier: Apache-2.0
#include "conformance/run/check_select.h"

#include "conformance/claims/claims.h"
#include "base/array.h"
#include "base/err.h"
#include "ref/arithmetic/random.h"
#include "conformance/suite/factor_case.h"
#include "conformance/suite/suite.h"
#include "conformance/suite/suite_pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEAT_EVERY = 10 };  // of this many cases one is asked twice

// Adds a case that is asked, to a struct check_run.
static int add_case(void *context, const struct check_case *c)
{
    struct check_run *run = context;
    size_t room = run->case_room;
    TRY(array_grow(&run->cases, &room, run->case_count, sizeof *run->cases, "cases"));
    TRY(array_grow(&run->asked, &run->case_room, run->case_count, sizeof *run->asked, "cases"));
    struct check_case *copy = malloc(sizeof *copy);
    if (!copy)
        return err_set(ERR_MEMORY, "no memory for %s", c->name);
    *copy = *c;
    run->asked[run->case_count] = true;
    run->cases[run->case_count++] = copy;
    return ERR_NONE;
}

const struct check_case *check_other_half(const struct check_run *run, const struct check_case *c)
{
    char mine[CASE_NAME_BYTES], other[CASE_NAME_BYTES];
    check_whole_name(c, mine);
    for (size_t i = 0; i < run->case_count && c->phase != PHASE_WHOLE; i++) {
        if (run->cases[i] == c || run->cases[i]->phase == PHASE_WHOLE)
            continue;
        check_whole_name(run->cases[i], other);
        if (strcmp(mine, other) == 0)
            return run->cases[i];
    }
    return NULL;
}

// Unasks the cases that are not claimed.
static int apply_claims(const struct check_setting *setting, struct check_run *run)
{
    char why[CLAIMS_TEXT_BYTES];
    for (size_t i = 0; i < run->case_count; i++) {
        const struct check_case *c = run->cases[i];
        int lack = claims_lack(setting->claims, c, check_other_half(run, c), why);
        if (lack == 0)
            continue;
        run->asked[i] = false;
        TRY(judge_absent(run->judge, c, ABSENT_UNCLAIMED, lack, why));
    }
    return ERR_NONE;
}

int check_repeat(const struct check_setting *setting, struct check_run *run)
{
    size_t count = run->case_count;
    for (size_t i = 0; i < count; i++) {
        const struct check_case *c = run->cases[i];
        if (setting->once)
            break;
        bool chosen = random_below(random_at(random_key(setting->seed, 1), i), REPEAT_EVERY) == 0;
        if (!run->asked[i] || c->phase != PHASE_WHOLE || c->expects_refusal || !(chosen || count < REPEAT_EVERY) ||
            strlen(c->name) + 3 > CASE_NAME_BYTES)
            continue;
        TRY(add_case(run, c));
        struct check_case *copy = run->cases[run->case_count - 1];
        strcat(copy->name, "~2");
        copy->twin[0] = '\0';
    }
    return ERR_NONE;
}

// Both halves of a pair are of this world, or neither is asked.
static bool is_of_world(const struct check_run *run, const struct check_case *c, int world)
{
    const struct check_case *other = check_other_half(run, c);
    return c->world == world && (!other || other->world == world);
}

static int keep_world(const struct check_setting *setting, struct check_run *run)
{
    int world = setting->part.world;
    size_t kept = 0;
    for (size_t i = 0; i < run->case_count; i++)
        run->asked[i] = world == 0 || is_of_world(run, run->cases[i], world);
    for (size_t i = 0; i < run->case_count; i++)
        if (run->asked[i])
            run->cases[kept++] = run->cases[i];
        else
            free(run->cases[i]);
    run->case_count = kept;
    for (size_t i = 0; i < kept; i++)
        run->asked[i] = true;
    return kept > 0 ? ERR_NONE : err_set(ERR_USAGE, "none of the selected cases has %d ranks", world);
}

int check_select(const struct check_setting *setting, struct check_run *run)
{
    if (setting->source) {
        TRY(setting->source->cases(setting->source->context, add_case, run));
    } else {
        TRY(check_cases(&setting->part, add_case, run));
        TRY(keep_world(setting, run));
    }
    return apply_claims(setting, run);
}

enum { SEED_TRIES = 64 };

static enum covering_strength strength_of(const struct check_part *part)
{
    return part->choice.level == LEVEL_FULL ? COVERING_TRIPLES : COVERING_PAIRS;
}

// The rows of the level's array whose cases are asked.
static int asked_rows(const struct check_part *part, const struct check_run *run, struct covering *out)
{
    struct suite_pairs pairs;
    int rc = suite_pairs_open(&part->choice, &pairs);
    for (size_t i = 0; rc == ERR_NONE && i < run->case_count; i++) {
        int row = suite_pair_row(&pairs, run->cases[i]);
        if (row >= 0 && run->asked[i] && run->cases[i]->phase != PHASE_RESUME)
            rc = covering_append(out, &pairs.array.rows[row]);
    }
    suite_pairs_close(&pairs);
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
        claimed = claims_lack(setting->claims, &cases[0], count > 1 ? &cases[1] : NULL, why) == 0;
    }
    for (int i = 0; rc == ERR_NONE && claimed && i < count; i++)
        rc = add_case(run, &cases[i]);
    free(cases);
    return claimed ? rc : err_set(ERR_INTERNAL, "%s: %s", topic, why);
}

int check_cover(const struct check_setting *setting, struct check_run *run)
{
    const struct check_part *part = &setting->part;
    struct covering rows = {0};
    struct factor_space space = factor_space_of(suite_version(&part->choice));
    run->covers = !part->case_patterns && !part->requirements && part->world == 0 && suite_version(&part->choice) >= 2;
    if (!run->covers)
        return ERR_NONE;
    if (setting->claims)
        claims_narrow(setting->claims, &space);
    if (!(part->options >> OPTION_TOKEN_MEAN & 1))
        space.values[FACTOR_TOKENS] &= 1;
    int rc = asked_rows(part, run, &rows);
    size_t asked = rows.count;
    if (rc == ERR_NONE)
        rc = covering_extend(&rows, &space, strength_of(part), 1);
    for (size_t row = asked; rc == ERR_NONE && row < rows.count; row++)
        rc = add_row(setting, run, &rows, row, row - asked + 1);
    if (rc == ERR_NONE)
        rc = covering_count(&rows, &space, strength_of(part), &run->coverage);
    covering_free(&rows);
    return rc;
}

int check_cover_level(const struct check_part *part, struct coverage *out)
{
    struct suite_pairs pairs;
    struct factor_space whole = factor_space_of(suite_version(&part->choice));
    int rc = suite_pairs_open(&part->choice, &pairs);
    if (rc == ERR_NONE)
        rc = covering_count(&pairs.array, &whole, strength_of(part), out);
    suite_pairs_close(&pairs);
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
