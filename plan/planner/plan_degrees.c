// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_degrees.h"

#include "base/err.h"
#include "plan/planner/plan_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Takes NAME=N out of a mesh's degrees; *value stays where there is none.
static int take(char *text, const char *name, int *value)
{
    size_t length = strlen(name);
    char *at = text, *end;
    while (at && (strncmp(at, name, length) != 0 || at[length] != '='))
        at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
    if (!at)
        return ERR_NONE;
    long number = strtol(at + length + 1, &end, 10);
    if ((*end && (*end != ',' || !end[1])) || number < 1 || number > MESH_DEGREE_MAX || end == at + length + 1)
        return err_set(ERR_USAGE, "mesh %.64s: expected %s=N, a whole number from 1 on", at, name);
    *value = (int)number;
    if (*end)
        memmove(at, end + 1, strlen(end + 1) + 1);
    else
        at[-(at > text)] = '\0';
    return ERR_NONE;
}

// Megatron-LM's expert_model_parallel_size is then of tensor and data parallelism together.
static int spread_experts(struct mesh *mesh, int expert_tensor)
{
    if (expert_tensor != 1 && expert_tensor != mesh->tensor)
        return err_set(ERR_USAGE, "mesh expert_tensor=%d: expected 1, or %d as tensor", expert_tensor, mesh->tensor);
    if (expert_tensor < mesh->tensor && mesh->expert % mesh->tensor != 0)
        return err_set(ERR_USAGE, "mesh expert=%d: expected a multiple of tensor=%d, which expert_tensor=1 divides",
                       mesh->expert, mesh->tensor);
    mesh->expert /= expert_tensor < mesh->tensor ? mesh->tensor : 1;
    return ERR_NONE;
}

int plan_mesh_read(const char *text, char out[MESH_TEXT_BYTES], struct framework_choice *choice)
{
    char rest[256];
    struct mesh mesh;
    int context = 0, expert_tensor = 0;
    snprintf(rest, sizeof rest, "%s", text);
    TRY(take(rest, "context", &context));
    TRY(take(rest, "expert_tensor", &expert_tensor));
    choice->context = context > 0 ? context : 1;
    out[0] = '\0';
    if (!*rest && expert_tensor == 0 && context > 0)
        return ERR_NONE;
    int code = mesh_parse(rest, &mesh);
    if (code != ERR_NONE) {
        char message[ERR_MESSAGE_BYTES];
        err_keep(message);
        return err_set(code, "%s; a plan also has context=C and expert_tensor=1", message);
    }
    if (expert_tensor > 0)
        TRY(spread_experts(&mesh, expert_tensor));
    choice->whole_experts = expert_tensor > 0 && expert_tensor < mesh.tensor;
    mesh.shard *= choice->context;
    mesh_text(&mesh, out);
    if (context > 0)
        return mesh_parse(out, &mesh);  // for its limits
    if (expert_tensor == 0 && strlen(text) < MESH_TEXT_BYTES)
        strcpy(out, text);  // for messages
    return ERR_NONE;
}

static int context_of(const struct framework_choice *choice)
{
    return choice->context > 1 ? choice->context : 1;
}

const char *plan_mesh_text(const struct framework_choice *choice, struct mesh mesh, char out[PLAN_MESH_BYTES])
{
    char text[MESH_TEXT_BYTES];
    int context = context_of(choice);
    mesh.shard /= context;
    mesh.expert *= choice->whole_experts ? mesh.tensor : 1;
    int used = snprintf(out, PLAN_MESH_BYTES, context > 1 ? "%s,context=%d" : "%s", mesh_text(&mesh, text), context);
    snprintf(out + used, PLAN_MESH_BYTES - (size_t)used, "%s", choice->whole_experts ? ",expert_tensor=1" : "");
    return out;
}

int plan_degrees_parts(const struct framework_choice *choice)
{
    return choice->interleave > 1 ? choice->interleave : 1;
}

static int check_interleave(const struct config *config, size_t blocks, int parts)
{
    size_t stages = (size_t)config->mesh.pipeline;
    size_t slots = blocks % stages == 0 ? blocks : blocks + 2;  // as in decoder_stage_blocks
    if (stages == 1 || config->pipeline_schedule != PIPELINE_1F1B)
        return err_set(ERR_USAGE, "--interleave %d: expected pipeline=P in the mesh, and the schedule 1f1b", parts);
    if (config->accumulation < stages)
        return err_set(ERR_USAGE, "--interleave %d: expected gradient_accumulation_steps from %zu stages on, is %zu",
                       parts, stages, config->accumulation);
    return slots / stages >= (size_t)parts
               ? ERR_NONE
               : err_set(ERR_USAGE, "--interleave %d: a stage has only %zu blocks", parts, slots / stages);
}

int plan_degrees_check(const struct framework_choice *choice, const struct config *config, int world,
                       const struct model *model)
{
    struct transformer t = {0};
    int context = context_of(choice), parts = plan_degrees_parts(choice), sharing = config_mesh(config, world).shard;
    if (config->mesh.pipeline > 1 && config->stage > 1 && framework_of(choice, config)->copies_gradients)
        return err_set(ERR_USAGE,
                       "stage %d within pipeline=%d: DeepSpeed has stages 0 and 1 there; expected one of them",
                       config->stage, config->mesh.pipeline);
    if (sharing % context != 0)
        return err_set(ERR_USAGE, "mesh context=%d does not divide the %d ranks that share states: choose --world",
                       context, sharing);
    (void)plan_model_transformer(model, &t);
    if (context > 1 && t.context_ranks != (size_t)context)
        return err_set(ERR_USAGE,
                       "mesh context=%d: expected a Llama or a config.json without state spaces, and sequences of a "
                       "multiple of %d tokens, because each rank has two parts of a causal sequence",
                       context, 2 * context);
    if (choice->whole_experts && (t.experts < 2 || t.expert_ranks == 0 || !config->sequence_parallel))
        return err_set(ERR_USAGE, "mesh expert_tensor=1: expected a mixture of experts of a config.json, and "
                                  "zerogauge.sequence_parallel, which gives each rank tokens of its own");
    return parts > 1 ? check_interleave(config, t.blocks, parts) : ERR_NONE;
}

double plan_degrees_bubble(const struct framework_choice *choice, const struct pipeline_schedule *schedule)
{
    int others = schedule->stage_count - 1, parts = plan_degrees_parts(choice);
    return parts > 1 ? (double)others / (parts * schedule->micro_count + others) : pipeline_bubble(schedule);
}

// Megatron-LM's stage p warms up with 2 (P-p-1) + (V-1) P parts of micro-batches, and then has one more.
double plan_degrees_in_flight(const struct framework_choice *choice, const struct pipeline_schedule *schedule,
                              int stage)
{
    int parts = plan_degrees_parts(choice), stages = schedule->stage_count;
    int most = 2 * (stages - stage - 1) + (parts - 1) * stages + 1, all = parts * schedule->micro_count;
    return parts > 1 ? (double)(most < all ? most : all) / parts : pipeline_in_flight(schedule, stage);
}

// A stage sends activations and gradients of V parts, the first one no gradients of its first part.
double plan_degrees_borders(const struct framework_choice *choice, const struct pipeline_schedule *schedule, int stage)
{
    int ends = stage == 0 || stage == schedule->stage_count - 1;
    return (double)(2 * plan_degrees_parts(choice) - ends) / (2 - ends);
}

// Forward and recomputation pass a ring of keys and values, backward one of them and one of their gradients.
uint64_t plan_degrees_ring_bytes(const struct framework_choice *choice, const struct config *config,
                                 const struct transformer *t)
{
    double share = choice->checkpointed_share > 0 ? choice->checkpointed_share : 1;
    double passes = 3 + (config->activation_checkpointing ? share : 0), others = context_of(choice) - 1;
    size_t tokens = config->micro_batch * config->accumulation * t->sequence_length;
    return (uint64_t)(passes * others * (double)(tokens * t->blocks * (t->key_width + t->value_width))) *
           dtype_bytes(config->precision);
}
