// SPDX-License-Identifier: Apache-2.0
// Forged checkpoints: manifests with a right digest, and files with right digests in them. Each is refused with a
// message that names the error.
#include "ref/checkpoint/checkpoint_test.h"

TestSuite(checkpoint_forged, .init = folder_setup, .fini = folder_teardown);

struct forged {
    char path[PATH_MAX + 40];
    json_t *manifest;  // a copy of it is changed and written
};

static struct forged forged_open(void)
{
    size_t bytes;
    struct forged forged;
    snprintf(forged.path, sizeof forged.path, "%s/manifest.json", trial_save_small());
    char *text = folder_read(forged.path, &bytes);
    *strrchr(forged.path, '/') = '\0';
    forged.manifest = json_loadb(text, bytes, 0, NULL);
    cr_assert_not_null(forged.manifest);
    free(text);
    return forged;
}

// Writes the manifest with a right digest, opens the checkpoint and returns the result.
static int forged_try(const struct forged *forged, json_t *manifest)
{
    char path[PATH_MAX + 64];
    cr_assert_eq(manifest_seal(manifest), ERR_NONE);
    char *text = json_dumps(manifest, 0);
    snprintf(path, sizeof path, "%s/manifest.json", forged->path);
    folder_write(path, text, strlen(text));
    free(text);
    struct checkpoint *checkpoint;
    int rc = checkpoint_open_folder(forged->path, &checkpoint);
    checkpoint_close(checkpoint);
    return rc;
}

Test(checkpoint_forged, a_forged_manifest_is_refused_with_its_error)
{
    static const struct {
        const char *change, *message;  // merged into the manifest
    } cases[] = {
        {"{}", NULL},
        {"{'format': 'tar'}", "is not a checkpoint's manifest"},
        {"{'version': 0}", "version: is 0; this program reads versions 1 to 2"},
        {"{'version': 3}", "version: is 3; this program reads versions 1 to 2"},
        {"{'version': 1}", "its name does not have the form"},
        {"{'more': 1}", "more: unknown key"},
        {"{'step': 0}", "add up"},
        {"{'step': 4}", "add up"},
        {"{'applied': 4}", "add up"},
        {"{'step': -3}", "step: is -3, "},
        {"{'skipped': 1e3}", "skipped: is 1000.0, "},
        {"{'last_step': 3}", "last_step: is 3, expected an object"},
        {"{'last_step': {'applied': true, 'loss': 1}}", "last_step.loss: is 1, expected a string"},
        {"{'last_step': {'applied': true, 'loss': '0x1p0 '}}", "last_step.loss: is \"0x1p0 \""},
        {"{'made_with': []}", "made_with: is []"},
        {"{'made_with': {'seed': 7}}", "made_with.seed"},
        {"{'loss_scaler': {'scale': 'inf', 'iteration': 3, 'last_overflow': -1, 'hysteresis': 2}}",
         "loss_scaler.scale: is not a positive number"},
        {"{'loss_scaler': {'scale': '-0x1p3', 'iteration': 3, 'last_overflow': -1, 'hysteresis': 2}}",
         "loss_scaler.scale: is not a positive number"},
        {"{'loss_scaler': {'scale': '0x1p3', 'iteration': 3, 'last_overflow': 3, 'hysteresis': 2}}", "last_overflow"},
        {"{'loss_scaler': {'scale': '0x1p3', 'iteration': 3, 'last_overflow': -2, 'hysteresis': 2}}", "last_overflow"},
        {"{'loss_scaler': {'scale': '0x1p3', 'iteration': 9223372036854775807, 'last_overflow': -1, 'hysteresis': 2}}",
         "loss_scaler.iteration: is 9223372036854775807, expected a whole number from 0 to 3"},
        {"{'recipe_states': [{'beta1_power': '0.1', 'beta2_power': '0', 'beta1': '0', 'beta2': '0', 'step': 3}]}",
         "fp32"},
        {"{'recipe_states': {}}", "recipe_states"},
        {"{'files': []}", "no file holds"},
        {"{'files': [{'name': '../rank-0.safetensors', 'bytes': 1, 'xxh3_128': ''}]}",
         "files.0.name: is \"../rank-0.safetensors\", expected \"rank-0.safetensors\""},
        {"{'files': [{'name': 'rank-0.safetensors', 'bytes': -1, 'xxh3_128': ''}]}", "bytes"},
        {"{'files': [{'name': 'rank-0.safetensors', 'bytes': 1, 'xxh3_128': '00'}]}", "digest"},
        {"{'files': [{'name': 'rank-0.safetensors', 'bytes': 1, 'xxh3_128': '0123456789abcdef0123456789abcdef'}]}",
         "blocks_xxh3_128"},
        {"{'files': [{'name': 'rank-0.safetensors', 'bytes': 1, 'xxh3_128': '0123456789abcdef0123456789abcdef', "
         "'blocks_xxh3_128': '0123456789abcdef0123456789abcdeg'}]}",
         "files.0.blocks_xxh3_128: is not a digest"},
        {"{'parameters': []}", "no such parameter"},
        {"{'parameters': [{'name': 'a.weight', 'shape': [-1], 'frozen': false, 'states': []}]}", "shape"},
        {"{'parameters': [{'name': 'a.weight', 'shape': [4294967296, 4294967296], 'frozen': true, 'states': []}]}",
         "parameters.0.shape: has more elements than"},
        {"{'parameters': [{'name': 'a.weight', 'shape': [1], 'frozen': true, 'states': ['exp_avg']}]}",
         "a state \"exp_avg\", which"},
        {"{'parameters': [{'name': 'a.weight', 'shape': [1], 'frozen': true, 'states': []}]}", "lacks a state"},
        {"{'parameters': [{'name': 'a.weight', 'shape': [1], 'frozen': false, 'states': ['param']}]}", "lacks a state"},
        {"{'parameters': [{'name': 'a.weight', 'shape': [1], 'frozen': true, 'states': ['param']}, {'name': "
         "'a.weight', 'shape': [1], 'frozen': true, 'states': ['param']}]}",
         "the same name"},
    };
    struct forged forged = forged_open();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char change[512];
        snprintf(change, sizeof change, "%s", cases[i].change);
        for (char *c = change; *c; c++)
            *c = *c == '\'' ? '"' : *c;
        json_t *manifest = json_deep_copy(forged.manifest), *part = json_loads(change, 0, NULL);
        cr_assert_not_null(part, "%s", change);
        json_object_update(manifest, part);
        int rc = forged_try(&forged, manifest);
        cr_assert_eq(rc, cases[i].message ? ERR_USAGE : ERR_NONE, "%s: %s", change, err_message());
        if (cases[i].message) {
            cr_assert_not_null(strstr(err_message(), cases[i].message), "%s: %s", change, err_message());
            cr_assert_not_null(strstr(err_message(), forged.path), "%s: %s", change, err_message());
        }
        json_decref(manifest);
        json_decref(part);
    }
    json_decref(forged.manifest);
}

// linear-few has a.weight[1] and b.weight[2]. The first file, which holds b.weight[0:2], stays unchanged.
Test(checkpoint_forged, forged_tensors_are_refused_unless_they_hold_every_element_once)
{
    static const struct {
        const char *names[8];
        uint64_t count;
        enum safetensors_type type;
        const char *message;
    } cases[] = {
        {{"param/a.weight[0:1]", "exp_avg/a.weight[0:1]", "exp_avg_sq/a.weight[0:1]"}, 1, TENSOR_FP32, NULL},
        {{"param/a.weight[0:1]", "exp_avg/a.weight[0:1]"}, 1, TENSOR_FP32, "exp_avg_sq/a.weight"},
        {{"exp_avg_sq/a.weight[0:1]", "exp_avg/a.weight[0:1]"}, 1, TENSOR_FP32, "param/a.weight"},
        {{"param/a.weight[0:1]", "exp_avg/a.weight[0:1]", "exp_avg_sq/a.weight[0:1]", "param/b.weight[1:2]"},
         1,
         TENSOR_FP32,
         "stored twice"},
        {{"param/a.weight[0:1]"}, 1, TENSOR_U32, "in F32"},
        {{"param/b.weight[0:2]"}, 1, TENSOR_FP32, "in F32"},
        {{"param/a.weight[1:1]"}, 0, TENSOR_FP32, "no such elements"},
        {{"param/a.weight[1:2]"}, 1, TENSOR_FP32, "no such elements"},
        {{"param/a.weight[1:0]"}, 1, TENSOR_FP32, "no such elements"},
        {{"param/a.weight[00:1]"}, 1, TENSOR_FP32, "[BEGIN:END]"},
        {{"param/a.weight[0:+1]"}, 1, TENSOR_FP32, "[BEGIN:END]"},
        {{"param/a.weight[-1:0]"}, 1, TENSOR_FP32, "[BEGIN:END]"},
        {{"param/a.weight[0:1]x"}, 1, TENSOR_FP32, "[BEGIN:END]"},
        {{"param/a.weight[0:18446744073709551617]"}, 1, TENSOR_FP32, "[BEGIN:END]"},
        {{"param/a.weight"}, 1, TENSOR_FP32, "[BEGIN:END]"},
        {{"a.weight[0:1]"}, 1, TENSOR_FP32, "[BEGIN:END]"},
        {{"[0:1]/"}, 1, TENSOR_FP32, "[BEGIN:END]"},
        {{"params/a.weight[0:1]"}, 1, TENSOR_FP32, "has no state of this name"},
        {{"seen_param/a.weight[0:1]"}, 1, TENSOR_FP32, "no such state"},
        {{"param/a.weigh[0:1]"}, 1, TENSOR_FP32, "no such parameter"},
        {{"param/a.weights[0:1]"}, 1, TENSOR_FP32, "no such parameter"},
        {{"param/[0:1]"}, 1, TENSOR_FP32, "no such parameter"},
    };
    struct forged forged = forged_open();
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/rank-1.safetensors", forged.path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct safetensors_tensor tensors[9] = {{0}};
        size_t count = 0;
        for (; cases[i].names[count]; count++)
            tensors[count] = (struct safetensors_tensor){
                .name = cases[i].names[count], .type = cases[i].type, .shape_rank = 1, .shape = {cases[i].count}};
        struct safetensors_writer *writer;
        uint64_t bytes;
        char digest[FILE_DIGEST_BYTES], of_blocks[FILE_DIGEST_BYTES];
        unlink(path);
        cr_assert_eq(safetensors_create_in_blocks(path, tensors, count, &writer), ERR_NONE);
        cr_assert_eq(safetensors_write(writer, "0123456789abcdef", count * cases[i].count * 4), ERR_NONE);
        cr_assert_eq(safetensors_write_blocks(writer, of_blocks), ERR_NONE);
        cr_assert_eq(safetensors_finish(writer, &bytes, digest), ERR_NONE);
        json_t *manifest = json_deep_copy(forged.manifest);
        json_t *file = json_array_get(json_object_get(manifest, "files"), 1);
        json_object_set_new(file, "bytes", json_integer((json_int_t)bytes));
        json_object_set_new(file, "xxh3_128", json_string(digest));
        json_object_set_new(file, "blocks_xxh3_128", json_string(of_blocks));
        int rc = forged_try(&forged, manifest);
        cr_assert_eq(rc, cases[i].message ? ERR_USAGE : ERR_NONE, "%s: %s", cases[i].names[0], err_message());
        if (cases[i].message)
            cr_assert_not_null(strstr(err_message(), cases[i].message), "%s: %s", cases[i].names[0], err_message());
        json_decref(manifest);
    }
    json_decref(forged.manifest);
}

Test(checkpoint_forged, a_last_tensor_that_is_no_table_of_blocks_is_refused)
{
    static const struct {
        const char *name;
        enum safetensors_type type;
        uint64_t count;
    } cases[] = {
        {"blocks", TENSOR_U8, 2 * 16}, {"block", TENSOR_U8, 2 * 16},  {"blocks", TENSOR_I8, 2 * 16},
        {"blocks", TENSOR_U8, 16},     {"blocks", TENSOR_U8, 3 * 16}, {"blocks", TENSOR_U8, 0},
    };
    static const char zeros[64];
    struct forged forged = forged_open();
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/rank-1.safetensors", forged.path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct safetensors_tensor tensors[4] = {{0}};
        for (int state = 0; state < 3; state++) {
            static const char *const names[] = {"param/a.weight[0:1]", "exp_avg/a.weight[0:1]",
                                                "exp_avg_sq/a.weight[0:1]"};
            tensors[state] =
                (struct safetensors_tensor){.name = names[state], .type = TENSOR_FP32, .shape_rank = 1, .shape = {1}};
        }
        tensors[3] = (struct safetensors_tensor){
            .name = cases[i].name, .type = cases[i].type, .shape_rank = 1, .shape = {cases[i].count}};
        struct safetensors_writer *writer;
        uint64_t bytes;
        unlink(path);
        cr_assert_eq(safetensors_create(path, tensors, 4, NULL, &writer), ERR_NONE);
        cr_assert_eq(safetensors_write(writer, zeros, 12 + cases[i].count), ERR_NONE);
        cr_assert_eq(safetensors_finish(writer, &bytes, NULL), ERR_NONE);
        json_t *manifest = json_deep_copy(forged.manifest);
        json_object_set_new(json_array_get(json_object_get(manifest, "files"), 1), "bytes",
                            json_integer((json_int_t)bytes));
        cr_expect_eq(forged_try(&forged, manifest), i == 0 ? ERR_NONE : ERR_USAGE, "case %zu: %s", i, err_message());
        if (i > 0)
            cr_expect_not_null(strstr(err_message(), "rank-1.safetensors: its last tensor is not \"blocks\""), "%s",
                               err_message());
        json_decref(manifest);
    }
    json_decref(forged.manifest);
}
