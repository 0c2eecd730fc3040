// SPDX-License-Identifier: Apache-2.0
// The reference as a command: lists of cases, single ones, and what it says where something is wrong.
#include "conformance/contract/answer.h"
#include "base/command_test.h"
#include "base/err.h"
#include "base/folder_test.h"

#include <string.h>

static char folder[PATH_MAX], output[8192];

static void setup(void)
{
    folder_make(folder);
    char path[PATH_MAX];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%.3000s/%s", folder, (const char *[]){"cases", "answers", "state"}[i]);
        mkdir(path, 0777);
    }
}

static void teardown(void)
{
    folder_remove(folder);
}

TestSuite(cmd_answer, .init = setup, .fini = teardown);

static struct check_case write_case(const char *name, int world)
{
    struct check_case c = {
        .note = "a case of the tests",
        .world = world,
        .steps = 2,
        .accumulation = 1,
        .stage = 3,
        .group_count = 1,
        .reduce_bucket = 10,
        .allgather_bucket = 10,
        .prefetch_bucket = 10,
        .sub_group = 100,
        .param_count = 2,
        .params = {{.name = "a", .shape = {7}, .shape_rank = 1, .count = 7, .used = true, .tied_to = -1},
                   {.name = "b", .shape = {5}, .shape_rank = 1, .count = 5, .used = true, .tied_to = -1}},
        .groups[0] =
            {.decoupled = true, .lr = {0.5, 0.5}, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .bias_correction = true},
        .data = {.family = FAMILY_ROUNDING, .seed = 5, .exponent_low = -8, .exponent_high = 2},
    };
    struct case_values *values;
    char path[PATH_MAX];
    snprintf(c.name, sizeof c.name, "%s", name);
    snprintf(path, sizeof path, "%.3000s/cases", folder);
    cr_assert_eq(case_values_open(&c, &values), ERR_NONE, "%s", err_message());
    cr_assert_eq(case_write(&c, values, path), ERR_NONE, "%s", err_message());
    case_values_close(values);
    return c;
}

static void write_order(const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.3000s/cases/order.json", folder);
    folder_write(path, text, strlen(text));
}

// `zerogauge answer` in the folder of the test.
static int run(const char *arguments)
{
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, "cd %.3000s && %s/zerogauge answer %s 2>&1", folder, ZG_BINARY_DIR, arguments);
    return command_run(command, output, sizeof output);
}

// True if the case has a complete answer.
static bool is_answered(const struct check_case *c)
{
    char path[PATH_MAX];
    struct answer a;
    snprintf(path, sizeof path, "%.3000s/answers/%s", folder, c->name);
    if (answer_open(c, path, &a) != ERR_NONE)
        return false;
    bool states = a.kind == ANSWER_STATES;
    answer_close(&a);
    return states;
}

Test(cmd_answer, the_list_is_answered_in_its_order)
{
    struct check_case first = write_case("first", 2), second = write_case("second", 2);
    struct check_case left_out = write_case("none", 2);
    write_order("[\"second\", \"first\"]");
    cr_assert_eq(run("cases answers 2 state"), 0, "%s", output);
    cr_assert_str_eq(output, "");
    cr_assert(is_answered(&first) && is_answered(&second) && !is_answered(&left_out));
    cr_assert_eq(run("cases answers 4"), 2, "%s", output);
    cr_assert(strstr(output, "cases/order.json: no case has world 4"), "%s", output);
}

Test(cmd_answer, one_case_alone)
{
    struct check_case c = write_case("alone", 3);
    cr_assert_eq(run("--case --schedule chaos:3 --recipe deepspeed-cpu-clang cases/alone answers/alone"), 0, "%s",
                 output);
    cr_assert(is_answered(&c));
}

Test(cmd_answer, a_case_that_fails_stops_no_other)
{
    struct check_case good = write_case("good", 2), torn = write_case("torn", 2), other = write_case("other", 3);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.3000s/cases/torn/grads-2.safetensors", folder);
    cr_assert_eq(truncate(path, 100), 0);
    write_order("[\"torn\", \"absent\", \"other\", \"good\"]");
    cr_assert_eq(run("cases answers 2"), 1, "%s", output);
    cr_assert(strstr(output, "torn: ") && strstr(output, "grads-2.safetensors"), "%s", output);
    cr_assert(strstr(output, "absent: "), "%s", output);
    cr_assert(!strstr(output, "other"), "%s", output);
    cr_assert(strstr(output, "2 of 3 cases have no answer"), "%s", output);
    cr_assert(is_answered(&good) && !is_answered(&torn) && !is_answered(&other));
}

Test(cmd_answer, bad_lines_are_usage_errors)
{
    static const struct {
        const char *arguments, *says;
    } lines[] = {
        {"", "CASES ANSWERS WORLD [STATE]"},
        {"cases answers", "CASES ANSWERS WORLD [STATE]"},
        {"cases answers 2 state more", "CASES ANSWERS WORLD [STATE]"},
        {"--case cases", "CASE ANSWER [STATE]"},
        {"cases answers two", "WORLD is \"two\""},
        {"cases answers 0", "WORLD is \"0\""},
        {"cases answers 65", "WORLD is \"65\""},
        {"--recipe torch cases answers 2", "--recipe torch: expected one of torch-cpu, "},
        {"--clip-form both cases answers 2", "--clip-form both: expected torch or deepspeed"},
        {"--moments bf8 cases answers 2", "--moments bf8: expected fp32, bf16, fp16 or precision"},
        {"--master bf16 cases answers 2", "--master bf16: expected fp32 or precision"},
        {"--reduction-group -1 cases answers 2", "--reduction-group -1: expected 1 to 64"},
        {"--schedule fast cases answers 2", "fast"},
        {"--fast cases answers 2", "--fast"},
        {"cases answers 2", "order.json"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        cr_expect_eq(run(lines[i].arguments), 2, "%s", lines[i].arguments);
        cr_expect(strstr(output, lines[i].says), "%s: %s", lines[i].arguments, output);
    }
}

Test(cmd_answer, a_list_names_folders_beside_it)
{
    static const char *const lists[] = {"{}", "[1]", "[\"\"]", "[\"../cases/a\"]", "[\"..\"]", "[\"a/b\"]", "[\"a\""};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        write_order(lists[i]);
        cr_expect_eq(run("cases answers 2"), 2, "%s", lists[i]);
        cr_expect(strstr(output, "order.json"), "%s: %s", lists[i], output);
    }
}
