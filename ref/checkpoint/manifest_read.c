// SPDX-License-Identifier: Apache-2.0
// Reading the manifest of a checkpoint: every key is checked.
#include "ref/checkpoint/manifest.h"

#include "base/err.h"
#include "base/safe_text.h"
#include "base/strict_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int read_count(const struct strict_object *object, const char *key, uint64_t *out)
{
    int64_t value = 0;
    TRY(strict_integer(object, key, 0, INT64_MAX, &value));
    *out = (uint64_t)value;
    return ERR_NONE;
}

static int read_real(const struct strict_object *object, const char *key, double *out)
{
    const char *text;
    char *end, shown[TEXT_MESSAGE_BYTES];
    TRY(strict_text(object, key, &text));
    *out = strtod(text, &end);
    if (end == text || *end || text[0] == ' ')
        return strict_fail(object, key, "is \"%s\", expected a number in a string", text_message(shown, text, 60));
    return ERR_NONE;
}

static int read_fp32(const struct strict_object *object, const char *key, float *out)
{
    double value;
    TRY(read_real(object, key, &value));
    *out = (float)value;
    return (double)*out == value ? ERR_NONE : strict_fail(object, key, "is not a number in fp32");
}

// The first trained parameter determines whether an update is waiting; the others must agree.
static int read_states(const struct strict_object *object, const struct manifest_param *param, bool first,
                       struct manifest *m)
{
    const json_t *states;
    char shown[TEXT_MESSAGE_BYTES];
    size_t count = 0;
    TRY(strict_array(object, "states", 0, MANIFEST_STATE_COUNT, &states, &count));
    for (size_t i = 0; i < count; i++) {
        const json_t *name = json_array_get(states, i);
        if (!json_is_string(name) || strcmp(json_string_value(name), manifest_state_name((int)i)) != 0)
            return strict_fail(object, "states", "has a state %s, which this version does not know",
                               json_message(shown, name));
    }
    if (!param->frozen && first)
        m->waiting = count == MANIFEST_STATE_COUNT;
    if (count != (size_t)manifest_state_count(param->frozen, m->waiting))
        return strict_fail(object, "states", "lacks a state");
    return ERR_NONE;
}

static int read_param(const struct strict_object *object, bool first, struct manifest_param *param, struct manifest *m)
{
    const json_t *shape;
    size_t rank = 0;
    char shown[TEXT_MESSAGE_BYTES];
    TRY(strict_text(object, "name", &param->name));
    TRY(strict_bool(object, "frozen", &param->frozen));
    TRY(strict_array(object, "shape", 0, SAFETENSORS_RANK_MAX, &shape, &rank));
    param->shape_rank = (int)rank;
    param->count = 1;
    for (size_t i = 0; i < rank; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return strict_fail(object, "shape", "element %zu is %s, expected a size", i, json_message(shown, size));
        param->shape[i] = (uint64_t)json_integer_value(size);
        if (__builtin_mul_overflow(param->count, param->shape[i], &param->count) || param->count > INT64_MAX / 8)
            return strict_fail(object, "shape", "has more elements than a tensor can hold");
    }
    return read_states(object, param, first, m);
}

static int read_recipe_state(const struct strict_object *object, struct recipe_state *state)
{
    TRY(read_fp32(object, "beta1_power", &state->beta1_power));
    TRY(read_fp32(object, "beta2_power", &state->beta2_power));
    TRY(read_fp32(object, "beta1", &state->beta1));
    TRY(read_fp32(object, "beta2", &state->beta2));
    return read_count(object, "step", &state->step);
}

static int read_digest(const struct strict_object *object, const char *key, char out[FILE_DIGEST_BYTES])
{
    const char *digest;
    TRY(strict_text(object, key, &digest));
    if (strlen(digest) != FILE_DIGEST_BYTES - 1 || strspn(digest, "0123456789abcdef") != FILE_DIGEST_BYTES - 1)
        return strict_fail(object, key, "is not a digest");
    memcpy(out, digest, FILE_DIGEST_BYTES);
    return ERR_NONE;
}

static int read_file(const struct strict_object *object, size_t index, bool has_blocks, struct manifest_file *file)
{
    const char *name;
    char expected[RANK_NAME_BYTES], shown[TEXT_MESSAGE_BYTES];
    checkpoint_rank_name(index, expected);
    TRY(strict_text(object, "name", &name));
    if (strcmp(name, expected) != 0)
        return strict_fail(object, "name", "is \"%s\", expected \"%s\"", text_message(shown, name, 60), expected);
    TRY(read_count(object, "bytes", &file->bytes));
    TRY(read_digest(object, "xxh3_128", file->digest));
    return has_blocks ? read_digest(object, "blocks_xxh3_128", file->blocks_digest) : ERR_NONE;
}

// The scaler counts at most every step.
static int read_scaler(const struct strict_object *root, uint64_t step, struct scaler *scaler)
{
    struct strict_object object;
    TRY(strict_object_of(root, "loss_scaler", &object));
    TRY(read_real(&object, "scale", &scaler->scale));
    if (!isfinite(scaler->scale) || scaler->scale <= 0.0)
        return strict_fail(&object, "scale", "is not a positive number");
    TRY(strict_integer(&object, "iteration", 0, (int64_t)step, &scaler->iteration));
    TRY(read_count(&object, "hysteresis", &scaler->hysteresis));
    return strict_integer(&object, "last_overflow", -1, scaler->iteration - 1, &scaler->last_overflow);
}

static int read_facts(const struct strict_object *root, struct manifest *m)
{
    const char *key;
    json_t *value;
    struct strict_object facts;
    TRY(strict_object_of(root, "made_with", &facts));
    m->facts = calloc(json_object_size(facts.value) + 1, sizeof *m->facts);
    if (!m->facts)
        return err_set(ERR_MEMORY, "no memory for the manifest %s", root->file);
    json_object_foreach ((json_t *)(uintptr_t)facts.value, key, value) {
        struct manifest_fact *fact = &m->facts[m->fact_count++];
        fact->key = key;
        TRY(strict_text(&facts, key, &fact->value));
    }
    return ERR_NONE;
}

static int read_lists(const struct strict_object *root, struct manifest *m)
{
    const json_t *params, *groups, *files;
    struct strict_object element;
    TRY(strict_array(root, "parameters", 0, SIZE_MAX, &params, &m->param_count));
    TRY(strict_array(root, "recipe_states", 0, SIZE_MAX, &groups, &m->group_count));
    TRY(strict_array(root, "files", 0, SIZE_MAX, &files, &m->file_count));
    m->params = calloc(m->param_count + 1, sizeof *m->params);
    m->recipe_states = calloc(m->group_count + 1, sizeof *m->recipe_states);
    m->files = calloc(m->file_count + 1, sizeof *m->files);
    if (!m->params || !m->recipe_states || !m->files)
        return err_set(ERR_MEMORY, "no memory for the manifest %s", root->file);
    bool first = true;
    for (size_t i = 0; i < m->param_count; i++) {
        TRY(strict_element(root, "parameters", params, i, &element));
        TRY(read_param(&element, first, &m->params[i], m));
        first &= m->params[i].frozen;
    }
    for (size_t i = 0; i < m->group_count; i++) {
        TRY(strict_element(root, "recipe_states", groups, i, &element));
        TRY(read_recipe_state(&element, &m->recipe_states[i]));
    }
    for (size_t i = 0; i < m->file_count; i++) {
        TRY(strict_element(root, "files", files, i, &element));
        TRY(read_file(&element, i, manifest_has_blocks(m), &m->files[i]));
    }
    return read_facts(root, m);
}

// Checks the format, the version and the digest before any other key.
static int read_seal(const struct strict_object *root, uint64_t *version)
{
    const char *format = json_string_value(json_object_get(root->value, "format")), *digest;
    char expected[FILE_DIGEST_BYTES], shown[TEXT_MESSAGE_BYTES];
    if (!format || strcmp(format, MANIFEST_FORMAT) != 0)
        return err_set(ERR_USAGE, "%s: is not a checkpoint's manifest", root->file);
    TRY(read_count(root, "version", version));
    if (*version < 1 || *version > MANIFEST_VERSION)
        return strict_fail(root, "version", "is %" PRIu64 "; this program reads versions 1 to %d", *version,
                           MANIFEST_VERSION);
    TRY(strict_text(root, "digest", &digest));
    TRY(manifest_digest(root->value, expected));
    if (strcmp(digest, expected) != 0)
        return err_set(ERR_USAGE, "%s: is damaged: its digest is %s, but it names %s", root->file, expected,
                       text_message(shown, digest, 60));
    return strict_only(root, "format version written_by model parameters step applied skipped last_step made_with "
                             "repeatable loss_scaler files recipe_states digest");
}

static int read_root(const struct strict_object *root, struct manifest *m)
{
    struct strict_object last;
    TRY(read_seal(root, &m->version));
    TRY(strict_text(root, "model", &m->model));
    TRY(read_count(root, "step", &m->step));
    TRY(read_count(root, "applied", &m->applied));
    TRY(read_count(root, "skipped", &m->skipped));
    if (m->step == 0 || m->applied > m->step || m->skipped != m->step - m->applied)
        return err_set(ERR_USAGE, "%s: its steps do not add up", root->file);
    TRY(strict_object_of(root, "last_step", &last));
    TRY(strict_bool(&last, "applied", &m->last_applied));
    TRY(read_real(&last, "loss", &m->loss));
    TRY(strict_bool(root, "repeatable", &m->repeatable));
    TRY(read_scaler(root, m->step, &m->scaler));
    return read_lists(root, m);
}

int manifest_parse(const char *path, const char *text, size_t bytes, struct manifest *out)
{
    struct json_text json;
    *out = (struct manifest){0};
    TRY(json_text_parse(path, text, bytes, &json));
    struct strict_object root = strict_root(&json);
    out->root = json_incref(json.root);
    int rc = read_root(&root, out);
    json_text_close(&json);
    return rc;
}
