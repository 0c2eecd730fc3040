// SPDX-License-Identifier: Apache-2.0
#include "ref/formula/formula_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static struct terms terms_of(const struct stage *stage, int rank)
{
    const struct config *config = stage->setting.config;
    return (struct terms){
        .stage = stage,
        .config = config,
        .p = dtype_bytes(config->precision),
        .g = dtype_bytes(config->accumulation_dtype),
        .c = dtype_bytes(config->communication_dtype),
        .m = dtype_bytes(config->moment_dtype),
        .k = dtype_bytes(config->master_dtype),
        .ranks = (uint64_t)stage->groups.mesh.shard,
        .micro_steps = config->accumulation,
        .rank = mesh_index_in(&stage->groups.mesh, MESH_SHARD, rank),
        .experts = (uint64_t)stage->groups.mesh.expert,
        .expert_ranks = (uint64_t)(stage->groups.mesh.shard / stage->groups.mesh.expert),
        .expert_rank = mesh_index_in(&stage->groups.mesh, MESH_SHARD, rank) / stage->groups.mesh.expert,
        .replicas = (uint64_t)stage->groups.mesh.replicate,
        .secondary_ranks = (uint64_t)config->secondary_ranks,
        .replica = (uint64_t)mesh_index_in(&stage->groups.mesh, MESH_REPLICATE, rank),
        .shard_group = stage->groups.mesh.replicate > 1 || stage->setting.parts_comm ? GROUP_SHARD : GROUP_WORLD,
    };
}

void formula_send(struct formula_moved *moved, enum ledger_group group, enum ledger_operation operation, uint64_t bytes)
{
    moved->bytes[LANE_COLLECTIVE][operation] += bytes;
    moved->group_bytes[group] += bytes;
}

static const struct {
    formula_hold *hold;
    formula_move *move;
} formulas[] = {
    {ddp_hold, ddp_move},
    {zero1_hold, zero1_move},
    {zero2_hold, zero2_move},
    {zero3_hold, zero3_move},
};

// Slices of whole updates, which are made as often as those of others.
static void move_slices(const struct terms *t, struct formula *f)
{
    for (int i = 0; i < t->stage->layout.trainable_count; i++) {
        bool speculative = placement_is_speculative(t->config, &t->stage->placements[i]);
        uint64_t bytes =
            own_elements(t, &t->stage->layout.buckets[i]) > 0 ? optimizer_sliced_bytes(&t->stage->optimizer, i) : 0;
        formula_send(speculative ? &f->step : &f->applied, GROUP_TENSOR, OPERATION_ALL_GATHER, bytes);
        formula_send(&f->redone, GROUP_TENSOR, OPERATION_ALL_GATHER, speculative ? bytes : 0);
    }
}

void formula_of(const struct stage *stage, int rank, uint64_t activation_bytes, uint64_t report_bytes,
                struct formula *out)
{
    assert(rank >= 0 && rank < comm_world(stage->setting.comm));
    *out = (struct formula){0};
    struct terms t = terms_of(stage, rank);
    int number = stage->setting.config->stage;
    for (int i = 0; i < stage->layout.bucket_count; i++)
        formulas[number].hold(&t, &stage->layout.buckets[i], &stage->placements[i], out);
    formula_hold_staging(stage, out);
    out->held_bytes[TIER_DEVICE][KIND_ACTIVATION] = activation_bytes;
    formulas[number].move(&t, out);
    formula_move_norm(&t, out);
    formula_move_ahead(&t, out);
    formula_move_tokens(&t, out);
    move_slices(&t, out);
    formula_send(&out->step, GROUP_WORLD, OPERATION_ALL_GATHER, report_bytes);
}

// Appends "p Psi" or "(g + K) Psi/N" to a sum.
static void append_terms(char out[FORMULA_TEXT_BYTES], const char *const terms[], int count, const char *size)
{
    size_t used = strlen(out);
    const char *before = used > 0 ? " + " : "", *open = count > 1 ? "(" : "", *close = count > 1 ? ")" : "";
    for (int i = 0; i < count; i++, before = " + ", open = "")
        used += (size_t)snprintf(out + used, FORMULA_TEXT_BYTES - used, "%s%s%s", before, open, terms[i]);
    if (count > 0)
        snprintf(out + used, FORMULA_TEXT_BYTES - used, "%s %s", close, size);
}

const char *formula_memory_text(const struct config *config, enum ledger_tier tier, char out[FORMULA_TEXT_BYTES])
{
    bool offloads = config->offload_optimizer.tier != TIER_DEVICE;
    enum ledger_tier gradient_tier = offloads ? config->gradient_tier : TIER_DEVICE;
    // The first stage that partitions a state, and the tier of its shard.
    const struct {
        const char *name;
        int cut_from;
        enum ledger_tier shard_tier;
    } states[] = {
        {"p", 3, config->offload_param.tier},
        {"g", 2, gradient_tier},
        {"K", 1, config->offload_optimizer.tier},
    };
    const char *full[3], *shards[3];
    int full_count = 0, shard_count = 0;
    out[0] = '\0';
    if (offloads && config->offload_optimizer.ratio < 1)
        return out;
    for (int i = 0; i < 3; i++) {
        bool cut = config->stage >= states[i].cut_from;
        if (!cut && tier == TIER_DEVICE)
            full[full_count++] = states[i].name;
        // Stage 1 sends a shard of its full gradients to where the optimizer is.
        if (states[i].shard_tier == tier && (cut || tier != TIER_DEVICE))
            shards[shard_count++] = states[i].name;
    }
    const char *second = "p";
    append_terms(out, full, full_count, config->mesh.expert > 1 ? "Psi_r" : "Psi");
    append_terms(out, shards, shard_count, config->mesh.replicate > 1 ? "Psi/S" : "Psi/N");
    append_terms(out, &second, tier == TIER_DEVICE && config->secondary_ranks > 1, "Psi/P");
    return out;
}

const char *formula_traffic_text(const struct stage *stage)
{
    // By stage 3 and hpZ, without replicas and with them, and the same with expert parallelism.
    static const char *const texts[4][3] = {
        {"2 Psi (N-1)/N elements", "3 Psi (N-1)/N elements", "2 Psi (N-1)/N + Psi (P-1)/P elements"},
        {"2 Psi (S-1)/S + 2 Psi/S (R-1)/R elements", "3 Psi (S-1)/S + 2 Psi/S (R-1)/R elements",
         "2 Psi (S-1)/S + Psi (P-1)/P + 2 Psi/S (R-1)/R elements"},
        {"2 Psi_d (N-1)/N + 2 Psi_e (1/E-1/N) elements", "3 Psi_d (N-1)/N + 3 Psi_e (1/E-1/N) elements", NULL},
        {"2 Psi_d (S-1)/S + 2 Psi_e (1/E-1/S) + 2 Psi/S (R-1)/R elements",
         "3 Psi_d (S-1)/S + 3 Psi_e (1/E-1/S) + 2 Psi/S (R-1)/R elements", NULL},
    };
    // With qwZ, qgZ or both, and the same with hpZ: an element takes a byte in a gather, and half a byte in both hops
    // of a sum together. The last row has replicas, which qgZ excludes.
    static const char *const quantized[4][2] = {
        {"(2 + c) Psi (N-1)/N bytes and scales", "(1 + c) Psi (N-1)/N + p Psi (P-1)/P bytes and scales"},
        {"(2 p + 1/2) Psi (N-1)/N bytes and scales", "(p + 1/2) Psi (N-1)/N + p Psi (P-1)/P bytes and scales"},
        {"5/2 Psi (N-1)/N bytes and scales", "3/2 Psi (N-1)/N + p Psi (P-1)/P bytes and scales"},
        {"(2 + c) Psi (S-1)/S + 2 c Psi/S (R-1)/R bytes and scales",
         "(1 + c) Psi (S-1)/S + p Psi (P-1)/P + 2 c Psi/S (R-1)/R bytes and scales"},
    };
    const struct config *config = stage->setting.config;
    bool weights = config->quantized_weights, gradients = config->quantized_gradients;
    if (weights || gradients)
        return quantized[stage->groups.mesh.replicate > 1 ? 3 : weights + 2 * gradients - 1]
                        [config->secondary_ranks > 1];
    return texts[2 * (stage->groups.mesh.expert > 1) + (stage->groups.mesh.replicate > 1)]
                [(config->stage == 3) + (config->secondary_ranks > 1)];
}
