// SPDX-License-Identifier: Apache-2.0
// The comparison with unsharded Adam: every bit of every tensor on every rank. It reads states, for which it waits
// until an update is complete: after every step (TRAIN_VERIFY_EACH), or where a run waits anyway, after its last step
// and before a checkpoint (verify_run.c).
#include "ref/train/train_internal.h"

#include "base/err.h"

#include <string.h>

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

void verify_lay_out(const struct train_rank *rank, const struct train_bucket *b, int state, size_t element_bytes)
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
    bool sends = rank->stage.groups.replica_comm || rank->part;
    bool first = b->mine && comm_rank(stage_exchange(&rank->stage, b->index)->comm) == 0 && (sends || rank->rank == 0);
    for (int state = 0; state < STATE_COUNT && !b->frozen; state++) {
        if (b->mine)
            TRY(stage_collect(&rank->stage, b->index, (enum state)state, rank->full));
        if (rank->rank == 0)
            verify_lay_out(rank, b, state, sizeof(float));
        if (sends)
            TRY(comm_broadcast(rank->comm, rank->expected, b->count * sizeof(float), 0));
        if (first)
            compare(rank, b, names[state], sizeof(float), context);
    }
    size_t element_bytes = dtype_bytes(rank->setting->config->precision);
    if (b->mine)
        TRY(stage_collect_model_params(&rank->stage, b->index, rank->full));
    if (rank->rank == 0)
        verify_lay_out(rank, b, STATE_COUNT, element_bytes);
    TRY(comm_broadcast(rank->comm, rank->expected, b->count * element_bytes, 0));
    if (b->mine)
        compare(rank, b, "copy", element_bytes, context);
    return ERR_NONE;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void verify_decision(const struct train_rank *rank, const struct oracle_decision *made,
                     const struct oracle_decision *expected, struct train_difference *out)
{
    const struct {
        const char *name;
        uint64_t expected_bits, actual_bits;
        int bits;
    } facts[] = {
        {"applied", expected->applied, made->applied, 1},
        {"loss", bits_of(expected->loss), bits_of(made->loss), 64},
        {"norm", bits_of(expected->norm), bits_of(made->norm), 64},
        {"coefficient", f32_bits(expected->coefficient), f32_bits(made->coefficient), 32},
        {"scale", bits_of(expected->scale), bits_of(made->scale), 64},
    };
    for (size_t i = 0; i < sizeof facts / sizeof facts[0] && !out->found; i++) {
        if (facts[i].expected_bits == facts[i].actual_bits)
            continue;
        *out = (struct train_difference){.found = true,
                                         .rank = rank->rank,
                                         .expected_bits = facts[i].expected_bits,
                                         .actual_bits = facts[i].actual_bits,
                                         .bits = facts[i].bits};
        snprintf(out->state, sizeof out->state, "%s", facts[i].name);
    }
}

struct oracle_decision verify_made(const struct train_rank *rank, bool applied, double loss)
{
    const struct optimizer *o = &rank->stage.optimizer;
    return (struct oracle_decision){
        .applied = applied,
        .loss = loss,
        .norm = applied ? o->norm : 0,
        .coefficient = applied ? o->coefficient : 0,
        .scale = scaler_scale(&o->scaler),
    };
}

int verify_states(struct train_rank *rank, struct train_difference *out)
{
    struct tensor_difference tensors = {0};
    TRY(train_each_bucket(rank, compare_bucket, &tensors));
    if (!out->found)
        *out = tensors.difference;
    return ERR_NONE;
}

int verify_agree(struct train_rank *rank, uint64_t step, const struct train_difference *mine)
{
    struct train_difference own = *mine, all[comm_world(rank->comm)];
    own.step = step;
    TRY(comm_all_gather_equal(rank->comm, &own, all, sizeof own));
    for (int i = 0; i < comm_world(rank->comm) && !rank->difference.found; i++)
        if (all[i].found)
            rank->difference = all[i];
    if (rank->rank == 0)
        rank->result->difference = rank->difference;
    return ERR_NONE;
}

int verify_step(struct train_rank *rank, uint64_t step, const struct oracle_decision *made)
{
    struct train_difference difference = {0};
    TRY(train_settle(rank));
    comm_count_in(rank->comm, NULL);
    if (rank->rank == 0) {
        struct oracle_decision expected;
        TRY(oracle_step(rank->oracle, step, &expected));
        verify_decision(rank, made, &expected, &difference);
        rank->result->verified_steps++;
    }
    // Every rank takes part in every collective, even after a difference.
    TRY(verify_states(rank, &difference));
    TRY(verify_agree(rank, step, &difference));
    comm_count_in(rank->comm, &rank->ledger);
    return ERR_NONE;
}
