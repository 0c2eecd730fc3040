// SPDX-License-Identifier: Apache-2.0
// `zerogauge plan`: worlds and models of any size, advice that fits, a search that writes a configuration, and errors.
#include "base/command_test.h"
#include "base/folder_test.h"

#include <criterion/criterion.h>
#include <jansson.h>

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char output[4 << 20];

static int plan(const char *arguments)
{
    char line[1024];
    snprintf(line, sizeof line, "cd /tmp && '%s/zerogauge' plan %s 2>&1", ZG_BINARY_DIR, arguments);
    return command_run(line, output, sizeof output);
}

// The record of the next line of the output; null: there is none.
static json_t *next_record(char **rest)
{
    char *line = strsep(rest, "\n");
    json_t *record = line && *line ? json_loads(line, 0, NULL) : NULL;
    cr_assert(record || !line || !*line, "%s", line);
    return record;
}

static json_t *plan_of(const char *arguments)
{
    char line[900], *rest = output;
    snprintf(line, sizeof line, "%s --json", arguments);
    cr_assert_eq(plan(line), 0, "%s: %s", arguments, output);
    return next_record(&rest);
}

static double number(const json_t *record, const char *key)
{
    return json_number_value(json_object_get(record, key));
}

static double peak(const json_t *record, const char *tier)
{
    return number(json_object_get(json_object_get(record, "memory"), tier), "peak_bytes");
}

// The model gives Hugging Face's "auto" its meaning.
Test(cmd_plan, auto_is_of_the_models_width_and_dtype)
{
    static const char MODEL[] = "{\"model_type\": \"llama\", \"hidden_size\": 1000, \"intermediate_size\": 2000, "
                                "\"num_hidden_layers\": 2, \"num_attention_heads\": 10, \"vocab_size\": 5000, "
                                "\"max_position_embeddings\": 128%s}";
    static const char CONFIG[] = "{\"train_micro_batch_size_per_gpu\": \"auto\", \"bf16\": {\"enabled\": \"auto\"}, "
                                 "\"fp16\": {\"enabled\": \"auto\"}, \"zero_optimization\": {\"stage\": 3, "
                                 "\"reduce_bucket_size\": \"auto\", \"stage3_prefetch_bucket_size\": \"auto\", "
                                 "\"stage3_param_persistence_threshold\": \"auto\"}}";
    static const struct {
        const char *key, *said;
    } cases[] = {
        {"", "bf16, where no file of the model says otherwise"},
        {", \"torch_dtype\": \"bfloat16\"", "bf16, as the model's file says"},
        {", \"torch_dtype\": \"float16\"", "fp16, as the model's file says"},
        {", \"dtype\": \"float32\"", "fp32, as the model's file says"},
        {", \"text_config\": null, \"torch_dtype\": \"int8\"", "bf16, where no file of the model says otherwise"}};
    char folder[PATH_MAX], path[PATH_MAX + 16], line[3 * PATH_MAX], text[1024], said[256];
    folder_make(folder);
    snprintf(path, sizeof path, "%s/ds.json", folder);
    folder_write(path, CONFIG, strlen(CONFIG));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(path, sizeof path, "%s/%zu.json", folder, i);
        snprintf(text, sizeof text, MODEL, cases[i].key);
        folder_write(path, text, strlen(text));
        snprintf(line, sizeof line, "-c %s/ds.json --model %s", folder, path);
        cr_expect_eq(plan(line), 0, "%s", output);
        snprintf(said, sizeof said, "bf16.enabled, fp16.enabled: \"auto\" is %s\n", cases[i].said);
        cr_expect(strstr(output, said), "%s%s", said, output);
        cr_expect(strstr(output, "reduce_bucket_size: \"auto\" is 1000000\n"), "%s", output);
        cr_expect(strstr(output, "prefetch_bucket_size: \"auto\" is 900000\n"), "%s", output);
        cr_expect(strstr(output, "persistence_threshold: \"auto\" is 10000\n"), "%s", output);
    }
    folder_remove(folder);
}

Test(cmd_plan, a_trillion_parameters_on_1024_devices_hold_sixteen_bytes_each_in_all)
{
    json_t *record = plan_of("--preset zero3 --model gpt-1t --world 1024 --set "
                             "zerogauge.activation_checkpointing.enabled=true");
    const json_t *held = json_object_get(json_object_get(json_object_get(record, "memory"), "device"), "held_bytes");
    double states = number(held, "parameter") + number(held, "gradient") + number(held, "optimizer") +
                    number(held, "master"),
           params = number(record, "params");
    cr_expect(params > 1e12 && params < 1.01e12);
    cr_expect(states >= 16 * params / 1024 && states < 16 * params / 1024 * 1.001, "%g", states);
    cr_expect_gt(number(record, "step_s"), 0);
    cr_expect_leq(number(record, "model_flops_per_s"), number(record, "peak_flops_per_s"));
    cr_expect(number(record, "device_flops_per_s") > 1.3 * number(record, "model_flops_per_s"));
    json_decref(record);
}

Test(cmd_plan, a_hundred_trillion_parameters_on_100000_devices_can_be_planned)
{
    char path[] = "/tmp/zg-large-XXXXXX.json", line[256];
    FILE *file = fdopen(mkstemps(path, 5), "w");
    fputs("{\"schema\": 1, \"about\": \"large\", \"source\": \"a test\", \"architecture\": \"gpt\", \"layers\": 315, "
          "\"width\": 163840, \"heads\": 1024, \"vocabulary\": 50257, \"sequence_length\": 1024}",
          file);
    fclose(file);
    snprintf(line, sizeof line, "--preset zero_infinity --world 100000 --model %s", path);
    json_t *record = plan_of(line);
    cr_expect(number(record, "params") > 101e12 && number(record, "params") < 102e12);
    cr_expect(peak(record, "nvme") >= 16 * number(record, "params") / 100000);
    unlink(path);
    json_decref(record);
}

Test(cmd_plan, advised_changes_fit)
{
    char arguments[700] = "--preset zero1 --model llama-8b --sequences 1 --machine dgx-a100";
    cr_assert_eq(plan(arguments), 0, "%s", output);
    cr_assert(strstr(output, "does not fit: device is "), "%s", output);
    char *advice = strstr(output, "it fits with ");
    cr_assert_not_null(advice, "%s", output);
    advice += strlen("it fits with ");
    snprintf(arguments + strlen(arguments), sizeof arguments - strlen(arguments), " %.*s", (int)strcspn(advice, ":"),
             advice);
    cr_assert_eq(plan(arguments), 0, "%s: %s", arguments, output);
    cr_expect(strstr(output, "\nfits\n"), "%s: %s", arguments, output);
}

Test(cmd_plan, no_more_is_advised_than_is_enough)
{
    cr_assert_eq(plan("--preset zero3 --model llama-70b --world 64 --sequences 1"), 0, "%s", output);
    cr_expect(strstr(output, "it fits with --set zerogauge.activation_checkpointing.enabled=true: step"), "%s", output);
    cr_expect_null(strstr(output, "train_micro_batch_size_per_gpu=1"), "%s", output);
}

// The options that follow the name of one in the advice fit, and a little less of them does not.
static void advised(const char *arguments, const char *option, int less)
{
    char with[300];
    cr_assert_eq(plan(arguments), 0, "%s", output);
    char *value = strstr(output, option);
    cr_assert_not_null(value, "%s: %s", arguments, output);
    int least = atoi(value + strlen(option));
    for (int i = 0; i < 2; i++) {
        snprintf(with, sizeof with, "%s %s%d", arguments, option, least + i * less);
        cr_assert_eq(plan(with), 0, "%s: %s", with, output);
        cr_expect_eq(strstr(output, "\nfits\n") != NULL, i == 0, "%s: %s", with, output);
    }
}

Test(cmd_plan, the_fewest_devices_and_the_longest_sequence_that_fit_are_advised)
{
    const char *base =
        "--preset zero3 --model llama-8b --machine dgx-a100 --world 1 --sequences 1 --sequence-length 2048";
    advised(base, "--world ", -1);
    advised("--preset zero3 --model llama-8b --machine dgx-a100 --world 4 --sequences 1", "--sequence-length ", 256);
    cr_assert_eq(plan(base), 0, "%s", output);
    cr_expect(strstr(output, ", or --lora 16"), "%s", output);
}

// The sanitizers see an empty list sorted.
Test(cmd_plan, where_no_change_fits_that_is_said)
{
    cr_assert_eq(plan("--preset zero1 --model gpt-1t --machine workstation"), 0, "%s", output);
    cr_expect(strstr(output, "no change makes it fit"), "%s", output);
}

Test(cmd_plan, a_search_writes_the_fastest_that_fits_and_keeps_the_batch)
{
    char folder[PATH_MAX], arguments[PATH_MAX + 300];
    folder_make(folder);
    const char *base = "--preset zero3 --model gpt2-124m --machine workstation";
    snprintf(arguments, sizeof arguments, "%s --search --json --write %s/found.json", base, folder);
    cr_assert_eq(plan(arguments), 0, "%s", output);
    double best_s = INFINITY;
    int count = 0;
    json_t *record;
    for (char *rest = output; (record = next_record(&rest)); count++) {
        cr_expect(json_is_true(json_object_get(record, "fits")));
        cr_expect_eq(number(record, "micro_batch") * number(record, "accumulation"), 4);
        cr_expect(count == 0 || number(record, "step_s") >= best_s);
        best_s = count == 0 ? number(record, "step_s") : best_s;
        json_decref(record);
    }
    cr_assert_geq(count, 3);
    snprintf(arguments, sizeof arguments, "--config %s/found.json --model gpt2-124m --machine workstation", folder);
    json_t *again = plan_of(arguments);
    cr_expect(json_is_true(json_object_get(again, "fits")));
    cr_expect_float_eq(number(again, "step_s"), best_s, 1e-9 * best_s);
    json_decref(again);
    cr_expect_eq(plan("--preset zero3 --model llama-405b --machine workstation --sequences 1 --search"), 1);
    cr_expect(strstr(output, "none of"), "%s", output);
    cr_expect(strstr(output, "the closest, on 1 device, zero3, all on nvme"), "%s", output);
    folder_remove(folder);
}

Test(cmd_plan, worlds_that_do_not_divide_the_sequences_of_a_step_take_the_next_larger_number)
{
    const char *base = "--preset zero3 --model gpt2-124m --machine dgx-h100 --world 2 --sequences 1 --search";
    char arguments[300];
    int counts[5] = {0};
    snprintf(arguments, sizeof arguments, "%s --worlds 2,3 --json", base);
    cr_assert_eq(plan(arguments), 0, "%s", output);
    json_t *record;
    for (char *rest = output; (record = next_record(&rest));) {
        int world = (int)number(record, "world");
        double sequences = world * number(record, "micro_batch") * number(record, "accumulation");
        cr_assert(world == 2 || world == 3, "%d", world);
        cr_expect_eq(sequences, world, "%g", sequences);
        counts[world]++;
        json_decref(record);
    }
    cr_expect(counts[2] > 0 && counts[3] > 0, "%d, %d", counts[2], counts[3]);
}

Test(cmd_plan, the_smallest_world_of_each_placement_is_found)
{
    cr_assert_eq(
        plan("--preset zero3 --model llama-8b --machine dgx-h100 --world 8 --sequences 1 --sequence-length 2048 "
             "--search --goal smallest --json"),
        0, "%s", output);
    int smallest = 1024;
    json_t *record;
    for (char *rest = output; (record = next_record(&rest));) {
        const json_t *host = json_object_get(json_object_get(record, "memory"), "host");
        const json_t *nvme = json_object_get(json_object_get(record, "memory"), "nvme");
        if (number(host, "state_bytes") + number(nvme, "state_bytes") == 0 && number(record, "world") < smallest)
            smallest = (int)number(record, "world");
        json_decref(record);
    }
    // 16 bytes for each of 8.03 billion parameters are 119.7 GiB: on two devices of 79.1 GiB that is tight.
    cr_expect_eq(smallest, 3, "%d", smallest);
    cr_assert_eq(
        plan("--preset zero3 --model llama-8b --machine dgx-h100 --sequences 1 --sequence-length 2048 --worlds "
             "2 --search --set zero_optimization.offload_optimizer.device=none --tight"),
        0, "%s", output);
    cr_expect(strstr(output, "     2 "), "%s", output);
}

Test(cmd_plan, the_longest_sequence_that_fits_is_found)
{
    const char *base = "--preset zero3 --model llama-8b --machine rtx-4090 --world 4 --search --goal longest --json";
    cr_assert_eq(plan(base), 0, "%s", output);
    char *rest = output;
    json_t *record = next_record(&rest);
    double sequences = number(record, "tokens_per_s") * number(record, "step_s");
    cr_expect_float_eq(sequences, 4 * 7424, 1, "%g", sequences);
    json_decref(record);
}

// The longest is a whole number of sixteenths of the power of two below it, and with one more nothing fits.
Test(cmd_plan, the_longest_sequence_is_found_to_a_sixteenth)
{
    const char *base = "--preset zero3 --model llama-8b --machine workstation";
    char longer[256];
    snprintf(longer, sizeof longer, "%s --search --goal longest --json", base);
    cr_assert_eq(plan(longer), 0, "%s", output);
    char *rest = output;
    json_t *record = next_record(&rest);
    double length = number(record, "tokens_per_s") * number(record, "step_s") / number(record, "world");
    int grain = 1 << (ilogb(length) - 4);
    json_decref(record);
    cr_expect_float_eq(remainder(round(length), grain), 0, 0, "%g", length);
    cr_expect_neq(remainder(round(length), 4 * grain), 0, "a quarter: %g", length);
    snprintf(longer, sizeof longer, "%s --sequences 1 --sequence-length %d --search", base, (int)round(length) + grain);
    cr_expect_eq(plan(longer), 1, "%s: %s", longer, output);
}

Test(cmd_plan, a_dtype_that_the_machine_lacks_is_refused_with_one_that_it_has)
{
    char remedied[256] = "--preset zero_infinity --machine dgx-2";
    cr_assert_eq(plan(remedied), 2, "%s", output);
    char *remedy = strstr(output, "plan fp16 with --set ");
    cr_assert_not_null(remedy, "%s", output);
    remedy += strlen("plan fp16 with");
    snprintf(remedied + strlen(remedied), sizeof remedied - strlen(remedied), "%.*s", (int)strcspn(remedy, "\n"),
             remedy);
    cr_expect_eq(plan(remedied), 0, "%s: %s", remedied, output);
    cr_expect(strstr(output, ", fp16, stage 3"), "%s", output);
}

// A file's own rows were neither fitted nor held out.
Test(cmd_plan, own_runs_are_judged_together)
{
    char path[] = "/tmp/zg-runs-XXXXXX.json", line[128];
    FILE *file = fdopen(mkstemps(path, 5), "w");
    fputs("{\"source\": \"a test\", \"set\": [\"bf16.enabled=true\"], \"rows\": [", file);
    for (int i = 0; i < 5; i++)
        fprintf(
            file,
            "%s{\"row\": \"run %d\", \"model\": \"llama-8b\", \"machine\": \"dgx-h100\", \"world\": 8, "
            "\"sequence_length\": 8192, \"micro_batch\": 1, \"accumulation\": 1, \"checkpointed\": 1, \"stage\": 3, "
            "\"tokens_per_s_per_device\": 5000}",
            i > 0 ? ", " : "", i);
    fputs("]}", file);
    fclose(file);
    snprintf(line, sizeof line, "--throughput %s", path);
    cr_assert_eq(plan(line), 0, "%s", output);
    cr_expect(strstr(output, "\nthe file's rows: 5 runs, median error"), "%s", output);
    cr_expect(strstr(output, "\n5 published runs: 5 planned"), "%s", output);
    cr_expect(!strstr(output, "fitted") && !strstr(output, "held out"), "%s", output);
    snprintf(line, sizeof line, "--throughput %s --json", path);
    cr_assert_eq(plan(line), 0, "%s", output);
    cr_expect_null(strstr(output, "\"held_out\":true"), "%s", output);
    cr_assert_eq(plan("--throughput megatron --json"), 0, "%s", output);
    cr_expect(strstr(output, "\"held_out\":true"), "%s", output);
    unlink(path);
}

Test(cmd_plan, adapters_alone_have_gradients_and_optimizer_states)
{
    json_t *record = plan_of("--preset zero3 --model llama-8b --machine dgx-h100 --world 1 --lora 16 --sequences 1");
    const json_t *held = json_object_get(json_object_get(json_object_get(record, "memory"), "device"), "held_bytes");
    // Rank 16 at q, k, v, o, gate, up and down of 32 blocks.
    double adapters = 32.0 * 16 * (2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336));
    cr_expect_eq(number(held, "optimizer"), 8 * adapters);
    cr_expect_eq(number(held, "parameter"), 2 * (8030261248.0 + adapters));
    json_decref(record);
}

Test(cmd_plan, a_file_without_steps_is_refused)
{
    char path[] = "/tmp/zg-result-XXXXXX.jsonl", line[128];
    close(mkstemps(path, 6));
    snprintf(line, sizeof line, "--against %s", path);
    cr_expect_eq(plan(line), 2);
    cr_expect(strstr(output, path), "%s", output);
    unlink(path);
}

// Stage 3 of a file of DeepSpeed's is DeepSpeed's, whose update makes copies that FSDP's does not.
Test(cmd_plan, a_file_of_deepspeed_is_planned_as_deepspeed)
{
    char path[] = "/tmp/zg-config-XXXXXX.json", line[128];
    FILE *file = fdopen(mkstemps(path, 5), "w");
    fputs(
        "{\"train_micro_batch_size_per_gpu\": 1, \"bf16\": {\"enabled\": true}, \"optimizer\": {\"type\": \"AdamW\"}, "
        "\"zero_optimization\": {\"stage\": 3}}",
        file);
    fclose(file);
    snprintf(line, sizeof line, "--config %s --model gpt2", path);
    cr_expect_eq(plan(line), 0, "%s", output);
    cr_expect(strstr(output, "of a GPU implementation: DeepSpeed's"), "%s", output);
    cr_expect_eq(plan("--preset zero3 --model gpt2"), 0, "%s", output);
    cr_expect(strstr(output, "of a GPU implementation: PyTorch's fully_shard"), "%s", output);
    unlink(path);
}

Test(cmd_plan, errors_name_what_is_wrong)
{
    static const struct {
        const char *arguments, *expected;
    } cases[] = {
        {"", "give one of --preset NAME and --config FILE"},
        {"--preset zero3 --world 0", "--world 0: expected a number above 0"},
        {"--preset zero3 --sequences -3", "--sequences -3: expected a number above 0"},
        {"--preset zero3 --checkpointed 0", "--checkpointed 0: expected a number above 0"},
        {"--preset zero3 --checkpointed 1.5", "--checkpointed 1.5: expected a share"},
        {"--preset zero3 --device-memory nan", "--device-memory nan: expected a number above 0"},
        {"--preset zero3 --world 100001", "--world 100001: expected 1 to 100000"},
        {"--preset zero3 --model llama-7", "unknown model \"llama-7\""},
        {"--preset zero3 --machine dgx-9", "unknown machine \"dgx-9\""},
        {"--preset zero3 --machine workstation --world 2", "inter_node_bytes_per_s"},
        {"--preset zero3 --set zero_optimization.stage=4", "zero_optimization.stage"},
        {"--config /none/ds.json", "/none/ds.json"},
        {"--preset zero3 --search --explain", "exclude each other"},
        {"--preset zero2 --mesh pipeline=2,shard=2 --framework deepspeed", "stage 2 within pipeline=2: DeepSpeed has"},
        {"--preset zero3 --search --model llama-8c", "llama-8c"},
        {"--preset zero3 --search --goal cheapest --model gpt2-124m --set zerogauge.mesh=shard=2,expert=2", "expert"},
        {"--preset zero3 --worlds 2,4", "--search"},
        {"--preset zero3 --search --worlds 2,,4", "expected numbers"},
        {"--preset zero3 --search --worlds 0", "expected numbers"},
        {"--preset zero3 --against result.jsonl", "--against takes configurations"},
        {"--against /none/result.jsonl", "/none/result.jsonl"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_expect_eq(plan(cases[i].arguments), 2, "%s", cases[i].arguments);
        cr_expect(strstr(output, cases[i].expected), "%s: %s", cases[i].arguments, output);
    }
}

// A trainer's file has the meaning of options that plans alone have; those of the command line win.
Test(cmd_plan, a_trainers_file_is_planned_as_its_options)
{
    static const char FILE_TEXT[] = "base_model: some/base\nadapter: qlora\nload_in_4bit: true\nlora_r: 8\n"
                                    "sequence_len: 512\nmicro_batch_size: 2\noptimizer: adamw_bnb_8bit\nbf16: true\n"
                                    "fsdp: full_shard\ncontext_parallel_size: 2\n";
    static const char SAME[] = "{\"train_micro_batch_size_per_gpu\": 2, \"bf16\": {\"enabled\": true}, \"data_types\": "
                               "{\"grad_accum_dtype\": \"fp32\"}, \"zero_optimization\": {\"stage\": 3}}";
    static const char *const ranks[][2] = {{"", "--lora 8"}, {"--lora 64", "--lora 64"}};
    char folder[PATH_MAX], path[PATH_MAX + 16], line[3 * PATH_MAX];
    folder_make(folder);
    snprintf(path, sizeof path, "%s/a.yaml", folder);
    folder_write(path, FILE_TEXT, strlen(FILE_TEXT));
    snprintf(line, sizeof line, "%s/ds.json", folder);
    folder_write(line, SAME, strlen(SAME));
    for (size_t i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "--config %s --model llama-8b --world 4 %s --json", path, ranks[i][0]);
        cr_assert_eq(plan(line), 0, "%s", output);
        cr_expect_eq(strstr(output, "--lora 8\n") != NULL, i == 0);
        char *rest = strstr(output, "{\"record\"");
        json_t *record = next_record(&rest);
        snprintf(line, sizeof line,
                 "--config %s/ds.json --model llama-8b --world 4 --framework hf --weights nf4 --moments 8bit "
                 "--sequence-length 512 --mesh context=2 %s",
                 folder, ranks[i][1]);
        json_t *same = plan_of(line);
        cr_expect(json_equal(json_object_get(record, "gpu"), json_object_get(same, "gpu")), "%s", line);
        cr_expect_eq(number(record, "tokens_per_s"), number(same, "tokens_per_s"));
        cr_expect_gt(number(record, "tokens_per_s"), 0);
        json_decref(record);
        json_decref(same);
    }
    folder_remove(folder);
}

// Megatron-LM counts the ranks of tensor parallelism among those that divide experts where these are whole.
Test(cmd_plan, a_file_of_nemo_divides_experts_as_the_mesh_does)
{
    static const char FILE_TEXT[] = "trainer: {precision: bf16}\nexp_manager: {}\nmodel:\n  micro_batch_size: 1\n"
                                    "  global_batch_size: 32\n  tensor_model_parallel_size: 2\n"
                                    "  pipeline_model_parallel_size: 2\n  expert_model_parallel_size: 4\n"
                                    "  expert_tensor_parallel_size: 1\n  sequence_parallel: true\n"
                                    "  encoder_seq_length: 1024\n  optim: {name: mcore_distributed_optim}\n";
    static const char MESH[] = "mesh shard=4,tensor=2,pipeline=2,expert=4,expert_tensor=1, sequence parallelism\n";
    char folder[PATH_MAX], path[PATH_MAX + 16], line[3 * PATH_MAX], sent[64];
    folder_make(folder);
    snprintf(path, sizeof path, "%s/nemo.yaml", folder);
    folder_write(path, FILE_TEXT, strlen(FILE_TEXT));
    snprintf(line, sizeof line, "--config %s --model qwen3-30b-a3b --world 16", path);
    cr_assert_eq(plan(line), 0, "%s", output);
    const char *found = strstr(output, "within expert ");
    cr_assert(found && strstr(output, MESH), "%s", output);
    snprintf(sent, sizeof sent, "%.*s", (int)strcspn(found, "\n"), found);
    cr_assert_eq(plan("--preset zero1 --model qwen3-30b-a3b --sequence-length 1024 --sequences 1 --mesh "
                      "tensor=2,pipeline=2,shard=4,expert=4,expert_tensor=1 --set gradient_accumulation_steps=8 --set "
                      "zerogauge.sequence_parallel=true"),
                 0, "%s", output);
    cr_expect(strstr(output, sent) && strstr(output, MESH), "%s in %s", sent, output);
    folder_remove(folder);
}

// A mesh with tensor parallelism is Megatron-LM's, which accumulates in fp32 unless a key says another dtype; a file
// that names FSDP is Hugging Face's; a machine's file may have "," and "=" in its name.
Test(cmd_plan, frameworks_and_machines_are_those_that_are_meant)
{
    char folder[PATH_MAX], line[3 * PATH_MAX];
    const char *cut = "--preset zero3 --model llama-8b --mesh tensor=8 --sequences 1";
    double bytes[2];
    folder_make(folder);
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "%s%s", cut, i == 0 ? "" : " --set data_types.grad_accum_dtype=bf16");
        json_t *record = plan_of(line);
        json_t *held = json_object_get(json_object_get(json_object_get(record, "gpu"), "device"), "held_bytes");
        bytes[i] = number(held, "gradients");
        json_decref(record);
    }
    cr_expect_eq(bytes[0], 2 * bytes[1]);
    cr_expect_gt(bytes[1], 2e9);
    snprintf(line, sizeof line,
             "cd %s && python3 -c \"import json; m = json.load(open('%s/datasets/machines.json'))['l40s']; "
             "json.dump(m, open('a,b=2.json', 'w'))\" && printf 'distributed_type: FSDP\\nfsdp_config:\\n  "
             "fsdp_version: 1\\n' > f.yaml",
             folder, ZG_SOURCE_DIR);
    cr_assert_eq(command_run(line, output, sizeof output), 0, "%s", output);
    snprintf(line, sizeof line, "--config %s/f.yaml --model llama-8b --machine '%s/a,b=2.json' --json", folder, folder);
    cr_assert_eq(plan(line), 0, "%s", output);
    char *rest = strstr(output, "{\"record\"");  // behind the file's notes
    cr_assert(rest, "%s", output);
    json_t *record = next_record(&rest);
    cr_expect_str_eq(json_string_value(json_object_get(record, "framework")), "hf");
    cr_expect(strstr(json_string_value(json_object_get(record, "machine")), "a,b=2.json"));
    cr_expect_eq(json_is_true(json_object_get(record, "fits")),
                 strcmp(json_string_value(json_object_get(record, "verdict")), "fits") == 0);
    json_decref(record);
    folder_remove(folder);
}
