// SPDX-License-Identifier: Apache-2.0
// `zerogauge train` as a user meets it: exit status, messages, the JSON record.
#include "base/command_test.h"
#include "base/folder_test.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

static char output[1 << 16];

// The exit status of `zerogauge ARGUMENTS`; standard output and error together are left in output.
static int zerogauge(const char *arguments)
{
    char command[1024];
    snprintf(command, sizeof command, "%s/zerogauge %s 2>&1", ZG_BINARY_DIR, arguments);
    return command_run(command, output, sizeof output);
}

// The record of `zerogauge train WORDS --json`, which must succeed.
static json_t *record_of(const char *words)
{
    char arguments[512];
    snprintf(arguments, sizeof arguments, "train %s --json", words);
    cr_assert_eq(zerogauge(arguments), 0, "%s", output);
    while (strlen(output) > 0 && output[strlen(output) - 1] == '\n')
        output[strlen(output) - 1] = '\0';
    char *line = strrchr(output, '\n');
    json_t *record = json_loads(line ? line + 1 : output, 0, NULL);
    cr_assert_not_null(record, "%s", output);
    return record;
}

Test(cmd_train, auto_sizes_are_of_the_models_width)
{
    static const char TEXT[] =
        "{\"train_batch_size\": 4, \"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": "
        "\"auto\", \"stage3_prefetch_bucket_size\": \"auto\"}}";
    char folder[PATH_MAX], path[PATH_MAX + 16], arguments[2 * PATH_MAX];
    folder_make(folder);
    snprintf(path, sizeof path, "%s/ds.json", folder);
    folder_write(path, TEXT, strlen(TEXT));
    static const char *const models[][3] = {{"gpt-nano", "256", "230"},
                                            {"gpt:layers=2,width=48,heads=2", "2304", "2073"}};
    for (size_t i = 0; i < 2; i++) {
        char said[128];
        snprintf(arguments, sizeof arguments, "train -c %s --model %s --steps 1", path, models[i][0]);
        cr_expect_eq(zerogauge(arguments), 0, "%s", output);
        snprintf(said, sizeof said,
                 "reduce_bucket_size: \"auto\" is %s\nzero_optimization.stage3_prefetch_bucket_size: "
                 "\"auto\" is %s\n",
                 models[i][1], models[i][2]);
        cr_expect(strstr(output, said), "%s%s", said, output);
    }
    folder_remove(folder);
}

Test(cmd_train, the_record_has_what_programs_read)
{
    char keys[] =
        "model stage world steps precision accumulation schedule recipe verified_steps equal first_difference "
        "state_digest loss held_bytes formula_held_bytes moved_bytes formula_moved_bytes tokens_per_s "
        "skipped_steps";
    json_t *record = record_of("--preset zero2 --world 3 --model linear --steps 4 --verify");
    for (char *rest = keys, *key; (key = strsep(&rest, " "));)
        cr_assert_not_null(json_object_get(record, key), "%s", key);
    cr_assert_str_eq(json_string_value(json_object_get(record, "record")), "train");
    cr_assert(json_is_true(json_object_get(record, "equal")));
    cr_assert(json_is_null(json_object_get(record, "first_difference")));
    cr_assert_eq(json_integer_value(json_object_get(record, "verified_steps")), 4);
    cr_assert_eq(json_integer_value(json_object_get(record, "held_bytes")),
                 json_integer_value(json_object_get(record, "formula_held_bytes")));
    json_decref(record);
}

Test(cmd_train, the_record_names_quantized_communication)
{
    json_t *record = record_of("--preset zero3 --world 2 --model linear --steps 1");
    cr_assert(json_is_null(json_object_get(record, "quantization")));
    json_decref(record);
    record = record_of("--preset zero3 --world 2 --model linear --steps 1 "
                       "--set zero_optimization.zero_quantized_weights=true --set zerogauge.quantization_block=16");
    json_t *expected = json_pack("{s:b,s:b,s:i}", "weights", 1, "gradients", 0, "block_elements", 16);
    cr_assert(json_equal(json_object_get(record, "quantization"), expected));
    json_decref(expected);
    json_decref(record);
}

Test(cmd_train, the_record_of_a_mesh_has_the_bytes_of_every_group)
{
    json_t *record = record_of("--preset zero3 --mesh replicate=2,shard=2 --model linear --steps 2");
    json_t *sent = json_object_get(record, "sent_bytes_by_group"), *bytes;
    json_int_t all = 0, collectives = 0;
    const char *name;
    cr_assert(json_equal(sent, json_object_get(record, "formula_sent_bytes_by_group")));
    cr_assert_eq(json_object_size(sent), 3);
    cr_assert_gt(json_integer_value(json_object_get(sent, "shard")), 0);
    cr_assert_gt(json_integer_value(json_object_get(sent, "replicate")), 0);
    json_object_foreach (sent, name, bytes)
        all += json_integer_value(bytes);
    json_object_foreach (json_object_get(json_object_get(record, "moved_bytes_by_lane"), "collective"), name, bytes)
        collectives += json_integer_value(bytes);
    cr_assert_eq(all, collectives);
    json_decref(record);
}

Test(cmd_train, without_verification_nothing_is_claimed)
{
    json_t *record = record_of("--preset zero1 --world 2 --model linear --steps 1");
    cr_assert(json_is_null(json_object_get(record, "equal")));
    cr_assert_eq(json_integer_value(json_object_get(record, "verified_steps")), 0);
    json_decref(record);
}

Test(cmd_train, every_stage_has_one_digest)
{
    char digest[64] = "";
    for (int stage = 0; stage < 4; stage++) {
        char words[256];
        snprintf(words, sizeof words, "--preset zero%d --world 3 --model linear --steps 3 --schedule chaos:%d --verify",
                 stage, stage);
        json_t *record = record_of(words);
        const char *now = json_string_value(json_object_get(record, "state_digest"));
        if (stage == 0)
            snprintf(digest, sizeof digest, "%s", now);
        cr_assert_str_eq(now, digest, "stage %d", stage);
        json_decref(record);
    }
}

Test(cmd_train, bad_input_is_named_and_exits_2)
{
    static const struct {
        const char *arguments, *message;
    } cases[] = {
        {"train", "--preset NAME"},
        {"train --preset zero9", "zero9"},
        {"train --preset zero1 --config x.json", "one of"},
        {"train --config /nonexistent/ds.json", "/nonexistent/ds.json"},
        {"train --preset zero1 --model gpt-huge", "gpt-huge"},
        {"train --preset zero1 --model gpt:depth=3", "unknown key 'depth'"},
        {"train --preset zero3 --model gpt-nano --set zerogauge.tiling.factor=3", "\"zerogauge.tiling.factor\" = 3"},
        {"train --preset zero3 --model linear --set zerogauge.tiling.factor=2", "linear has no large layers"},
        {"train --preset zero1 --world 0", "--world 0: expected a number above 0"},
        {"train --preset zero1 --world -1", "--world -1: expected a number above 0"},
        {"train --preset zero1 --threads 0", "--threads 0: expected a number above 0"},
        {"train --preset zero1 --save c --every 0", "--every 0: expected a number above 0"},
        {"train --preset zero1 --steps 0", "--steps 0"},
        {"train --preset zero1 --schedule fast", "fast"},
        {"train --preset zero1 --device-memory lots", "--device-memory: \"lots\": expected a size"},
        {"train --preset zero1 --device-memory 0", "--device-memory 0: expected more than 0 bytes"},
        {"train --preset zero1 --host-memory 3X", "--host-memory: \"3X\": expected a size"},
        {"train --preset zero1 --host-memory 0K", "--host-memory 0K: expected more than 0 bytes"},
        {"train --preset zero1 --nvme-space -1", "--nvme-space: \"-1\": expected a size"},
        {"train --preset zero_infinity --nvme-path ''", "--nvme-path \"\": expected a path"},
        {"train --preset zero_infinity --nvme-path /a --nvme-path /b --nvme-path /a", "--nvme-path /a is given twice"},
        {"train --preset zero_infinity", "no path is given, expected --nvme-path DIR"},
        {"train --preset zero1 --engine posix", "--engine \"posix\": expected libaio or io_uring"},
        {"train --preset zero1 --emulate h2d=fast", "--emulate: \"h2d=fast\": expected a number of GB/s"},
        {"train --preset zero1 --emulate gpu=3", "--emulate: \"gpu=3\": expected LANE=GB/s"},
        {"train --preset zero1 --trace ''", "--trace: expected the name of a file"},
        {"train --preset zero1 --nvme-path", "--nvme-path: missing argument"},
        {"train --preset zero1 --text /nonexistent/text", "/nonexistent/text"},
        {"train --preset zero1 --set zero_optimization.stagee=2", "stagee"},
        {"train --preset zero1 surplus", "surplus"},
        {"train --preset zero1 --frobnicate", "--frobnicate"},
        {"train --preset zero1 --model linear --device-memory 4K", "budget"},
        {"train --preset zero3 --model linear --world 3 --inject rank:3:die@1",
         "--inject rank:3:die@1: the last rank is 2"},
        {"train --preset zero3 --model linear --steps 4 --inject rank:1:kill@5",
         "--inject rank:1:kill@5: the last step is 4"},
        {"train --preset zero3 --model linear --steps 4 --inject rank:1:die@4,nvme:eio@1",
         "--inject nvme:eio@1: nothing is on NVMe"},
        {"train --preset zero3 --lora rank=8,layers=1", "unknown key 'layers', expected rank=NUMBER"},
        {"trian", "trian"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_assert_eq(zerogauge(cases[i].arguments), 2, "%s: %s", cases[i].arguments, output);
        cr_assert_not_null(strstr(output, cases[i].message), "%s: %s", cases[i].arguments, output);
    }
}

Test(cmd_train, tiles_and_activation_checkpoints_are_a_matter_of_configuration)
{
    json_t *record = record_of("--preset zero3 --world 2 --model gpt-nano --steps 2 --verify "
                               "--set zerogauge.tiling.factor=4 --set zerogauge.activation_checkpointing.enabled=true");
    cr_assert_str_eq(json_string_value(json_object_get(record, "model")), "gpt-nano:tiles=4");
    cr_assert(json_is_true(json_object_get(record, "equal")));
    json_decref(record);
}

Test(cmd_train, print_config_loads_again)
{
    char path[] = "/tmp/zg-config-XXXXXX", words[256];
    close(mkstemp(path));
    cr_assert_eq(zerogauge("train --preset zero3 --mesh replicate=2,shard=1 --lora rank=2 --print-config"), 0, "%s",
                 output);
    folder_write(path, output, strlen(output));
    snprintf(words, sizeof words, "--config %s --world 2 --model linear --steps 2 --verify", path);
    json_t *record = record_of(words);
    unlink(path);
    cr_assert_eq(json_integer_value(json_object_get(record, "stage")), 3);
    cr_assert_str_eq(json_string_value(json_object_get(record, "mesh")), "replicate=2");
    cr_assert_str_eq(json_string_value(json_object_get(record, "model")), "linear:rank=2");
    json_decref(record);
}

// The papers' formulas are of models that are trained as a whole.
Test(cmd_train, a_table_of_adapters_names_no_formula_of_whole_models)
{
    cr_assert_eq(zerogauge("train --preset zero3 --model linear --steps 1"), 0, "%s", output);
    cr_expect_not_null(strstr(output, "in the paper: (p + g + K) Psi/N\n"), "%s", output);
    cr_expect_not_null(strstr(output, "per rank and step: 3 Psi (N-1)/N elements\n"), "%s", output);
    cr_assert_eq(zerogauge("train --preset zero3 --model linear --lora rank=2 --steps 1"), 0, "%s", output);
    cr_expect_null(strstr(output, "in the paper"), "%s", output);
    cr_expect_not_null(strstr(output, "model states "), "%s", output);
}

Test(cmd_train, a_mesh_is_read_to_its_end)
{
    char arguments[512] = "train --preset zero3 --model linear --world 2 --steps 1 --mesh shard=";
    memset(arguments + strlen(arguments), '0', 300);
    strcat(arguments, "2,replicate=3");
    cr_assert_eq(zerogauge(arguments), 2, "%s", output);
    cr_assert_not_null(strstr(output, "is 6 ranks, the world has 2"), "%s", output);
}

Test(cmd_train, paths_and_engine_of_the_command_line_reach_the_configuration)
{
    cr_assert_eq(zerogauge("train --preset zero_infinity --nvme-path /one --nvme-path /two --engine io_uring "
                           "--host-memory 1GiB --nvme-space 2G --buffered --no-swap-checksum --emulate h2d=1 --trace t "
                           "--print-config"),
                 0, "%s", output);
    json_t *config = json_loads(output, 0, NULL), *zero = json_object_get(config, "zero_optimization");
    json_t *paths = json_object_get(json_object_get(zero, "offload_optimizer"), "nvme_path");
    cr_assert_eq(json_array_size(paths), 2, "%s", output);
    cr_expect_str_eq(json_string_value(json_array_get(paths, 0)), "/one");
    cr_expect_str_eq(json_string_value(json_array_get(paths, 1)), "/two");
    json_t *engine = json_object_get(json_object_get(config, "zerogauge"), "aio_engine");
    cr_expect_str_eq(json_string_value(engine), "io_uring");
    json_decref(config);
}

Test(cmd_train, help_has_every_option_once_and_in_groups)
{
    static const char *const lines[] = {
        "\nModel and data:\n", "--preset=PRESET",  "\nExecution:\n", "--world=N",   "\nMemory and storage:\n",
        "--nvme-path DIR",     "\nCheckpoints:\n", "--resume=DIR",   "\nOutput:\n", "--verify"};
    cr_assert_eq(zerogauge("train --help"), 0);
    char *examples = strstr(output, "\nExamples:\n");
    cr_assert(examples, "%s", output);
    *examples = '\0';
    const char *at = output;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const char *line = strstr(at, lines[i]);
        cr_assert(line, "%s is not there, or out of order", lines[i]);
        cr_assert_null(strstr(line + 1, lines[i]), "%s is there twice", lines[i]);
        at = line;
    }
}

Test(cmd_train, options_for_nvme_are_noted_where_nothing_is_on_nvme)
{
    cr_assert_eq(zerogauge("train --preset zero1 --model linear --steps 1 --nvme-path /one --engine libaio "
                           "--no-swap-checksum"),
                 0, "%s", output);
    cr_expect(strstr(output, "--nvme-path: accepted, but has no effect here: nothing is on NVMe\n"), "%s", output);
    cr_expect(strstr(output, "--engine: accepted"), "%s", output);
    cr_expect(strstr(output, "--no-swap-checksum: accepted"), "%s", output);
    cr_expect_null(strstr(output, "--buffered"), "%s", output);
    cr_assert_eq(zerogauge("train --preset zero1 --model linear --steps 1"), 0);
    cr_expect_null(strstr(output, "accepted"), "%s", output);
}

Test(cmd_train, a_run_without_checksums_says_so_once)
{
    const char *note = "data that changes on NVMe is not noticed", *at;
    const char *run = "train --preset zero_infinity --model linear-few --steps 2 --nvme-path /dev/shm --buffered ";
    char arguments[256];
    for (int json = 0; json < 2; json++) {
        snprintf(arguments, sizeof arguments, "%s --no-swap-checksum%s", run, json ? " --json" : "");
        cr_assert_eq(zerogauge(arguments), 0, "%s", output);
        at = strstr(output, note);
        cr_assert_not_null(at, "%s", output);
        cr_expect_null(strstr(at + 1, note), "%s", output);
    }
    cr_assert_eq(zerogauge(run), 0, "%s", output);
    cr_expect_null(strstr(output, note), "%s", output);
}

Test(cmd_train, a_file_of_text_is_trained_on)
{
    char path[] = "/tmp/zg-text-XXXXXX", words[256];
    FILE *file = fdopen(mkstemp(path), "w");
    for (int i = 0; i < 2000; i++)
        fprintf(file, "line %d of the text\n", i);
    fclose(file);
    snprintf(words, sizeof words, "--preset zero1 --text %s --model gpt-nano --steps 40", path);
    json_t *record = record_of(words);
    unlink(path);
    cr_assert_lt(json_number_value(json_object_get(record, "loss")),
                 json_number_value(json_object_get(record, "first_loss")) - 0.3);
    json_decref(record);
}
