// SPDX-License-Identifier: Apache-2.0
// The section "zerogauge", which DeepSpeed does not know, except its placement keys (config_offload.c).
#include "ref/config/config_doc.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <stdio.h>
#include <string.h>

static const char MESH_KEY[] = "zerogauge.mesh";

static int resolve_recipe(const struct config_doc *doc, struct config *out)
{
    const char *name = config_doc_string(doc, "zerogauge.recipe", recipe_name(recipe_at(0)));
    if (!recipe_find(name)) {
        char shown[TEXT_MESSAGE_BYTES], names[512] = "";
        size_t used = 0;
        for (int i = 0; recipe_at(i) && used < sizeof names; i++)
            used +=
                (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", recipe_name(recipe_at(i)));
        return config_doc_fail(doc, "zerogauge.recipe", "is %s, expected one of %s",
                               json_message(shown, config_doc_given(doc, "zerogauge.recipe")), names);
    }
    snprintf(out->recipe, sizeof out->recipe, "%s", name);
    return ERR_NONE;
}

static int resolve_partitioning(struct config_doc *doc, struct config *out)
{
    static const char KEY[] = "zerogauge.partitioning";
    bool broadcast = strcmp(config_doc_string(doc, KEY, "bandwidth_centric"), "owner_broadcast") == 0;
    out->partitioning = broadcast ? PARTITION_OWNER_BROADCAST : PARTITION_BANDWIDTH_CENTRIC;
    if (out->stage == 3)
        return ERR_NONE;
    config_doc_ignore(doc, KEY);
    if (broadcast)
        return config_doc_fail(doc, KEY,
                               "is \"owner_broadcast\" and zero_optimization.stage is %d, expected stage 3: "
                               "only stage 3 partitions parameters",
                               out->stage);
    return ERR_NONE;
}

static int resolve_reduction_group(const struct config_doc *doc, struct config *out)
{
    static const char KEY[] = "zerogauge.reduction_group";
    size_t ranks = (size_t)config_data_ranks(doc);
    out->reduction_group = config_doc_size(doc, KEY, 0);
    if (out->reduction_group > 0 && ranks % out->reduction_group != 0)
        return config_doc_fail(doc, KEY,
                               "is %zu, expected a divisor of the %zu ranks of data parallelism: the ranks of a host",
                               out->reduction_group, ranks);
    return ERR_NONE;
}

static int resolve_lora(const struct config_doc *doc, struct config *out)
{
    const char *text = config_doc_string(doc, "zerogauge.lora", "");
    if (strlen(text) >= sizeof out->lora)
        return config_doc_fail(doc, "zerogauge.lora", "has %zu characters, expected at most %zu", strlen(text),
                               sizeof out->lora - 1);
    strcpy(out->lora, text);
    return ERR_NONE;
}

// DeepSpeed's MiCS names the ranks of a shard group; as there, other stages ignore the key. 0: not given.
static int resolve_mics(struct config_doc *doc, const struct config *config, int *shard)
{
    static const char KEY[] = "zero_optimization.mics_shard_size";
    int64_t given = config_doc_whole(doc, KEY, -1);
    *shard = 0;
    if (config->stage != 3)
        config_doc_ignore(doc, KEY);
    else if (given > 0 && doc->options->world % given != 0)
        return config_doc_fail(doc, KEY, "is %lld, expected a divisor of the world size %d", (long long)given,
                               doc->options->world);
    else if (given > 0)
        *shard = (int)given;
    return ERR_NONE;
}

int config_data_ranks(const struct config_doc *doc)
{
    struct mesh mesh;
    const char *text = config_doc_string(doc, MESH_KEY, NULL);
    int world = doc->options->world;
    bool given = text && mesh_parse(text, &mesh) == ERR_NONE && mesh_world(&mesh) == world;
    int ranks = given ? world / mesh_parts(&mesh) : world, sharing = doc->options->sequence_ranks;
    return sharing > 1 && ranks >= sharing ? ranks / sharing : ranks;
}

struct mesh config_mesh(const struct config *config, int world)
{
    return config->mesh.shard > 0 ? config->mesh : (struct mesh){1, world, 1, 1, 1};
}

static int check_mesh(const struct config_doc *doc, const char *key, const struct config *config)
{
    const struct mesh *mesh = &config->mesh;
    if (mesh->replicate > 1 && mesh->shard % mesh->expert != 0 && config->stage > 0)
        return config_doc_fail(
            doc, key,
            "has expert=%d beside replicate=%d and shard=%d, expected a divisor of the shard group's "
            "ranks: every replica has all experts",
            mesh->expert, mesh->replicate, mesh->shard);
    if (mesh->expert > 1 && config->reduction_group > 0)
        return config_doc_fail(doc, "zerogauge.reduction_group",
                               "is %zu beside a mesh with expert=%d, expected one of them: a mesh sums in its own "
                               "groups",
                               config->reduction_group, mesh->expert);
    if (mesh->pipeline > 1 && config->stage > 1 && !doc->options->plans)
        return config_doc_fail(doc, key,
                               "has pipeline=%d and zero_optimization.stage is %d, expected stage 0 or 1: stage %d "
                               "reduces the gradients of every micro-batch by itself, and a pipeline accumulates those "
                               "of all its micro-batches before it reduces them",
                               mesh->pipeline, config->stage, config->stage);
    if (config->stage == 0 && mesh->shard > 1)
        return config_doc_fail(doc, key,
                               "has shard=%d and zero_optimization.stage is 0, which partitions nothing: "
                               "expected shard=1, or stage 1, 2 or 3",
                               mesh->shard);
    if (mesh->replicate > 1 && config->reduction_group > 0)
        return config_doc_fail(doc, "zerogauge.reduction_group",
                               "is %zu beside a mesh with replicate=%d, expected one of them: a mesh sums in its own "
                               "groups",
                               config->reduction_group, mesh->replicate);
    bool kept = config->accumulation_dtype == config->precision || config->accumulation_dtype == DTYPE_FP32;
    // A group of one rounds nothing.
    bool alone = mesh->shard == 1 || mesh->shard == mesh->expert;
    if (mesh->replicate > 1 && alone && !kept)
        return config_doc_fail(doc, "data_types.grad_accum_dtype",
                               "is \"%s\", expected \"%s\" or \"fp32\" with shard=%d%s",
                               dtype_name(config->accumulation_dtype), dtype_name(config->precision), mesh->shard,
                               mesh->shard > 1 ? " and as many ranks that share the experts" : "");
    return ERR_NONE;
}

// Stage 0 is data parallelism over all ranks that train a part of the model, whatever their mesh.
static int resolve_mesh(struct config_doc *doc, struct config *out)
{
    static const char MICS[] = "zero_optimization.mics_shard_size";
    const char *text = config_doc_string(doc, MESH_KEY, NULL);
    int shard, world = doc->options->world;
    TRY(resolve_mics(doc, out, &shard));
    out->mesh = (struct mesh){shard > 0 ? world / shard : 1, shard > 0 ? shard : world, 1, 1, 1};
    if (text) {
        char message[ERR_MESSAGE_BYTES];
        int code = mesh_parse(text, &out->mesh);
        code = code == ERR_NONE ? mesh_check_world(&out->mesh, world) : code;
        err_keep(message);
        if (code != ERR_NONE)
            return config_doc_fail(doc, MESH_KEY, "%s", message);
        if (shard > 0 && shard != out->mesh.shard)
            return config_doc_fail(doc, MICS, "is %d and zerogauge.mesh has shard=%d, expected the same", shard,
                                   out->mesh.shard);
    }
    if (text || shard > 0)
        TRY(check_mesh(doc, text ? MESH_KEY : MICS, out));
    TRY(pipeline_kind_parse(config_doc_string(doc, "zerogauge.pipeline_schedule", "1f1b"), &out->pipeline_schedule));
    if (out->stage == 0)
        out->mesh =
            (struct mesh){1, world / mesh_parts(&out->mesh), out->mesh.tensor, out->mesh.pipeline, out->mesh.expert};
    return ERR_NONE;
}

// ZeRO++'s hpZ. DeepSpeed's 0 and 1 turn it off.
static int resolve_secondary(struct config_doc *doc, struct config *out)
{
    static const char KEY[] = "zero_optimization.zero_hpz_partition_size";
    int64_t ranks = config_doc_whole(doc, KEY, 1);
    out->secondary_ranks = 0;
    if (out->stage != 3)
        config_doc_ignore(doc, KEY);
    if (out->stage != 3 || ranks <= 1)
        return ERR_NONE;
    if (out->mesh.shard % ranks != 0)
        return config_doc_fail(doc, KEY, "is %lld, expected a divisor of the %d ranks of a shard group",
                               (long long)ranks, out->mesh.shard);
    if (out->mesh.expert > 1)
        return config_doc_fail(doc, KEY, "is %lld beside a mesh with expert=%d, expected one of them to be 1",
                               (long long)ranks, out->mesh.expert);
    if (out->partitioning == PARTITION_OWNER_BROADCAST)
        return config_doc_fail(doc, KEY,
                               "is %lld and zerogauge.partitioning is \"owner_broadcast\", expected "
                               "\"bandwidth_centric\": a secondary partition consists of shards",
                               (long long)ranks);
    out->secondary_ranks = (int)ranks;
    return ERR_NONE;
}

// ZeRO++'s quantized communication excludes these.
static int check_quantized(const struct config_doc *doc, const char *key, const struct config *config)
{
    const struct mesh *mesh = &config->mesh;
    if (config->stage != 3)
        return config_doc_fail(doc, key,
                               "is true and zero_optimization.stage is %d, expected stage 3: ZeRO++ quantizes what "
                               "stage 3 gathers and reduces",
                               config->stage);
    if (config->partitioning == PARTITION_OWNER_BROADCAST)
        return config_doc_fail(doc, key,
                               "is true and zerogauge.partitioning is \"owner_broadcast\", expected "
                               "\"bandwidth_centric\": every rank quantizes its own shard");
    if (mesh->tensor > 1 || mesh->expert > 1)
        return config_doc_fail(doc, key,
                               "is true beside a mesh with tensor=%d and expert=%d, expected both to be 1: blocks of "
                               "quantization cut whole parameters",
                               mesh->tensor, mesh->expert);
    return ERR_NONE;
}

// qgZ's nodes are groups of the sum, or of the second copy, which is kept in a node.
static int resolve_nodes(const struct config_doc *doc, const char *key, struct config *out)
{
    if (out->mesh.replicate > 1)
        return config_doc_fail(doc, key,
                               "is true beside a mesh with replicate=%d, expected 1: its hops are a way of reducing "
                               "over all ranks",
                               out->mesh.replicate);
    out->node_ranks = out->reduction_group > 0   ? (int)out->reduction_group
                      : out->secondary_ranks > 1 ? out->secondary_ranks
                                                 : out->mesh.shard;
    return ERR_NONE;
}

// E4M3 has one scale a parameter, and no blocks.
static int resolve_e4m3(struct config_doc *doc, struct config *out)
{
    static const char FORMAT[] = "zerogauge.quantized_weights_format", BLOCK[] = "zerogauge.quantization_block";
    out->e4m3_weights = strcmp(config_doc_string(doc, FORMAT, "int8"), "e4m3") == 0;
    if (!out->e4m3_weights)
        return ERR_NONE;
    if (!out->quantized_weights || out->quantized_gradients)
        return config_doc_fail(doc, FORMAT,
                               "is \"e4m3\", expected it with zero_optimization.zero_quantized_weights and without "
                               "zero_quantized_gradients");
    if (config_doc_given(doc, BLOCK))
        return config_doc_fail(doc, BLOCK, "is given beside %s \"e4m3\", which has one scale a parameter: leave it out",
                               FORMAT);
    return ERR_NONE;
}

static int resolve_quantized(struct config_doc *doc, struct config *out)
{
    static const char WEIGHTS[] = "zero_optimization.zero_quantized_weights",
                      GRADIENTS[] = "zero_optimization.zero_quantized_gradients",
                      BLOCK[] = "zerogauge.quantization_block";
    out->quantized_weights = config_doc_flag(doc, WEIGHTS, false);
    out->quantized_gradients = config_doc_flag(doc, GRADIENTS, false);
    out->quantization_block = 0;
    out->node_ranks = 0;
    TRY(resolve_e4m3(doc, out));
    if (!out->quantized_weights && !out->quantized_gradients) {
        config_doc_ignore(doc, BLOCK);
        return ERR_NONE;
    }
    out->quantization_block = out->e4m3_weights ? 1 : config_doc_size(doc, BLOCK, 2048);
    if (!out->e4m3_weights && out->quantization_block % QUANTIZE_BLOCK_MIN != 0)
        return config_doc_fail(doc, BLOCK, "is %zu, expected a multiple of %d", out->quantization_block,
                               QUANTIZE_BLOCK_MIN);
    TRY(check_quantized(doc, out->quantized_weights ? WEIGHTS : GRADIENTS, out));
    return out->quantized_gradients ? resolve_nodes(doc, GRADIENTS, out) : ERR_NONE;
}

// One rank owns each matrix that Muon updates, or each slice of tensor parallelism: these cut them further.
static int check_muon(const struct config_doc *doc, const struct config *config)
{
    const char *key = config->secondary_ranks > 1   ? "zero_optimization.zero_hpz_partition_size"
                      : config->quantized_weights   ? "zero_optimization.zero_quantized_weights"
                      : config->quantized_gradients ? "zero_optimization.zero_quantized_gradients"
                                                    : NULL;
    if (!config->uses_muon || !key)
        return ERR_NONE;
    return config_doc_fail(doc, key,
                           "cuts the matrices that optimizer.type \"Muon\" updates whole, each on one rank; expected "
                           "this key not to be given");
}

int config_resolve_own(struct config_doc *doc, struct config *out)
{
    TRY(resolve_recipe(doc, out));
    bool torch = strcmp(config_doc_string(doc, "zerogauge.clip_form", "deepspeed"), "torch") == 0;
    out->clip_form = torch ? CLIP_TORCH : CLIP_DEEPSPEED;
    out->tiling_factor = config_doc_size(doc, "zerogauge.tiling.factor", 1);
    out->sequence_parallel = config_doc_flag(doc, "zerogauge.sequence_parallel", false);
    TRY(resolve_lora(doc, out));
    TRY(resolve_reduction_group(doc, out));
    TRY(resolve_mesh(doc, out));
    TRY(resolve_partitioning(doc, out));
    TRY(resolve_secondary(doc, out));
    TRY(resolve_quantized(doc, out));
    return check_muon(doc, out);
}
