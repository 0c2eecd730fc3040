// SPDX-License-Identifier: Apache-2.0
// Saving, resuming, exporting and loading weights on the command line.
#include "base/command_test.h"
#include "base/process/handler_test.h"
#include "ref/checkpoint/checkpoint_test.h"
#include "ref/comm/mpirun_test.h"

#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

static char output[1 << 16];

TestSuite(cmd_checkpoint, .init = folder_setup, .fini = folder_teardown);

// Runs a command line in the folder, which exits with this status and says these words; `output` is what it says.
static void says(int status, const char *words, const char *format, ...)
{
    char line[2048], command[8192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    snprintf(command, sizeof command, "cd %s && PATH=%s:$PATH && { %s; } 2>&1", folder, ZG_BINARY_DIR, line);
    cr_assert_eq(command_run(command, output, sizeof output), status, "%s: %s", line, output);
    cr_assert_not_null(strstr(output, words), "%s: %s: %s", line, words, output);
}

static json_t *record(void)
{
    char *begin = strstr(output, "{\"record\"");
    cr_assert_not_null(begin, "%s", output);
    json_t *value = json_loads(begin, JSON_DISABLE_EOF_CHECK, NULL);
    cr_assert_not_null(value, "%s", output);
    return value;
}

static char *digest(void)
{
    json_t *value = record();
    char *text = strdup(json_string_value(json_object_get(value, "state_digest")));
    json_decref(value);
    return text;
}

Test(cmd_checkpoint, a_continued_run_ends_like_an_uninterrupted_one)
{
    says(0, "", "zerogauge train --preset zero2 --model linear --steps 7 --json");
    char *whole = digest();
    const char *line = "zerogauge train --preset %s --model linear --steps %d --json --checkpoint saved --every 2 %s";
    says(0, "saved holds no checkpoint yet", line, "zero1", 3, "");
    says(0, "continues from saved/step-00000003", line, "zero3", 7, "--verify");
    char *continued = digest();
    cr_assert_str_eq(whole, continued);
    json_t *value = record();
    cr_assert_eq(json_integer_value(json_object_get(value, "resumed_step")), 3);
    cr_assert_eq(json_integer_value(json_object_get(value, "saved_step")), 7);
    cr_assert_eq(json_integer_value(json_object_get(value, "verified_steps")), 4);
    cr_assert(json_is_true(json_object_get(value, "equal")));
    json_decref(value);
    says(0, "continued from the checkpoint of step 7",
         "zerogauge train --preset zero2 --model linear --steps 7 --resume saved");
    says(0, "continued from the checkpoint of step 6",
         "zerogauge train --preset zero2 --model linear --steps 8 --resume saved/step-00000006");
    says(0, "", "ls saved");
    cr_assert_str_eq(output, "step-00000006\nstep-00000007\n");
    free(whole), free(continued);
}

// Starts a run without an end with that option, and if `async` with asynchronous saves, and interrupts it; it prints to
// FOLDER/said.
static void interrupt(const char *option, bool async)
{
    char said[PATH_MAX + 16], path[PATH_MAX + 16];
    int status;
    snprintf(said, sizeof said, "%s/said", folder);
    snprintf(path, sizeof path, "%s/saved", folder);
    pid_t child = fork();
    if (child == 0) {
        cr_assert(freopen("/dev/null", "w", stderr) && freopen(said, "w", stdout));
        execl(ZG_BINARY_DIR "/zerogauge", "zerogauge", "train", "--preset", "zero2", "--model", "linear", "--steps",
              "100000000", "--json", option, path, async ? "--async-save" : NULL, "--every", "1", (char *)NULL);
        _exit(99);
    }
    await_handler(child, SIGINT);
    kill(child, SIGINT);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 130, "%d", status);
}

Test(cmd_checkpoint, an_interrupted_run_saves_first)
{
    interrupt("--save", false);
    says(0, "", "ls saved | grep -c step-");
    cr_assert_str_eq(output, "1\n");
    interrupt("--resume", false);
    says(0, "\"interrupted\":true", "cat said");
    cr_assert_not_null(strstr(output, "\"resumed_step\":"), "%s", output);
}

// The text comes from a program, which here never ends.
Test(cmd_checkpoint, a_signal_while_the_text_is_read_ends_the_run)
{
    says(0, "", "printf '#!/bin/sh\\ntouch reading\\nwhile echo; do sleep 0.1; done\\n' >bible && chmod +x bible");
    says(128 + SIGTERM, "",
         "export PATH=.:$PATH; zerogauge train --preset zero1 --model gpt-nano --save saved & "
         "until test -e reading; do sleep 0.01; done; kill -TERM $!; wait $!");
    says(0, "", "! test -e saved");
}

Test(cmd_checkpoint, an_interrupted_run_ends_the_save_that_is_under_way)
{
    interrupt("--save", true);
    says(0, "\"interrupted\":true", "cat said");
    json_t *value = record();
    json_int_t steps = json_integer_value(json_object_get(value, "steps"));
    cr_assert_eq(json_integer_value(json_object_get(value, "saved_step")), steps);
    json_decref(value);
    says(0, "",
         "! ls saved | grep partial && zerogauge train --preset zero3 --model linear --json --resume saved "
         "--steps %d",
         (int)steps + 1);
}

// Saves that steps wait for, and saves during which steps go on, have the same files.
Test(cmd_checkpoint, asynchronous_saves_leave_the_files_of_others)
{
    static const char *const runs[] = {
        "--preset zero1 --world 2 --model gpt-nano",
        "--preset zero3_offload --world 2 --model linear --schedule chaos:3",
        "--preset zero1 --mesh tensor=2,pipeline=2 --model gpt-nano:blocks=2",
        "--preset zero2 --world 2 --model gpt-nano --set optimizer.type=Muon --set optimizer.params.muon_lr=0.02",
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        const char *line = "zerogauge train %s --steps 7 --every 2 --json --verify --save %s%zu %s";
        says(0, "", line, runs[i], "waited", i, "");
        char *waited = digest();
        says(0, "", line, runs[i], "async", i, "--async-save");
        char *async = digest();
        cr_expect_str_eq(async, waited);
        says(0, "", "diff -r waited%zu async%zu && ls async%zu", i, i, i);
        cr_expect_str_eq(output, "step-00000006\nstep-00000007\n");
        free(waited), free(async);
    }
    says(0, "in rank 0's host memory", "zerogauge train %s --steps 3 --every 2 --save told --async-save", runs[0]);
}

Test(cmd_checkpoint, processes_save_asynchronously_as_threads_do)
{
    MPI_OR_SKIP();
    const char *words = "train --preset zero2 --model gpt-nano --steps 7 --every 2 --json --verify";
    char arguments[2 * PATH_MAX];
    says(0, "", "zerogauge %s --world 2 --save threads", words);
    snprintf(arguments, sizeof arguments, "%s --async-save --save %s/processes", words, folder);
    cr_assert_eq(mpirun(2, "zerogauge", arguments, output, sizeof output), 0, "%s", output);
    says(0, "", "diff -r threads processes");
    snprintf(arguments, sizeof arguments, "%s --async-save --inject rank:1:kill@6 --save %s/killed", words, folder);
    cr_assert_neq(mpirun(2, "zerogauge", arguments, output, sizeof output), 0, "%s", output);
    // The save of step 4 was published only if both ranks had written it before step 5 was decided.
    says(0, "continues from killed/step-0000000", "zerogauge %s --world 2 --checkpoint killed", words);
    says(0, "", "diff -r threads/step-00000007 killed/step-00000007");
}

// The steps go on, but the save of step 4 is not over when a rank ends in step 5.
Test(cmd_checkpoint, a_rank_that_ends_leaves_no_checkpoint_half_saved)
{
    const char *line = "zerogauge train --preset zero2 --model linear --steps 9 --every 2 --async-save";
    says(2, "ended in step 5 by --inject", "%s --save saved --inject rank:1:die@5", line);
    says(0, "", "ls saved");
    cr_assert_str_eq(output, "step-00000002\n");
    says(0, "continues from saved/step-00000002", "%s --checkpoint saved --verify", line);
}

Test(cmd_checkpoint, the_copy_of_an_asynchronous_save_is_planned_and_limited)
{
    const char *save = "--preset zero2 --model linear --every 2 --save saved --async-save";
    says(2, "host memory: ", "zerogauge train %s --host-memory 1KiB", save);
    cr_assert_not_null(strstr(output, "for \"copy for asynchronous saves\" does not fit: 1 KiB budget"), "%s", output);
    says(0, "", "! test -e saved/step-00000002");
    says(0, "\"async_save\": true", "zerogauge train %s --print-config", save);
    // 12 bytes of each of a rank's parameters, which are half of all.
    says(0, "", "zerogauge plan --preset zero2 --model gpt-tiny --world 2 --json --set zerogauge.async_save=true");
    cr_assert_not_null(strstr(output, "\"staging\":1323264"), "%s", output);
}

Test(cmd_checkpoint, a_converted_run_ends_like_an_uninterrupted_one)
{
    const char *line = "zerogauge train --preset zero2 --model gpt-nano --json --steps %d %s";
    says(0, "", line, 5, "");
    char *whole = digest();
    says(0, "", line, 3, "--save saved");
    says(0, "states: step 3, 28 parameters, state ", "zerogauge convert saved states");
    char *state = strdup(strstr(output, "state "));
    says(0, state, "zerogauge convert states back");
    says(0, state, "zerogauge convert states");
    says(0, "", line, 5, "--checkpoint back");
    char *continued = digest();
    cr_assert_str_eq(whole, continued);
    says(2, "states: exists, and is never overwritten", "zerogauge convert saved states");
    says(2, "back: is a folder, which is never written to", "zerogauge convert states back");
    says(0, "", "zerogauge export saved weights");
    says(2, "weights alone, such as Hugging Face's, are an export", "zerogauge convert weights again");
    says(0, "", line, 1, "--set zerogauge.moment_dtype=bf16 --save narrow");
    says(2, "was made with moment_dtype bf16; other formats", "zerogauge convert narrow again");
    says(2, "with the same bits: give a world, train_micro_batch_size_per_gpu", line, 5, "--world 3 --checkpoint back");
    says(1, "", "ls | grep -e partial -e again");
    free(whole), free(state), free(continued);
}

// A run from fp32 weights begins with the loss of the run that made them; from 16-bit weights, near it.
Test(cmd_checkpoint, exported_weights_load_again)
{
    const char *train = "zerogauge train --preset zero3 --world 3 --model linear --json";
    says(0, "", "%s --steps 3 --save saved", train);
    says(0, "linear after step 3", "zerogauge export saved a.safetensors");
    says(0, "", "%s --steps 2 --load-weights a.safetensors --save again --verify", train);
    char *loaded = digest();
    says(0, "",
         "zerogauge train --preset zero1 --world 3 --model linear --json --steps 2 --load-weights "
         "a.safetensors --verify");
    char *other = digest();
    cr_assert_str_eq(loaded, other);
    free(other);
    says(0, "", "%s --steps 2", train);
    other = digest();
    cr_assert_str_neq(loaded, other);
    free(loaded), free(other);
    says(0, "", "%s --steps 3 --resume again --load-weights a.safetensors --verify", train);
    says(2, "--verify", "%s --steps 3 --resume again --verify", train);
    // Through bf16 and back: values that bf16 represents do not change.
    says(0, "", "zerogauge export saved b.safetensors --dtype bf16");
    says(0, "", "zerogauge export saved c.safetensors --dtype fp16");
    says(1, "", "cat b.safetensors > b && cmp a.safetensors b");
    says(0, "", "%s --steps 2 --load-weights b.safetensors --verify", train);
    says(0, "",
         "f=saved/step-00000003/rank-1.safetensors; printf '\\377\\177' | dd of=$f bs=1 conv=notrunc "
         "seek=$(($(stat -c %%s $f) - 8))");
    says(2, "rank-1.safetensors: is damaged", "zerogauge export saved d.safetensors");
    says(0, "", "ls");
    cr_assert_null(strstr(output, "d.safetensors"), "%s", output);
    cr_assert_null(strstr(output, "partial"), "%s", output);
}

// Adapters alone are saved; the base is what the run began with, by a seed or from a file.
Test(cmd_checkpoint, adapters_continue_at_another_stage_and_world_on_the_same_base)
{
    const char *line = "zerogauge train --preset %s --world %d --set train_batch_size=12 --set "
                       "train_micro_batch_size_per_gpu=auto --model gpt-nano --lora %s --steps %d --json --verify %s";
    const char *lora = "rank=4,alpha=8,targets=c_attn+mlp.c_proj";
    says(0, "", line, "zero1", 2, lora, 6, "");
    char *whole = digest();
    says(0, "", line, "zero1", 2, lora, 3, "--save saved");
    says(0, "", "ls -l saved/step-00000003/rank-*.safetensors | awk '{bytes += $5} END {exit bytes > 20000}'");
    says(0, "", "! grep -l wte saved/step-00000003/*");
    says(0, "", line, "zero3", 2, lora, 6, "--resume saved");
    char *continued = digest();
    cr_assert_str_eq(whole, continued);
    says(0, "",
         "zerogauge train --preset zero2 --world 3 --set train_batch_size=12 --set "
         "train_micro_batch_size_per_gpu=auto --model gpt-nano --lora %s --steps 6 --resume saved",
         lora);
    says(2, "is a checkpoint of the model gpt-nano:rank=4,alpha=8,", line, "zero3", 2,
         "rank=4,alpha=9,targets=c_attn+mlp.c_proj", 6, "--resume saved");
    says(0, "", "zerogauge export saved merged.safetensors --merge");
    says(2, "was made with initial_weights of the seed", line, "zero3", 2, lora, 6,
         "--resume saved --load-weights merged.safetensors");
    // The model without adapters loads the merged weights, and they can be the base of other adapters.
    says(0, "", "zerogauge train --preset zero2 --model gpt-nano --steps 1 --load-weights merged.safetensors");
    says(0, "", line, "zero2", 2, "rank=1", 2, "--load-weights merged.safetensors --save second");
    says(2, "give the file of --load-weights with --base", "zerogauge export second again.safetensors --merge");
    says(0, "", "zerogauge export second again.safetensors --merge --base merged.safetensors");
    says(0, "adapter_config.json\nadapter_model.safetensors\n", "zerogauge export second adapters && ls adapters");
    // PEFT has all-linear as the one word that names every module, not as one target among others.
    says(0, "", line, "zero2", 2, "rank=1,targets=mlp.c_fc+all-linear", 1, "--save all");
    says(0, "\"target_modules\": \"all-linear\"", "zerogauge export all every && cat every/adapter_config.json");
    says(2, "",
         "zerogauge train --preset zero2 --model gpt-nano --steps 1 --save plain && "
         "zerogauge export plain x.safetensors --merge");
    cr_assert_not_null(strstr(output, "is not a checkpoint of a model with adapters"), "%s", output);
    free(whole), free(continued);
}

Test(cmd_checkpoint, weights_of_another_model_are_refused_with_the_tensor)
{
    says(0, "", "zerogauge train --preset zero1 --model linear --steps 1 --save a");
    says(0, "", "zerogauge train --preset zero1 --model linear-few --steps 1 --save b");
    says(0, "", "zerogauge export a a.safetensors && zerogauge export b b.safetensors");
    const char *train = "zerogauge train --preset zero1 --steps 1 --model";
    says(2, "has no tensor \"tied.weight\"", "%s linear --load-weights b.safetensors", train);
    says(2, "tensor \"a.weight\" has the shape [7], the model's parameter [1]",
         "%s linear-few --load-weights a.safetensors", train);
    says(2, "has no tensor \"a.weight\"",
         "sed 's/a.weight/a.wright/' b.safetensors > c && %s linear-few --load-weights c", train);
    struct safetensors_tensor tensors[] = {
        {.name = "b.weight", .type = TENSOR_BF16, .shape_rank = 1, .shape = {2}},
        {.name = "a.weight", .type = TENSOR_FP16, .shape_rank = 1, .shape = {1}},
        {.name = "c.weight", .type = TENSOR_FP32, .shape_rank = 1, .shape = {0}},
    };
    for (int extra = 0; extra < 2; extra++) {
        struct safetensors_writer *writer;
        char path[PATH_MAX + 8];
        snprintf(path, sizeof path, "%s/e%d", folder, extra);
        cr_assert_eq(safetensors_create(path, tensors, 2 + (size_t)extra, NULL, &writer), 0);
        cr_assert_eq(safetensors_write(writer, "\0\x3f\0\x3f\0\x3c", 6), 0);
        cr_assert_eq(safetensors_finish(writer, NULL, NULL), 0);
        says(extra ? 2 : 0, "", "%s linear-few --load-weights e%d --verify", train, extra);
    }
    cr_assert_not_null(strstr(output, "tensor \"c.weight\" is not a parameter of the model"), "%s", output);
    says(2, "nowhere: cannot be opened", "%s linear-few --load-weights nowhere", train);
    says(2, "d: is truncated", "head -c 100 b.safetensors > d; %s linear-few --load-weights d", train);
}

Test(cmd_checkpoint, a_hostile_name_does_not_reach_the_terminal)
{
    char path[PATH_MAX + 64];
    size_t bytes;
    says(0, "", "zerogauge train --preset zero2 --model linear-few --steps 1 --save saved");
    snprintf(path, sizeof path, "%s/saved/step-00000001/manifest.json", folder);
    char *text = folder_read(path, &bytes);
    json_t *manifest = json_loadb(text, bytes, 0, NULL);
    free(text);
    json_object_set_new(manifest, "model", json_string("\033[2Jred\033]0;title\007"));
    cr_assert_eq(manifest_seal(manifest), 0);
    cr_assert_eq(json_dump_file(manifest, path, 0), 0);
    json_decref(manifest);
    says(0, "", "zerogauge export saved out");
    cr_expect_not_null(strstr(output, "red"), "%s", output);
    cr_expect_null(strpbrk(output, "\033\007"), "an escape sequence");
    says(2, "", "zerogauge train --preset zero2 --model linear-few --steps 2 --resume saved");
    cr_expect_null(strpbrk(output, "\033\007"), "an escape sequence");
}

Test(cmd_checkpoint, bad_input_is_named_and_exits_2)
{
    static const struct {
        const char *arguments, *message;
    } cases[] = {
        {"train --preset zero1 --checkpoint a --save b", "--checkpoint"},
        {"train --preset zero1 --checkpoint a --resume b", "--checkpoint"},
        {"train --preset zero1 --every 5", "--every needs --save DIR"},
        {"train --preset zero1 --save a --every -1", "--every -1"},
        {"train --preset zero1 --save a --async-save", "--async-save needs --every N"},
        {"train --preset zero_infinity --save a --every 1 --async-save", "states are on NVMe"},
        {"train --preset zero1 --model linear --resume nowhere", "nowhere"},
        {"train --preset zero1 --model linear --save nowhere/there", "nowhere/there"},
        {"export", "expected a checkpoint"},
        {"export nowhere out", "nowhere"},
        {"export . out --dtype fp8", "fp8"},
        {"export a b c", "expected a checkpoint"},
        {"convert", "expected a checkpoint"},
        {"convert nowhere out", "nowhere: cannot be opened"},
        {"convert . out", "is not a checkpoint, or a folder of checkpoints"},
        {"convert .", "expected the file to write"},
        {"convert . out --unsealed", "--unsealed is for a file alone"},
        {"convert . out --to zerogauge", "becomes safetensors"},
        {"convert . out --to dcp", "python -m zerogauge convert"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        says(2, cases[i].message, "zerogauge %s", cases[i].arguments);
    }
    // A full disk: leaves no file, neither complete nor partial.
    says(0, "", "zerogauge train --preset zero1 --model linear --steps 1 --save a && zerogauge export a x");
    says(2, "y.partial: cannot be written", "trap '' XFSZ; ulimit -f 4; zerogauge export a y --dtype bf16");
    says(0, "", "! test -e y && ! test -e y.partial");
    // Nothing is overwritten, and a link is not followed.
    says(2, "x: exists, and is never overwritten", "cp x y; zerogauge export a x --dtype bf16");
    says(0, "", "cmp x y");
    says(0, "",
         "zerogauge train --preset zero1 --model gpt-tiny:rank=8,alpha=16,targets=c_attn --steps 1 --save tuned");
    says(0, "", "mkdir adapters; ln -s adapters link; zerogauge export tuned adapters");
    says(2, "link: is a link or a file; expected a folder", "zerogauge export tuned link");
    says(2, "adapters/adapter_model.safetensors: exists, and is never overwritten", "zerogauge export tuned adapters");
}
