// SPDX-License-Identifier: Apache-2.0
// Reading a file of states: nothing of it is used before all of it is checked.
#include "ref/model/export/states.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_keys(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static char *set_tensor(int state, const char *name, const json_t *param, char *names, struct safetensors_tensor *out)
{
    const json_t *shape = json_object_get(param, "shape");
    *out = (struct safetensors_tensor){.name = names, .type = TENSOR_FP32, .shape_rank = (int)json_array_size(shape)};
    for (int i = 0; i < out->shape_rank; i++)
        out->shape[i] = (uint64_t)json_integer_value(json_array_get(shape, (size_t)i));
    return names + sprintf(names, "%s/%s", manifest_state_name(state), name) + 1;
}

int states_tensors(const json_t *state, struct safetensors_tensor **out, size_t *count)
{
    static const int order[] = {STATE_EXP_AVG, STATE_EXP_AVG_SQ, STATE_PARAMETER};  // sorted by name
    json_t *params = json_object_get(state, "parameters"), *param;
    const char *key, **keys = calloc(json_object_size(params) + 1, sizeof *keys);
    size_t bytes = 1, params_count = 0;
    json_object_foreach (params, key, param)
        bytes += 3 * (strlen(key) + sizeof "exp_avg_sq/");
    char *names = malloc(bytes);
    *out = calloc(3 * json_object_size(params) + 1, sizeof **out);
    *count = 0;
    if (!keys || !names || !*out) {
        free(keys);
        free(names);
        free(*out);
        *out = NULL;
        return err_set(ERR_MEMORY, "no memory for the names of tensors");
    }
    json_object_foreach (params, key, param)
        keys[params_count++] = key;
    qsort(keys, params_count, sizeof *keys, compare_keys);
    (*out)[0].name = names;
    for (int i = 0; i < 3; i++)
        for (size_t k = 0; k < params_count; k++) {
            param = json_object_get(params, keys[k]);
            if (order[i] == STATE_PARAMETER || !json_is_null(json_object_get(param, "t")))
                names = set_tensor(order[i], keys[k], param, names, &(*out)[(*count)++]);
        }
    free(keys);
    return ERR_NONE;
}

int states_digest_begin(const json_t *state, XXH3_state_t **out)
{
    char *text = json_dumps(state, JSON_COMPACT | JSON_SORT_KEYS);
    *out = XXH3_createState();
    if (text && *out) {
        XXH3_128bits_reset(*out);
        XXH3_128bits_update(*out, text, strlen(text));
    }
    free(text);
    return text && *out ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the digest of a state");
}

static int refuse(const struct states *states, const char *name, const char *what)
{
    char shown[TEXT_MESSAGE_BYTES];
    return err_set(ERR_USAGE, "%s: tensor \"%s\": %s", states->file.path, text_message(shown, name, 100), what);
}

static int check_tensors(const struct states *states, const struct safetensors_tensor *wanted, size_t count)
{
    const struct safetensors *file = &states->file;
    for (size_t i = 0; i < count || i < file->tensor_count; i++) {
        const struct safetensors_tensor *held = i < file->tensor_count ? &file->tensors[i] : NULL;
        if (i < count && !safetensors_find(file, wanted[i].name))
            return refuse(states, wanted[i].name, "is missing; no tensor is taken to be zero");
        if (i == count)
            return refuse(states, held->name, "belongs to no parameter of the state, or to one without moments");
        if (!held || strcmp(held->name, wanted[i].name) != 0)
            return refuse(states, wanted[i].name,
                          "is not at its place: tensors follow each other by name, and no "
                          "others are between them");
        if (held->type != TENSOR_FP32)
            return refuse(states, held->name, "is not in F32");
        if (held->shape_rank != wanted[i].shape_rank ||
            memcmp(held->shape, wanted[i].shape, (size_t)held->shape_rank * sizeof *held->shape) != 0)
            return refuse(states, held->name, "does not have the shape that the state gives");
    }
    return ERR_NONE;
}

static int digest_data(const struct safetensors *file, XXH3_state_t *hash)
{
    char block[1 << 16];
    for (uint64_t at = 0; at < file->data_bytes; at += sizeof block) {
        size_t now = file->data_bytes - at < sizeof block ? (size_t)(file->data_bytes - at) : sizeof block;
        TRY(file_read_at(file->fd, file->path, file->data_begin + at, block, now));
        XXH3_128bits_update(hash, block, now);
    }
    return ERR_NONE;
}

static int check_digest(struct states *states, bool sealed)
{
    char shown[TEXT_MESSAGE_BYTES];
    const char *named = safetensors_metadata(&states->file, "digest");
    XXH3_state_t *hash;
    int rc = states_digest_begin(states->text.root, &hash);
    if (rc == ERR_NONE)
        rc = digest_data(&states->file, hash);
    if (rc == ERR_NONE)
        digest_text(XXH3_128bits_digest(hash), states->digest);
    XXH3_freeState(hash);
    if (rc == ERR_NONE && sealed && (!named || strcmp(named, states->digest) != 0))
        return err_set(ERR_USAGE, "%s: is damaged: the digest of its state is %s, but it names %s", states->file.path,
                       states->digest, text_message(shown, named ? named : "none", 80));
    return rc;
}

static int read_state(struct states *states)
{
    const char *path = states->file.path, *format = safetensors_metadata(&states->file, "format");
    const char *version = safetensors_metadata(&states->file, "version");
    const char *state = safetensors_metadata(&states->file, "state");
    char shown[TEXT_MESSAGE_BYTES];
    size_t bytes = strlen(path) + sizeof ": its state";
    if (!format || strcmp(format, STATES_FORMAT) != 0)
        return err_set(
            ERR_USAGE,
            "%s: is no checkpoint: it has tensors, but no optimizer's states; weights alone, such as Hugging "
            "Face's, are an export, from which no run continues",
            path);
    if (!version || strcmp(version, STATES_VERSION) != 0)
        return err_set(ERR_USAGE, "%s: has version \"%s\"; this program reads " STATES_VERSION, path,
                       text_message(shown, version, 40));
    if (!(states->name = malloc(bytes)))
        return err_set(ERR_MEMORY, "no memory for the name of %s", path);
    snprintf(states->name, bytes, "%s: its state", path);
    TRY(json_text_parse(states->name, state ? state : "", state ? strlen(state) : 0, &states->text));
    return states_check(&states->text);
}

int states_open(const char *path, bool sealed, struct states *out)
{
    struct safetensors_tensor *wanted;
    size_t count;
    *out = (struct states){.file.fd = -1};
    TRY(safetensors_open(path, &out->file));
    TRY(read_state(out));
    TRY(states_tensors(out->text.root, &wanted, &count));
    int rc = check_tensors(out, wanted, count);
    free((char *)(uintptr_t)wanted[0].name);
    free(wanted);
    return rc == ERR_NONE ? check_digest(out, sealed) : rc;
}

void states_close(struct states *states)
{
    json_text_close(&states->text);
    safetensors_close(&states->file);
    free(states->name);
    states->name = NULL;
}
