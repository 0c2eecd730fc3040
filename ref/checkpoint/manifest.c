// SPDX-License-Identifier: Apache-2.0
// The manifest of a checkpoint as JSON, and back.
#include "ref/checkpoint/manifest.h"

#include "base/err.h"
#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char format_name[] = "zerogauge checkpoint";
static const char *const state_names[MANIFEST_STATE_COUNT] = {"param", "exp_avg", "exp_avg_sq", "seen_param"};

const char *manifest_state_name(int state)
{
    return state_names[state];
}

int manifest_state_count(bool frozen, bool waiting)
{
    if (frozen)
        return 1;
    return waiting ? MANIFEST_STATE_COUNT : MANIFEST_STATE_SEEN;
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
        char name[40];
        snprintf(name, sizeof name, "rank-%zu.safetensors", i);
        json_array_append_new(files,
                              json_pack("{s:s, s:I, s:s}", "name", name, "bytes", (json_int_t)manifest->files[i].bytes,
                                        "xxh3_128", manifest->files[i].digest));
    }
    return files;
}

// Of everything in root but "digest".
static int digest_of(const json_t *root, char out[FILE_DIGEST_BYTES])
{
    json_t *rest = json_copy((json_t *)(uintptr_t)root);
    json_object_del(rest, "digest");
    char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(rest);
    if (!text)
        return err_set(ERR_MEMORY, "no memory for a manifest");
    XXH128_hash_t value = XXH3_128bits(text, strlen(text));
    snprintf(out, FILE_DIGEST_BYTES, "%016" PRIx64 "%016" PRIx64, value.high64, value.low64);
    free(text);
    return ERR_NONE;
}

int manifest_seal(json_t *root)
{
    char digest[FILE_DIGEST_BYTES];
    TRY(digest_of(root, digest));
    json_object_set_new(root, "digest", json_string(digest));
    return ERR_NONE;
}

int manifest_text(const struct manifest *manifest, char **out)
{
    const struct scaler *scaler = &manifest->scaler;
    json_t *root = json_pack(
        "{s:s, s:i, s:s, s:s, s:o, s:I, s:I, s:I, s:{s:b, s:o}, s:o, s:b, s:{s:o, s:I, s:I, s:I}, s:o, s:o}", "format",
        format_name, "version", MANIFEST_VERSION, "written_by", "zerogauge " ZG_VERSION, "model", manifest->model,
        "parameters", params_json(manifest), "step", (json_int_t)manifest->step, "applied",
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

// --- reading ---

static int refuse(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int refuse(const char *path, const char *format, ...)
{
    char what[512], shown[JSON_SHOW_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return err_set(ERR_USAGE, "%s: %s", path, json_show(shown, what, 200));
}

static int read_count(const char *path, const json_t *object, const char *key, uint64_t *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return refuse(path, "\"%s\" is not a number from 0 on", key);
    *out = (uint64_t)json_integer_value(value);
    return ERR_NONE;
}

static int read_text(const char *path, const json_t *object, const char *key, const char **out)
{
    *out = json_string_value(json_object_get(object, key));
    return *out ? ERR_NONE : refuse(path, "\"%s\" is not a string", key);
}

static int read_bool(const char *path, const json_t *object, const char *key, bool *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_boolean(value))
        return refuse(path, "\"%s\" is neither true nor false", key);
    *out = json_is_true(value);
    return ERR_NONE;
}

static int read_array(const char *path, const json_t *object, const char *key, const json_t **out, size_t *count)
{
    *out = json_object_get(object, key);
    if (!json_is_array(*out))
        return refuse(path, "\"%s\" is not an array", key);
    *count = json_array_size(*out);
    return ERR_NONE;
}

static int read_real(const char *path, const json_t *object, const char *key, double *out)
{
    const char *text;
    char *end;
    TRY(read_text(path, object, key, &text));
    *out = strtod(text, &end);
    if (end == text || *end || text[0] == ' ')
        return refuse(path, "\"%s\" is not a number: \"%s\"", key, text);
    return ERR_NONE;
}

static int read_fp32(const char *path, const json_t *object, const char *key, float *out)
{
    double value;
    TRY(read_real(path, object, key, &value));
    *out = (float)value;
    if ((double)*out != value)
        return refuse(path, "\"%s\" is not a number in fp32", key);
    return ERR_NONE;
}

// The first trained parameter says whether an update is waiting; the others must agree.
static int read_states(const char *path, const json_t *object, const struct manifest_param *param, bool first,
                       struct manifest *m)
{
    const json_t *states;
    size_t count = 0;
    TRY(read_array(path, object, "states", &states, &count));
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(states, i));
        if (!name || i >= MANIFEST_STATE_COUNT || strcmp(name, state_names[i]) != 0)
            return refuse(path, "parameter \"%s\" has a state \"%s\", which this version does not know", param->name,
                          name ? name : "?");
    }
    if (!param->frozen && first)
        m->waiting = count == MANIFEST_STATE_COUNT;
    if (count != (size_t)manifest_state_count(param->frozen, m->waiting))
        return refuse(path, "parameter \"%s\" lacks a state", param->name);
    return ERR_NONE;
}

static int read_param(const char *path, const json_t *object, bool first, struct manifest_param *param,
                      struct manifest *m)
{
    const json_t *shape;
    size_t rank = 0;
    TRY(read_text(path, object, "name", &param->name));
    TRY(read_bool(path, object, "frozen", &param->frozen));
    TRY(read_array(path, object, "shape", &shape, &rank));
    if (rank > SAFETENSORS_RANK_MAX)
        return refuse(path, "parameter \"%s\" has more than %d dimensions", param->name, SAFETENSORS_RANK_MAX);
    param->shape_rank = (int)rank;
    param->count = 1;
    for (size_t i = 0; i < rank; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return refuse(path, "the shape of parameter \"%s\" holds something that is not a size", param->name);
        param->shape[i] = (uint64_t)json_integer_value(size);
        if (__builtin_mul_overflow(param->count, param->shape[i], &param->count) || param->count > INT64_MAX / 8)
            return refuse(path, "parameter \"%s\" is larger than anything can be", param->name);
    }
    return read_states(path, object, param, first, m);
}

static int read_recipe_state(const char *path, const json_t *object, struct recipe_state *state)
{
    TRY(read_fp32(path, object, "beta1_power", &state->beta1_power));
    TRY(read_fp32(path, object, "beta2_power", &state->beta2_power));
    TRY(read_fp32(path, object, "beta1", &state->beta1));
    TRY(read_fp32(path, object, "beta2", &state->beta2));
    return read_count(path, object, "step", &state->step);
}

static int read_file(const char *path, const json_t *object, size_t index, struct manifest_file *file)
{
    const char *name, *digest;
    char expected[40];
    snprintf(expected, sizeof expected, "rank-%zu.safetensors", index);
    TRY(read_text(path, object, "name", &name));
    if (strcmp(name, expected) != 0)
        return refuse(path, "file %zu is called \"%s\" where \"%s\" is expected", index, name, expected);
    TRY(read_count(path, object, "bytes", &file->bytes));
    TRY(read_text(path, object, "xxh3_128", &digest));
    if (strlen(digest) != FILE_DIGEST_BYTES - 1 || strspn(digest, "0123456789abcdef") != FILE_DIGEST_BYTES - 1)
        return refuse(path, "the digest of %s is not one", name);
    memcpy(file->digest, digest, FILE_DIGEST_BYTES);
    return ERR_NONE;
}

static int read_scaler(const char *path, const json_t *root, struct scaler *scaler)
{
    const json_t *object = json_object_get(root, "loss_scaler");
    uint64_t iteration = 0;
    TRY(read_real(path, object, "scale", &scaler->scale));
    TRY(read_count(path, object, "iteration", &iteration));
    TRY(read_count(path, object, "hysteresis", &scaler->hysteresis));
    const json_t *last = json_object_get(object, "last_overflow");
    if (!isfinite(scaler->scale) || scaler->scale <= 0.0)
        return refuse(path, "the loss scale is not a positive number");
    scaler->iteration = (int64_t)iteration;
    scaler->last_overflow = json_integer_value(last);
    if (!json_is_integer(last) || scaler->last_overflow < -1 || scaler->last_overflow >= scaler->iteration)
        return refuse(path, "the loss scale's \"last_overflow\" is not one of its steps");
    return ERR_NONE;
}

static int read_facts(const char *path, const json_t *root, struct manifest *m)
{
    const char *key;
    json_t *value, *facts = json_object_get(root, "made_with");
    if (!json_is_object(facts))
        return refuse(path, "\"made_with\" is not an object");
    json_object_foreach (facts, key, value) {
        struct manifest_fact *fact = &m->facts[m->fact_count++];
        *fact = (struct manifest_fact){key, json_string_value(value)};
        if (!fact->value)
            return refuse(path, "\"made_with.%s\" is not a string", key);
    }
    return ERR_NONE;
}

static int read_lists(const char *path, const json_t *root, struct manifest *m)
{
    const json_t *params, *groups, *files;
    TRY(read_array(path, root, "parameters", &params, &m->param_count));
    TRY(read_array(path, root, "recipe_states", &groups, &m->group_count));
    TRY(read_array(path, root, "files", &files, &m->file_count));
    m->params = calloc(m->param_count + 1, sizeof *m->params);
    m->recipe_states = calloc(m->group_count + 1, sizeof *m->recipe_states);
    m->files = calloc(m->file_count + 1, sizeof *m->files);
    m->facts = calloc(json_object_size(json_object_get(root, "made_with")) + 1, sizeof *m->facts);
    if (!m->params || !m->recipe_states || !m->files || !m->facts)
        return err_set(ERR_MEMORY, "no memory for the manifest %s", path);
    bool first = true;
    for (size_t i = 0; i < m->param_count; i++) {
        TRY(read_param(path, json_array_get(params, i), first, &m->params[i], m));
        first &= m->params[i].frozen;
    }
    for (size_t i = 0; i < m->group_count; i++)
        TRY(read_recipe_state(path, json_array_get(groups, i), &m->recipe_states[i]));
    for (size_t i = 0; i < m->file_count; i++)
        TRY(read_file(path, json_array_get(files, i), i, &m->files[i]));
    return read_facts(path, root, m);
}

static int read_root(const char *path, const json_t *root, struct manifest *m)
{
    const char *format, *digest;
    char expected[FILE_DIGEST_BYTES];
    uint64_t version = 0;
    bool named = json_is_object(root) && read_text(path, root, "format", &format) == ERR_NONE;
    if (!named || strcmp(format, format_name) != 0)
        return refuse(path, "is not the manifest of a checkpoint");
    TRY(read_count(path, root, "version", &version));
    if (version != MANIFEST_VERSION)
        return refuse(path, "is of version %" PRIu64 "; this program reads version %d", version, MANIFEST_VERSION);
    TRY(read_text(path, root, "digest", &digest));
    TRY(digest_of(root, expected));
    if (strcmp(digest, expected) != 0)
        return refuse(path, "is damaged: its digest is %s, it says %s", expected, digest);
    if (json_object_size(root) != 15)
        return refuse(path, "has not exactly the keys of version %d", MANIFEST_VERSION);
    TRY(read_text(path, root, "model", &m->model));
    TRY(read_count(path, root, "step", &m->step));
    TRY(read_count(path, root, "applied", &m->applied));
    TRY(read_count(path, root, "skipped", &m->skipped));
    if (m->step == 0 || m->applied > m->step || m->skipped != m->step - m->applied)
        return refuse(path, "its steps do not add up");
    const json_t *last = json_object_get(root, "last_step");
    TRY(read_bool(path, last, "applied", &m->last_applied));
    TRY(read_real(path, last, "loss", &m->loss));
    TRY(read_bool(path, root, "repeatable", &m->repeatable));
    TRY(read_scaler(path, root, &m->scaler));
    return read_lists(path, root, m);
}

int manifest_parse(const char *path, const char *text, size_t bytes, struct manifest *out)
{
    json_error_t error;
    *out = (struct manifest){0};
    if (!(out->root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error)))
        return refuse(path, "is not JSON, line %d: %s", error.line, error.text);
    return read_root(path, out->root, out);
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
