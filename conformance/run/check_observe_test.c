// SPDX-License-Identifier: Apache-2.0
// `zerogauge check --observe` of a program that shards its states, and of one that says so and does not.
#include "base/command_test.h"
#include "base/folder_test.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char output[1 << 18], folder[PATH_MAX];

static void setup(void)
{
    static const char claims[] = "{\"contract\": 1, \"name\": \"n\", \"version\": \"1\", \"worlds\": [2, 4], "
                                 "\"stages\": [0, 3], \"precisions\": [\"fp32\", \"bf16\"]}";
    folder_make(folder);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.4000s/claims.json", folder);
    folder_write(path, claims, sizeof claims - 1);
}

static void teardown(void)
{
    folder_remove(folder);
}

TestSuite(check_observe, .init = setup, .fini = teardown);

// Observes a command, or the reference, and judges one case; the exit status.
static int observe(const char *options, const char *command)
{
    char line[3 * PATH_MAX];
    snprintf(line, sizeof line,
             "%s/zerogauge check --case adam-basic.w2.s3.fp32 --observe --claims %.4000s/claims.json %s %s 2>&1",
             ZG_BINARY_DIR, folder, options, command);
    return command_run(line, output, sizeof output);
}

static void has(const char *text)
{
    cr_assert_not_null(strstr(output, text), "no \"%s\" in: %s", text, output);
}

Test(check_observe, sharded_states_show_in_memory)
{
    char path[PATH_MAX], options[PATH_MAX + 32];
    json_error_t error;
    snprintf(options, sizeof options, "--out %.4000s/out", folder);
    cr_assert_eq(observe(options, ""), 0, "%s", output);
    has("  observed: stage 3, 4 ranks: ");
    has(" MiB a rank less than stage 0 (formula 48 MiB)\n");
    cr_assert_null(strstr(output, "no evidence"), "%s", output);
    snprintf(path, sizeof path, "%.4000s/out/report.jsonl", folder);
    json_t *run = json_load_file(path, JSON_DISABLE_EOF_CHECK, &error);
    cr_assert_not_null(run, "%s", error.text);
    const json_t *list = json_object_get(run, "observations"), *stage = json_array_get(list, 0);
    cr_assert_eq(json_array_size(list), 1);
    cr_assert_eq(json_integer_value(json_object_get(stage, "stage")), 3);
    cr_assert_eq(json_integer_value(json_object_get(stage, "formula_saved_bytes")), 192 << 20);
    cr_assert(json_is_true(json_object_get(stage, "shows_sharding")));
    json_decref(run);
    // The cases and answers of several hundred megabytes are gone, what the program printed is kept.
    snprintf(path, sizeof path, "%.4000s/out/observe/adam-basic.large.w4.s3.bf16/answers", folder);
    cr_assert_neq(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%.4000s/out/observe/adam-basic.large.w4.s3.bf16/output/w4.txt", folder);
    cr_assert_eq(access(path, F_OK), 0);
}

// Answers every case as the reference does at stage 0, and reports no usage.
static void write_unsharded(const char *path)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fprintf(file, "#!/bin/sh\n"
                  "for name in $(tr -d '[]\",' <$1/order.json); do\n"
                  "  rm -rf $0.case; mkdir $0.case; cp -r $1/$name $0.case/$name\n"
                  "  sed -i 's/\"stage\": *[0-3]/\"stage\": 0/' $0.case/$name/case.json\n"
                  "  \"" ZG_BINARY_DIR "/zerogauge\" answer --case $0.case/$name $2/$name || exit 1\n"
                  "  rm $2/$name/usage.json\n"
                  "done\n");
    fclose(file);
    cr_assert_eq(chmod(path, 0700), 0);
}

// Its answers are right, and it does not report what it holds.
Test(check_observe, states_that_are_whole_on_every_rank_are_no_evidence)
{
    char path[PATH_MAX], command[PATH_MAX + 64];
    snprintf(path, sizeof path, "%.4000s/unsharded", folder);
    write_unsharded(path);
    snprintf(command, sizeof command, "-- %.4000s {cases} {answers}", path);
    cr_assert_eq(observe("", command), 0, "%s", output);
    has("  observed: stage 3, 4 ranks: ");
    has(" (formula 48 MiB): no evidence that states are sharded\n");
    has("; no evidence that states are sharded):");
}

Test(check_observe, a_command_that_fails_is_no_measurement)
{
    cr_assert_eq(observe("", "-- sh -c 'echo no such luck; exit 3' {cases} {answers}"), 1, "%s", output);
    has("  observed: stage 3, 4 ranks: not observed: there is no stage 0 to compare with: the answer is BROKEN: the "
        "command exited with status 3: no such luck");
}
