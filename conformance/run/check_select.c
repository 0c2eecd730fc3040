// SPDX-License-Identifier: Apache-2.0
#include "conformance/run/check_select.h"

#include "conformance/run/claims.h"
#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEAT_EVERY = 10 };  // of this many cases one is asked twice

int check_add_case(struct check_run *run, const struct check_case *c)
{
    if (run->case_count == run->case_room) {
        size_t room = run->case_room ? 2 * run->case_room : 64;
        struct check_case **cases = realloc(run->cases, room * sizeof *cases);
        run->cases = cases ? cases : run->cases;
        bool *asked = cases ? realloc(run->asked, room * sizeof *asked) : NULL;
        if (!asked)
            return err_set(ERR_MEMORY, "no memory for %zu cases", room);
        run->asked = asked;
        run->case_room = room;
    }
    struct check_case *copy = malloc(sizeof *copy);
    if (!copy)
        return err_set(ERR_MEMORY, "no memory for %s", c->name);
    *copy = *c;
    run->asked[run->case_count] = true;
    run->cases[run->case_count++] = copy;
    return ERR_NONE;
}

static int visit_case(void *context, const struct check_case *c)
{
    return check_add_case(context, c);
}

const struct check_case *check_other_half(const struct check_run *run, const struct check_case *c)
{
    char mine[CASE_NAME_BYTES], other[CASE_NAME_BYTES];
    check_whole_name(c, mine);
    for (size_t i = 0; i < run->case_count && c->phase != PHASE_WHOLE; i++) {
        check_whole_name(run->cases[i], other);
        if (run->cases[i] != c && run->cases[i]->phase != PHASE_WHOLE && strcmp(mine, other) == 0)
            return run->cases[i];
    }
    return NULL;
}

// Unasks the cases that are not claimed.
static int apply_claims(const struct check_setting *setting, struct check_run *run)
{
    char why[CLAIMS_TEXT_BYTES];
    for (size_t i = 0; setting->claims && i < run->case_count; i++) {
        const struct check_case *c = run->cases[i];
        if (claims_cover(setting->claims, c, check_other_half(run, c), why))
            continue;
        run->asked[i] = false;
        TRY(judge_absent(run->judge, c, ABSENT_UNCLAIMED, why));
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
        TRY(check_add_case(run, c));
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
        TRY(setting->source->cases(setting->source->context, visit_case, run));
    } else {
        TRY(check_cases(&setting->part, visit_case, run));
        TRY(keep_world(setting, run));
    }
    return apply_claims(setting, run);
}
