// SPDX-License-Identifier: Apache-2.0
// Saving a checkpoint: every rank writes its shard, from where it lives or from a copy while steps go on; then rank 0
// writes the manifest and renames the folder.
#include "ref/checkpoint/shard_file.h"

#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void describe_params(const struct model *model, struct manifest *out)
{
    for (int i = 0; i < model->param_count; i++) {
        const struct model_param *p = &model->params[i];
        if (!checkpoint_holds(model, p->frozen))
            continue;
        struct manifest_param *param = &out->params[out->param_count++];
        *param = (struct manifest_param){.name = p->name, .shape_rank = p->shape_rank, .frozen = p->frozen};
        for (int k = 0; k < p->shape_rank; k++)
            param->shape[k] = p->shape[k];
    }
}

static int describe(const struct stage *stage, const struct save_moment *moment, struct manifest *out)
{
    assert(moment->step > 0 && moment->facts->count <= FACT_MAX);
    const struct model *model = checkpoint_model(stage);
    const struct optimizer *optimizer = &stage->optimizer;
    size_t group_count = (size_t)model->group_count;
    *out = (struct manifest){
        .version = MANIFEST_VERSION,
        .model = model->name,
        .step = moment->step,
        .applied = optimizer->step,
        .skipped = optimizer->skipped,
        .last_applied = moment->last_applied,
        .loss = moment->loss,
        .repeatable = moment->repeatable,
        .waiting = optimizer->waiting,
        .scaler = optimizer->scaler,
        .group_count = group_count,
        .recipe_states = calloc(group_count + 1, sizeof *out->recipe_states),
        .fact_count = moment->facts->count,
        .facts = calloc(FACT_MAX, sizeof *out->facts),
        .params = calloc((size_t)model->param_count + 1, sizeof *out->params),
    };
    if (!out->recipe_states || !out->facts || !out->params)
        return err_set(ERR_MEMORY, "no memory for the manifest of %d parameters", model->param_count);
    memcpy(out->recipe_states, optimizer->states, group_count * sizeof *out->recipe_states);
    for (size_t i = 0; i < moment->facts->count; i++)
        out->facts[i] = (struct manifest_fact){moment->facts->rows[i].key, moment->facts->rows[i].value};
    describe_params(model, out);
    return ERR_NONE;
}

static int write_manifest(const char *folder, const struct manifest *manifest)
{
    char path[PATH_MAX], *text;
    TRY(file_join(folder, "manifest.json", path));
    TRY(manifest_text(manifest, &text));
    int fd, rc = file_create(path, &fd);
    if (rc == ERR_NONE)
        rc = file_write(fd, path, text, strlen(text));
    if (rc == ERR_NONE)
        rc = file_sync(fd, path);
    if (fd >= 0 && close(fd) != 0 && rc == ERR_NONE)
        rc = err_set(ERR_IO, "%s: cannot be closed: %s", path, strerror(errno));
    free(text);
    return rc == ERR_NONE ? file_sync_folder(folder) : rc;
}

// Turns the folder into a checkpoint with one rename.
static int rename_folder(struct store *store, uint64_t step, const char *folder)
{
    char name[STEP_NAME_BYTES], path[PATH_MAX];
    struct checkpoint *checkpoint;
    struct stat status;
    TRY(checkpoint_open_folder(folder, &checkpoint));  // a checkpoint that cannot be read must not replace others
    checkpoint_close(checkpoint);
    TRY(file_join(store->path, checkpoint_step_name(step, name), path));
    // A folder of that name is incomplete: otherwise the run would have continued from it.
    if (lstat(path, &status) == 0)
        TRY(store_retire(store->path, step));
    if (rename(folder, path) != 0)
        return err_set(ERR_IO, "%s: cannot be renamed: %s", folder, strerror(errno));
    TRY(file_sync_folder(store->path));
    store->newest = step;
    return ERR_NONE;
}

static int publish(struct store *store, const char *folder, const struct manifest *described,
                   struct manifest_file *files, size_t file_count)
{
    struct manifest manifest = *described;
    manifest.files = files;
    manifest.file_count = file_count;
    TRY(write_manifest(folder, &manifest));
    return rename_folder(store, manifest.step, folder);
}

struct ongoing_save {
    struct store *store;
    struct comm *comm;
    uint64_t step;
    struct manifest manifest;               // rank 0's: of the moment when the save began, without files
    char folder[PATH_MAX], path[PATH_MAX];  // of the checkpoint, and of this rank's file in it
    struct shard_file file;
    struct manifest_file mine;
    pthread_t thread;
    bool is_running;
    atomic_bool is_over;  // the file is written, or cannot be
    int rc;
    char message[ERR_MESSAGE_BYTES];
};

bool checkpoint_save_writes(const struct ongoing_save *saving)
{
    return !saving->is_over;
}

static void *write_rank(void *context)
{
    struct ongoing_save *s = context;
    s->rc = shard_file_write(&s->file, s->path, &s->mine);
    err_keep(s->message);
    s->is_over = true;
    return NULL;
}

static int begin(struct ongoing_save *s, struct stage *stage, const struct save_moment *moment, float *copy)
{
    int rank = comm_rank(s->comm);
    char step[STEP_NAME_BYTES], name[STEP_NAME_BYTES + sizeof STORE_PARTIAL], file[RANK_NAME_BYTES];
    snprintf(name, sizeof name, "%s" STORE_PARTIAL, checkpoint_step_name(s->step, step));
    TRY(file_join(s->store->path, name, s->folder));
    TRY(file_join(s->folder, checkpoint_rank_name((size_t)rank, file), s->path));
    if (rank == 0 && mkdir(s->folder, 0777) != 0)
        return err_set(ERR_IO, "%s: cannot be created: %s", s->folder, strerror(errno));
    if (rank == 0)
        TRY(describe(stage, moment, &s->manifest));
    TRY(comm_barrier(s->comm));
    TRY(shard_file_open(stage, &s->file));
    if (copy)
        TRY(shard_file_copy(&s->file, copy));
    s->is_running = copy && pthread_create(&s->thread, NULL, write_rank, s) == 0;
    if (!s->is_running)
        write_rank(s);
    return ERR_NONE;
}

static void await_file(struct ongoing_save *s)
{
    if (s->is_running)
        pthread_join(s->thread, NULL);
    s->is_running = false;
}

static int end(struct ongoing_save *s)
{
    int world = comm_world(s->comm);
    await_file(s);
    if (s->rc != ERR_NONE) {
        err_restore(s->message);
        return s->rc;
    }
    struct manifest_file all[world];
    TRY(comm_all_gather_equal(s->comm, &s->mine, all, sizeof s->mine));
    if (comm_rank(s->comm) == 0)
        TRY(publish(s->store, s->folder, &s->manifest, all, (size_t)world));
    return comm_barrier(s->comm);
}

static int give_up(struct ongoing_save *s, int rc)
{
    unsigned long long step = s->step;
    checkpoint_abandon_save(s);
    return rc == ERR_PEER
               ? rc
               : err_prefix(rc, "the checkpoint of step %llu was not saved; those before it are unchanged", step);
}

int checkpoint_begin_save(struct store *store, struct comm *comm, struct stage *stage, const struct save_moment *moment,
                          float *copy, struct ongoing_save **out)
{
    *out = NULL;
    struct ongoing_save *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(ERR_MEMORY, "no memory to save a checkpoint");
    s->store = store;
    s->comm = comm;
    s->step = moment->step;
    if (comm_rank(comm) == 0)
        store_await_removal(store);  // so that a store never holds more than one to remove
    struct ledger *ledger = comm_ledger(comm);
    comm_count_in(comm, NULL);
    int rc = begin(s, stage, moment, copy);
    comm_count_in(comm, ledger);
    if (rc != ERR_NONE)
        return give_up(s, rc);
    *out = s;
    return ERR_NONE;
}

int checkpoint_end_save(struct ongoing_save *s)
{
    struct ledger *ledger = comm_ledger(s->comm);
    comm_count_in(s->comm, NULL);
    int rc = end(s);
    comm_count_in(s->comm, ledger);
    if (rc != ERR_NONE)
        return give_up(s, rc);
    struct store *store = comm_rank(s->comm) == 0 ? s->store : NULL;
    checkpoint_abandon_save(s);
    if (!store)
        return ERR_NONE;
    TRY(store_settle(store));
    store_begin_removal(store);
    return ERR_NONE;
}

void checkpoint_abandon_save(struct ongoing_save *s)
{
    if (!s)
        return;
    await_file(s);
    shard_file_close(&s->file);
    manifest_close(&s->manifest);
    free(s);
}

int checkpoint_save(struct store *store, struct comm *comm, struct stage *stage, const struct save_moment *moment)
{
    struct ongoing_save *saving;
    TRY(checkpoint_begin_save(store, comm, stage, moment, NULL, &saving));
    return checkpoint_end_save(saving);
}
