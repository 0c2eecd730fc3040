// SPDX-License-Identifier: Apache-2.0
// The verification that leaves a run as it is. Operations take digests of what each update writes
// (ref/optimizer/update_digest.h), and the decision of each step is noted. Unsharded Adam makes its steps where the run
// waits anyway, after its last step and before a checkpoint, and must have the same digests and decisions; there every
// bit of every state is compared as well (verify.c).
#include "ref/train/train_internal.h"

#include "base/array.h"
#include "base/digest.h"
#include "base/err.h"
#include "ref/optimizer/update_digest.h"

#include <stdlib.h>

static int oracle_micro_batch(void *context, uint64_t step, int micro, int rank, struct model_batch *out)
{
    struct train_rank *self = context;
    return train_batch(self->setting, step, micro, rank, (uint16_t *)(uintptr_t)self->oracle_tokens.tokens, out);
}

// The padded elements of the largest bucket of any part.
static int largest_bucket(struct train_rank *rank, size_t *out)
{
    const struct layout *layout = &rank->stage.layout;
    int world = comm_world(rank->comm);
    size_t largest = 1, all[world];
    for (int i = 0; i < layout->bucket_count; i++)
        if (layout->buckets[i].padded_count > largest)
            largest = layout->buckets[i].padded_count;
    *out = largest;
    if (!rank->part)
        return ERR_NONE;
    TRY(comm_all_gather_equal(rank->comm, &largest, all, sizeof largest));
    for (int i = 0; i < world; i++)
        *out = all[i] > *out ? all[i] : *out;
    return ERR_NONE;
}

int verify_open(struct train_rank *rank)
{
    TRY(largest_bucket(rank, &rank->full_elements));
    rank->full = malloc(rank->full_elements * sizeof(float));
    rank->expected = malloc(rank->full_elements * sizeof(float));
    if (!rank->full || !rank->expected)
        return err_set(ERR_MEMORY, "no memory to collect %zu elements", rank->full_elements);
    if (rank->setting->verify == TRAIN_VERIFY)
        TRY(update_digests_open(rank->tier, rank->stage.layout.trainable_count, &rank->stage.optimizer.digests));
    if (!rank->setting->verify || rank->rank != 0)
        return ERR_NONE;
    const struct model *model = rank->setting->model;
    rank->oracle_tokens.tokens =
        malloc((rank->setting->config->micro_batch * (model->sequence_length + 1) + 1) * sizeof(uint16_t));
    if (!rank->oracle_tokens.tokens)
        return err_set(ERR_MEMORY, "no memory for a micro-batch of tokens");
    const struct oracle_setting setting = {
        .model = model,
        .config = rank->setting->config,
        .world = train_data_ranks(rank->setting),
        .seed = rank->setting->seed,
        .reduces_each_micro_step = rank->stage.operations->reduces_each_micro_step,
        .batch = oracle_micro_batch,
        .batch_context = rank,
        .accelerator = rank->setting->accelerator,
        .device = rank->setting->device,
    };
    return oracle_open(&setting, &rank->oracle);
}

void verify_close(struct train_rank *rank)
{
    oracle_close(rank->oracle);
    update_digests_close(rank->stage.optimizer.digests);
    rank->stage.optimizer.digests = NULL;
    free(rank->noted);
    free((void *)(uintptr_t)rank->oracle_tokens.tokens);
    free(rank->full);
    free(rank->expected);
}

// A step as this rank made it.
struct noted_step {
    struct oracle_decision made;
    uint64_t t;
};

int verify_note(struct train_rank *rank, const struct oracle_decision *made)
{
    TRY(array_grow(&rank->noted, &rank->noted_capacity, rank->noted_count, sizeof *rank->noted, "steps"));
    rank->noted[rank->noted_count++] = (struct noted_step){*made, rank->stage.optimizer.step};
    return ERR_NONE;
}

int verify_resumed(struct train_rank *rank, uint64_t step, bool applied, double loss)
{
    struct train_difference difference = {0};
    comm_count_in(rank->comm, NULL);
    if (rank->rank == 0) {
        struct oracle_decision made, expected;
        TRY(oracle_step(rank->oracle, step, &expected));
        made = expected;  // a checkpoint does not say what the norm was
        made.applied = applied;
        made.loss = loss;
        made.scale = scaler_scale(&rank->stage.optimizer.scaler);
        verify_decision(rank, &made, &expected, &difference);
    }
    TRY(verify_states(rank, &difference));
    TRY(verify_agree(rank, step, &difference));
    comm_count_in(rank->comm, &rank->ledger);
    rank->verified_step = step;
    if (rank->stage.optimizer.digests)
        update_digests_forget(rank->stage.optimizer.digests, rank->stage.optimizer.step);
    return ERR_NONE;
}

static const char *const names[UPDATE_DIGEST_COUNT] = {
    [DIGEST_MASTER] = "parameter",
    [DIGEST_EXP_AVG] = "exp_avg",
    [DIGEST_EXP_AVG_SQ] = "exp_avg_sq",
    [DIGEST_PARAMETER] = "copy",
};

struct comparison {
    uint64_t t;
    struct train_difference *difference;
};

// Compares the digest of one state of this rank's shard with that of `values`, the whole bucket.
static void compare_digest(const struct train_rank *rank, const struct train_bucket *b, enum update_digest_of of,
                           const void *values, size_t element_bytes, const struct comparison *c)
{
    const struct optimizer *o = &rank->stage.optimizer;
    const struct bucket *bucket = &rank->stage.layout.buckets[b->index];
    size_t begin = bucket_shard_begin(bucket, o->placements[b->index].shard);
    uint64_t expected = update_digest_expect(o, b->index, (const char *)values + begin * element_bytes, element_bytes);
    uint64_t actual = update_digest_read(o->digests, c->t, b->index).of[of];
    if (expected == actual || c->difference->found)
        return;
    *c->difference = (struct train_difference){.found = true,
                                               .digest = true,
                                               .rank = rank->rank,
                                               .expected_bits = expected,
                                               .actual_bits = actual,
                                               .bits = 64};
    snprintf(c->difference->state, sizeof c->difference->state, "%s", names[of]);
    snprintf(c->difference->tensor, sizeof c->difference->tensor, "%s",
             rank->setting->model->params[b->pieces[0].slice.param].name);
}

// The same for rank->expected, in the dtype in which updates write it.
static void compare_rounded(struct train_rank *rank, const struct train_bucket *b, enum update_digest_of of,
                            const struct comparison *c)
{
    enum dtype dtype = update_digest_dtype(rank->setting->config, of);
    const void *rounded = rank->expected;
    if (dtype != DTYPE_FP32) {
        dtype_narrow(dtype, rank->expected, rank->full, b->count);
        rounded = rank->full;
    }
    compare_digest(rank, b, of, rounded, dtype_bytes(dtype), c);
}

// Rank 0 sends unsharded Adam's tensors of a bucket; the ranks that have it compare digests of their shards.
static int compare_bucket(struct train_rank *rank, const struct train_bucket *b, void *context)
{
    const struct train_setting *setting = rank->setting;
    for (int state = 0; state < STATE_COUNT && !b->frozen; state++) {
        if (rank->rank == 0)
            verify_lay_out(rank, b, state, sizeof(float));
        TRY(comm_broadcast(rank->comm, rank->expected, b->count * sizeof(float), 0));
        if (!b->mine || (state == STATE_EXP_AVG_SQ && rank->stage.layout.buckets[b->index].whole))
            continue;
        compare_rounded(rank, b, (enum update_digest_of)state, context);
        // Updated parameters are the rounded master.
        if (state == STATE_PARAMETER && !placement_is_shared(setting->config, &rank->stage.placements[b->index]))
            compare_rounded(rank, b, DIGEST_PARAMETER, context);
    }
    return ERR_NONE;
}

static int compare_step(struct train_rank *rank, uint64_t step, const struct noted_step *noted)
{
    struct train_difference difference = {0};
    struct oracle_decision expected;
    if (rank->rank == 0)
        TRY(oracle_step(rank->oracle, step, &expected));
    TRY(comm_broadcast(rank->comm, &expected, sizeof expected, 0));
    verify_decision(rank, &noted->made, &expected, &difference);
    struct comparison comparison = {noted->t, &difference};
    if (expected.applied)
        TRY(train_each_bucket(rank, compare_bucket, &comparison));
    return verify_agree(rank, step, &difference);
}

int verify_catch_up(struct train_rank *rank)
{
    const struct train_setting *setting = rank->setting;
    uint64_t first = rank->verified_step + 1;
    comm_count_in(rank->comm, NULL);
    for (size_t i = 0; i < rank->noted_count && !rank->difference.found; i++) {
        TRY(compare_step(rank, first + i, &rank->noted[i]));
        rank->verified_step++;
        if (rank->rank != 0)
            continue;
        rank->result->verified_steps++;
        if (setting->compared)
            setting->compared(setting->progress_context, rank->verified_step, setting->steps);
    }
    if (!rank->difference.found && rank->noted_count > 0) {
        struct train_difference difference = {0};
        TRY(verify_states(rank, &difference));
        TRY(verify_agree(rank, rank->verified_step, &difference));
    }
    comm_count_in(rank->comm, &rank->ledger);
    update_digests_forget(rank->stage.optimizer.digests, rank->stage.optimizer.step);
    rank->noted_count = 0;
    return ERR_NONE;
}

void verify_digest(const struct train_rank *rank, char digest[FILE_DIGEST_BYTES])
{
    const struct model *model = rank->setting->model;
    XXH3_state_t *hash = XXH3_createState();
    if (!hash)
        return;
    XXH3_128bits_reset(hash);
    for (int state = 0; state < STATE_COUNT; state++)
        for (int param = 0; param < model->param_count; param++) {
            const struct oracle_states states = oracle_states(rank->oracle, param);
            const float *const tensors[] = {[STATE_PARAMETER] = states.parameter,
                                            [STATE_EXP_AVG] = states.exp_avg,
                                            [STATE_EXP_AVG_SQ] = states.exp_avg_sq};
            if (!model->params[param].frozen)
                XXH3_128bits_update(hash, tensors[state], model->params[param].count * sizeof(float));
        }
    digest_text(XXH3_128bits_digest(hash), digest);
    XXH3_freeState(hash);
}
