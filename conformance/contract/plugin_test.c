// SPDX-License-Identifier: Apache-2.0
// The host of plug-ins: the example is right by the judge; what cannot be loaded, declines or fails says so.
#include "conformance/contract/plugin.h"

#include "base/command_test.h"
#include "conformance/judge/judge_test.h"

#include <dlfcn.h>
#include <math.h>

static struct check_case c;

static void setup(void)
{
    folder_enter();
    cr_assert(mkdir("cases", 0777) == 0 && mkdir("answers", 0777) == 0 && mkdir("state", 0777) == 0);
}

TestSuite(plugin, .init = setup, .fini = folder_leave);

static const char example[] = ZG_BINARY_DIR "/contract_example.so", broken[] = ZG_BINARY_DIR "/plugin_broken.so";

static void write_case(const struct check_case *one)
{
    struct case_values *values;
    cr_assert_eq(case_values_open(one, &values), ERR_NONE, "%s", err_message());
    cr_assert_eq(case_write(one, values, "cases"), ERR_NONE, "%s", err_message());
    case_values_close(values);
}

static void write_order(const char *names)
{
    folder_write("cases/order.json", names, strlen(names));
}

static void plain_case(const char *name, int world, int accumulation, bool exact)
{
    c = trial_case(world, accumulation, DTYPE_FP32, exact);
    c.stage = 0;
    snprintf(c.name, sizeof c.name, "%s", name);
}

static void expect_verdicts(enum verdict state, enum verdict seen)
{
    static const struct judge_options options = {.clip = -1, .unused = -1};
    struct findings findings = {0};
    struct case_values *values;
    struct answer answer;
    struct judge *judge;
    char path[2 * CASE_NAME_BYTES];
    snprintf(path, sizeof path, "answers/%s", c.name);
    cr_assert_eq(answer_open(&c, path, &answer), ERR_NONE, "%s", err_message());
    cr_assert_eq(answer.kind, ANSWER_STATES, "%s", answer.text);
    cr_assert_eq(case_values_open(&c, &values), ERR_NONE);
    cr_assert_eq(judge_open(&options, &findings, &judge), ERR_NONE);
    cr_assert_eq(judge_answer(judge, &c, values, &answer, NULL), ERR_NONE, "%s", err_message());
    const struct finding *of_state = trial_finding(&findings, ASPECT_STATE);
    const struct finding *of_seen = trial_finding(&findings, ASPECT_SEEN);
    cr_expect(of_state && of_state->verdict == state, "%s: %s", c.name, of_state ? of_state->text : "nothing");
    cr_expect(of_seen && of_seen->verdict == seen, "%s: %s", c.name, of_seen ? of_seen->text : "nothing");
    judge_close(judge);
    findings_free(&findings);
    case_values_close(values);
    answer_close(&answer);
}

Test(plugin, the_example_is_right_by_the_judge)
{
    static const int worlds[] = {1, 3, 4};
    char order[256] = "";
    for (int i = 0; i < 3; i++) {
        char name[CASE_NAME_BYTES];
        snprintf(name, sizeof name, "gather-micro.w%d", worlds[i]);
        plain_case(name, worlds[i], 1 + i, i < 2);
        c.params[1].frozen = i == 1;
        c.params[2].used = i != 1;
        c.params[3].shape_rank = 0;
        c.params[0].shape[0] = c.params[0].count = i == 2 ? 0 : c.params[0].count;
        c.groups[0].decoupled = i != 2;
        c.groups[1].bias_correction = i != 2;
        c.param_count = 5;
        c.params[4] = c.params[3];
        c.params[4].tied_to = 3;
        snprintf(c.params[4].name, sizeof c.params[4].name, "tied");
        write_case(&c);
        snprintf(order, sizeof order, "[\"%s\"]", name);
        write_order(order);
        cr_assert_eq(plugin_answer(example, "cases", "answers", worlds[i], NULL), ERR_NONE, "%s", err_message());
        expect_verdicts(VERDICT_PASS, VERDICT_PASS);
    }
}

Test(plugin, the_example_declines_what_it_has_not)
{
    struct answer answer;
    plain_case("zero", 2, 1, true);
    c.stage = 1;
    write_case(&c);
    write_order("[\"zero\"]");
    cr_assert_eq(plugin_answer(example, "cases", "answers", 2, NULL), ERR_NONE, "%s", err_message());
    cr_assert_eq(answer_open(&c, "answers/zero", &answer), ERR_NONE, "%s", err_message());
    cr_expect_eq(answer.kind, ANSWER_UNSUPPORTED);
    cr_expect_str_eq(answer.text, "the example supports plain data parallelism in fp32 only");
    answer_close(&answer);
}

Test(plugin, what_the_interface_has_not_is_declined_by_name)
{
    static const char *const texts[] = {"the plug-in interface has no meshes",
                                        "the plug-in interface has no counts of tokens",
                                        "the plug-in interface has no Muon"};
    struct answer answer;
    for (int i = 0; i < 3; i++) {
        char path[32];
        snprintf(path, sizeof path, "answers/more-%d", i);
        plain_case(strchr(path, '/') + 1, 2, 1, true);
        if (i == 0)
            c.mesh = (struct mesh){.replicate = 2, .shard = 1, .tensor = 1, .pipeline = 1, .expert = 1};
        c.has_tokens = i == 1;
        if (i == 2) {
            c.param_count = 1;
            c.params[0] = (struct case_param){
                .name = "matrix", .shape = {2, 2}, .shape_rank = 2, .count = 4, .used = true, .tied_to = -1};
            c.groups[0].muon = true;
            c.groups[0].ns_steps = 5;
        }
        write_case(&c);
        write_order(i == 0 ? "[\"more-0\"]" : i == 1 ? "[\"more-1\"]" : "[\"more-2\"]");
        cr_assert_eq(plugin_answer(example, "cases", "answers", 2, NULL), ERR_NONE, "%s", err_message());
        cr_assert_eq(answer_open(&c, path, &answer), ERR_NONE, "%s", err_message());
        cr_expect_eq(answer.kind, ANSWER_UNSUPPORTED);
        cr_expect_str_eq(answer.text, texts[i]);
        answer_close(&answer);
    }
}

Test(plugin, a_case_without_an_answer_ends_nothing)
{
    plain_case("first", 2, 1, true);
    write_case(&c);
    plain_case("gather-micro", 2, 1, true);
    write_case(&c);
    write_order("[\"first\", \"second\", \"gather-micro\"]");
    cr_assert_eq(mkdir("cases/second", 0777), 0);
    freopen("errors", "w", stderr);
    cr_expect_eq(plugin_answer(example, "cases", "answers", 2, NULL), ERR_CHECK);
    fflush(stderr);
    cr_expect_not_null(strstr(err_message(), "contract_example.so: 1 of 3 cases have no answer"));
    size_t bytes;
    char *errors = folder_read("errors", &bytes);
    errors[bytes] = '\0';
    cr_expect_not_null(strstr(errors, "contract_example.so: second: "), "%s", errors);
    free(errors);
    expect_verdicts(VERDICT_PASS, VERDICT_PASS);
}

Test(plugin, a_world_that_is_not_asked_for_is_an_error)
{
    void *handle;
    const struct zerogauge_implementation *table;
    plain_case("plain", 2, 1, true);
    write_case(&c);
    cr_assert_eq(plugin_load(example, &handle, &table), ERR_NONE, "%s", err_message());
    cr_expect_eq(plugin_answer_case(table, "cases/plain", "answers/plain", 3, NULL), ERR_USAGE);
    cr_expect_str_eq(err_message(), "is a case of world 2, in a run of world 3");
    cr_expect_str_eq(table->name, "example");
    dlclose(handle);
}

Test(plugin, an_order_that_leads_elsewhere_is_refused)
{
    static const char *const orders[] = {"[\"../x\"]", "[\"a/b\"]", "[\"\"]", "[\".\"]", "{}", "[1]", "", "[\"a\""};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        write_order(orders[i]);
        cr_expect_eq(plugin_answer(example, "cases", "answers", 2, NULL), ERR_USAGE, "%s", orders[i]);
        cr_expect_not_null(strstr(err_message(), "cases/order.json"), "%s", err_message());
    }
}

Test(plugin, another_contract_is_refused_with_both_versions)
{
    static const struct {
        const char *what, *why;
    } rows[] = {
        {"contract", "is made for contract 2, and this is contract 1; expected the same"},
        {"size", "its table has 88 bytes, that of contract 1 has 96; expected the same"},
        {"table", "zerogauge_implementation returns no table"},
        {"step", "its table has no \"step\""},
        {"version", "its table has no \"version\""},
        {"save", "its table has one of \"save\" and \"load\"; expected both, or neither"},
    };
    void *handle;
    const struct zerogauge_implementation *table;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char expected[PATH_MAX];
        setenv("PLUGIN_BROKEN", rows[i].what, 1);
        cr_expect_eq(plugin_load(broken, &handle, &table), ERR_USAGE);
        snprintf(expected, sizeof expected, "%s: %s", broken, rows[i].why);
        cr_expect_str_eq(err_message(), expected);
    }
    unsetenv("PLUGIN_BROKEN");
    cr_assert_eq(plugin_load(broken, &handle, &table), ERR_NONE, "%s", err_message());
    dlclose(handle);
}

Test(plugin, what_is_no_plug_in_is_refused)
{
    void *handle;
    const struct zerogauge_implementation *table;
    Dl_info library;
    cr_expect_eq(plugin_load("nothing.so", &handle, &table), ERR_USAGE);
    cr_expect_str_eq(err_message(), "nothing.so: cannot be opened: No such file or directory");
    folder_write("text.so", "no library", 10);
    cr_expect_eq(plugin_load("text.so", &handle, &table), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "text.so: cannot be loaded: "), "%s", err_message());
    double (*symbol)(double) = cos;
    cr_assert(dladdr(*(void **)&symbol, &library));
    cr_expect_eq(plugin_load(library.dli_fname, &handle, &table), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "has no function zerogauge_implementation"), "%s", err_message());
}

Test(plugin, the_command_line_takes_a_plug_in)
{
    char command[2 * PATH_MAX], output[8192];
    plain_case("gather-micro", 2, 1, true);
    write_case(&c);
    write_order("[\"gather-micro\"]");
    snprintf(command, sizeof command, "%s/zerogauge answer --plugin %s cases answers 2 2>&1", ZG_BINARY_DIR, example);
    cr_expect_eq(command_run(command, output, sizeof output), 0, "%s", output);
    expect_verdicts(VERDICT_PASS, VERDICT_PASS);
    folder_remove("answers/gather-micro");
    snprintf(command, sizeof command,
             "%s/zerogauge answer --plugin %s --case cases/gather-micro answers/gather-micro 2>&1", ZG_BINARY_DIR,
             example);
    cr_expect_eq(command_run(command, output, sizeof output), 0, "%s", output);
    expect_verdicts(VERDICT_PASS, VERDICT_PASS);
    snprintf(command, sizeof command, "PLUGIN_BROKEN=contract %s/zerogauge answer --plugin %s cases answers 2 2>&1",
             ZG_BINARY_DIR, broken);
    cr_expect_eq(command_run(command, output, sizeof output), 2);
    cr_expect_not_null(strstr(output, "is made for contract 2, and this is contract 1"), "%s", output);
    snprintf(command, sizeof command, "%s/zerogauge answer --recipe torch-cpu --plugin %s cases answers 2 2>&1",
             ZG_BINARY_DIR, example);
    cr_expect_eq(command_run(command, output, sizeof output), 2);
    cr_expect_not_null(strstr(output, "apply only to the reference"), "%s", output);
}

Test(plugin, the_suite_judges_a_plug_in)
{
    char command[2 * PATH_MAX], output[16384];
    snprintf(command, sizeof command, "%s/zerogauge check --case 'adam-*' --plugin %s 2>&1", ZG_BINARY_DIR, example);
    cr_expect_eq(command_run(command, output, sizeof output), 0, "%s", output);
    cr_expect_not_null(strstr(output, "PASS"), "%s", output);
    cr_expect_null(strstr(output, "FAIL"), "%s", output);
}

// --- a table that each test sets up ---

enum fake { FAKE_GOOD, FAKE_DECLINES, FAKE_REFUSES, FAKE_FAILS, FAKE_SILENT };
static enum fake fake;
static char calls[4096];

static int note(const char *format, int a, int b, int d)
{
    size_t used = strlen(calls);
    snprintf(calls + used, sizeof calls - used, format, a, b, d);
    return ZEROGAUGE_OK;
}

static int fake_open(const struct zerogauge_case *asked, const float *const initial[], void **context)
{
    static const int results[] = {ZEROGAUGE_OK, ZEROGAUGE_UNSUPPORTED, ZEROGAUGE_REFUSED, ZEROGAUGE_FAILED,
                                  ZEROGAUGE_UNSUPPORTED};
    *context = calls;
    note(initial ? "open " : "reopen ", 0, 0, 0);
    if (fake != FAKE_SILENT)
        memset(asked->message, 'y', asked->message_bytes);  // and no zero behind it
    return results[fake];
}

static int fake_gradients(void *context, int32_t step, int32_t micro, int32_t rank, const void *const gradients[],
                          void *const seen[])
{
    cr_assert_eq(context, calls);
    cr_expect_eq(gradients[3], NULL);
    if (rank == 0)  // the other ranks fill nothing in
        memset(seen[0], 0, c.params[0].count * sizeof(float));
    return note("g%d.%d.%d ", step, micro, rank);
}

static int fake_step(void *context, int32_t step, struct zerogauge_outcome *out)
{
    (void)context;
    out->t = (uint64_t)step;
    out->has_norm = 1;
    out->norm = 2.5;
    return note("s%d ", step, 0, 0);
}

static int fake_read(void *context, int32_t state, int32_t param, float *out)
{
    (void)context;
    if (state == ZEROGAUGE_GRAD || (param == 2 && state != ZEROGAUGE_PARAM))
        return ZEROGAUGE_UNSUPPORTED;
    for (size_t i = 0; i < c.params[param].count; i++)
        out[i] = (float)(state * 10 + param);
    return ZEROGAUGE_OK;
}

static int fake_save(void *context, const char *where)
{
    char path[PATH_MAX];
    (void)context;
    snprintf(path, sizeof path, "%s/kept", where);
    folder_write(path, "x", 1);
    return note("save ", 0, 0, 0);
}

static int fake_load(void *context, const char *where)
{
    char path[PATH_MAX];
    (void)context;
    snprintf(path, sizeof path, "%s/kept", where);
    return access(path, F_OK) == 0 ? note("load ", 0, 0, 0) : ZEROGAUGE_FAILED;
}

static int fake_usage(void *context, int32_t rank, struct zerogauge_usage *out)
{
    (void)context;
    out->held_master = 100 + (uint64_t)rank;
    out->calls_gather = 7;
    return ZEROGAUGE_OK;
}

static void fake_close(void *context)
{
    cr_assert_eq(context, calls);
    note("close", 0, 0, 0);
}

static struct zerogauge_implementation fake_table(void)
{
    return (struct zerogauge_implementation){.contract = ZEROGAUGE_CONTRACT,
                                             .struct_bytes = sizeof(struct zerogauge_implementation),
                                             .name = "fake",
                                             .version = "1",
                                             .open = fake_open,
                                             .gradients = fake_gradients,
                                             .step = fake_step,
                                             .read = fake_read,
                                             .save = fake_save,
                                             .load = fake_load,
                                             .usage = fake_usage,
                                             .close = fake_close,
                                             .gives_seen = 1};
}

static void fake_case(const char *name)
{
    plain_case(name, 2, 2, true);
    c.params[1].used = c.params[0].used = true;
    c.params[2].used = false;
    c.params[3].frozen = true;
    c.steps = 2;
}

Test(plugin, calls_come_in_the_order_of_the_contract)
{
    struct answer answer;
    struct answer_step step;
    float seen[128];
    struct zerogauge_implementation table = fake_table();
    fake_case("plain");
    write_case(&c);
    cr_assert_eq(plugin_answer_case(&table, "cases/plain", "answers/plain", 2, NULL), ERR_NONE, "%s", err_message());
    cr_expect_str_eq(calls, "open g1.0.0 g1.0.1 g1.1.0 g1.1.1 s1 g2.0.0 g2.0.1 g2.1.0 g2.1.1 s2 close");
    cr_assert_eq(answer_open(&c, "answers/plain", &answer), ERR_NONE, "%s", err_message());
    cr_assert_eq(answer_read_step(&answer, 2, &step), ERR_NONE);
    cr_expect_eq(step.t, 2);
    cr_expect_eq(step.norm, 2.5);
    cr_expect(step.has_norm && !step.has_grad && !step.has_loss_scale && !step.exp_avg[2] && !step.exp_avg[3]);
    cr_expect_eq(step.param[3][0], 3);
    cr_expect_eq(step.exp_avg_sq[1][0], 21);
    answer_step_close(&step);
    cr_expect_eq(answer.usage[1].held_bytes[USAGE_MASTER], 101);
    cr_expect_eq(answer.usage[1].held_bytes[USAGE_GRAD], UINT64_MAX);
    cr_expect_eq(answer.usage[0].calls[USAGE_GATHER], 7);
    cr_assert_eq(answer_read_seen(&answer, 1, 0, 1, 0, seen), ERR_NONE);
    cr_expect_eq(seen[0], 0);
    cr_assert_eq(answer_read_seen(&answer, 1, 1, 1, 0, seen), ERR_NONE);
    cr_expect(isnan(seen[0]), "what is not filled in is NaN");
    answer_close(&answer);
}

Test(plugin, a_plug_in_may_decline_or_refuse_and_fail)
{
    static const struct {
        enum fake fake;
        enum answer_kind kind;
        const char *text;
    } rows[] = {{FAKE_DECLINES, ANSWER_UNSUPPORTED, "yyyy"},
                {FAKE_REFUSES, ANSWER_REFUSED, "yyyy"},
                {FAKE_SILENT, ANSWER_UNSUPPORTED, "the plug-in does not say why"}};
    struct zerogauge_implementation table = fake_table();
    struct answer answer;
    char path[32];
    fake_case("plain");
    write_case(&c);
    for (int i = 0; i < 3; i++) {
        fake = rows[i].fake;
        snprintf(path, sizeof path, "answers/%d", i);
        cr_assert_eq(plugin_answer_case(&table, "cases/plain", path, 2, NULL), ERR_NONE, "%s", err_message());
        cr_assert_eq(answer_open(&c, path, &answer), ERR_NONE, "%s", err_message());
        cr_expect_eq(answer.kind, rows[i].kind);
        cr_expect_eq(strncmp(answer.text, rows[i].text, strlen(rows[i].text)), 0, "%s", answer.text);
        answer_close(&answer);
    }
    fake = FAKE_FAILS;
    cr_expect_eq(plugin_answer_case(&table, "cases/plain", "answers/x", 2, NULL), ERR_CHECK);
    cr_expect_eq(strncmp(err_message(), "open returned 3: yyyy", 21), 0, "%s", err_message());
    cr_expect_str_eq(calls, "open open open open ");
}

Test(plugin, a_case_that_resumes_has_a_folder_for_its_checkpoint)
{
    struct zerogauge_implementation table = fake_table();
    fake_case("two.save~2");
    c.phase = PHASE_SAVE;
    c.checkpoint_step = 1;
    write_case(&c);
    cr_assert_eq(plugin_answer_case(&table, "cases/two.save~2", "answers/a", 2, "state"), ERR_NONE, "%s",
                 err_message());
    cr_expect_eq(access("state/two~2/kept", F_OK), 0);
    snprintf(c.name, sizeof c.name, "two.resume~2");
    c.phase = PHASE_RESUME;
    write_case(&c);
    cr_assert_eq(plugin_answer_case(&table, "cases/two.resume~2", "answers/b", 2, "state"), ERR_NONE, "%s",
                 err_message());
    cr_expect_str_eq(calls, "open g1.0.0 g1.0.1 g1.1.0 g1.1.1 s1 save close"
                            "reopen load g2.0.0 g2.0.1 g2.1.0 g2.1.1 s2 close");
    cr_expect_eq(plugin_answer_case(&table, "cases/two.resume~2", "answers/c", 2, NULL), ERR_USAGE);
    struct answer answer;
    table.save = NULL;
    cr_assert_eq(plugin_answer_case(&table, "cases/two.resume~2", "answers/d", 2, "state"), ERR_NONE);
    cr_assert_eq(answer_open(&c, "answers/d", &answer), ERR_NONE);
    cr_expect_str_eq(answer.text, "the plug-in has neither save nor load");
    answer_close(&answer);
}

Test(plugin, a_plug_in_sees_the_whole_case)
{
    struct plugin_view view;
    fake_case("plain");
    c.precision = DTYPE_BF16;
    c.loss_scale =
        (struct case_loss_scale){.kind = SCALE_DYNAMIC, .scale = 8, .window = 5, .hysteresis = 2, .min_scale = 0.5};
    c.offload_param = TIER_NVME;
    c.reduce_bucket = 11;
    c.gradient_clipping = 0.25;
    write_case(&c);
    cr_assert_eq(plugin_view_open(&c, "cases/plain", &view), ERR_NONE, "%s", err_message());
    cr_expect_eq(view.c.struct_bytes, sizeof view.c);
    cr_expect_str_eq(view.c.name, "plain");
    cr_expect_eq(view.c.json[0], '{');
    cr_expect(view.c.precision == ZEROGAUGE_BF16 && view.c.loss_scale == ZEROGAUGE_SCALE_DYNAMIC && view.c.scale == 8 &&
              view.c.scale_window == 5 && view.c.scale_hysteresis == 2 && view.c.min_scale == 0.5 &&
              view.c.offload_param == ZEROGAUGE_NVME && view.c.reduce_bucket == 11 &&
              view.c.gradient_clipping == 0.25 && view.c.first_step == 1 && view.c.last_step == 2);
    cr_expect_eq(view.c.param_count, 4);
    cr_expect_str_eq(view.c.params[2].name, "p2");
    cr_expect(view.c.params[2].count == 40 && view.c.params[2].shape[0] == 40 && !view.c.params[2].used &&
              view.c.params[3].frozen && view.c.params[1].group == 1 && view.c.params[1].tied_to == -1);
    cr_expect_eq(view.c.groups[1].lr[1], c.groups[1].lr[1]);
    cr_expect(view.c.groups[0].decoupled && view.c.groups[0].weight_decay == 0.1);
    plugin_view_close(&view);
}

Test(plugin, the_table_is_c_and_cplusplus_by_itself)
{
    static const char *const compilers[] = {"cc -std=c99 -x c", "c++ -std=c++11 -x c++"};
    char command[PATH_MAX + 200], output[4096];
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command, "command -v %.3s >/dev/null", compilers[i]);
        if (command_run(command, output, sizeof output) != 0) {
            printf("TEST SKIPPED: there is no %.3s\n", compilers[i]);
            continue;
        }
        snprintf(command, sizeof command,
                 "cd / && echo '#include \"%s/conformance/contract/contract.h\"' | %s -Wall -Wextra -pedantic -Werror "
                 "-fsyntax-only - 2>&1",
                 ZG_SOURCE_DIR, compilers[i]);
        cr_expect_eq(command_run(command, output, sizeof output), 0, "%s", output);
    }
}
