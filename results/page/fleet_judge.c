// SPDX-License-Identifier: Apache-2.0
// Compares the hosts of a fleet with one another: their bits, their firmware, what they measured, and their figures by
// the limit of results/limits/outlier.h.
#include "results/page/fleet.h"

#include "base/err.h"
#include "results/page/result_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_runs(const void *left, const void *right)
{
    const struct fleet_run *a = left, *b = right;
    int order = a->program != b->program ? (a->program > b->program) - (a->program < b->program)
                                         : strcmp(a->started, b->started);
    return order ? order : (a->order > b->order) - (a->order < b->order);
}

static int compare_hosts(const void *left, const void *right)
{
    return strcmp(((const struct fleet_host *)left)->name, ((const struct fleet_host *)right)->name);
}

// --- a host alone ---

static int judge_own(const struct fleet *fleet, struct fleet_host *host)
{
    const char *newest = "";
    for (size_t i = 0; i < host->run_count; i++) {
        const struct fleet_run *run = &host->runs[i];
        size_t times = 0, runs = 0;
        if (run->hardware > 0 && strcmp(run->started, newest) >= 0) {
            newest = run->started;
            host->hardware = run->hardware;
            host->firmware = run->firmware;
        }
        bool counts = run == fleet_latest(host, run->program) || (run->lasts && run->what < FLEET_INCOMPLETE);
        if (!counts || run->what == FLEET_WHAT_COUNT)
            continue;
        for (size_t k = 0; k < host->run_count; k++) {
            runs += host->runs[k].program == run->program;
            times += host->runs[k].program == run->program && host->runs[k].what <= run->what;
        }
        if (run->what == FLEET_INCOMPLETE && !host->reasons[FLEET_INCOMPLETE].text)
            fleet_command_of(fleet->names[run->program], host->command);
        TRY(fleet_blame(host, run->what, NAN, times, runs, "%s", run->text));
    }
    return ERR_NONE;
}

// --- counts over the fleet ---

static size_t counted(const json_t *counts, const char *key)
{
    return (size_t)json_integer_value(json_object_get(counts, key));
}

static void count(json_t *counts, const char *key)
{
    json_object_set_new(counts, key, json_integer((json_int_t)counted(counts, key) + 1));
}

// The digests of the latest preflight; null: none.
static json_t *digests_of(const struct fleet *fleet, const struct fleet_host *host)
{
    const json_t *program = json_object_get(fleet->texts, "preflight");
    const struct fleet_run *run = program ? fleet_latest(host, (uint32_t)json_integer_value(program)) : NULL;
    return run ? run->digests : NULL;
}

static int judge_digests(struct fleet *fleet, json_t *votes)
{
    const char *operation;
    json_t *digest;
    for (size_t h = 0; h < fleet->host_count; h++)
        json_object_foreach (digests_of(fleet, &fleet->hosts[h]), operation, digest) {
            json_t *cast = json_object_get(votes, operation);
            if (!cast)
                json_object_set_new(votes, operation, cast = json_object());
            if (*view_text(digests_of(fleet, &fleet->hosts[h]), operation))
                count(cast, json_string_value(digest));
        }
    for (size_t h = 0; h < fleet->host_count; h++)
        json_object_foreach (digests_of(fleet, &fleet->hosts[h]), operation, digest) {
            const char *other;
            json_t *cast = json_object_get(votes, operation), *votes_of;
            size_t own = counted(cast, json_is_string(digest) ? json_string_value(digest) : ""), all = 0;
            json_object_foreach (cast, other, votes_of)
                all += (size_t)json_integer_value(votes_of);
            if (own > 0 && 2 * own <= all)
                TRY(fleet_blame(&fleet->hosts[h], FLEET_DIGEST, NAN, 0, 0, "%s: its bits are as on %zu of %zu hosts",
                                operation, own, all));
        }
    return ERR_NONE;
}

// Hosts whose firmware less than a tenth of their hardware's hosts have, or one alone.
static int judge_firmware(struct fleet *fleet, json_t *kinds)
{
    char key[2][32];
    for (int pass = 0; pass < 2; pass++)
        for (size_t h = 0; h < fleet->host_count; h++) {
            struct fleet_host *host = &fleet->hosts[h];
            snprintf(key[0], sizeof key[0], "%u", host->hardware);
            snprintf(key[1], sizeof key[1], "%u %u", host->hardware, host->firmware);
            if (pass == 0) {
                count(kinds, key[0]);
                count(kinds, key[1]);
                continue;
            }
            size_t all = counted(kinds, key[0]), own = host->kind_count = counted(kinds, key[1]);
            if (host->hardware > 0 && all >= 3 && (own == 1 || 10 * own < all))
                TRY(fleet_blame(host, FLEET_FIRMWARE, NAN, 0, 0, "%s: only %zu of %zu hosts of its hardware have it",
                                fleet->names[host->firmware], own, all));
        }
    return ERR_NONE;
}

static int judge_programs(struct fleet *fleet)
{
    for (uint32_t program = 1; program < fleet->text_count; program++) {
        size_t have = 0;
        for (size_t h = 0; h < fleet->host_count; h++)
            have += fleet_latest(&fleet->hosts[h], program) != NULL;
        for (size_t h = 0; h < fleet->host_count && 2 * have > fleet->host_count; h++) {
            if (fleet_latest(&fleet->hosts[h], program))
                continue;
            struct fleet_host *host = &fleet->hosts[h];
            if (!host->reasons[FLEET_INCOMPLETE].text && !host->reasons[FLEET_MISSING].text)
                fleet_command_of(fleet->names[program], host->command);
            TRY(fleet_blame(host, FLEET_MISSING, NAN, 0, 0, "it has no verified run of `%s`, as %zu hosts do",
                            fleet->names[program], have));
        }
    }
    return ERR_NONE;
}

static void conclude(struct fleet_host *host)
{
    static const enum fleet_verdict verdicts[FLEET_WHAT_COUNT] = {
        [FLEET_UNVERIFIED] = FLEET_LOOK_AT,  [FLEET_SLOW] = FLEET_LOOK_AT,     [FLEET_INVALID] = FLEET_LOOK_AT,
        [FLEET_WARNED] = FLEET_LOOK_AT,      [FLEET_FIRMWARE] = FLEET_LOOK_AT, [FLEET_INCOMPLETE] = FLEET_NOT_MEASURED,
        [FLEET_MISSING] = FLEET_NOT_MEASURED};
    const struct fleet_reason *slow = &host->reasons[FLEET_SLOW];
    host->verdict = FLEET_IN_SERVICE;
    for (size_t what = FLEET_WHAT_COUNT; what-- > 0;)
        if (host->reasons[what].text && verdicts[what] < host->verdict)
            host->verdict = verdicts[what];
    if (slow->text && slow->times >= 2 && 2 * slow->times > slow->runs)
        host->verdict = FLEET_PULL;
}

int fleet_judge(struct fleet *fleet)
{
    qsort(fleet->hosts, fleet->host_count, sizeof *fleet->hosts, compare_hosts);
    for (size_t h = 0; h < fleet->host_count; h++) {
        struct fleet_host *host = &fleet->hosts[h];
        if (host->run_count > 0)
            qsort(host->runs, host->run_count, sizeof *host->runs, compare_runs);
        TRY(judge_own(fleet, host));
    }
    json_t *counts[2] = {json_object(), json_object()};
    int rc = counts[0] && counts[1] ? judge_digests(fleet, counts[0]) : err_set(ERR_MEMORY, "no memory for a fleet");
    if (rc == ERR_NONE)
        rc = judge_firmware(fleet, counts[1]);
    if (rc == ERR_NONE)
        rc = judge_programs(fleet);
    if (rc == ERR_NONE)
        rc = fleet_judge_figures(fleet);
    json_decref(counts[0]);
    json_decref(counts[1]);
    for (size_t h = 0; h < fleet->host_count; h++)
        conclude(&fleet->hosts[h]);
    return rc;
}
