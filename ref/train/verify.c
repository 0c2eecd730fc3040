// SPDX-License-Identifier: Apache-2.0
// The comparison with unsharded Adam after every step: every bit of every tensor on every rank.
#include "ref/train/train_internal.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

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
    free((void *)(uintptr_t)rank->oracle_tokens.tokens);
    free(rank->full);
    free(rank->expected);
}

static uint64_t bits_at(const void *array, size_t element_bytes, size_t i)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)array + i * element_bytes, element_bytes);
    return bits;
}

// The first difference of the tensors in the whole model's order.
struct tensor_difference {
    int first_param;
    struct train_difference difference;
};

// Compares a full bucket, tensor by tensor, and keeps the first difference.
static void compare(struct train_rank *rank, const struct train_bucket *b, const char *state, size_t element_bytes,
                    struct tensor_difference *first)
{
    for (int i = 0; i < b->piece_count; i++) {
        const struct model_slice *slice = &b->pieces[i].slice;
        size_t at = b->pieces[i].offset * element_bytes, count = model_slice_count(slice);
        const char *e = (const char *)rank->expected + at, *a = (const char *)rank->full + at;
        if ((first->difference.found && slice->param >= first->first_param) || memcmp(e, a, count * element_bytes) == 0)
            continue;
        size_t k = 0;
        while (bits_at(e, element_bytes, k) == bits_at(a, element_bytes, k))
            k++;
        first->first_param = slice->param;
        first->difference = (struct train_difference){
            .found = true,
            .rank = rank->rank,
            .element = model_slice_index(slice, k),
            .expected_bits = bits_at(e, element_bytes, k),
            .actual_bits = bits_at(a, element_bytes, k),
            .bits = (int)(8 * element_bytes),
        };
        snprintf(first->difference.state, sizeof first->difference.state, "%s", state);
        snprintf(first->difference.tensor, sizeof first->difference.tensor, "%s",
                 rank->setting->model->params[slice->param].name);
    }
}

// The oracle's tensors of one bucket, laid out as the bucket is. state STATE_COUNT: in the model's dtype.
static void lay_out(const struct train_rank *rank, const struct train_bucket *b, int state, size_t element_bytes)
{
    for (int i = 0; i < b->piece_count; i++) {
        const struct train_piece *piece = &b->pieces[i];
        const struct oracle_states states = oracle_states(rank->oracle, piece->slice.param);
        const void *const tensors[] = {
            [STATE_PARAMETER] = states.parameter,
            [STATE_EXP_AVG] = states.exp_avg,
            [STATE_EXP_AVG_SQ] = states.exp_avg_sq,
            [STATE_COUNT] = states.model_params,
        };
        model_slice_take(&piece->slice, tensors[state], element_bytes,
                         (char *)rank->expected + piece->offset * element_bytes);
    }
}

// Rank 0 collects and compares fp32 states, and so does the first rank of every replica, part and expert. Every rank
// compares its parameters in the model's dtype with those that rank 0 sends.
static int compare_bucket(struct train_rank *rank, const struct train_bucket *b, void *context)
{
    static const char *const names[] = {"parameter", "exp_avg", "exp_avg_sq"};
    bool sends = rank->stage.replica_comm || rank->part;
    bool first = b->mine && comm_rank(stage_exchange(&rank->stage, b->index)->comm) == 0 && (sends || rank->rank == 0);
    for (int state = 0; state < STATE_COUNT && !b->frozen; state++) {
        if (b->mine)
            TRY(stage_collect(&rank->stage, b->index, (enum state)state, rank->full));
        if (rank->rank == 0)
            lay_out(rank, b, state, sizeof(float));
        if (sends)
            TRY(comm_broadcast(rank->comm, rank->expected, b->count * sizeof(float), 0));
        if (first)
            compare(rank, b, names[state], sizeof(float), context);
    }
    size_t element_bytes = dtype_bytes(rank->setting->config->precision);
    if (b->mine)
        TRY(stage_collect_model_params(&rank->stage, b->index, rank->full));
    if (rank->rank == 0)
        lay_out(rank, b, STATE_COUNT, element_bytes);
    TRY(comm_broadcast(rank->comm, rank->expected, b->count * element_bytes, 0));
    if (b->mine)
        compare(rank, b, "copy", element_bytes, context);
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
    TRY(train_settle(rank));
    comm_count_in(comm, NULL);
    if (rank->rank == 0) {
        bool expected_applied;
        double expected_loss;
        TRY(oracle_step(rank->oracle, step, &expected_applied, &expected_loss));
        compare_outcome(rank, applied, expected_applied, loss, expected_loss, &difference);
    }
    // Every rank takes part in every collective, even after a difference.
    struct tensor_difference tensors = {0};
    TRY(train_each_bucket(rank, compare_bucket, &tensors));
    if (!difference.found)
        difference = tensors.difference;
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
