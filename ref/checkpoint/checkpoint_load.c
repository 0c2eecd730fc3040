// SPDX-License-Identifier: Apache-2.0
// Loading a checkpoint into a stage, however each partitions the tensors.
#include "ref/checkpoint/checkpoint.h"

#include "base/err.h"
#include "base/safe_text.h"
#include "ref/model/part.h"
#include "ref/optimizer/lr.h"

#include <stdlib.h>
#include <string.h>

bool checkpoint_holds(const struct model *model, bool frozen)
{
    return !(model->lora && frozen);
}

const struct model *checkpoint_model(const struct stage *stage)
{
    const struct model *model = stage->setting.model;
    return model->part ? model->part->whole : model;
}

bool checkpoint_next_run(const struct stage *stage, int bucket, struct checkpoint_walk *walk,
                         struct checkpoint_run *out)
{
    const struct model *model = stage->setting.model;
    while (walk->at == walk->end) {
        if (!bucket_next_piece(&stage->layout, model, bucket, stage_shard(stage, bucket), &walk->next, &walk->piece))
            return false;
        walk->at = walk->piece.param_index;
        walk->end = walk->at + walk->piece.count;
    }
    int param = walk->piece.param;
    struct model_slice slice = model->part ? model->part->slices[param] : model_slice_whole(model, param);
    out->shard_index = walk->piece.shard_index + walk->at - walk->piece.param_index;
    out->param = &checkpoint_model(stage)->params[slice.param];
    out->counted = slice.counted;
    return model_slice_next(&slice, walk->end, &walk->at, &out->first, &out->count);
}

int checkpoint_check_model(const struct checkpoint *c, const struct model *model)
{
    const struct manifest *m = checkpoint_manifest(c);
    const char *path = checkpoint_path(c);
    char shown[TEXT_MESSAGE_BYTES];
    if (strcmp(m->model, model->name) != 0)
        return err_set(ERR_USAGE, "%s: is a checkpoint of the model %s, not of %s", path,
                       text_message(shown, m->model, 60), model->name);
    size_t held = 0;
    for (int i = 0; i < model->param_count; i++)
        held += checkpoint_holds(model, model->params[i].frozen);
    if (m->param_count != held || m->group_count != (size_t)model->group_count)
        return err_set(ERR_USAGE, "%s: has %zu parameters in %zu groups, expected %zu in %d of the model %s", path,
                       m->param_count, m->group_count, held, model->group_count, model->name);
    for (int i = 0; i < model->param_count; i++) {
        const struct model_param *p = &model->params[i];
        size_t at;
        if (!checkpoint_holds(model, p->frozen))
            continue;
        if (!checkpoint_find(c, p->name, &at))
            return err_set(ERR_USAGE, "%s: has no parameter %s", path, p->name);
        const struct manifest_param *stored = &m->params[at];
        bool equal = stored->shape_rank == p->shape_rank && stored->frozen == p->frozen;
        for (int k = 0; equal && k < p->shape_rank; k++)
            equal = stored->shape[k] == p->shape[k];
        if (!equal)
            return err_set(ERR_USAGE, "%s: its parameter %s differs from the model's in shape or in being frozen", path,
                           p->name);
    }
    return ERR_NONE;
}

// Writes the parameters that the model uses while an update waits, rounded to its dtype.
static int write_seen(struct stage *stage, int bucket, const float *shard)
{
    size_t count = bucket_shard_real(&stage->layout.buckets[bucket], stage_shard(stage, bucket));
    void *model_params = malloc(count * sizeof *shard + 1);
    if (!model_params)
        return err_set(ERR_MEMORY, "no memory for a shard of %zu elements", count);
    dtype_narrow(stage->setting.config->precision, shard, model_params, count);
    int rc = stage_write_model_params(stage, bucket, model_params);
    free(model_params);
    return rc;
}

// Reads straight into the state's memory where that holds fp32, else into `shard`.
static int load_state(struct checkpoint_reader *reader, struct stage *stage, int bucket, int state, float *shard)
{
    const struct checkpoint *c = reader->checkpoint;
    float *there = state == MANIFEST_STATE_SEEN ? NULL : stage_shard_memory(stage, bucket, (enum state)state);
    if (there)
        shard = there;
    struct checkpoint_run run;
    for (struct checkpoint_walk walk = {0}; checkpoint_next_run(stage, bucket, &walk, &run);) {
        size_t param;
        if (!checkpoint_find(c, run.param->name, &param))
            return err_set(ERR_INTERNAL, "%s: has no parameter %s", checkpoint_path(c), run.param->name);
        TRY(checkpoint_reader_read(reader, state, param, run.first, run.count, shard + run.shard_index));
    }
    return state == MANIFEST_STATE_SEEN ? write_seen(stage, bucket, shard)
                                        : stage_write_shard(stage, bucket, (enum state)state, shard);
}

static int load_shards(struct checkpoint_reader *reader, struct stage *stage)
{
    const struct checkpoint *c = reader->checkpoint;
    size_t largest = 1;
    for (int i = 0; i < stage->layout.bucket_count; i++)
        if (stage->layout.buckets[i].shard_elements > largest)
            largest = stage->layout.buckets[i].shard_elements;
    float *shard = malloc(largest * sizeof *shard);
    if (!shard)
        return err_set(ERR_MEMORY, "no memory for a shard of %zu elements", largest);
    int rc = ERR_NONE;
    for (int i = 0; i < stage->layout.bucket_count && rc == ERR_NONE; i++) {
        bool frozen = stage->layout.buckets[i].frozen;
        if (!checkpoint_holds(stage->setting.model, frozen))
            continue;
        int states = manifest_state_count(frozen, checkpoint_manifest(c)->waiting);
        for (int state = 0; state < states && rc == ERR_NONE; state++)
            rc = load_state(reader, stage, i, state, shard);
    }
    free(shard);
    return rc;
}

// Reads every byte of all files. The ranks' shards have every element of every parameter; what no shard has, the
// files' headers, or a file without digests of its blocks, is checked by one rank.
static int read_all(struct checkpoint_reader *reader, struct comm *comm, struct stage *stage)
{
    size_t count = checkpoint_manifest(reader->checkpoint)->file_count;
    for (size_t i = (size_t)comm_rank(comm); i < count; i += (size_t)comm_world(comm))
        TRY(checkpoint_reader_begin(reader, i));
    TRY(comm_barrier(comm));
    TRY(load_shards(reader, stage));
    // No rank goes on before every digest has been checked.
    return comm_barrier(comm);
}

static int load(const struct checkpoint *c, struct comm *comm, struct stage *stage)
{
    const struct manifest *m = checkpoint_manifest(c);
    struct checkpoint_reader reader;
    TRY(checkpoint_check_model(c, checkpoint_model(stage)));
    TRY(checkpoint_reader_open(c, &reader));
    int rc = read_all(&reader, comm, stage);
    checkpoint_reader_close(&reader);
    TRY(rc);
    TRY(stage_regather(stage));
    struct optimizer *optimizer = &stage->optimizer;
    optimizer->step = m->applied;
    optimizer->skipped = m->skipped;
    optimizer->waiting = m->waiting;
    if (m->applied > 0)
        optimizer->lr = lr_at(stage->setting.config, m->applied);
    optimizer->scaler.scale = m->scaler.scale;
    optimizer->scaler.iteration = m->scaler.iteration;
    optimizer->scaler.last_overflow = m->scaler.last_overflow;
    optimizer->scaler.hysteresis = m->scaler.hysteresis;
    memcpy(optimizer->states, m->recipe_states, m->group_count * sizeof *m->recipe_states);
    return ERR_NONE;
}

int checkpoint_load(const struct checkpoint *c, struct comm *comm, struct stage *stage)
{
    struct ledger *ledger = comm_ledger(comm);
    comm_count_in(comm, NULL);
    int rc = load(c, comm, stage);
    comm_count_in(comm, ledger);
    return rc;
}
