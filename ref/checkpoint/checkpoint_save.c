// SPDX-License-Identifier: Apache-2.0
// Saving a checkpoint: every rank writes its shard, then rank 0 writes the manifest and renames the folder.
#include "ref/checkpoint/checkpoint.h"

#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_BYTES = 128 };

// The file of this rank: pieces of tensors, in the order of buckets and states.
struct shard_file {
    struct stage *stage;
    size_t count, room;
    struct safetensors_tensor *tensors;
    char (*keys)[KEY_BYTES];
    float *shard;        // memory for the largest shard
    void *model_params;  // the same, in the model's dtype
};

// True if this rank writes the bucket: its shard of it, or a whole replicated bucket, which one rank writes. Replicas
// take turns. Nobody writes the base under adapters.
static bool writes(const struct stage *stage, int bucket)
{
    const struct bucket *b = &stage->layout.buckets[bucket];
    struct comm *world = stage->setting.comm, *holders = stage_exchange(stage, bucket)->comm;
    if (!checkpoint_holds(stage->setting.model, b->frozen) ||
        bucket % stage->groups.mesh.replicate != mesh_index_in(&stage->groups.mesh, MESH_REPLICATE, comm_rank(world)))
        return false;
    return !bucket_is_replicated(b) || bucket % comm_world(holders) == comm_rank(holders);
}

static int state_count(const struct stage *stage, int bucket)
{
    return manifest_state_count(stage->layout.buckets[bucket].frozen, stage->optimizer.waiting);
}

// The runs of a bucket that this rank stores.
static bool next_run(const struct stage *stage, int bucket, struct checkpoint_walk *walk, struct checkpoint_run *out)
{
    do {
        if (!checkpoint_next_run(stage, bucket, walk, out))
            return false;
    } while (!out->counted);
    return true;
}

static void list_bucket(struct shard_file *f, int bucket)
{
    struct stage *stage = f->stage;
    struct checkpoint_run run;
    for (int state = 0; state < state_count(stage, bucket); state++)
        for (struct checkpoint_walk walk = {0}; next_run(stage, bucket, &walk, &run);) {
            snprintf(f->keys[f->count], KEY_BYTES, "%s/%s[%zu:%zu]", manifest_state_name(state), run.param->name,
                     run.first, run.first + run.count);
            f->tensors[f->count] = (struct safetensors_tensor){
                .name = f->keys[f->count], .type = TENSOR_FP32, .shape_rank = 1, .shape = {run.count}};
            f->count++;
        }
}

// The tensors of this rank's file.
static size_t count_tensors(const struct stage *stage)
{
    size_t count = 0;
    struct checkpoint_run run;
    for (int i = 0; i < stage->layout.bucket_count; i++)
        for (struct checkpoint_walk walk = {0}; writes(stage, i) && next_run(stage, i, &walk, &run);)
            count += (size_t)state_count(stage, i);
    return count;
}

static int open_shard_file(struct stage *stage, struct shard_file *f)
{
    const struct layout *layout = &stage->layout;
    size_t room = count_tensors(stage) + 1, largest = 1;  // one for the digests of blocks
    *f = (struct shard_file){.stage = stage};
    for (int i = 0; i < layout->bucket_count; i++)
        if (layout->buckets[i].shard_elements > largest)
            largest = layout->buckets[i].shard_elements;
    f->tensors = calloc(room, sizeof *f->tensors);
    f->keys = calloc(room, sizeof *f->keys);
    f->shard = malloc(largest * sizeof *f->shard);
    f->model_params = malloc(largest * sizeof *f->shard);
    if (!f->tensors || !f->keys || !f->shard || !f->model_params)
        return err_set(ERR_MEMORY, "no memory to save a shard of %zu elements", largest);
    for (int i = 0; i < layout->bucket_count; i++)
        if (writes(stage, i))
            list_bucket(f, i);
    return ERR_NONE;
}

static void close_shard_file(struct shard_file *f)
{
    free(f->tensors);
    free(f->keys);
    free(f->shard);
    free(f->model_params);
}

static int read_state(struct shard_file *f, int bucket, int state)
{
    if (state != MANIFEST_STATE_SEEN)
        return stage_read_shard(f->stage, bucket, (enum state)state, f->shard);
    TRY(stage_read_model_params(f->stage, bucket, f->model_params));
    size_t count = bucket_shard_real(&f->stage->layout.buckets[bucket], stage_shard(f->stage, bucket));
    dtype_widen(f->stage->setting.config->precision, f->model_params, f->shard, count);
    return ERR_NONE;
}

static int write_bucket(struct shard_file *f, int bucket, struct safetensors_writer *writer)
{
    struct stage *stage = f->stage;
    struct checkpoint_run run;
    int own = stage_shard(stage, bucket);
    if (bucket_shard_real(&stage->layout.buckets[bucket], own) == 0)
        return ERR_NONE;
    for (int state = 0; state < state_count(stage, bucket); state++) {
        TRY(read_state(f, bucket, state));
        for (struct checkpoint_walk walk = {0}; next_run(stage, bucket, &walk, &run);)
            TRY(safetensors_write(writer, f->shard + run.shard_index, run.count * sizeof *f->shard));
    }
    return ERR_NONE;
}

static int write_shard(struct shard_file *f, const char *path, struct manifest_file *out)
{
    struct safetensors_writer *writer;
    TRY(safetensors_create_in_blocks(path, f->tensors, f->count, &writer));
    int rc = ERR_NONE;
    for (int i = 0; i < f->stage->layout.bucket_count && rc == ERR_NONE; i++)
        rc = writes(f->stage, i) ? write_bucket(f, i, writer) : ERR_NONE;
    if (rc == ERR_NONE)
        rc = safetensors_write_blocks(writer, out->blocks_digest);
    if (rc == ERR_NONE)
        return safetensors_finish(writer, &out->bytes, out->digest);
    safetensors_abandon(writer);
    return rc;
}

static int write_rank(struct comm *comm, struct stage *stage, const char *folder, struct manifest_file *out)
{
    char path[PATH_MAX], name[RANK_NAME_BYTES];
    TRY(file_join(folder, checkpoint_rank_name((size_t)comm_rank(comm), name), path));
    struct shard_file file;
    int rc = open_shard_file(stage, &file);
    if (rc == ERR_NONE)
        rc = write_shard(&file, path, out);
    close_shard_file(&file);
    return rc;
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

static int make_manifest(const struct stage *stage, const struct save_moment *moment, struct manifest_file *files,
                         size_t file_count, const char *folder)
{
    assert(moment->step > 0 && moment->facts->count <= FACT_MAX);
    const struct model *model = checkpoint_model(stage);
    const struct optimizer *optimizer = &stage->optimizer;
    struct manifest_fact facts[FACT_MAX];
    for (size_t i = 0; i < moment->facts->count; i++)
        facts[i] = (struct manifest_fact){moment->facts->rows[i].key, moment->facts->rows[i].value};
    struct manifest_param *params = calloc((size_t)model->param_count + 1, sizeof *params);
    if (!params)
        return err_set(ERR_MEMORY, "no memory for the manifest of %d parameters", model->param_count);
    size_t held = 0;
    for (int i = 0; i < model->param_count; i++) {
        const struct model_param *p = &model->params[i];
        if (!checkpoint_holds(model, p->frozen))
            continue;
        params[held] = (struct manifest_param){.name = p->name, .shape_rank = p->shape_rank, .frozen = p->frozen};
        for (int k = 0; k < p->shape_rank; k++)
            params[held].shape[k] = p->shape[k];
        held++;
    }
    const struct manifest manifest = {
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
        .group_count = (size_t)model->group_count,
        .recipe_states = optimizer->states,
        .fact_count = moment->facts->count,
        .facts = facts,
        .param_count = held,
        .params = params,
        .file_count = file_count,
        .files = files,
    };
    int rc = write_manifest(folder, &manifest);
    free(params);
    return rc;
}

// Turns the folder into a checkpoint with one rename.
static int publish(struct store *store, uint64_t step, const char *folder)
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

static int save(struct store *store, struct comm *comm, struct stage *stage, const struct save_moment *moment)
{
    int world = comm_world(comm), rank = comm_rank(comm);
    char step[STEP_NAME_BYTES], name[STEP_NAME_BYTES + sizeof STORE_PARTIAL], folder[PATH_MAX];
    snprintf(name, sizeof name, "%s" STORE_PARTIAL, checkpoint_step_name(moment->step, step));
    TRY(file_join(store->path, name, folder));
    if (rank == 0 && mkdir(folder, 0777) != 0)
        return err_set(ERR_IO, "%s: cannot be created: %s", folder, strerror(errno));
    TRY(comm_barrier(comm));
    struct manifest_file mine = {0}, all[world];
    TRY(write_rank(comm, stage, folder, &mine));
    TRY(comm_all_gather_equal(comm, &mine, all, sizeof mine));
    if (rank == 0) {
        TRY(make_manifest(stage, moment, all, (size_t)world, folder));
        TRY(publish(store, moment->step, folder));
    }
    return comm_barrier(comm);
}

int checkpoint_save(struct store *store, struct comm *comm, struct stage *stage, const struct save_moment *moment)
{
    struct ledger *ledger = comm_ledger(comm);
    if (comm_rank(comm) == 0)
        store_await_removal(store);  // so that a store never holds more than one to remove
    comm_count_in(comm, NULL);
    int rc = save(store, comm, stage, moment);
    comm_count_in(comm, ledger);
    unsigned long long step = moment->step;
    if (rc != ERR_NONE)
        return rc == ERR_PEER
                   ? rc
                   : err_prefix(rc, "the checkpoint of step %llu was not saved; those before it are unchanged", step);
    if (comm_rank(comm) == 0) {
        TRY(store_settle(store));
        store_begin_removal(store);
    }
    return ERR_NONE;
}
