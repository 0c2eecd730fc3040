// SPDX-License-Identifier: Apache-2.0
// A checkpoint's state as JSON, and the file with it.
#include "ref/model/export/states.h"

#include "base/err.h"
#include "base/safe_text.h"
#include "ref/model/names/model_find.h"
#include "ref/optimizer/lr.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The run's values of these facts (checkpoint_facts.c), which are text.
struct settings {
    struct config config;  // adam, scheduler and loss_scale only
    const char *precision;
};

static int unknown_fact(const struct checkpoint *checkpoint, const char *key)
{
    char shown[TEXT_MESSAGE_BYTES];
    const char *value = manifest_made_with(checkpoint_manifest(checkpoint), key);
    return err_set(ERR_USAGE, "%s: \"made_with.%s\" is \"%s\", which this version does not know",
                   checkpoint_path(checkpoint), key, text_message(shown, value ? value : "missing", 100));
}

static int read_scheduler(const char *text, struct config_scheduler *out)
{
    static const char *const names[] = {"none", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"};
    char name[32], form[8];
    if (strcmp(text, "none") == 0)
        return ERR_NONE;
    int parts = sscanf(text, "%31s lr %lf %lf ratio %lf %lf steps %" SCNu64 " of %" SCNu64 " %7s", name,
                       &out->warmup_min_lr, &out->warmup_max_lr, &out->warmup_min_ratio, &out->cos_min_ratio,
                       &out->warmup_num_steps, &out->total_num_steps, form);
    for (int i = 1; i < 4 && parts == 8; i++)
        if (strcmp(name, names[i]) == 0)
            out->type = (enum schedule_type)i;
    out->warmup_linear = parts == 8 && strcmp(form, "linear") == 0;
    return out->type != SCHEDULER_NONE ? ERR_NONE : ERR_USAGE;
}

static int read_loss_scale(const char *text, struct config_loss_scale *out)
{
    char form[16] = "";
    if (sscanf(text, "static %lf", &out->static_scale) == 1)
        return ERR_NONE;
    int parts = sscanf(text, "dynamic 2^%u window %" SCNu64 " hysteresis %" SCNu64 " %15s", &out->initial_scale_power,
                       &out->window, &out->hysteresis, form);
    const char *least = strstr(text, " min ");
    out->dynamic = true;
    out->consecutive_hysteresis = strcmp(form, "consecutive") == 0;
    return parts == 4 && least && sscanf(least, " min %lf", &out->min_scale) == 1 ? ERR_NONE : ERR_USAGE;
}

static int read_settings(const struct checkpoint *checkpoint, struct settings *out)
{
    static const char *const keys[] = {"lr",           "betas",      "eps",
                                       "weight_decay", "loss_scale", "bias_correction",
                                       "scheduler",    "precision",  "delayed_update"};
    const char *value[9];
    struct adam_hyper *adam = &out->config.adam;
    for (int i = 0; i < 9; i++)
        if (!(value[i] = manifest_made_with(checkpoint_manifest(checkpoint), keys[i])))
            return unknown_fact(checkpoint, keys[i]);
    int wrong = sscanf(value[0], "%lf", &adam->lr) != 1                          ? 0
                : sscanf(value[1], "%lf, %lf", &adam->beta1, &adam->beta2) != 2  ? 1
                : sscanf(value[2], "%lf", &adam->eps) != 1                       ? 2
                : sscanf(value[3], "%lf", &adam->weight_decay) != 1              ? 3
                : read_loss_scale(value[4], &out->config.loss_scale) != ERR_NONE ? 4
                : read_scheduler(value[6], &out->config.scheduler) != ERR_NONE   ? 6
                                                                                 : -1;
    if (wrong >= 0)
        return unknown_fact(checkpoint, keys[wrong]);
    adam->decoupled = strstr(value[3], "decoupled") != NULL;
    adam->bias_correction = strcmp(value[5], "true") == 0;
    out->precision = value[7];
    return ERR_NONE;
}

static json_t *groups_json(const struct settings *settings, const struct manifest *m)
{
    const struct adam_hyper *adam = &settings->config.adam;
    json_t *groups = json_array();
    for (size_t i = 0; i < m->group_count; i++)
        json_array_append_new(
            groups, json_pack("{s:f, s:[f, f], s:f, s:f, s:b, s:b}", "lr", lr_at(&settings->config, m->applied + 1),
                              "betas", adam->beta1, adam->beta2, "eps", adam->eps, "weight_decay", adam->weight_decay,
                              "decoupled_weight_decay", adam->decoupled, "bias_correction", adam->bias_correction));
    return groups;
}

static json_t *scaler_json(const struct config_loss_scale *rules, const struct scaler *scaler)
{
    json_t *out = json_pack("{s:b, s:f, s:I, s:I, s:I}", "dynamic", rules->dynamic, "scale", scaler->scale, "iteration",
                            (json_int_t)scaler->iteration, "last_overflow", (json_int_t)scaler->last_overflow,
                            "hysteresis", (json_int_t)scaler->hysteresis);
    if (rules->dynamic) {
        json_object_set_new(out, "window", json_integer((json_int_t)rules->window));
        json_object_set_new(out, "hysteresis_start", json_integer((json_int_t)rules->hysteresis));
        json_object_set_new(out, "consecutive", json_boolean(rules->consecutive_hysteresis));
        json_object_set_new(out, "min_scale", json_real(rules->min_scale));
    }
    return out;
}

// Manifests do not say which group a parameter is in; models do.
static int params_json(const struct checkpoint *checkpoint, json_t *params)
{
    const struct manifest *m = checkpoint_manifest(checkpoint);
    const struct model *model = NULL;
    if (m->group_count > 1) {
        TRY(model_find(m->model, &model));
        TRY(checkpoint_check_model(checkpoint, model));
    }
    for (size_t i = 0; i < m->param_count; i++) {
        const struct manifest_param *param = &m->params[i];
        json_t *shape = json_array();
        int group = 0;
        for (int k = 0; k < param->shape_rank; k++)
            json_array_append_new(shape, json_integer((json_int_t)param->shape[k]));
        for (int k = 0; model && k < model->param_count; k++)
            if (strcmp(model->params[k].name, param->name) == 0)
                group = model->params[k].group;
        json_object_set_new(params, param->name,
                            json_pack("{s:o, s:o, s:o}", "shape", shape, "group",
                                      param->frozen ? json_null() : json_integer(group), "t",
                                      param->frozen ? json_null() : json_integer((json_int_t)m->applied)));
    }
    return ERR_NONE;
}

int states_json(const struct checkpoint *checkpoint, json_t **out)
{
    const struct manifest *m = checkpoint_manifest(checkpoint);
    struct settings settings = {0};
    if (m->waiting)
        return err_set(ERR_USAGE,
                       "%s: holds a delayed update that the model does not use yet, for which other formats have no "
                       "place; save before delayed_update_start_step",
                       checkpoint_path(checkpoint));
    static const char *const own[] = {"master_dtype", "moment_dtype", "optimizer"};  // facts of a run with other states
    for (int i = 0; i < 3; i++)
        if (manifest_made_with(m, own[i]))
            return err_set(ERR_USAGE,
                           "%s: was made with %s %s; other formats have the states of Adam in fp32 alone, and a run "
                           "would go on with those",
                           checkpoint_path(checkpoint), own[i], manifest_made_with(m, own[i]));
    TRY(read_settings(checkpoint, &settings));
    json_t *params = json_object(), *origin = json_object();
    int rc = params_json(checkpoint, params);
    static const char *const kept[] = {"model", "made_with", "repeatable", "last_step", "recipe_states"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        json_object_set(origin, kept[i], json_object_get(m->root, kept[i]));
    bool scheduled = settings.config.scheduler.type != SCHEDULER_NONE;
    *out = json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:{}, s:o}", "precision", settings.precision, "step",
                     (json_int_t)m->step, "skipped", (json_int_t)m->skipped, "schedule",
                     scheduled ? json_integer((json_int_t)m->applied) : json_null(), "scaler",
                     scaler_json(&settings.config.loss_scale, &m->scaler), "groups", groups_json(&settings, m),
                     "parameters", params, "tied", "origin", origin);
    return rc != ERR_NONE || *out ? rc
                                  : err_set(ERR_MEMORY, "no memory for the state of %s", checkpoint_path(checkpoint));
}

// Calls `visit` with the values of all tensors, a block at a time.
static int visit_values(const struct checkpoint *checkpoint, const struct safetensors_tensor *tensors, size_t count,
                        int (*visit)(void *context, const float *values, size_t count), void *context)
{
    float block[1 << 14];
    for (size_t i = 0; i < count; i++) {
        const char *name = strchr(tensors[i].name, '/') + 1;
        int state = 0;
        size_t param, now, length = (size_t)(name - tensors[i].name) - 1;
        while (strlen(manifest_state_name(state)) != length ||
               strncmp(manifest_state_name(state), tensors[i].name, length) != 0)
            state++;
        if (!checkpoint_find(checkpoint, name, &param))
            return err_set(ERR_INTERNAL, "%s: has no parameter %s", checkpoint_path(checkpoint), name);
        uint64_t elements = checkpoint_manifest(checkpoint)->params[param].count;
        for (uint64_t at = 0; at < elements; at += now) {
            now = elements - at < sizeof block / sizeof *block ? (size_t)(elements - at) : sizeof block / sizeof *block;
            TRY(checkpoint_read(checkpoint, state, param, at, now, block));
            TRY(visit(context, block, now));
        }
    }
    return ERR_NONE;
}

static int hash_values(void *context, const float *values, size_t count)
{
    XXH3_128bits_update(context, values, count * sizeof *values);
    return ERR_NONE;
}

static int write_values(void *context, const float *values, size_t count)
{
    return safetensors_write(context, values, count * sizeof *values);
}

static int write_file(const struct checkpoint *checkpoint, const json_t *state, struct safetensors_tensor *tensors,
                      size_t count, const char *path, char digest[FILE_DIGEST_BYTES])
{
    struct safetensors_writer *writer;
    XXH3_state_t *hash;
    int rc = states_digest_begin(state, &hash);
    if (rc == ERR_NONE)
        rc = visit_values(checkpoint, tensors, count, hash_values, hash);
    if (rc == ERR_NONE)
        digest_text(XXH3_128bits_digest(hash), digest);
    XXH3_freeState(hash);
    TRY(rc);
    char *text = json_dumps(state, JSON_COMPACT | JSON_SORT_KEYS);
    const char *metadata[] = {"format", STATES_FORMAT, "version", STATES_VERSION, "digest", digest,
                              "state",  text,          NULL};
    rc = text ? safetensors_create(path, tensors, count, metadata, &writer)
              : err_set(ERR_MEMORY, "no memory for the header of %s", path);
    free(text);
    TRY(rc);
    rc = visit_values(checkpoint, tensors, count, write_values, writer);
    if (rc == ERR_NONE)
        return safetensors_finish(writer, NULL, NULL);
    safetensors_abandon(writer);
    return rc;
}

static int write_new(const struct checkpoint *checkpoint, const json_t *state, const char *path,
                     char digest[FILE_DIGEST_BYTES])
{
    static const char ending[] = ".partial";
    char partial[strlen(path) + sizeof ending], folder[strlen(path) + 2];
    struct safetensors_tensor *tensors;
    size_t count;
    stpcpy(stpcpy(partial, path), ending);
    TRY(file_check_output(path, FILE_NEW));
    unlink(partial);  // left by a conversion that died
    TRY(states_tensors(state, &tensors, &count));
    int rc = write_file(checkpoint, state, tensors, count, partial, digest);
    free((char *)(uintptr_t)tensors[0].name);
    free(tensors);
    if (rc == ERR_NONE && rename(partial, path) != 0) {
        rc = err_set(ERR_IO, "%s: cannot be renamed to %s: %s", partial, path, strerror(errno));
        unlink(partial);
    }
    return rc == ERR_NONE ? file_sync_folder(file_folder(path, folder)) : rc;
}

int states_write(const struct checkpoint *checkpoint, const char *path, char digest[FILE_DIGEST_BYTES])
{
    json_t *state = NULL;
    TRY(checkpoint_check_digests(checkpoint));
    int rc = states_json(checkpoint, &state);
    if (rc == ERR_NONE)
        rc = write_new(checkpoint, state, path, digest);
    json_decref(state);
    return rc;
}
