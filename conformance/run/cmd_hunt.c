// SPDX-License-Identifier: Apache-2.0
// `zerogauge check --hunt`: draws random cases until its time is over, and shrinks those that fail.
#include "conformance/run/cmd_check.h"

#include "base/err.h"
#include "base/file.h"
#include "base/process/check_folder.h"
#include "conformance/run/hunt_internal.h"
#include "base/clock.h"
#include "base/terminal.h"
#include "conformance/hunt/hunt_mesh.h"
#include "conformance/claims/claims.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Batches grow until one takes BATCH_S. A draw that meets no claim in DRAW_MAX attempts never will.
enum { BATCH_FIRST = 16, DRAW_MAX = 200000 };
static const double BATCH_S = 8;

static bool is_over(const struct hunting *h)
{
    int find_max = h->hunt->find_max;
    return hunt_is_interrupted(h) || clock_now_s() >= h->end_s || (find_max > 0 && h->alone_count >= find_max) ||
           h->known_count == HUNT_FIND_MAX;
}

static void drop_cases(struct hunting *h)
{
    for (int i = 0; i < h->count; i++)
        hunt_case_close(&h->cases[i]);
    h->count = 0;
}

// Draws the next `count` cases that are claimed.
static int draw(struct hunting *h, int count)
{
    struct check_case parts[2];
    char why[CLAIMS_TEXT_BYTES];
    drop_cases(h);
    for (int attempts = 0; h->count < count; attempts++) {
        if (attempts == DRAW_MAX)
            return err_set(ERR_USAGE, "none of %d drawn cases is within the claims", DRAW_MAX);
        uint64_t number = h->next++;
        int part_count = hunt_draw(h->hunt->setting.seed, number, h->hunt->setting.part.options, parts);
        const struct check_case *resume = part_count == 2 ? &parts[1] : NULL;
        if (claims_lack(h->hunt->setting.claims, &parts[0], resume, why))
            continue;
        struct hunt_case *drawn = &h->cases[h->count];
        bool legal;
        TRY(hunt_case_open(&parts[0], resume, drawn));
        h->numbers[h->count++] = number;
        TRY(hunt_case_is_legal(drawn, &legal));
        if (legal)
            continue;
        hunt_case_close(drawn);
        h->count--;
    }
    return ERR_NONE;
}

// The find that looks like this one; null: there is none.
static struct hunt_known *find_known(struct hunting *h, const struct check_failure *failure)
{
    for (int i = 0; i < h->known_count; i++)
        if (h->known[i].failure.aspect == failure->aspect && h->known[i].failure.hint == failure->hint)
            return &h->known[i];
    return NULL;
}

// Keeps the first of each look. Where that one failed only together with others, one more of each batch is tried alone.
static int keep_finds(struct hunting *h)
{
    bool tried = false;
    for (int i = 0; i < h->count && !is_over(h); i++) {
        struct hunt_known *known = h->failures[i].failed ? find_known(h, &h->failures[i]) : NULL;
        if (!h->failures[i].failed || (known && (known->alone || tried)))
            continue;
        tried |= known != NULL;
        TRY(hunt_keep(h, i, known));
    }
    return ERR_NONE;
}

static int hunt_batch(struct hunting *h, int count)
{
    TRY(draw(h, count));
    int rc = check_batch(&h->batch, (struct hunt_cases){.list = h->cases, .count = h->count}, NULL, h->failures);
    if (hunt_is_interrupted(h))
        return ERR_NONE;
    TRY(rc);
    for (int i = 0; i < h->count; i++)
        h->result->judged_count += h->failures[i].judged;
    TRY(keep_finds(h));
    h->result->drawn_count = h->next;
    return ERR_NONE;
}

static int hunt_on(struct hunting *h)
{
    int count = BATCH_FIRST, rc = ERR_NONE;
    while (!is_over(h) && rc == ERR_NONE) {
        double begin = clock_now_s();
        if (h->hunt->setting.progress)
            terminal_progress("%" PRIu64 " cases judged, %d found; %.0f s left ...", h->result->judged_count,
                              h->result->find_count, h->end_s - begin);
        rc = hunt_batch(h, count);
        if (clock_now_s() - begin < BATCH_S && count < HUNT_BATCH_MAX)
            count *= 2;
    }
    drop_cases(h);
    if (h->hunt->setting.progress)
        terminal_progress("%s", "");
    return rc;
}

// Writes FOLDER/find-1, find-2 and so on, and FOLDER/hunt.jsonl, and prints a paragraph on each find. Of finds that
// look alike (aspect and hint) only the first is shrunk. One that fails only together with others is kept with them; it
// does not count to find_max, and one that looks like it is shrunk if it fails alone. An interrupt ends the hunt
// without an error and leaves the smallest case so far. ERR_USAGE: no case is within the claims, or the command cannot
// be started.
static int check_hunt(const struct check_hunt *hunt, struct check_hunt_result *out)
{
    char path[PATH_MAX];
    double begin = clock_now_s();
    *out = (struct check_hunt_result){0};
    struct hunting *h = calloc(1, sizeof *h);
    if (!h)
        return err_set(ERR_MEMORY, "no memory for the hunt");
    h->hunt = hunt;
    h->result = out;
    h->batch = (struct check_batch){.setting = &hunt->setting, .folder = hunt->work};
    h->end_s = begin + hunt->minutes * 60;
    int rc = file_join(hunt->folder, "hunt.jsonl", path);
    if (rc == ERR_NONE)
        rc = file_create_stream(path, path, &h->record);
    if (rc == ERR_NONE) {
        rc = hunt_on(h);
        out->launch_count = h->batch.launch_count;
        out->seconds = clock_now_s() - begin;
        if (rc == ERR_NONE)
            rc = hunt_record_end(hunt, out, h->record);
        if (fclose(h->record) != 0 && rc == ERR_NONE)
            rc = err_set(ERR_IO, "%s: cannot be written", path);
    }
    free(h);
    return rc;
}

// The library whose adapter a command starts, by its words.
static const char *upstream_of(const char *const *command)
{
    static const char *const libraries[] = {"deepspeed", "torch"};
    for (size_t k = 0; k < sizeof libraries / sizeof *libraries; k++)
        for (int i = 0; command[i]; i++) {
            const char *base = strrchr(command[i], '/');
            // A launcher's name is not the adapter's.
            if (strstr(base ? base : command[i], libraries[k]) && !strstr(command[i], "torchrun"))
                return libraries[k];
        }
    return NULL;
}

int check_hunt_and_report(const struct check_options *a, const struct check_setting *setting, const char *line,
                          const char *const *reference, int *status)
{
    char folder[PATH_MAX], work[PATH_MAX];
    TRY(check_folder_new("--out", a->out, folder));
    TRY(check_folder_temporary(true, work));
    struct check_hunt hunt = {.setting = *setting,
                              .minutes = a->hunt_minutes,
                              .find_max = a->find_max,
                              .folder = folder,
                              .work = work,
                              .reference = reference,
                              .command = line,
                              .upstream = upstream_of(setting->command)};
    struct check_hunt_result result;
    int rc = check_hunt(&hunt, &result);
    check_folder_remove(work);
    TRY(rc);
    printf("%s%d found: %" PRIu64 " cases of seed %lld judged in %zu launches, %.1f s. Record: %s/hunt.jsonl\n",
           result.find_count ? "" : "Nothing wrong was found. ", result.find_count, result.judged_count, a->seed,
           result.launch_count, result.seconds, a->out);
    *status = result.find_count > 0 ? 1 : result.judged_count > 0 ? 0 : 77;
    return file_flush(stdout, "the report");
}
