// SPDX-License-Identifier: Apache-2.0
// The manifest of a checkpoint as JSON; manifest_read.c reads it back.
#include "ref/checkpoint/manifest.h"

#include "base/digest.h"
#include "base/err.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const state_names[MANIFEST_STATE_COUNT] = {"param", "exp_avg", "exp_avg_sq", "seen_param"};

const char *manifest_state_name(int state)
{
    assert(state >= 0 && state < MANIFEST_STATE_COUNT);
    return state_names[state];
}

const char *checkpoint_rank_name(size_t rank, char out[RANK_NAME_BYTES])
{
    snprintf(out, RANK_NAME_BYTES, "rank-%zu.safetensors", rank);
    return out;
}

int manifest_state_count(bool frozen, bool waiting)
{
    if (frozen)
        return 1;
    return waiting ? MANIFEST_STATE_COUNT : MANIFEST_STATE_SEEN;
}

bool manifest_has_blocks(const struct manifest *manifest)
{
    return manifest->version > 1;
}

const char *manifest_made_with(const struct manifest *manifest, const char *key)
{
    for (size_t i = 0; i < manifest->fact_count; i++)
        if (strcmp(manifest->facts[i].key, key) == 0)
            return manifest->facts[i].value;
    return NULL;
}

static json_t *real_json(double value)
{
    char text[40];
    snprintf(text, sizeof text, "%a", value);
    return json_string(text);
}

static json_t *count_json(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *states_json(bool frozen, bool waiting)
{
    json_t *states = json_array();
    for (int i = 0; i < manifest_state_count(frozen, waiting); i++)
        json_array_append_new(states, json_string(state_names[i]));
    return states;
}

static json_t *params_json(const struct manifest *manifest)
{
    json_t *params = json_array();
    for (size_t i = 0; i < manifest->param_count; i++) {
        const struct manifest_param *param = &manifest->params[i];
        json_t *shape = json_array();
        for (int k = 0; k < param->shape_rank; k++)
            json_array_append_new(shape, count_json(param->shape[k]));
        json_t *states = states_json(param->frozen, manifest->waiting);
        json_array_append_new(params, json_pack("{s:s, s:o, s:b, s:o}", "name", param->name, "shape", shape, "frozen",
                                                param->frozen, "states", states));
    }
    return params;
}

static json_t *facts_json(const struct manifest *manifest)
{
    json_t *facts = json_object();
    for (size_t i = 0; i < manifest->fact_count; i++)
        json_object_set_new(facts, manifest->facts[i].key, json_string(manifest->facts[i].value));
    return facts;
}

static json_t *recipe_states_json(const struct manifest *manifest)
{
    json_t *states = json_array();
    for (size_t i = 0; i < manifest->group_count; i++) {
        const struct recipe_state *state = &manifest->recipe_states[i];
        json_array_append_new(states,
                              json_pack("{s:o, s:o, s:o, s:o, s:I}", "beta1_power",
                                        real_json((double)state->beta1_power), "beta2_power",
                                        real_json((double)state->beta2_power), "beta1", real_json((double)state->beta1),
                                        "beta2", real_json((double)state->beta2), "step", (json_int_t)state->step));
    }
    return states;
}

static json_t *files_json(const struct manifest *manifest)
{
    json_t *files = json_array();
    for (size_t i = 0; i < manifest->file_count; i++) {
        char name[RANK_NAME_BYTES];
        json_array_append_new(files,
                              json_pack("{s:s, s:I, s:s, s:s*}", "name", checkpoint_rank_name(i, name), "bytes",
                                        (json_int_t)manifest->files[i].bytes, "xxh3_128", manifest->files[i].digest,
                                        "blocks_xxh3_128",
                                        manifest_has_blocks(manifest) ? manifest->files[i].blocks_digest : NULL));
    }
    return files;
}

int manifest_digest(const json_t *root, char out[FILE_DIGEST_BYTES])
{
    json_t *rest = json_copy((json_t *)(uintptr_t)root);
    json_object_del(rest, "digest");
    char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(rest);
    if (!text)
        return err_set(ERR_MEMORY, "no memory for a manifest");
    digest_text(XXH3_128bits(text, strlen(text)), out);
    free(text);
    return ERR_NONE;
}

int manifest_seal(json_t *root)
{
    char digest[FILE_DIGEST_BYTES];
    TRY(manifest_digest(root, digest));
    json_object_set_new(root, "digest", json_string(digest));
    return ERR_NONE;
}

int manifest_text(const struct manifest *manifest, char **out)
{
    assert(manifest->step > 0 && manifest->applied + manifest->skipped == manifest->step);
    const struct scaler *scaler = &manifest->scaler;
    json_t *root = json_pack(
        "{s:s, s:I, s:s, s:s, s:o, s:I, s:I, s:I, s:{s:b, s:o}, s:o, s:b, s:{s:o, s:I, s:I, s:I}, s:o, s:o}", "format",
        MANIFEST_FORMAT, "version", (json_int_t)manifest->version, "written_by", "zerogauge " ZG_VERSION, "model",
        manifest->model, "parameters", params_json(manifest), "step", (json_int_t)manifest->step, "applied",
        (json_int_t)manifest->applied, "skipped", (json_int_t)manifest->skipped, "last_step", "applied",
        manifest->last_applied, "loss", real_json(manifest->loss), "made_with", facts_json(manifest), "repeatable",
        manifest->repeatable, "loss_scaler", "scale", real_json(scaler->scale), "iteration",
        (json_int_t)scaler->iteration, "last_overflow", (json_int_t)scaler->last_overflow, "hysteresis",
        (json_int_t)scaler->hysteresis, "recipe_states", recipe_states_json(manifest), "files", files_json(manifest));
    int rc = root ? manifest_seal(root) : err_set(ERR_INTERNAL, "the manifest could not be made");
    if (rc == ERR_NONE && !(*out = json_dumps(root, JSON_INDENT(1))))
        rc = err_set(ERR_MEMORY, "no memory for a manifest");
    json_decref(root);
    return rc;
}

void manifest_close(struct manifest *manifest)
{
    json_decref(manifest->root);
    free(manifest->params);
    free(manifest->recipe_states);
    free(manifest->files);
    free(manifest->facts);
    *manifest = (struct manifest){0};
}
