// SPDX-License-Identifier: Apache-2.0
// The commands as a user runs them.
#include "base/clock.h"
#include "base/command_test.h"
#include "base/err.h"
#include "base/pretended_test.h"
#include "ref/comm/mpirun_test.h"
#include "validate/health/preflight.h"
#include "validate/health/soak.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

#define PROGRAM ZG_BINARY_DIR "/zerogauge "

static char output[1 << 16];

Test(soak, a_clean_run_ends_with_0_and_goes_on_from_its_state)
{
    char folder[PATH_MAX], command[PATH_MAX + 256], path[PATH_MAX + 16];
    json_error_t error;
    folder_make(folder);
    snprintf(path, sizeof path, "%s/state.json", folder);
    snprintf(command, sizeof command, PROGRAM "soak --hours 1e-9 --seed 5 --state %s 2>&1", path);
    cr_expect_eq(command_run(command, output, sizeof output), 0, "%s", output);
    cr_expect(strstr(output, "every result was the same on every core"), "%s", output);
    json_t *state = json_load_file(path, 0, &error);
    cr_assert_not_null(state);
    cr_expect_eq(json_integer_value(json_object_get(json_object_get(state, "exposure"), "rounds")), 1);
    json_decref(state);
    cr_expect_eq(command_run(command, output, sizeof output), 0, "%s", output);
    cr_expect(strstr(output, " 2 rounds "), "%s", output);
    cr_expect(strstr(output, "seed 5"), "%s", output);
    folder_remove(folder);
}

Test(soak, a_wrong_result_ends_with_1_and_is_kept_in_the_state)
{
    char folder[PATH_MAX], command[PATH_MAX + 256];
    folder_make(folder);
    snprintf(command, sizeof command,
             PROGRAM "soak --hours 1e-9 --state %s/s --inject memory@$(nproc --all | awk "
                     "'{print 0}')@1 2>/dev/null",
             folder);
    cr_expect_eq(command_run(command, output, sizeof output), 1, "%s", output);
    cr_expect(strstr(output, "WRONG  core 0: memory: offset 16777216: "), "%s", output);
    snprintf(command, sizeof command, PROGRAM "soak --hours 1e-9 --state %s/s --json", folder);
    cr_expect_eq(command_run(command, output, sizeof output), 1, "%s", output);
    json_t *state = json_loads(output, 0, NULL);
    cr_assert_not_null(state, "%s", output);
    cr_expect_eq(json_array_size(json_object_get(state, "events")), 1);
    json_decref(state);
    folder_remove(folder);
}

// The wrong result of every round of one operation is one line, also over several runs; that of another one has its
// own.
Test(soak, wrong_results_of_one_kind_are_one_line)
{
    char folder[PATH_MAX], command[PATH_MAX + 256];
    static const char *const flips[] = {"memory", "training", "memory", "memory"};
    folder_make(folder);
    for (size_t i = 0; i < 4; i++) {
        snprintf(command, sizeof command, PROGRAM "soak --hours 1e-9 --state %s/s --inject %s@0 2>%s/said", folder,
                 flips[i], folder);
        cr_expect_eq(command_run(command, output, sizeof output), 1, "%s", output);
    }
    cr_expect_eq(times_said(output, "WRONG  "), 2, "%s", output);
    cr_expect_eq(times_said(output, "WRONG  core 0: memory: offset 16777216: "), 1, "%s", output);
    cr_expect_eq(times_said(output, " was read; and 2 times more\nWRONG  "), 1, "%s", output);
    cr_expect(strstr(output, "\n4 wrong results\n"), "%s", output);
    snprintf(command, sizeof command, "cat %s/said", folder);
    cr_expect_eq(command_run(command, output, sizeof output), 0);
    cr_expect_null(strstr(output, "WRONG"), "it was said before: %s", output);
    folder_remove(folder);
}

// Which GPU to pull: two that fail in one operation are two kinds, each with its line.
Test(soak, wrong_results_of_two_gpus_are_told_apart)
{
    static const struct health_operation memory = {.name = DEVICE_MEMORY, .lane = HEALTH_MEMORY};
    struct soak soak = {.events = json_array(), .host = "h"};
    // The first wrong result of a GPU is kept, however many there are of another.
    for (int i = 0; i < 300; i++) {
        struct health_mismatch wrong = {.core = HEALTH_CORE_GPU, .gpu = i / 150, .operation = &memory};
        cr_expect_eq(soak_add_event(&soak, &wrong, "text"), i % 150 == 0, "wrong result %d", i);
    }
    json_decref(soak.events);
}

// A PCIe link that is narrow in the middle alone: as a GPU that heat slows, it is not so at the begin nor at the end.
Test(soak, what_is_wrong_for_a_while_alone_is_a_reason)
{
    static const char *const widths[] = {"16", "8", "16"};
    struct soak soak = {.events = json_array(), .series = json_array(), .worse = json_array(), .host = "h"};
    struct soak_total total;
    char root[PATH_MAX];
    pretended_machine(folder_make(root), "core:2 pu:1", 512);
    pretended_file(root, "sys/bus/pci/devices/0/max_link_width", "16");
    for (int i = 0; i < 3; i++) {
        pretended_file(root, "sys/bus/pci/devices/0/current_link_width", widths[i]);
        if (i == 0)
            health_counters_read(&soak.before);
        else
            soak_add_sample(&soak, i);
    }
    cr_expect_eq(soak_gather(&soak, &total), ERR_NONE);
    cr_assert_eq(json_array_size(total.worse), 1);
    cr_expect_str_eq(json_string_value(json_object_get(json_array_get(total.worse, 0), "text")),
                     "PCIe links narrower than their device: 1 during the run");
    soak_total_free(&total);
    json_decref(soak.events);
    json_decref(soak.series);
    json_decref(soak.worse);
    unsetenv("ZG_MACHINE_ROOT");
    folder_remove(root);
}

Test(soak, bad_input_is_refused_and_the_state_unchanged)
{
    char folder[PATH_MAX], command[PATH_MAX + 256], path[PATH_MAX + 16];
    static const char *const states[] = {"", "{", "[]", "{\"record\": \"soak\"}",
                                         "{\"record\":\"run\",\"seed\":1,\"exposure\":{},\"events\":[]}"};
    folder_make(folder);
    snprintf(path, sizeof path, "%s/state.json", folder);
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        size_t bytes;
        folder_write(path, states[i], strlen(states[i]));
        snprintf(command, sizeof command, PROGRAM "soak --hours 1e-9 --state %s 2>&1", path);
        cr_expect_eq(command_run(command, output, sizeof output), 2, "%s", output);
        cr_expect(strstr(output, path), "%s", output);
        char *text = folder_read(path, &bytes);
        cr_expect_eq(bytes, strlen(states[i]));
        free(text);
    }
    cr_expect_eq(command_run(PROGRAM "soak --hours -1 2>&1", output, sizeof output), 2);
    cr_expect_eq(command_run(PROGRAM "soak --hours nan 2>&1", output, sizeof output), 2);
    cr_expect_eq(command_run(PROGRAM "soak --inject memory@9999 2>&1", output, sizeof output), 2);
    cr_expect_eq(command_run(PROGRAM "soak --inject nothing@0 2>&1", output, sizeof output), 2);
    cr_expect(strstr(output, "\"memory\""), "%s", output);
    cr_expect_eq(command_run(PROGRAM "soak --nvme-path /nowhere 2>&1", output, sizeof output), 2);
    folder_remove(folder);
}

Test(preflight, a_healthy_node_has_one_line_a_check)
{
    char folder[PATH_MAX], command[PATH_MAX + 256];
    folder_make(folder);
    snprintf(command, sizeof command, PROGRAM "preflight --seconds 0 --nvme-path %s 2>&1", folder);
    cr_expect_eq(command_run(command, output, sizeof output), 0, "%s", output);
    for (const char *const *check = (const char *const[]){"compute", "memory", "disk", "collective", "counters", NULL};
         *check; check++)
        cr_expect(strstr(output, *check), "%s: %s", *check, output);
    folder_remove(folder);
}

Test(preflight, what_is_wrong_or_too_slow_ends_with_1_and_a_reason)
{
    cr_expect_eq(command_run(PROGRAM "preflight --seconds 0 --inject 'Adam, scalar@0' 2>&1", output, sizeof output), 1,
                 "%s", output);
    cr_expect(strstr(output, "FAIL ") && strstr(output, "Adam, scalar"), "%s", output);
    cr_expect_eq(command_run(PROGRAM "preflight --seconds 0 --at-least memory=1e8 --json 2>&1", output, sizeof output),
                 1);
    json_t *node = json_loads(output, 0, NULL);
    cr_assert_not_null(node, "%s", output);
    cr_expect_str_eq(json_string_value(json_object_get(node, "verdict")), "FAIL");
    json_decref(node);
    for (const char *const *bad = (const char *const[]){"memory", "memory=0", "memory=nan", "speed=1", "disk=1;", NULL};
         *bad; bad++) {
        char command[256];
        snprintf(command, sizeof command, PROGRAM "preflight --seconds 0 --at-least '%s' 2>&1", *bad);
        cr_expect_eq(command_run(command, output, sizeof output), 2, "%s: %s", *bad, output);
    }
}

// Each command with a folder that it cannot use: bad input, not a finding about the machine.
static void expect_folder_refused(const char *before, const char *folder, const char *reason)
{
    static const char *const commands[] = {"preflight --seconds 0 --json", "soak --hours 1e-9"};
    char command[2 * PATH_MAX];
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        snprintf(command, sizeof command, "%s " PROGRAM "%s --nvme-path %s 2>&1", before, commands[i], folder);
        cr_expect_eq(command_run(command, output, sizeof output), 2, "%s: %s", commands[i], output);
        cr_expect(strstr(output, folder) && strstr(output, reason), "%s: %s", commands[i], output);
        cr_expect(!strstr(output, "FAIL") && !strstr(output, "WRONG"), "%s: %s", commands[i], output);
    }
}

Test(preflight, a_folder_without_room_or_files_is_bad_input)
{
    char folder[PATH_MAX], mount[2 * PATH_MAX], command[3 * PATH_MAX];
    folder_make(folder);
    expect_folder_refused("", "/proc", "cannot create a file there");
    expect_folder_refused("ulimit -f 512;", folder, "ulimit -f");
    snprintf(mount, sizeof mount, "unshare -Urm sh -c 'mount -t tmpfs -o size=64k tmpfs %s && \"$0\" \"$@\"'", folder);
    snprintf(command, sizeof command, "%s true >/dev/null 2>&1", mount);
    if (command_run(command, output, sizeof output) == 0)
        expect_folder_refused(mount, folder, "No space left on device");
    folder_remove(folder);
}

// The bound is the whole process's time, in which rounds follow each other.
Test(preflight, the_seconds_of_rounds_are_no_more_than_those_of_the_run)
{
    double begin = clock_now_s();
    cr_expect_eq(command_run(PROGRAM "preflight --seconds 1.5 --json 2>&1", output, sizeof output), 0, "%s", output);
    double most = clock_now_s() - begin;
    json_t *node = json_loads(output, 0, NULL);
    cr_assert_not_null(node, "%s", output);
    double seconds = json_real_value(json_object_get(node, "seconds"));
    cr_expect(seconds > 0 && seconds <= most, "%g of %g s", seconds, most);
    json_decref(node);
}

static void corrected_errors(const char *root, const char *count)
{
    pretended_file(root, "sys/devices/system/edac/mc/mc0/ce_count", count);
}

Test(preflight, counters_that_grew_since_an_earlier_one_fail)
{
    char root[PATH_MAX], save[PATH_MAX + 64], since[PATH_MAX + 64];
    folder_make(root);
    pretended_machine(root, "core:2 pu:1", 512);
    snprintf(save, sizeof save, PROGRAM "preflight --seconds 0 --save %s/saved.json 2>&1", root);
    snprintf(since, sizeof since, PROGRAM "preflight --seconds 0 --since %s/saved.json 2>&1", root);
    corrected_errors(root, "4\n");
    cr_expect_eq(command_run(save, output, sizeof output), 0, "%s", output);
    cr_expect_eq(command_run(since, output, sizeof output), 0, "%s", output);
    corrected_errors(root, "7\n");
    cr_expect_eq(command_run(since, output, sizeof output), 1, "%s", output);
    cr_expect(strstr(output, "counters: corrected memory errors: 3 during the run"), "%s", output);
    static const char *const others[] = {"", "{}", "{\"record\": \"preflight\", \"host\": \"elsewhere\"}"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        pretended_file(root, "saved.json", others[i]);
        cr_expect_eq(command_run(since, output, sizeof output), 2, "%s", output);
        cr_expect(strstr(output, "saved.json: no line of"), "%s", output);
    }
    unsetenv("ZG_MACHINE_ROOT");
    folder_remove(root);
}

Test(preflight, after_a_repair_what_was_found_before_stands_beside)
{
    char root[PATH_MAX], command[2 * PATH_MAX];
    folder_make(root);
    snprintf(command, sizeof command, PROGRAM "preflight --seconds 0 --inject memory@0 --save %s/before 2>&1", root);
    cr_expect_eq(command_run(command, output, sizeof output), 1, "%s", output);
    snprintf(command, sizeof command, PROGRAM "preflight --seconds 0 --after-repair %s/before --history %s/h 2>&1",
             root, root);
    cr_expect_eq(command_run(command, output, sizeof output), 0, "%s", output);
    cr_expect(strstr(output, ": memory: FAIL before the repair: core 0: memory: offset 16777216: "), "%s", output);
    cr_expect(strstr(output, "\nok ") && !strstr(output, "\nFAIL"), "%s", output);
    snprintf(command, sizeof command, "cat %s/h", root);
    cr_expect_eq(command_run(command, output, sizeof output), 0);
    cr_expect(strstr(output, "\"verdict\": \"ok\", \"failed\": [], \"repaired\": true"), "%s", output);
    folder_remove(root);
}

// A rate that nothing reaches fails after it was measured three times.
Test(preflight, what_is_slow_is_measured_again_before_it_fails)
{
    cr_expect_eq(command_run(PROGRAM "preflight --seconds 0 --at-least memory=1e8 --repeat-failed 2 2>&1", output,
                             sizeof output),
                 1, "%s", output);
    cr_expect(strstr(output, "operations, 3 rounds"), "%s", output);
    cr_expect_eq(command_run(PROGRAM "preflight --seconds 0 --at-least memory=1e-9 --repeat-failed 2 2>&1", output,
                             sizeof output),
                 0, "%s", output);
    cr_expect(strstr(output, "operations, 1 rounds"), "%s", output);
    // After wrong bits nothing is measured again.
    cr_expect_eq(command_run(PROGRAM "preflight --seconds 0 --at-least memory=1e8 --repeat-failed 2 --inject "
                                     "'Adam, scalar@0' 2>&1",
                             output, sizeof output),
                 1, "%s", output);
    cr_expect(strstr(output, "memory: ") && !strstr(output, "memory: 0.00 GB/s"), "%s", output);
    cr_expect_eq(command_run(PROGRAM "preflight --repeat-failed 101 2>&1", output, sizeof output), 2);
}

// The comparison of nodes: which are named for bits that others do not have.

enum { NODE_MAX = 8 };

// Each letter is a node's digest of the operation "rows"; '-': it did not run it, ' ': its machine has no such
// operation. Returns, in the same places, 'F' for a node that fails.
static const char *compared(const char *digests)
{
    static char verdicts[NODE_MAX + 1];
    json_t *nodes[NODE_MAX];
    int count = (int)strlen(digests);
    for (int i = 0; i < count; i++) {
        const char digest[] = {digests[i] == '-' ? '\0' : digests[i], '\0'};
        nodes[i] = json_pack("{s:s, s:[], s:{s:s}}", "verdict", "ok", "checks", "digests", "copy", "same");
        if (digests[i] != ' ')
            json_object_set_new(json_object_get(nodes[i], "digests"), "rows", json_string(digest));
    }
    preflight_compare(nodes, count);
    for (int i = 0; i < count; i++) {
        const char *verdict = json_string_value(json_object_get(nodes[i], "verdict"));
        verdicts[i] = strcmp(verdict, "ok") == 0 ? '.' : 'F';
        cr_expect_eq(json_array_size(json_object_get(nodes[i], "checks")), verdicts[i] == 'F');
        json_decref(nodes[i]);
    }
    verdicts[count] = '\0';
    return verdicts;
}

Test(preflight, nodes_are_compared_with_those_that_ran_the_operation)
{
    static const char *const rows[][2] = {
        {"a", "."},       {"aaaa", "...."}, {"aaba", "..F."}, {"ab", "FF"},     {"aabb", "FFFF"}, {"a-", ".."},
        {"a---", "...."}, {"a   ", "...."}, {"ab  ", "FF.."}, {"aab-", "..F."}, {"----", "...."}, {"abc", "FFF"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; rows[i][0][k]; k++)
            cr_expect_eq(compared(rows[i][0])[k], rows[i][1][k], "%s: node %zu of %s", rows[i][0], k,
                         compared(rows[i][0]));
}
