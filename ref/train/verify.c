// SPDX-License-Identifier: Apache-2.0
// The comparison with unsharded Adam after every step: every bit of every tensor on every rank.
#include "ref/train/train_internal.h"

#include "base/digest.h"
#include "base/err.h"

#include <stdlib.h>
#include <string.h>

static int oracle_micro_batch(void *context, uint64_t step, int micro, int rank, struct model_batch *out)
{
    struct train_rank *self = context;
    return train_batch(self->setting, step, micro, rank, (uint16_t *)(uintptr_t)self->oracle_tokens.tokens, out);
}

int verify_open(struct train_rank *rank)
{
    const struct layout *layout = &rank->stage.layout;
    size_t largest = 1;
    for (int i = 0; i < layout->bucket_count; i++)
        if (layout->buckets[i].padded_count > largest)
            largest = layout->buckets[i].padded_count;
    rank->full = malloc(largest * sizeof(float));
    rank->expected = malloc(largest * sizeof(float));
    rank->other = malloc(largest * sizeof(float));
    if (!rank->full || !rank->expected || !rank->other)
        return err_set(ERR_MEMORY, "no memory to collect %zu elements", largest);
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
        .world = rank->setting->world,
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
    free((void *)(uintptr_t)rank->oracle_tokens.tokens);
    free(rank->full);
    free(rank->expected);
    free(rank->other);
}

static uint64_t bits_at(const void *array, size_t element_bytes, size_t i)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)array + i * element_bytes, element_bytes);
    return bits;
}

// Compares a full bucket, tensor by tensor, and keeps the first difference in the model's order.
static void compare(struct train_rank *rank, int bucket, const char *state, const void *expected, const void *actual,
                    size_t element_bytes, int *first_param, struct train_difference *difference)
{
    const struct layout *layout = &rank->stage.layout;
    const struct bucket *b = &layout->buckets[bucket];
    for (int i = 0; i < b->param_count; i++) {
        int param = b->params[i];
        size_t count = rank->model->params[param].count;
        size_t at = layout->offset_of[param] * element_bytes;
        const char *e = (const char *)expected + at, *a = (const char *)actual + at;
        if ((difference->found && param >= *first_param) || memcmp(e, a, count * element_bytes) == 0)
            continue;
        size_t k = 0;
        while (bits_at(e, element_bytes, k) == bits_at(a, element_bytes, k))
            k++;
        *first_param = param;
        *difference = (struct train_difference){
            .found = true,
            .rank = rank->rank,
            .element = k,
            .expected_bits = bits_at(e, element_bytes, k),
            .actual_bits = bits_at(a, element_bytes, k),
            .bits = (int)(8 * element_bytes),
        };
        snprintf(difference->state, sizeof difference->state, "%s", state);
        snprintf(difference->tensor, sizeof difference->tensor, "%s", rank->model->params[param].name);
    }
}

// The oracle's tensors of one bucket, laid out as the bucket of a part is. state STATE_COUNT: in the model's dtype.
static void lay_out(const struct train_rank *rank, int bucket, int part, int state, size_t element_bytes, void *out)
{
    const struct layout *layout = &rank->stage.layout;
    const struct bucket *b = &layout->buckets[bucket];
    for (int i = 0; i < b->param_count; i++) {
        int param = b->params[i];
        const struct oracle_states states = oracle_states(rank->oracle, train_part_param(rank, part, param));
        const void *const tensors[] = {
            [STATE_PARAMETER] = states.parameter,
            [STATE_EXP_AVG] = states.exp_avg,
            [STATE_EXP_AVG_SQ] = states.exp_avg_sq,
            [STATE_COUNT] = states.model_params,
        };
        memcpy((char *)out + layout->offset_of[param] * element_bytes, tensors[state],
               rank->model->params[param].count * element_bytes);
    }
}

// Collective: what rank 0 expects of this rank's bucket. Without replicas and experts only rank 0 compares fp32 states.
static int expect(struct train_rank *rank, int bucket, int state, size_t element_bytes)
{
    const struct bucket *b = &rank->stage.layout.buckets[bucket];
    bool all = state == STATE_COUNT || rank->stage.replica_comm || b->expert;
    for (int part = 0; part < train_part_count(rank, b); part++) {
        void *room = part == train_part_own(rank, b) ? rank->expected : rank->other;
        if (rank->rank == 0)
            lay_out(rank, bucket, part, state, element_bytes, room);
        if (all)
            TRY(comm_broadcast(rank->comm, room, b->count * element_bytes, 0));
    }
    return ERR_NONE;
}

// Rank 0 collects and compares fp32 states, and so does the first rank of every replica and of every expert's ranks.
// Every rank compares its parameters in the model's dtype.
static int compare_bucket(struct train_rank *rank, int bucket, int *first_param, struct train_difference *difference)
{
    static const char *const names[] = {"parameter", "exp_avg", "exp_avg_sq"};
    const struct bucket *b = &rank->stage.layout.buckets[bucket];
    bool first = comm_rank(stage_exchange(&rank->stage, bucket)->comm) == 0;
    for (int state = 0; state < STATE_COUNT && !b->frozen; state++) {
        TRY(stage_collect(&rank->stage, bucket, (enum state)state, rank->full));
        TRY(expect(rank, bucket, state, sizeof(float)));
        if (first)
            compare(rank, bucket, names[state], rank->expected, rank->full, sizeof(float), first_param, difference);
    }
    size_t element_bytes = dtype_bytes(rank->setting->config->precision);
    TRY(stage_collect_model_params(&rank->stage, bucket, rank->full));
    TRY(expect(rank, bucket, STATE_COUNT, element_bytes));
    compare(rank, bucket, "copy", rank->expected, rank->full, element_bytes, first_param, difference);
    return ERR_NONE;
}

static void compare_outcome(struct train_rank *rank, bool applied, bool expected_applied, double loss,
                            double expected_loss, struct train_difference *difference)
{
    uint64_t bits, expected_bits;
    memcpy(&bits, &loss, sizeof bits);
    memcpy(&expected_bits, &expected_loss, sizeof expected_bits);
    if (applied != expected_applied)
        *difference = (struct train_difference){.found = true,
                                                .rank = rank->rank,
                                                .state = "applied",
                                                .expected_bits = expected_applied,
                                                .actual_bits = applied,
                                                .bits = 1};
    else if (bits != expected_bits)
        *difference = (struct train_difference){.found = true,
                                                .rank = rank->rank,
                                                .state = "loss",
                                                .expected_bits = expected_bits,
                                                .actual_bits = bits,
                                                .bits = 64};
}

int verify_step(struct train_rank *rank, uint64_t step, bool applied, double loss)
{
    struct comm *comm = rank->comm;
    struct train_difference difference = {0};
    TRY(executor_wait(rank->executor));
    comm_count_in(comm, NULL);
    if (rank->rank == 0) {
        bool expected_applied;
        double expected_loss;
        TRY(oracle_step(rank->oracle, step, &expected_applied, &expected_loss));
        compare_outcome(rank, applied, expected_applied, loss, expected_loss, &difference);
    }
    // Every rank takes part in every collective, even after a difference.
    struct train_difference tensors = {0};
    int first_param = 0;
    for (int i = 0; i < rank->stage.layout.bucket_count; i++)
        TRY(compare_bucket(rank, i, &first_param, &tensors));
    if (!difference.found)
        difference = tensors;
    difference.step = step;

    struct train_difference all[comm_world(comm)];
    TRY(comm_all_gather_equal(comm, &difference, all, sizeof difference));
    comm_count_in(comm, &rank->ledger);
    if (rank->rank != 0)
        return ERR_NONE;
    rank->result->verified_steps++;
    for (int i = 0; i < comm_world(comm) && !rank->result->difference.found; i++)
        if (all[i].found)
            rank->result->difference = all[i];
    return ERR_NONE;
}

// A whole model's states, for rank 0: one state of its trainable tensors in order.
struct whole_state {
    float *elements;   // null: another rank
    uint64_t *begins;  // by parameter
};

// Collective: rank 0 receives a bucket of every part.
static int collect_bucket(struct train_rank *rank, int bucket, enum state state, const struct whole_state *whole)
{
    const struct layout *layout = &rank->stage.layout;
    const struct bucket *b = &layout->buckets[bucket];
    TRY(stage_collect(&rank->stage, bucket, state, rank->full));
    for (int part = 0; part < train_part_count(rank, b); part++) {
        float *full = part == train_part_own(rank, b) ? rank->full : rank->other;
        if (b->expert)
            TRY(comm_broadcast(rank->comm, full, b->count * sizeof *full, part));
        for (int i = 0; whole->elements && i < b->param_count; i++) {
            int param = b->params[i];
            memcpy(whole->elements + whole->begins[train_part_param(rank, part, param)],
                   full + layout->offset_of[param], rank->model->params[param].count * sizeof *full);
        }
    }
    return ERR_NONE;
}

// Of the trainable tensors in the whole model's order: all parameters, then all exp_avg, then all exp_avg_sq.
int verify_digest(struct train_rank *rank, char digest[FILE_DIGEST_BYTES])
{
    const struct model *model = rank->setting->model;
    bool first = rank->rank == 0;
    uint64_t elements = 0, *begins = calloc((size_t)model->param_count + 1, sizeof *begins);
    for (int param = 0; begins && param < model->param_count; param++) {
        begins[param] = elements;
        elements += model->params[param].frozen ? 0 : model->params[param].count;
    }
    XXH3_state_t *hash = first ? XXH3_createState() : NULL;
    const struct whole_state whole = {first ? malloc((elements + 1) * sizeof(float)) : NULL, begins};
    int rc = ERR_NONE;
    if (!begins || (first && (!hash || !whole.elements)))
        rc = err_set(ERR_MEMORY, "no memory for a digest of %llu elements", (unsigned long long)elements);
    if (hash)
        XXH3_128bits_reset(hash);
    for (int state = 0; rc == ERR_NONE && state < STATE_COUNT; state++) {
        for (int i = 0; rc == ERR_NONE && i < rank->stage.layout.trainable_count; i++)
            rc = collect_bucket(rank, i, (enum state)state, &whole);
        if (rc == ERR_NONE && hash)
            XXH3_128bits_update(hash, whole.elements, elements * sizeof *whole.elements);
    }
    if (hash)
        digest_text(XXH3_128bits_digest(hash), digest);
    XXH3_freeState(hash);
    free(whole.elements);
    free(begins);
    return rc;
}
