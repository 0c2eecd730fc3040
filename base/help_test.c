// SPDX-License-Identifier: Apache-2.0
// --help: every command has examples, and the examples work.
#include "base/command_test.h"
#include "base/folder_test.h"
#include "base/help_test.h"

#include <criterion/criterion.h>

#include <string.h>

static void examples_of(const char *command, struct lines *out)
{
    char arguments[300];
    snprintf(arguments, sizeof arguments, "%s --help", command);
    lines_below("Examples:", arguments, out);
    cr_assert_geq(out->count, 2, "zerogauge %s --help: expected at least two examples", command);
}

// Inserts `words` after the program's options in an example: before a "--", a pipe or a redirection.
static void insert(const char *example, const char *words, char out[4096])
{
    static const char *const ends[] = {" -- ", " | ", " > "};
    size_t head = strlen(example);
    for (int i = 0; i < 3; i++) {
        const char *end = strstr(example, ends[i]);
        head = end && (size_t)(end - example) < head ? (size_t)(end - example) : head;
    }
    snprintf(out, 4096, "%.*s %s%s", (int)head, example, words, example + head);
}

static void check_examples(const char *command)
{
    static struct lines examples;
    char asked[4096], line[8192], output[4096];
    examples_of(command, &examples);
    for (int i = 0; i < examples.count; i++) {
        const char *start = strstr(examples.line[i], "zerogauge ");
        cr_assert_not_null(start, "%s", examples.line[i]);
        insert(start, "--help", asked);
        asked[strcspn(asked, "|>")] = '\0';
        snprintf(line, sizeof line, "'%s'/%s 2>&1", ZG_BINARY_DIR, asked);
        cr_expect_eq(command_run(line, output, sizeof output), 0, "%s: %s", examples.line[i], output);
        cr_expect_not_null(strstr(output, "Usage: zerogauge "), "%s: %s", examples.line[i], output);
    }
}

Test(help, every_command_and_benchmark_has_examples_whose_options_exist)
{
    for_each_command(check_examples);
}

Test(help, no_example_uses_an_unknown_option)
{
    char line[512], output[4096];
    snprintf(line, sizeof line, "'%s/zerogauge' train --preset zero1 --wrld 2 --help 2>&1", ZG_BINARY_DIR);
    cr_expect_eq(command_run(line, output, sizeof output), 2);
    cr_expect_not_null(strstr(output, "--wrld"), "%s", output);
}

Test(help, a_number_that_is_none_is_said_with_its_option)
{
    static const char *const rows[][2] = {
        {"train --steps x", "train: --steps x: invalid numeric value\n"},
        {"train --steps=x", "train: --steps=x: invalid numeric value\n"},
        {"train --seed 7 --steps -99999999999999999999",
         "--steps -99999999999999999999: number too large or too small\n"},
        {"plan -w 99999999999", "plan: -w 99999999999: number too large or too small\n"},
        {"bench comm --repeat 1y", "--repeat 1y: invalid numeric value\n"},
        {"train --wrld 2", "train: --wrld: unknown option\n"},
        {"train --steps", "train: --steps: missing argument\n"},
    };
    char line[512], output[4096];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(line, sizeof line, "'%s/zerogauge' %s 2>&1", ZG_BINARY_DIR, rows[i][0]);
        cr_expect_eq(command_run(line, output, sizeof output), 2);
        cr_expect_not_null(strstr(output, rows[i][1]), "%s: %s", rows[i][0], output);
    }
}

// Runs a command line in the folder with the examples' files.
static void run(const char *folder, const char *line)
{
    char whole[8192], output[8192];
    snprintf(whole, sizeof whole,
             "cd '%s' && export PATH='%s':\"$PATH\" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
             "OMPI_MCA_rmaps_base_oversubscribe=1 ASAN_OPTIONS=detect_leaks=0 && (%s) 2>&1",
             folder, ZG_BINARY_DIR, line);
    cr_assert_eq(command_run(whole, output, sizeof output), 0, "%s: %s", line, output);
}

// Runs the examples of a command that need only installed programs; `words` shorten those of `program`.
static void run_examples(const char *folder, const char *command, const char *program, const char *words)
{
    static struct lines examples;
    char line[4096];
    examples_of(command, &examples);
    for (int i = 0; i < examples.count; i++) {
#ifndef ZG_HAVE_MPI
        if (strstr(examples.line[i], "mpirun"))
            continue;
#endif
        if (strstr(examples.line[i], "torchrun ") || strstr(examples.line[i], "| jq "))
            continue;
        insert(examples.line[i], strncmp(examples.line[i], program, strlen(program)) == 0 ? words : "", line);
        run(folder, line);
    }
}

Test(help, the_examples_of_train_export_and_info_run)
{
    char folder[PATH_MAX];
    folder_make(folder);
    run(folder, "cp '" ZG_SOURCE_DIR "/datasets/configs/zero1.json' ds.json");
    run_examples(folder, "train", "zerogauge train", "--model linear --steps 2 --buffered");
    run_examples(folder, "export", "", "");
    run_examples(folder, "info", "", "");
    run(folder, "test -s weights.safetensors && test -s weights-bf16.safetensors && test -s merged.safetensors && "
                "test -s adapters/adapter_config.json");
    folder_remove(folder);
}

Test(help, the_examples_of_check_and_answer_run)
{
    char folder[PATH_MAX];
    folder_make(folder);
    run(folder, "cp '" ZG_BINARY_DIR "/contract_example.so' example.so");
    run(folder, "zerogauge check --case adam-basic.w2.s0.fp32 --write-cases cases");
    run_examples(folder, "check", "zerogauge check", "--case adam-basic.w2.s0.fp32");
    run_examples(folder, "answer", "zerogauge check", "--case adam-basic.w2.s0.fp32");
    run(folder, "test -s report/report.html && test -s answer/step-5.safetensors");
    folder_remove(folder);
}

Test(help, every_listed_preset_and_model_exists)
{
    struct lines presets, models;
    char folder[PATH_MAX], line[512];
    folder_make(folder);
    lines_below("", "help presets", &presets);
    lines_below("", "help models", &models);
    cr_assert_geq(presets.count, 6);
    cr_assert_geq(models.count, 8);
    for (int i = 0; i < presets.count + models.count; i++) {
        const char *name = i < presets.count ? presets.line[i] : models.line[i - presets.count];
        snprintf(line, sizeof line, "zerogauge train --print-config --nvme-path . --%s %.*s",
                 i < presets.count ? "preset" : "preset zero1 --model", (int)strcspn(name, " "), name);
        run(folder, line);
    }
    folder_remove(folder);
}

Test(help, help_command_prints_the_text_of_the_option)
{
    static struct lines two, one;
    static const char *const commands[] = {"train", "bench", "bench adam"};
    for (int i = 0; i < 3; i++) {
        char arguments[2][128];
        snprintf(arguments[0], sizeof arguments[0], "help %s", commands[i]);
        snprintf(arguments[1], sizeof arguments[1], "%s -h", commands[i]);
        lines_below("Examples:", arguments[0], &one);
        lines_below("Examples:", arguments[1], &two);
        cr_assert_eq(one.count, two.count);
        cr_assert_gt(one.count, 0);
        for (int k = 0; k < one.count; k++)
            cr_expect_str_eq(one.line[k], two.line[k]);
    }
}
