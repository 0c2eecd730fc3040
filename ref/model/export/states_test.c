// SPDX-License-Identifier: Apache-2.0
// A state goes to a file and back without the loss of a bit, and a file that is not whole is refused by name.
#include "ref/model/export/states.h"

#include "base/err.h"
#include "ref/checkpoint/checkpoint_test.h"

TestSuite(states, .init = folder_setup, .fini = folder_teardown);

static char *in_folder(char out[PATH_MAX], const char *name)
{
    cr_assert_eq(file_join(folder, name, out), ERR_NONE);
    return out;
}

// Converts the newest checkpoint of a store to a file. Returns the result; `digest` may be null.
static int write_states(const char *store, const char *path, char *digest)
{
    struct checkpoint *checkpoint;
    char notes[NOTES_BYTES] = "", own[FILE_DIGEST_BYTES];
    cr_assert_eq(checkpoint_open(store, &checkpoint, notes), ERR_NONE, "%s", err_message());
    int rc = states_write(checkpoint, path, digest ? digest : own);
    checkpoint_close(checkpoint);
    return rc;
}

static int write_checkpoint(const char *path, const char *store)
{
    struct states states;
    int rc = states_open(path, true, &states);
    if (rc == ERR_NONE)
        rc = states_write_checkpoint(&states, store);
    states_close(&states);
    return rc;
}

// The model's group of that weight is 1, which the manifest does not say.
static void expect_group(const char *path)
{
    struct states states;
    cr_assert_eq(states_open(path, true, &states), ERR_NONE, "%s", err_message());
    const json_t *param = json_object_get(json_object_get(states.text.root, "parameters"), "a.weight");
    cr_expect_eq(json_integer_value(json_object_get(param, "group")), 1);
    states_close(&states);
}

static void expect_same_bytes(const char *left, const char *right)
{
    size_t bytes[2];
    char *text[2] = {folder_read(left, &bytes[0]), folder_read(right, &bytes[1])};
    cr_assert_eq(bytes[0], bytes[1]);
    cr_assert_eq(memcmp(text[0], text[1], bytes[0]), 0, "%s and %s differ", left, right);
    free(text[0]), free(text[1]);
}

// Saves at one world; at each world, what was saved and what was converted there and back end with the same bits, at
// the first world with those of the run that was not interrupted.
static void there_and_back(struct trial trial)
{
    char saved[PATH_MAX], file[PATH_MAX], back[PATH_MAX], again[PATH_MAX], digest[FILE_DIGEST_BYTES];
    uint64_t steps = trial.steps;
    int world = trial.world;
    struct train_result whole = trial_pass(&trial), ends[2];
    trial.steps = 4;
    trial.save = in_folder(saved, "saved");
    trial_pass(&trial);
    cr_assert_eq(write_states(saved, in_folder(file, "file"), digest), ERR_NONE, "%s", err_message());
    cr_assert_eq(write_checkpoint(file, in_folder(back, "back")), ERR_NONE, "%s", err_message());
    cr_assert_eq(write_states(back, in_folder(again, "again"), NULL), ERR_NONE, "%s", err_message());
    expect_same_bytes(file, again);
    expect_group(file);
    trial.save = NULL;
    trial.steps = steps;
    for (trial.world = 1; trial.world <= 3; trial.world++) {
        for (int converted = 0; converted < 2; converted++) {
            trial.resume = converted ? back : saved;
            ends[converted] = trial_pass(&trial);
        }
        cr_assert_str_eq(ends[0].digest, ends[1].digest, "%s, from world %d to %d", trial.model, world, trial.world);
        if (trial.world == world)
            cr_assert_str_eq(ends[1].digest, whole.digest, "%s at world %d", trial.model, world);
    }
    folder_remove(folder);
    cr_assert_eq(mkdir(folder, 0777), 0);
}

// linear has a scalar, empty, tied, frozen and unused parameters, uneven sizes and two groups; linear-overflow also
// skips steps and changes its loss scale.
Test(states, a_run_continues_from_them_as_if_not_converted)
{
    static const char *const recipes[] = {"torch-cpu", "deepspeed-cpu-scalar"};
    for (int world = 1; world <= 3; world++) {
        there_and_back(
            (struct trial){.model = "linear", .stage = world, .world = world, .precision = DTYPE_BF16, .steps = 7});
        there_and_back((struct trial){.model = "linear-overflow",
                                      .recipe = recipes[world % 2],
                                      .stage = world - 1,
                                      .world = world,
                                      .precision = DTYPE_FP16,
                                      .steps = 8});
    }
}

static const char SCALER[] = "\"scaler\":{\"dynamic\":false,\"scale\":8.0,\"iteration\":2,\"last_overflow\":-1,"
                             "\"hysteresis\":2}";

// One weight of two elements after two steps in fp16.
static const char *state_text(char out[2048])
{
    snprintf(out, 2048,
             "{\"precision\":\"fp16\",\"step\":2,\"skipped\":0,\"schedule\":null,%s,\"groups\":[{\"lr\":0.5,"
             "\"betas\":[0.5,0.25],\"eps\":0.125,\"weight_decay\":0.0}],\"parameters\":{\"w\":{\"shape\":[2],"
             "\"group\":0,\"t\":2}},\"tied\":{},\"origin\":null}",
             SCALER);
    return out;
}

// A file with a state and `count` tensors, which need not belong to it.
static void forge(const char *path, const char *state, struct safetensors_tensor *tensors, size_t count,
                  const char *digest)
{
    static const char values[64] = {0};
    const char *metadata[] = {"format", STATES_FORMAT, "version", STATES_VERSION, "digest", digest,
                              "state",  state,         NULL};
    struct safetensors_writer *writer;
    unlink(path);
    cr_assert_eq(safetensors_create(path, tensors, count, metadata, &writer), ERR_NONE, "%s", err_message());
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(safetensors_write(writer, values, tensors[i].count * safetensors_type_bytes(tensors[i].type)), 0);
    cr_assert_eq(safetensors_finish(writer, NULL, NULL), ERR_NONE);
}

static struct safetensors_tensor tensor(const char *name, enum safetensors_type type, uint64_t count)
{
    return (struct safetensors_tensor){.name = name, .type = type, .shape_rank = 1, .shape = {count}};
}

static void refuses(const char *path, const char *words)
{
    struct states states;
    int rc = states_open(path, true, &states);
    states_close(&states);
    cr_expect_eq(rc, ERR_USAGE, "%s: accepted", words);
    cr_expect(rc == ERR_NONE || strstr(err_message(), words), "expected \"%s\": %s", words, err_message());
}

struct damage {
    const char *from, *to;  // in the state; null: nothing
    const char *words;      // of the refusal
};

Test(states, a_damaged_state_is_refused_by_its_key)
{
    static const struct damage cases[] = {
        {"\"fp16\"", "\"int8\"", "precision"},
        {SCALER, "\"scaler\":null", "scaler: missing, but the model is in fp16"},
        {SCALER, "\"tide\":0", "tide: unknown key"},
        {"8.0", "-8.0", "scaler.scale"},
        {"\"hysteresis\":2", "\"hysteresis\":2,\"window\":3", "scaler.window: unknown key"},
        {"\"t\":2", "\"t\":-2", "parameters.w.t: is -2"},
        {"\"t\":2", "\"t\":2.5", "parameters.w.t"},
        {"\"lr\":0.5,", "", "groups.0.lr"},
        {"[0.5,0.25]", "[0.5]", "groups.0.betas"},
        {"\"group\":0", "\"group\":1", "parameters.w.group: is 1"},
        {"\"group\":0", "\"group\":null", "parameters.w.t: is given, but the parameter is in no group"},
        {"\"w\":{", "\"../w\":{", "leads out of its folder"},
        {"\"w\":{", "\"/w\":{", "leads out of its folder"},
        {"\"w\":{", "\"\":{", "leads out of its folder"},
        {"\"shape\":[2]", "\"shape\":[-2]", "parameters.w.shape"},
        {"\"skipped\":0", "\"skipped\":3", "skipped: is 3"},
        {"\"tied\":{}", "\"tied\":{\"x\":\"y\"}", "tied.x"},
        {"{\"precision\"", "{\"step\":2,\"precision\"", "given twice"},
        {"}", "", "is not JSON"},
    };
    struct safetensors_tensor whole[] = {tensor("exp_avg/w", TENSOR_FP32, 2), tensor("exp_avg_sq/w", TENSOR_FP32, 2),
                                         tensor("param/w", TENSOR_FP32, 2)};
    char path[PATH_MAX], text[2048], changed[4096];
    in_folder(path, "forged");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *at = strstr(state_text(text), cases[i].from);
        cr_assert_not_null(at, "%s", cases[i].from);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, cases[i].to, at + strlen(cases[i].from));
        forge(path, changed, whole, 3, "0");
        refuses(path, cases[i].words);
    }
}

Test(states, tensors_are_those_of_the_state)
{
    struct safetensors_tensor whole[] = {tensor("exp_avg/w", TENSOR_FP32, 2), tensor("exp_avg_sq/w", TENSOR_FP32, 2),
                                         tensor("param/w", TENSOR_FP32, 2), tensor("param/x", TENSOR_FP32, 2)};
    struct safetensors_tensor other[] = {whole[0], whole[1], tensor("param/w", TENSOR_BF16, 2)};
    char path[PATH_MAX], text[2048];
    struct states states;
    in_folder(path, "forged");
    forge(path, state_text(text), whole, 3, "0123");
    refuses(path, "is damaged: the digest of its state is");
    cr_assert_eq(states_open(path, false, &states), ERR_NONE, "%s", err_message());
    forge(path, text, whole, 3, states.digest);
    states_close(&states);
    cr_assert_eq(states_open(path, true, &states), ERR_NONE, "%s", err_message());
    char store[PATH_MAX];
    cr_expect_eq(states_write_checkpoint(&states, in_folder(store, "store")), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "which run of this program"), "%s", err_message());
    states_close(&states);
    forge(path, text, whole + 1, 2, "0");
    refuses(path, "tensor \"exp_avg/w\": is missing; no tensor is taken to be zero");
    forge(path, text, whole, 4, "0");
    refuses(path, "tensor \"param/x\": belongs to no parameter");
    forge(path, text, other, 3, "0");
    refuses(path, "tensor \"param/w\": is not in F32");
    other[2] = tensor("param/w", TENSOR_FP32, 3);
    forge(path, text, other, 3, "0");
    refuses(path, "tensor \"param/w\": does not have the shape");
    other[2] = whole[1], other[1] = whole[2];
    forge(path, text, other, 3, "0");
    refuses(path, "tensor \"exp_avg_sq/w\": is not at its place");
    forge(path, text, whole, 3, "0");
    cr_assert_eq(truncate(path, 700), 0);
    refuses(path, "forged");
    struct safetensors_writer *writer;
    unlink(path);
    cr_assert_eq(safetensors_create(path, whole + 2, 1, NULL, &writer), 0);
    cr_assert_eq(safetensors_write(writer, "\0\0\0\0\0\0\0\0", 8), 0);
    cr_assert_eq(safetensors_finish(writer, NULL, NULL), 0);
    refuses(path, "weights alone, such as Hugging Face's, are an export");
}

// The digest covers every bit of the data and of the state.
Test(states, a_changed_bit_is_a_damage)
{
    char path[PATH_MAX], back[PATH_MAX];
    size_t bytes;
    cr_assert_eq(write_states(trial_save_small(), in_folder(path, "file"), NULL), ERR_NONE, "%s", err_message());
    char *text = folder_read(path, &bytes), *lr = strstr(text + 8, "\\\"lr\\\":");
    cr_assert_not_null(lr);
    size_t places[] = {bytes - 1, bytes - 36, (size_t)(lr + 9 - text)};
    for (int i = 0; i < 3; i++) {
        text[places[i]] ^= 1;
        folder_write(path, text, bytes);
        refuses(path, "is damaged: the digest of its state is");
        text[places[i]] ^= 1;
    }
    folder_write(path, text, bytes);
    cr_expect_eq(write_checkpoint(path, in_folder(back, "back")), ERR_NONE, "%s", err_message());
    free(text);
}

// Other programs make the next update with the settings, by the schedule at that step: 2 of 10 steps of its warm-up.
Test(states, settings_are_of_the_next_update)
{
    char path[PATH_MAX];
    struct states states;
    cr_assert_eq(write_states(trial_save_small(), in_folder(path, "file"), NULL), ERR_NONE, "%s", err_message());
    cr_assert_eq(states_open(path, true, &states), ERR_NONE, "%s", err_message());
    const json_t *state = states.text.root, *group = json_array_get(json_object_get(state, "groups"), 0);
    cr_expect_eq(json_real_value(json_object_get(group, "lr")), 1e-2 * (2.0 / 10));
    cr_expect_eq(json_integer_value(json_object_get(state, "schedule")), 3);
    cr_expect_str_eq(json_string_value(json_object_get(state, "precision")), "fp16");
    const json_t *param = json_object_get(json_object_get(state, "parameters"), "a.weight");
    cr_expect_eq(json_integer_value(json_object_get(param, "t")), 3);
    states_close(&states);
}

// Neither replaces what exists, nor leaves anything after an error.
Test(states, output_is_new_and_whole)
{
    char path[PATH_MAX], other[PATH_MAX], store[PATH_MAX];
    struct states states;
    cr_assert_eq(write_states(trial_save_small(), in_folder(path, "file"), NULL), ERR_NONE, "%s", err_message());
    snprintf(store, sizeof store, "%s/step-00000003", folder);
    cr_expect_eq(write_states(store, path, NULL), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "exists, and is never overwritten"), "%s", err_message());
    cr_assert_eq(states_open(path, true, &states), ERR_NONE);
    cr_expect_eq(states_write_checkpoint(&states, store), ERR_USAGE);
    json_object_set_new(json_object_get(states.text.root, "origin"), "model", json_null());
    cr_expect_eq(states_write_checkpoint(&states, in_folder(other, "other")), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "model"), "%s", err_message());
    json_t *params = json_object_get(states.text.root, "parameters");
    json_object_set_new(json_object_get(params, "a.weight"), "t", json_integer(1));
    cr_expect_eq(states_write_checkpoint(&states, other), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "has another t"), "%s", err_message());
    json_object_set_new(json_object_get(params, "a.weight"), "t", json_null());
    cr_expect_eq(states_write_checkpoint(&states, other), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "takes none to be zero"), "%s", err_message());
    cr_expect_neq(access(other, F_OK), 0);
    strcat(other, ".partial");
    cr_expect_neq(access(other, F_OK), 0);
    cr_assert_eq(mkdir(other, 0777), 0);
    other[strlen(other) - strlen(".partial")] = '\0';
    cr_expect_eq(states_write_checkpoint(&states, other), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "other.partial: cannot be created: File exists; remove it"), "%s",
                       err_message());
    states_close(&states);
}
