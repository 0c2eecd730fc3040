// SPDX-License-Identifier: Apache-2.0
#include "conformance/run/check_observe.h"

#include "base/err.h"
#include "base/file.h"
#include "base/process/check_folder.h"
#include "base/terminal.h"
#include "conformance/claims/claims.h"
#include "conformance/suite/suite_build.h"

#include <stdio.h>

// 4 Mi parameters: in bf16 with fp32 masters 64 MiB a rank unsharded, of which 4 ranks save 36 to 48 MiB each. Many
// tensors, so that a program that gathers one at a time needs little for it.
enum { TENSOR_COUNT = 16, ROW_COUNT = 512, STEP_COUNT = 2, BUCKET_ELEMENTS = ROW_COUNT * ROW_COUNT };

// The large case of a stage. By the topic in its name the judge compares the states.
static void make(int world, int stage, enum dtype precision, struct check_case *out)
{
    suite_begin(out, world, stage, precision, 1);
    out->steps = STEP_COUNT;
    for (int i = 0; i < TENSOR_COUNT; i++)
        suite_tensor(out, ROW_COUNT, ROW_COUNT);
    out->reduce_bucket = out->allgather_bucket = out->prefetch_bucket = out->sub_group = BUCKET_ELEMENTS;
    suite_fit(out, world);
    snprintf(out->name, sizeof out->name, "adam-basic.large.w%d.s%d.%s", world, stage, dtype_name(precision));
    snprintf(out->note, sizeof out->note, "Large enough for the memory of processes to show sharding.");
}

// The cases of stages 0 to 3, and which of them are claimed; why: of those that are not.
struct plan {
    struct check_case stages[4];
    bool claimed[4];
    char why[4][CLAIMS_TEXT_BYTES];
};

static bool fill(struct plan *plan, const struct claims *claims, int world, enum dtype precision)
{
    for (int stage = 0; stage < 4; stage++) {
        make(world, stage, precision, &plan->stages[stage]);
        plan->claimed[stage] = claims_lack(claims, &plan->stages[stage], NULL, plan->why[stage]) == 0;
    }
    return plan->claimed[0] && (plan->claimed[1] || plan->claimed[2] || plan->claimed[3]);
}

// The first world and precision with a claimed stage to measure and stage 0 to compare it with. bf16 first: its masters
// are sharded as well.
static void choose(const struct claims *claims, struct plan *plan)
{
    static const int worlds[] = {4, 5, 6, 7, 8, 3, 2};
    static const enum dtype precisions[] = {DTYPE_BF16, DTYPE_FP16, DTYPE_FP32};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
        for (size_t k = 0; k < sizeof precisions / sizeof *precisions; k++)
            if (fill(plan, claims, worlds[i], precisions[k]))
                return;
    fill(plan, claims, worlds[0], precisions[0]);
}

static int visit_case(void *context, int (*visit)(void *visit_context, const struct check_case *c), void *visit_context)
{
    return visit(visit_context, context);
}

static int open_values(void *context, const struct check_case *c, struct case_values **out)
{
    (void)context;
    return case_values_open(c, out);
}

// Why a run is no measurement; "": it is one. Only a program that has the right states has held them.
static void explain(const struct check_run *run, char why[OBSERVATION_WHY_BYTES])
{
    why[0] = '\0';
    for (size_t i = 0; i < run->findings.count && !why[0]; i++) {
        const struct finding *finding = &run->findings.list[i];
        if (finding->absence == ABSENT_DECLINED)
            snprintf(why, OBSERVATION_WHY_BYTES, "declined: %.200s", finding->text);
        else if (finding->aspect == ASPECT_STATE && finding->verdict >= VERDICT_FAIL)
            snprintf(why, OBSERVATION_WHY_BYTES, "the answer is %s: %.200s", verdict_name(finding->verdict),
                     finding->text[0] ? finding->text : hint_text(finding->hint));
    }
    if (!why[0] && run->command_failed)
        snprintf(why, OBSERVATION_WHY_BYTES, "%.250s", run->command_text);
    if (!why[0] && run->sum_of_peaks_bytes == 0)
        snprintf(why, OBSERVATION_WHY_BYTES, "no process lived long enough to be seen");
}

static int clear(const char *folder)
{
    static const char *const names[] = {"cases", "answers", "state"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        TRY(file_join(folder, names[i], path));
        check_folder_remove(path);
    }
    return ERR_NONE;
}

static int make_folder(const struct check_setting *setting, const struct check_case *c, char folder[PATH_MAX])
{
    char base[PATH_MAX];
    TRY(file_join(setting->folder, "observe", base));
    TRY(file_make_folder(base));
    TRY(file_join(base, c->name, folder));
    return file_make_folder(folder);
}

// The measurements of one case's processes.
struct measure {
    uint64_t peak_bytes, sent_bytes;
    bool sent_is_known;
    char why[OBSERVATION_WHY_BYTES];  // why it is no measurement; "": it is one
};

// Runs and judges one case.
static int measure(const struct check_setting *setting, struct check_case *c, struct measure *out)
{
    char folder[PATH_MAX];
    const struct check_source source = {.cases = visit_case, .values = open_values, .context = c};
    struct check_setting own = *setting;
    struct check_run run;
    TRY(make_folder(setting, c, folder));
    own.source = &source;
    own.folder = folder;
    own.once = true;
    own.progress = false;
    own.counts_sent = true;
    if (setting->progress)
        terminal_progress("observing stage %d with %d ranks ...", c->stage, c->world);
    int rc = check_run(&own, &run);
    if (rc == ERR_NONE)
        explain(&run, out->why);
    out->peak_bytes = run.sum_of_peaks_bytes;
    out->sent_is_known = run.sent_is_known;
    out->sent_bytes = run.sent_bytes;
    check_run_free(&run);
    int clear_rc = clear(folder);
    return rc != ERR_NONE ? rc : clear_rc;
}

static int observe_stage(const struct check_setting *setting, struct plan *plan, int stage,
                         const struct measure *unsharded, struct observation *out)
{
    struct check_case *none = &plan->stages[0], *c = &plan->stages[stage];
    static const struct claimed_states whole;
    const struct claimed_states *states = setting->claims ? &setting->claims->states : &whole;
    struct measure sharded = {0};
    if (unsharded->why[0])
        snprintf(sharded.why, sizeof sharded.why, "there is no stage 0 to compare with: %.200s", unsharded->why);
    else
        TRY(measure(setting, c, &sharded));
    *out = (struct observation){
        .stage = stage,
        .world = c->world,
        .peak_bytes = sharded.peak_bytes,
        .unsharded_peak_bytes = unsharded->peak_bytes,
        .formula_saved_bytes = judge_held_bytes(none, states) - judge_held_bytes(c, states),
        .sent_is_known = sharded.sent_is_known && unsharded->sent_is_known,
        .sent_bytes = sharded.sent_bytes,
        .unsharded_sent_bytes = unsharded->sent_bytes,
        .formula_sent_bytes = judge_sent_bytes(c),
        .formula_unsharded_sent_bytes = judge_sent_bytes(none),
    };
    snprintf(out->why, sizeof out->why, "%s", sharded.why);
    return ERR_NONE;
}

int check_observe(const struct check_setting *setting, struct observations *out)
{
    struct plan plan;
    struct measure unsharded = {0};
    *out = (struct observations){0};
    choose(setting->claims, &plan);
    if (!plan.claimed[1] && !plan.claimed[2] && !plan.claimed[3])
        return ERR_NONE;
    if (plan.claimed[0])
        TRY(measure(setting, &plan.stages[0], &unsharded));
    else
        snprintf(unsharded.why, sizeof unsharded.why, "%.255s", plan.why[0]);
    for (int stage = 1; stage < 4; stage++) {
        if (!plan.claimed[stage])
            continue;
        TRY(observe_stage(setting, &plan, stage, &unsharded, &out->list[out->count]));
        out->count++;
    }
    if (setting->progress)
        terminal_progress("%s", "");
    return ERR_NONE;
}
