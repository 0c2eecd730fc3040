// SPDX-License-Identifier: Apache-2.0
// What a layer's pass exchanges with other ranks while it computes: sums over the ranks that cut the layer, and tokens
// on their way to experts and back. The pass itself makes and counts these collectives. A dry run computes nothing, and
// issues as many of the same size behind the pass.
#include "ref/train/train_internal.h"

#include "base/err.h"

// One kind of collective in one pass: `count` calls, which send `bytes` together.
struct collectives {
    const char *name;
    struct comm *comm;
    enum ledger_operation operation;
    uint64_t count, bytes;
};
enum { SUM_SCATTERS, SUM_GATHERS, TOKENS, EXCHANGE_KINDS };

// A sum over T ranks of `elements` floats sends 2 (T-1)/T of them: a slice to each other rank, and the own slice of the
// sum to all. With sequence parallelism most sums end at the slice, and others' slices are gathered where they are
// needed. The loss over a cut vocabulary gathers twice.
static void add_sums(const struct train_rank *rank, int layer, enum pass pass, struct collectives out[])
{
    const struct config *config = rank->setting->config;
    struct model_exchange e = model_exchange(rank->model, layer, config->micro_batch, pass == PASS_BACKWARD,
                                             config->activation_checkpointing);
    size_t ranks = (size_t)rank->mesh.tensor, index = (size_t)rank->part->place.tensor;
    for (int kind = 0; kind < MODEL_SUM_KINDS; kind++) {
        struct model_sum sum = e.sums[kind];
        uint64_t own = sum.elements / ranks + (index < sum.elements % ranks);
        out[SUM_SCATTERS].count += sum.count;
        out[SUM_SCATTERS].bytes += sizeof(float) * sum.count * (sum.elements - own);
        out[SUM_GATHERS].bytes += sizeof(float) * sum.count * (ranks - 1) * own;
    }
    out[SUM_GATHERS].count = out[SUM_SCATTERS].count + e.gathers + (e.gathered_elements > 0 ? 2 : 0);
    out[SUM_GATHERS].bytes += sizeof(float) * (ranks - 1) * (e.gathers * e.stream_elements + e.gathered_elements);
    out[SUM_SCATTERS].count += e.scatters;
    out[SUM_SCATTERS].bytes += sizeof(float) * (ranks - 1) * e.scatters * e.stream_elements;
}

// Of the ranks that have all experts together; null: each has all.
static struct comm *token_comm(const struct train_rank *rank)
{
    return rank->token_comm ? rank->token_comm : rank->stage.groups.expert_comm;
}

// Two exchanges of tokens, and two more where forward is computed again.
static void add_tokens(const struct train_rank *rank, int layer, enum pass pass, struct collectives out[])
{
    const struct config *config = rank->setting->config;
    uint64_t others = (uint64_t)comm_world(token_comm(rank)) - 1,
             bytes = model_token_bytes(rank->model, layer, config->micro_batch);
    out[TOKENS].count = bytes == 0 ? 0 : pass == PASS_BACKWARD && config->activation_checkpointing ? 4 : 2;
    out[TOKENS].bytes = out[TOKENS].count * others * bytes;
}

static void exchange_of(const struct train_rank *rank, int layer, enum pass pass,
                        struct collectives out[EXCHANGE_KINDS])
{
    out[SUM_SCATTERS] = (struct collectives){"tensor all-to-all", rank->tensor_comm, OPERATION_ALL_TO_ALL, 0, 0};
    out[SUM_GATHERS] = (struct collectives){"tensor all-gather", rank->tensor_comm, OPERATION_ALL_GATHER, 0, 0};
    out[TOKENS] = (struct collectives){"token all-to-all", token_comm(rank), OPERATION_ALL_TO_ALL, 0, 0};
    if (rank->tensor_comm)
        add_sums(rank, layer, pass, out);
    if (token_comm(rank))
        add_tokens(rank, layer, pass, out);
}

bool train_exchanges(const struct train_rank *rank, int layer)
{
    struct collectives c[EXCHANGE_KINDS];
    exchange_of(rank, layer, PASS_BACKWARD, c);
    return rank->tensor_comm || c[TOKENS].bytes > 0;
}

// Tokens are in the formula of the stage (formula_move_tokens).
void train_exchange_formula(const struct train_rank *rank, struct formula *formula)
{
    for (int layer = 0; rank->tensor_comm && layer < rank->model->layer_count; layer++)
        for (enum pass pass = PASS_FORWARD; pass <= PASS_BACKWARD; pass++) {
            struct collectives c[EXCHANGE_KINDS];
            exchange_of(rank, layer, pass, c);
            for (int i = SUM_SCATTERS; i <= SUM_GATHERS; i++)
                formula_send(&formula->step, GROUP_TENSOR, c[i].operation,
                             rank->setting->config->accumulation * c[i].bytes);
        }
}

static void count(const void *arguments)
{
    const struct collectives *c = arguments;
    comm_count(c->comm, PURPOSE_OTHER, c->operation, c->count, c->bytes);
}

int train_exchange_dry(struct train_rank *rank, int layer, enum pass pass, int micro)
{
    struct collectives c[EXCHANGE_KINDS];
    if (!executor_is_dry(rank->executor))
        return ERR_NONE;
    exchange_of(rank, layer, pass, c);
    const struct executor_span span = {model_run_memory(rank->runs[micro % rank->run_count]), 1, EXECUTOR_READ_WRITE};
    for (int i = 0; i < EXCHANGE_KINDS; i++)
        if (c[i].count > 0)
            TRY(executor_issue(rank->executor, &(struct executor_operation){.name = c[i].name,
                                                                            .lane = LANE_COLLECTIVE,
                                                                            .arguments = &c[i],
                                                                            .arguments_bytes = sizeof c[i],
                                                                            .spans = &span,
                                                                            .span_count = 1,
                                                                            .bytes = c[i].bytes,
                                                                            .count = count,
                                                                            .times = c[i].count,
                                                                            .work_bytes = c[i].bytes,
                                                                            .ranks = comm_world(c[i].comm),
                                                                            .stride = comm_stride(c[i].comm)}));
    return ERR_NONE;
}
