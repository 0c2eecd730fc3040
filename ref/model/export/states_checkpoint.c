// SPDX-License-Identifier: Apache-2.0
// A state as a checkpoint of this program: one rank's file, and the manifest, in a new folder of checkpoints.
#include "ref/model/export/states.h"

#include "base/err.h"
#include "base/json.h"
#include "base/safe_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int refuse(const struct states *states, const char *name, const char *what)
{
    char shown[TEXT_MESSAGE_BYTES];
    return err_set(ERR_USAGE, "%s: parameter \"%s\" %s", states->file.path, text_message(shown, name, 100), what);
}

static json_t *param_json(const char *name, const json_t *param)
{
    bool frozen = json_is_null(json_object_get(param, "group"));
    json_t *states = json_array();
    for (int i = 0; i < manifest_state_count(frozen, false); i++)
        json_array_append_new(states, json_string(manifest_state_name(i)));
    return json_pack("{s:s, s:O, s:b, s:o}", "name", name, "shape", json_object_get(param, "shape"), "frozen", frozen,
                     "states", states);
}

static int params_json(const struct states *states, json_int_t applied, json_t *out)
{
    const char *name;
    json_t *param;
    json_object_foreach (json_object_get(states->text.root, "parameters"), name, param) {
        const json_t *t = json_object_get(param, "t");
        if (!json_is_null(json_object_get(param, "group")) && json_is_null(t))
            return refuse(states, name,
                          "has no moments; this program keeps those of each trained parameter, and takes "
                          "none to be zero");
        if (!json_is_null(t) && json_integer_value(t) != applied)
            return refuse(states, name, "has another t than the steps that were applied; this program has one for all");
        json_array_append_new(out, param_json(name, param));
    }
    return ERR_NONE;
}

// Returns the manifest; null if a part of the state does not have a manifest's form.
static json_t *manifest_json(const json_t *state, json_t *params, const struct manifest_file *file)
{
    const json_t *scaler = json_object_get(state, "scaler"), *origin = json_object_get(state, "origin");
    json_int_t step = json_integer_value(json_object_get(state, "step"));
    json_int_t skipped = json_integer_value(json_object_get(state, "skipped"));
    char scale[40], name[RANK_NAME_BYTES];
    snprintf(scale, sizeof scale, "%a", json_number_value(json_object_get(scaler, "scale")));
    json_t *root = json_pack(
        "{s:s, s:i, s:s, s:O, s:I, s:I, s:I, s:{s:s, s:O, s:O, s:O}, s:[{s:s, s:I, s:s, s:s}]}", "format",
        MANIFEST_FORMAT, "version", MANIFEST_VERSION, "written_by", "zerogauge " ZG_VERSION, "parameters", params,
        "step", step, "skipped", skipped, "applied", step - skipped, "loss_scaler", "scale", scale, "iteration",
        json_object_get(scaler, "iteration"), "last_overflow", json_object_get(scaler, "last_overflow"), "hysteresis",
        json_object_get(scaler, "hysteresis"), "files", "name", checkpoint_rank_name(0, name), "bytes",
        (json_int_t)file->bytes, "xxh3_128", file->digest, "blocks_xxh3_128", file->blocks_digest);
    if (root && json_object_update(root, (json_t *)(uintptr_t)origin) != 0) {
        json_decref(root);
        root = NULL;
    }
    return root;
}

static int write_manifest(const struct states *states, const char *folder, const struct manifest_file *rank)
{
    const json_t *state = states->text.root;
    json_int_t applied =
        json_integer_value(json_object_get(state, "step")) - json_integer_value(json_object_get(state, "skipped"));
    char path[PATH_MAX];
    json_t *params = json_array();
    TRY(file_join(folder, "manifest.json", path));
    int rc = params_json(states, applied, params);
    json_t *root = rc == ERR_NONE ? manifest_json(state, params, rank) : NULL;
    json_decref(params);
    if (rc == ERR_NONE && !root)
        rc = err_set(ERR_USAGE, "%s: its state has no scaler or no origin of this program's form", states->file.path);
    if (rc == ERR_NONE)
        rc = manifest_seal(root);
    if (rc == ERR_NONE)
        rc = json_write(path, FILE_NEW, root, JSON_INDENT(1));
    json_decref(root);
    return rc;
}

static int copy_values(const struct safetensors *file, struct safetensors_writer *writer)
{
    float block[1 << 14];
    for (uint64_t at = 0; at < file->data_bytes; at += sizeof block) {
        size_t now = file->data_bytes - at < sizeof block ? (size_t)(file->data_bytes - at) : sizeof block;
        TRY(file_read_at(file->fd, file->path, file->data_begin + at, block, now));
        TRY(safetensors_write(writer, block, now));
    }
    return ERR_NONE;
}

// Each STATE/NAME as STATE/NAME[0:COUNT]; a checkpoint lists none without elements.
static int write_tensors(const struct safetensors *file, const char *path, struct manifest_file *out)
{
    struct safetensors_tensor *tensors = calloc(file->tensor_count + 1, sizeof *tensors);  // one for digests
    char **names = calloc(file->tensor_count + 1, sizeof *names);
    struct safetensors_writer *writer = NULL;
    size_t count = 0;
    int rc = tensors && names ? ERR_NONE : err_set(ERR_MEMORY, "no memory for %zu tensors", file->tensor_count);
    for (size_t i = 0; i < file->tensor_count && rc == ERR_NONE; i++) {
        const struct safetensors_tensor *from = &file->tensors[i];
        if (from->count == 0)
            continue;
        if (asprintf(&names[count], "%s[0:%" PRIu64 "]", from->name, from->count) < 0)
            rc = err_set(ERR_MEMORY, "no memory for the name of a tensor");
        else
            tensors[count] = (struct safetensors_tensor){
                .name = names[count], .type = TENSOR_FP32, .shape_rank = 1, .shape = {from->count}};
        count++;
    }
    if (rc == ERR_NONE)
        rc = safetensors_create_in_blocks(path, tensors, count, &writer);
    if (rc == ERR_NONE)
        rc = copy_values(file, writer);
    if (rc == ERR_NONE)
        rc = safetensors_write_blocks(writer, out->blocks_digest);
    if (rc == ERR_NONE)
        rc = safetensors_finish(writer, &out->bytes, out->digest);
    else
        safetensors_abandon(writer);
    for (size_t i = 0; names && i < count; i++)
        free(names[i]);
    free(names);
    free(tensors);
    return rc;
}

static int write_step(const struct states *states, const char *folder)
{
    char path[PATH_MAX], name[RANK_NAME_BYTES];
    struct manifest_file rank = {0};
    struct checkpoint *checkpoint;
    TRY(file_join(folder, checkpoint_rank_name(0, name), path));
    TRY(write_tensors(&states->file, path, &rank));
    TRY(write_manifest(states, folder, &rank));
    TRY(file_sync_folder(folder));
    int rc = checkpoint_open_folder(folder, &checkpoint);  // checks the origin, too
    if (rc != ERR_NONE)
        return err_prefix(rc, "%s: its state is none of this program's", states->file.path);
    checkpoint_close(checkpoint);
    return ERR_NONE;
}

// Removes the files that write_step has made, and the folders.
static void remove_partial(const char *partial, const char *step)
{
    static const char *const names[] = {"rank-0.safetensors", "manifest.json"};
    char path[PATH_MAX], cause[ERR_MESSAGE_BYTES];
    err_keep(cause);
    for (int i = 0; i < 2; i++)
        if (file_join(step, names[i], path) == ERR_NONE)
            unlink(path);
    rmdir(step);
    rmdir(partial);
    err_restore(cause);
}

int states_write_checkpoint(const struct states *states, const char *path)
{
    static const char ending[] = ".partial";
    char partial[strlen(path) + sizeof ending], parent[strlen(path) + 2], step[PATH_MAX], name[STEP_NAME_BYTES];
    stpcpy(stpcpy(partial, path), ending);
    if (!json_is_object(json_object_get(states->text.root, "origin")))
        return err_set(ERR_USAGE,
                       "%s: does not say which run of this program it is of (\"origin\" is null): another program made "
                       "it, and only a run that this one began can continue here",
                       states->file.path);
    TRY(file_check_output(path, FILE_NEW));
    uint64_t made = (uint64_t)json_integer_value(json_object_get(states->text.root, "step"));
    TRY(file_join(partial, checkpoint_step_name(made, name), step));
    if (mkdir(partial, 0777) != 0)
        return err_set(ERR_USAGE, "%s: cannot be created: %s%s", partial, strerror(errno),
                       errno == EEXIST ? "; remove it, if no conversion writes it: one that died has left it" : "");
    int rc = mkdir(step, 0777) == 0 ? ERR_NONE : err_set(ERR_IO, "%s: cannot be created: %s", step, strerror(errno));
    if (rc == ERR_NONE)
        rc = write_step(states, step);
    if (rc == ERR_NONE)
        rc = file_sync_folder(partial);
    if (rc == ERR_NONE && rename(partial, path) != 0)
        rc = err_set(ERR_IO, "%s: cannot be renamed to %s: %s", partial, path, strerror(errno));
    if (rc != ERR_NONE)
        remove_partial(partial, step);
    return rc == ERR_NONE ? file_sync_folder(file_folder(path, parent)) : rc;
}
