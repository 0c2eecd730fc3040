// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_degrees.h"

#include "base/err.h"
#include "plan/planner/plan_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int plan_mesh_read(const char *text, char out[MESH_TEXT_BYTES], int *context)
{
    static const char key[] = "context=";
    const char *at = strstr(text, key);
    char rest[256], *end = "";
    struct mesh mesh;
    long value = at ? strtol(at + strlen(key), &end, 10) : 1;
    int before = (int)(at ? at - text : (long)strlen(text));
    if ((*end && *end != ',') || value < 1 || value > MESH_DEGREE_MAX || end == (at ? at + strlen(key) : NULL))
        return err_set(ERR_USAGE, "mesh %.64s: expected context=C, a whole number from 1 on", text);
    before -= at && !*end && before > 0;  // the comma
    snprintf(rest, sizeof rest, "%.*s%s", before, text, *end ? end + 1 : "");
    *context = (int)value;
    out[0] = '\0';
    if (!*rest && at && !*end)
        return ERR_NONE;
    int code = mesh_parse(rest, &mesh);
    if (code != ERR_NONE) {
        char message[ERR_MESSAGE_BYTES];
        err_keep(message);
        return err_set(code, "%s; a plan also has context=C", message);
    }
    mesh.shard *= *context;
    mesh_text(&mesh, out);
    if (at)
        return mesh_parse(out, &mesh);  // for its limits
    if (strlen(text) < MESH_TEXT_BYTES)
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
    snprintf(out, PLAN_MESH_BYTES, context > 1 ? "%s,context=%d" : "%s", mesh_text(&mesh, text), context);
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
