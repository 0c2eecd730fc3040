// SPDX-License-Identifier: Apache-2.0
#include "health/vote.h"

#include "base/digest.h"
#include "base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

// Repeated runs of an operation on a suspected core.
enum { AGAIN = 10 };

static bool same(const struct core_run *a, const struct core_run *b, size_t operation)
{
    size_t at = result_offset(a->setting, operation);
    return a->codes[operation] == ERR_NONE && b->codes[operation] == ERR_NONE &&
           memcmp(a->results + at, b->results + at, a->setting->operations[operation].result_bytes) == 0;
}

static size_t votes_of(const struct core_run *runs, size_t candidate, size_t operation)
{
    size_t votes = 0;
    for (size_t i = 0; i < runs->setting->core_count; i++)
        votes += same(&runs[candidate], &runs[i], operation);
    return votes;
}

// The core whose result most cores have, or -1 if no result has more votes than every other. One core alone has nobody
// to disagree with.
static ptrdiff_t elect(const struct core_run *runs, size_t operation)
{
    size_t most = 0, best = 0;
    bool tie = true;
    for (size_t i = 0; i < runs->setting->core_count; i++) {
        size_t votes = votes_of(runs, i, operation);
        if (votes > most) {
            most = votes;
            best = i;
            tie = false;
        } else if (votes == most && !same(&runs[best], &runs[i], operation)) {
            tie = true;
        }
    }
    return most == 0 || tie ? -1 : (ptrdiff_t)best;
}

static void locate(const struct core_run *good, const struct core_run *bad, size_t operation,
                   struct health_mismatch *mismatch)
{
    const struct health_operation *o = &good->setting->operations[operation];
    size_t at = result_offset(good->setting, operation);
    bool found = false;
    for (size_t i = 0; i < o->result_bytes; i++) {
        if (good->results[at + i] == bad->results[at + i])
            continue;
        if (!found)
            mismatch->element = i / o->element_bytes;
        found = true;
        mismatch->wrong_bytes++;
    }
}

static int add_mismatch(struct health_round *out, const struct health_mismatch *mismatch)
{
    struct health_mismatch *grown = realloc(out->mismatches, (out->mismatch_count + 1) * sizeof *out->mismatches);
    if (!grown)
        return err_set(ERR_MEMORY, "out of memory for a mismatch");
    out->mismatches = grown;
    out->mismatches[out->mismatch_count++] = *mismatch;
    return ERR_NONE;
}

// The elected core keeps its result, so that the suspected one can be held against it.
static int suspect(struct core_run *runs, size_t elected, size_t index, size_t operation, struct health_round *out)
{
    const struct health_round_setting *setting = runs->setting;
    struct health_mismatch mismatch = {.core = setting->cores[index],
                                       .operation = &setting->operations[operation],
                                       .round = setting->round,
                                       .seed = setting->seed};
    snprintf(mismatch.text, sizeof mismatch.text, "%s", runs[index].texts[operation]);
    if (runs[index].codes[operation] == ERR_NONE)
        locate(&runs[elected], &runs[index], operation, &mismatch);
    for (; mismatch.again < AGAIN; mismatch.again++) {
        TRY(core_run_again(&runs[index], operation, mismatch.again + 1));
        mismatch.again_wrong += !same(&runs[elected], &runs[index], operation);
    }
    return add_mismatch(out, &mismatch);
}

// With as many cores for one result as for another, all run again until one result has a majority: an error that passes
// leaves one. Their first results are then held against it. Without a majority, or if no core had that result at first,
// nobody can be named.
static int elect_again(struct core_run *runs, size_t operation, ptrdiff_t *elected)
{
    const struct health_round_setting *setting = runs->setting;
    size_t cores = setting->core_count, bytes = setting->operations[operation].result_bytes;
    size_t at = result_offset(setting, operation);
    unsigned char *first = malloc((cores + 1) * bytes), *good = first + cores * bytes;
    int codes[HEALTH_CORE_MAX], rc = ERR_NONE;
    if (!first)
        return err_set(ERR_MEMORY, "out of memory for a second vote");
    for (size_t i = 0; i < cores; i++) {
        memcpy(first + i * bytes, runs[i].results + at, bytes);
        codes[i] = runs[i].codes[operation];
    }
    *elected = -1;
    for (int i = 0; i < AGAIN && *elected < 0 && rc == ERR_NONE; i++) {
        for (size_t core = 0; core < cores && rc == ERR_NONE; core++)
            rc = core_run_again(&runs[core], operation, i + 1);
        *elected = elect(runs, operation);
    }
    bool found = *elected >= 0;
    if (found)
        memcpy(good, runs[*elected].results + at, bytes);
    *elected = -1;
    for (size_t i = cores; i-- > 0;) {
        memcpy(runs[i].results + at, first + i * bytes, bytes);
        runs[i].codes[operation] = codes[i];
        if (found && codes[i] == ERR_NONE && memcmp(first + i * bytes, good, bytes) == 0)
            *elected = (ptrdiff_t)i;
    }
    free(first);
    return rc;
}

// Operations that differ in their instruction set alone have one result: of two results of as many cores, the one that
// another such operation has, too.
static ptrdiff_t elect_by_variants(const struct core_run *runs, size_t operation)
{
    const struct health_round_setting *setting = runs->setting;
    const struct health_operation *o = &setting->operations[operation];
    for (size_t other = 0; other < setting->operation_count; other++) {
        const struct health_operation *variant = &setting->operations[other];
        if (other == operation || variant->run != o->run || variant->variant == o->variant)
            continue;
        for (size_t i = 0; i < setting->core_count; i++)
            for (size_t j = 0; j < setting->core_count; j++)
                if (runs[i].codes[operation] == ERR_NONE && runs[j].codes[other] == ERR_NONE &&
                    memcmp(runs[i].results + result_offset(setting, operation),
                           runs[j].results + result_offset(setting, other), o->result_bytes) == 0)
                    return (ptrdiff_t)i;
    }
    return -1;
}

static int name_nobody(const struct core_run *runs, size_t operation, struct health_round *out)
{
    const struct health_round_setting *setting = runs->setting;
    struct health_mismatch nobody = {
        .core = -1, .operation = &setting->operations[operation], .round = setting->round, .seed = setting->seed};
    for (size_t i = 0; i < setting->core_count && !*nobody.text; i++)
        snprintf(nobody.text, sizeof nobody.text, "%s", runs[i].texts[operation]);
    return add_mismatch(out, &nobody);
}

int health_vote(struct core_run *runs, size_t operation, struct health_round *out)
{
    const struct health_round_setting *setting = runs->setting;
    ptrdiff_t elected = elect(runs, operation);
    if (elected < 0)
        TRY(elect_again(runs, operation, &elected));
    if (elected < 0)
        elected = elect_by_variants(runs, operation);
    if (elected < 0)
        return name_nobody(runs, operation, out);
    digest_text(XXH3_128bits(runs[elected].results + result_offset(setting, operation),
                             setting->operations[operation].result_bytes),
                out->digests[operation]);
    for (size_t i = 0; i < setting->core_count; i++)
        if (!same(&runs[elected], &runs[i], operation))
            TRY(suspect(runs, (size_t)elected, i, operation, out));
    return ERR_NONE;
}

void health_mismatch_text(const struct health_mismatch *m, char *out, size_t bytes)
{
    const char *name = m->operation->name;
    int at = m->core < 0 ? snprintf(out, bytes, "%s: no result has a majority of the cores", name)
                         : snprintf(out, bytes, "core %d: %s", m->core, name);
    size_t used = at < 0 ? 0 : (size_t)at < bytes ? (size_t)at : bytes - 1;
    if (*m->text)
        snprintf(out + used, bytes - used, ": %s", m->text);
    else if (m->core >= 0)
        snprintf(out + used, bytes - used,
                 ": element %zu of its result is wrong, %zu bytes in all; wrong again in %d of %d runs (round %" PRIu64
                 ", seed %" PRIu64 ")",
                 m->element, m->wrong_bytes, m->again_wrong, m->again, m->round, m->seed);
}
