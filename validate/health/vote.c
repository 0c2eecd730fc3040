// SPDX-License-Identifier: Apache-2.0
#include "validate/health/vote.h"

#include "base/digest.h"
#include "base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

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

int health_mismatch_add(struct health_round *out, const struct health_mismatch *mismatch)
{
    struct health_mismatch *grown = realloc(out->mismatches, (out->mismatch_count + 1) * sizeof *out->mismatches);
    if (!grown)
        return err_set(ERR_MEMORY, "out of memory for a mismatch");
    out->mismatches = grown;
    out->mismatches[out->mismatch_count++] = *mismatch;
    return ERR_NONE;
}

int health_suspect(const struct core_run *good, struct core_run *bad, size_t operation, int core,
                   struct health_round *out)
{
    const struct health_round_setting *setting = bad->setting;
    struct health_mismatch mismatch = {
        .core = core, .operation = &setting->operations[operation], .round = setting->round, .seed = setting->seed};
    snprintf(mismatch.text, sizeof mismatch.text, "%s", bad->texts[operation]);
    if (bad->codes[operation] == ERR_NONE)
        locate(good, bad, operation, &mismatch);
    for (; mismatch.again < HEALTH_AGAIN; mismatch.again++) {
        TRY(core_run_again(bad, operation, mismatch.again + 1));
        mismatch.again_wrong += !same(good, bad, operation);
    }
    return health_mismatch_add(out, &mismatch);
}

// A core's result before it runs again.
struct first_result {
    int code;
    char text[HEALTH_TEXT_MAX];
    unsigned char bytes[];
};

static void keep(struct core_run *run, size_t operation, struct first_result *first, bool restore)
{
    size_t bytes = run->setting->operations[operation].result_bytes;
    unsigned char *now = run->results + result_offset(run->setting, operation);
    if (restore) {
        memcpy(now, first->bytes, bytes);
        memcpy(run->texts[operation], first->text, sizeof first->text);
        run->codes[operation] = first->code;
    } else {
        memcpy(first->bytes, now, bytes);
        memcpy(first->text, run->texts[operation], sizeof first->text);
        first->code = run->codes[operation];
    }
}

static void take(const struct core_run *run, size_t operation, struct core_run *good)
{
    size_t at = result_offset(run->setting, operation);
    memcpy(good->results + at, run->results + at, run->setting->operations[operation].result_bytes);
}

// With as many cores for one result as for another, or none with a result, all run again until one result has a
// majority: an error that passes leaves one. Their first results are then held against it. *found: *good is that
// result.
static int elect_again(struct core_run *runs, size_t operation, struct core_run *good, bool *found)
{
    const struct health_round_setting *setting = runs->setting;
    size_t cores = setting->core_count;
    size_t bytes = (sizeof(struct first_result) + setting->operations[operation].result_bytes + 15) / 16 * 16;
    unsigned char *first = malloc(cores * bytes);
    int rc = first ? ERR_NONE : err_set(ERR_MEMORY, "out of memory for a second vote");
    for (size_t core = 0; core < cores && first; core++)
        keep(&runs[core], operation, (struct first_result *)(void *)(first + core * bytes), false);
    for (int i = 0; i < HEALTH_AGAIN && !*found && rc == ERR_NONE; i++) {
        for (size_t core = 0; core < cores && rc == ERR_NONE; core++)
            rc = core_run_again(&runs[core], operation, i + 1);
        ptrdiff_t elected = elect(runs, operation);
        *found = elected >= 0;
        if (*found)
            take(&runs[elected], operation, good);
    }
    for (size_t core = 0; core < cores && first; core++)
        keep(&runs[core], operation, (struct first_result *)(void *)(first + core * bytes), true);
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
    // One core alone is wrong by its own comparison.
    struct health_mismatch nobody = {.core = setting->core_count == 1 ? setting->cores[0] : HEALTH_CORE_NOBODY,
                                     .operation = &setting->operations[operation],
                                     .round = setting->round,
                                     .seed = setting->seed};
    const char *text = "";
    for (size_t i = 0; i < setting->core_count && !*text; i++)
        text = runs[i].texts[operation];
    if (setting->core_count == 1)
        snprintf(nobody.text, sizeof nobody.text, "%s", text);
    else
        snprintf(nobody.text, sizeof nobody.text, "no result has a majority of the cores%s%.260s", *text ? ": " : "",
                 text);
    return health_mismatch_add(out, &nobody);
}

// A result that all cores have, and no other machine.
static int hold_against_known(const struct core_run *runs, size_t operation, struct health_round *out)
{
    const struct health_round_setting *setting = runs->setting;
    const struct health_operation *o = &setting->operations[operation];
    struct health_mismatch mismatch = {.core = setting->core_count == 1 ? setting->cores[0] : HEALTH_CORE_ALL,
                                       .operation = o,
                                       .round = setting->round,
                                       .seed = setting->seed,
                                       .by_known = true};
    if (setting->seed != HEALTH_KNOWN_SEED || strcmp(out->digests[operation], o->known) == 0)
        return ERR_NONE;
    snprintf(mismatch.text, sizeof mismatch.text, "its result has the digest %s, and on every sound machine %s",
             out->digests[operation], o->known);
    return health_mismatch_add(out, &mismatch);
}

static int vote(struct core_run *runs, size_t operation, struct core_run *good, struct health_round *out)
{
    const struct health_round_setting *setting = runs->setting;
    size_t at = result_offset(setting, operation), bytes = setting->operations[operation].result_bytes;
    ptrdiff_t elected = elect(runs, operation);
    bool found = false;
    if (elected < 0)
        TRY(elect_again(runs, operation, good, &found));
    if (elected < 0 && !found)
        elected = elect_by_variants(runs, operation);
    if (elected >= 0)
        take(&runs[elected], operation, good);
    else if (!found)
        return name_nobody(runs, operation, out);
    digest_text(XXH3_128bits(good->results + at, bytes), out->digests[operation]);
    if (out->results)
        memcpy(out->results + at, good->results + at, bytes);
    for (size_t i = 0; i < setting->core_count; i++)
        if (!same(good, &runs[i], operation))
            TRY(health_suspect(good, &runs[i], operation, setting->cores[i], out));
    return hold_against_known(runs, operation, out);
}

int health_vote(struct core_run *runs, size_t operation, struct health_round *out)
{
    const struct health_round_setting *setting = runs->setting;
    struct core_run *good = calloc(1, sizeof *good);
    if (good)
        *good =
            (struct core_run){.setting = setting, .results = malloc(result_offset(setting, setting->operation_count))};
    int code = good && good->results ? vote(runs, operation, good, out)
                                     : err_set(ERR_MEMORY, "out of memory for the result of most cores");
    if (good)
        free(good->results);
    free(good);
    return code;
}

void health_mismatch_text(const struct health_mismatch *m, char *out, size_t bytes)
{
    const char *name = m->operation->name;
    int at = m->core >= 0                 ? snprintf(out, bytes, "core %d: %s", m->core, name)
             : m->core == HEALTH_CORE_ALL ? snprintf(out, bytes, "all cores: %s", name)
                                          : snprintf(out, bytes, "%s", name);
    size_t used = at < 0 ? 0 : (size_t)at < bytes ? (size_t)at : bytes - 1;
    if (*m->text)
        snprintf(out + used, bytes - used, ": %s", m->text);
    else
        snprintf(out + used, bytes - used,
                 ": element %zu of its result is wrong, %zu bytes in all; wrong again in %d of %d runs (round %" PRIu64
                 ", seed %" PRIu64 ")",
                 m->element, m->wrong_bytes, m->again_wrong, m->again, m->round, m->seed);
}
