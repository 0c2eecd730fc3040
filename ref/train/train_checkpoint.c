// SPDX-License-Identifier: Apache-2.0
#include "ref/train/train_checkpoint.h"

#include "base/err.h"
#include "ref/train/train_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void note(char notes[NOTES_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(char notes[NOTES_BYTES], const char *format, ...)
{
    size_t used = strlen(notes);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(notes + used, NOTES_BYTES - used, format, arguments);
    va_end(arguments);
}

static int open_from(const struct train_checkpoint_options *options, const struct train_setting *setting,
                     struct train_checkpoints *c, char notes[NOTES_BYTES])
{
    const char *path = options->resume ? options->resume : options->checkpoint;
    TRY(checkpoint_open(path, &c->from, notes));
    if (!c->from && options->resume)
        return err_set(ERR_USAGE, "--resume %s: there is no checkpoint", path);
    if (!c->from) {
        note(notes, "%s holds no checkpoint yet: the run begins at step 1\n", path);
        return ERR_NONE;
    }
    const struct manifest *manifest = checkpoint_manifest(c->from);
    path = checkpoint_path(c->from);
    TRY(checkpoint_check_model(c->from, setting->model));
    TRY(facts_compare(&c->facts, manifest, path, &c->repeatable, notes));
    if (manifest->step > setting->steps)
        return err_set(ERR_USAGE, "%s: is beyond --steps %" PRIu64 ", the number of steps in all", path,
                       setting->steps);
    if (setting->verify && !c->repeatable)
        return err_set(ERR_USAGE,
                       "%s: --verify compares with an unsharded run from step 1, and not all steps before %" PRIu64
                       " were made as this run would make them; leave it out, or resume as they were made",
                       path, manifest->step + 1);
    note(notes, "continues from %s\n", path);
    return ERR_NONE;
}

// If ranks are processes, rank 0 owns the store, and the others follow it once it is open.
static int open_store(const struct train_checkpoint_options *options, struct comm *comm, struct train_checkpoints *c)
{
    const char *path = options->save ? options->save : options->checkpoint;
    bool owns = !comm || comm_rank(comm) == 0;
    c->saves = true;
    c->every = options->every;
    if (owns)
        TRY(store_open(path, &c->store));
    uint64_t newest = c->store.newest;
    if (comm)
        TRY(comm_broadcast(comm, &newest, sizeof newest, 0));
    if (!owns)
        TRY(store_follow(path, &c->store));
    c->store.newest = newest;
    return ERR_NONE;
}

int train_checkpoints_open(const struct train_checkpoint_options *options, const struct train_setting *setting,
                           struct train_checkpoints *out, char notes[NOTES_BYTES])
{
    *out = (struct train_checkpoints){.repeatable = true, .store.lock = -1};
    notes[0] = '\0';
    const struct facts_setting facts = {
        .model = setting->model,
        .config = setting->config,
        .text = setting->text,
        .weights = options->weights,
        .seed = setting->seed,
        .world = train_data_ranks(setting),
    };
    TRY(facts_of(&facts, &out->facts));
    // The store is locked before anything is read from it.
    if (options->save || options->checkpoint)
        TRY(open_store(options, setting->comm, out));
    if (options->resume || options->checkpoint)
        TRY(open_from(options, setting, out, notes));
    uint64_t step = out->from ? checkpoint_manifest(out->from)->step : 0;
    if (out->saves && out->store.newest > step)
        return err_set(ERR_USAGE,
                       "%s: holds a checkpoint of step %" PRIu64 " already: continue from it with --checkpoint, or "
                       "save to another folder",
                       out->store.path, out->store.newest);
    return ERR_NONE;
}

void train_checkpoints_close(struct train_checkpoints *checkpoints)
{
    checkpoint_close(checkpoints->from);
    store_close(&checkpoints->store);
    *checkpoints = (struct train_checkpoints){.store.lock = -1};
}

int train_resume(struct train_rank *rank)
{
    const struct train_checkpoints *checkpoints = rank->setting->checkpoints;
    if (!checkpoints || !checkpoints->from)
        return ERR_NONE;
    const struct manifest *manifest = checkpoint_manifest(checkpoints->from);
    TRY(checkpoint_load(checkpoints->from, rank->comm, &rank->stage));
    TRY(train_pipeline_resume(rank));
    rank->resumed_step = manifest->step;
    rank->resumed_applied = manifest->applied;
    struct train_result *result = rank->result;
    if (rank->rank == 0) {
        result->resumed_step = result->steps = manifest->step;
        result->skipped_steps = manifest->skipped;
        result->first_loss = result->loss = manifest->loss;
    }
    if (!rank->setting->verify)
        return ERR_NONE;
    for (uint64_t step = 1; rank->rank == 0 && step < manifest->step; step++) {
        struct oracle_decision decision;
        TRY(oracle_step(rank->oracle, step, &decision));
    }
    return verify_resumed(rank, manifest->step, manifest->last_applied, manifest->loss);
}

// Only rank 0 knows about differences.
static int agree_to_save(struct train_rank *rank, bool *save)
{
    *save = rank->rank == 0 && !rank->result->difference.found;
    comm_count_in(rank->comm, NULL);
    int rc = comm_broadcast(rank->comm, save, sizeof *save, 0);
    comm_count_in(rank->comm, &rank->ledger);
    return rc;
}

int train_save_open(struct train_rank *rank)
{
    const struct train_checkpoints *c = rank->setting->checkpoints;
    bool is_dry = executor_is_dry(rank->executor);
    if (!rank->setting->config->async_save || !(is_dry || (c && c->saves && c->every)))
        return ERR_NONE;
    void *copy;
    uint64_t bytes = checkpoint_copy_bytes(&rank->stage);
    rank->formula.held_bytes[TIER_HOST][KIND_STAGING] += bytes;
    TRY(tier_allocate(rank->tier, TIER_HOST, KIND_STAGING, "copy for asynchronous saves", bytes, 0, &copy));
    tier_except(rank->tier, copy);
    rank->save_copy = copy;
    if (rank->rank == 0)
        rank->result->save_copy_bytes = bytes;
    return ERR_NONE;
}

bool train_save_writes(const struct train_rank *rank)
{
    return rank->saving && checkpoint_save_writes(rank->saving);
}

static int end_save(struct train_rank *rank)
{
    struct ongoing_save *saving = rank->saving;
    rank->saving = NULL;
    TRY(checkpoint_end_save(saving));
    if (rank->rank == 0)
        rank->result->saved_step = rank->saving_step;
    return ERR_NONE;
}

int train_save(struct train_rank *rank, uint64_t step, const struct train_outcome *made, bool last)
{
    struct train_checkpoints *checkpoints = rank->setting->checkpoints;
    if (!checkpoints || !checkpoints->saves)
        return ERR_NONE;
    bool due = last || (checkpoints->every && step % checkpoints->every == 0), save = true;
    bool ends = rank->saving && (due || !made->saves);
    if (!due && !ends)
        return ERR_NONE;
    TRY(train_settle(rank));
    if (ends)
        TRY(end_save(rank));
    if (!due)
        return ERR_NONE;
    if (rank->setting->verify == TRAIN_VERIFY)
        TRY(verify_catch_up(rank));
    if (rank->setting->verify)
        TRY(agree_to_save(rank, &save));
    if (!save)
        return ERR_NONE;
    const struct save_moment moment = {
        .step = step,
        .last_applied = made->applied,
        .loss = made->loss,
        .repeatable = checkpoints->repeatable,
        .facts = &checkpoints->facts,
    };
    float *copy = last ? NULL : rank->save_copy;
    TRY(checkpoint_begin_save(&checkpoints->store, rank->comm, &rank->stage, &moment, copy, &rank->saving));
    rank->saving_step = step;
    if (!copy)
        TRY(end_save(rank));
    return last && rank->rank == 0 ? store_settle(&checkpoints->store) : ERR_NONE;
}
