// SPDX-License-Identifier: Apache-2.0
#include "ref/checkpoint/shard_file.h"

#include "base/err.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
            snprintf(f->keys[f->count], SHARD_KEY_BYTES, "%s/%s[%zu:%zu]", manifest_state_name(state), run.param->name,
                     run.first, run.first + run.count);
            f->tensors[f->count] = (struct safetensors_tensor){
                .name = f->keys[f->count], .type = TENSOR_FP32, .shape_rank = 1, .shape = {run.count}};
            f->count++;
        }
}

// Tensors and bytes of data of this rank's file.
static size_t count_tensors(const struct stage *stage, bool waiting, uint64_t *data_bytes)
{
    size_t count = 0;
    struct checkpoint_run run;
    *data_bytes = 0;
    for (int i = 0; i < stage->layout.bucket_count; i++) {
        size_t states = (size_t)manifest_state_count(stage->layout.buckets[i].frozen, waiting);
        for (struct checkpoint_walk walk = {0}; writes(stage, i) && next_run(stage, i, &walk, &run);) {
            count += states;
            *data_bytes += states * run.count * sizeof(float);
        }
    }
    return count;
}

uint64_t checkpoint_copy_bytes(const struct stage *stage)
{
    uint64_t data_bytes;
    count_tensors(stage, stage->setting.config->delayed_update_start_step > 0, &data_bytes);
    return data_bytes;
}

int shard_file_open(struct stage *stage, struct shard_file *f)
{
    const struct layout *layout = &stage->layout;
    *f = (struct shard_file){.stage = stage};
    size_t room = count_tensors(stage, stage->optimizer.waiting, &f->data_bytes) + 1;  // one for the digests of blocks
    size_t largest = 1;
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

void shard_file_close(struct shard_file *f)
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

static int put(struct shard_file *f, const float *values, size_t count)
{
    if (f->writer)
        return safetensors_write(f->writer, values, count * sizeof *values);
    memcpy(f->copy + f->copied, values, count * sizeof *values);
    f->copied += count;
    return ERR_NONE;
}

static int put_bucket(struct shard_file *f, int bucket)
{
    struct stage *stage = f->stage;
    struct checkpoint_run run;
    int own = stage_shard(stage, bucket);
    if (bucket_shard_real(&stage->layout.buckets[bucket], own) == 0)
        return ERR_NONE;
    for (int state = 0; state < state_count(stage, bucket); state++) {
        const float *values =
            state == MANIFEST_STATE_SEEN ? NULL : stage_shard_memory(stage, bucket, (enum state)state);
        if (!values)
            TRY(read_state(f, bucket, state));
        values = values ? values : f->shard;
        for (struct checkpoint_walk walk = {0}; next_run(stage, bucket, &walk, &run);)
            TRY(put(f, values + run.shard_index, run.count));
    }
    return ERR_NONE;
}

static int put_states(struct shard_file *f)
{
    for (int i = 0; i < f->stage->layout.bucket_count; i++)
        if (writes(f->stage, i))
            TRY(put_bucket(f, i));
    return ERR_NONE;
}

int shard_file_copy(struct shard_file *f, float *copy)
{
    assert(f->data_bytes <= checkpoint_copy_bytes(f->stage));
    f->copy = copy;
    TRY(put_states(f));
    free(f->shard);
    free(f->model_params);
    f->shard = f->model_params = NULL;
    return ERR_NONE;
}

int shard_file_write(struct shard_file *f, const char *path, struct manifest_file *out)
{
    TRY(safetensors_create_in_blocks(path, f->tensors, f->count, &f->writer));
    int rc = f->copy ? put(f, f->copy, f->copied) : put_states(f);
    if (rc == ERR_NONE)
        rc = safetensors_write_blocks(f->writer, out->blocks_digest);
    if (rc == ERR_NONE)
        return safetensors_finish(f->writer, &out->bytes, out->digest);
    safetensors_abandon(f->writer);
    return rc;
}
