// SPDX-License-Identifier: Apache-2.0
// A search plans the memory alone of what does not fit, shows on a terminal how far it is, and takes seconds for the
// largest models and worlds.
#include "base/command_test.h"
#include "plan/planner/plan_choice.h"
#include "plan/planner/plan_model.h"

#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// Plans llama-8b with checkpoints in stage 3 on four ranks of a machine, whole and with only_fitting.
static void plan_both(const char *machine_name, struct plan out[2])
{
    static const char *const set[] = {CHECKPOINTS("true"), "train_micro_batch_size_per_gpu=1"};
    static struct plan_machine machine;
    static struct config config;
    const struct config_options options = {.world = 4, .set = set, .set_count = 2};
    struct plan_setting setting = {.config = &config, .machine = &machine, .world = 4};
    cr_assert_eq(config_load_preset("zero3", &options, &config, NULL), ERR_NONE, "%s", err_message());
    cr_assert_eq(plan_machine_find(machine_name, &machine), ERR_NONE, "%s", err_message());
    cr_assert_eq(plan_model_find("llama-8b", config.tiling_factor, &setting.model), ERR_NONE, "%s", err_message());
    for (int i = 0; i < 2; i++) {
        setting.only_fitting = i == 1;
        cr_assert_eq(plan_run(&setting, &out[i]), ERR_NONE, "%s", err_message());
    }
}

Test(plan_search, what_does_not_fit_has_the_memory_of_a_whole_plan_and_no_steps)
{
    static struct plan plans[2];
    plan_both("rtx-4090", plans);
    cr_expect_eq(plans[0].verdict, PLAN_DOES_NOT_FIT);
    cr_expect_eq(plans[1].verdict, PLAN_DOES_NOT_FIT);
    cr_expect_gt(plans[0].step_s, 0);
    cr_expect_eq(plans[1].steps, 0);
    cr_expect_eq(memcmp(plans[0].held_bytes, plans[1].held_bytes, sizeof plans[0].held_bytes), 0);
    cr_expect_eq(memcmp(plans[0].peak_bytes, plans[1].peak_bytes, sizeof plans[0].peak_bytes), 0);
    cr_expect_eq(memcmp(plans[0].needed_bytes, plans[1].needed_bytes, sizeof plans[0].needed_bytes), 0);
    cr_expect_eq(memcmp(plans[0].verdicts, plans[1].verdicts, sizeof plans[0].verdicts), 0);
}

Test(plan_search, what_fits_is_planned_whole)
{
    static struct plan plans[2];
    plan_both("dgx-h200", plans);
    cr_expect_eq(plans[0].verdict, PLAN_FITS);
    cr_expect_gt(plans[0].step_s, 0);
    cr_expect_eq(plans[1].step_s, plans[0].step_s);
    cr_expect_eq(memcmp(plans[0].step_bytes, plans[1].step_bytes, sizeof plans[0].step_bytes), 0);
}

Test(plan_search, progress_is_shown_after_two_seconds_and_renewed_five_times_a_second)
{
    // Of each moment: whether a line is written.
    static const struct {
        double now_s;
        bool shows;
    } moments[] = {{100.5, false}, {101.9, false}, {102.1, true}, {102.2, false}, {102.4, true}, {110, true}};
    struct plan_choices found = {.began_s = 100, .tried = 7, .count = 3};
    char text[256];
    int master = posix_openpt(O_RDWR | O_NOCTTY), kept = dup(STDERR_FILENO);
    cr_assert(master >= 0 && kept >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    cr_assert_geq(slave, 0);
    setenv("TERM", "xterm", 1);
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        double before_s = found.shown_s;
        dup2(slave, STDERR_FILENO);
        plan_search_progress(&found, moments[i].now_s);
        dup2(kept, STDERR_FILENO);
        cr_expect_eq(found.shown_s != before_s, moments[i].shows, "at %g s", moments[i].now_s);
        if (found.shown_s == before_s)
            continue;
        ssize_t bytes = read(master, text, sizeof text - 1);
        text[bytes > 0 ? bytes : 0] = '\0';
        cr_expect(strstr(text, "7 configurations tried in ") && strstr(text, ", 3 fit"), "%s", text);
    }
    close(slave);
    close(master);
    close(kept);
}

// Returns what a search prints, its code and its message.
static char *searched(const struct plan_options *options, const char *machine)
{
    struct plan_priced priced = {.price = 0};
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert_eq(plan_machine_find(machine, &priced.machine), ERR_NONE, "%s", err_message());
    int code = plan_search(options, &priced, 1, out);
    fprintf(out, "%d: %s", code, code == ERR_NONE ? "" : err_message());
    fclose(out);
    return text;
}

// Of searches of which something fits, and nothing.
Test(plan_search, what_is_ruled_out_changes_no_result, .timeout = 300)
{
    static const struct {
        char preset[8], model[24], machine[16];
        enum plan_goal goal;
        int worlds[2];
        const char *part;
    } cases[] = {
        {"zero3", "llama-8b", "rtx-4090", GOAL_FASTEST, {2, 8}, "none of "},
        {"zero3", "llama-70b", "dgx-h100", GOAL_CHEAPEST, {8, 64}, "configurations fit"},
        {"zero3", "deepseek-v3", "dgx-h100", GOAL_CHEAPEST, {64, 256}, "none of "},
        {"zero3", "gpt3-175b", "workstation", GOAL_FASTEST, {1, 1}, "none of "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct plan_options options = {.preset = (char *)(uintptr_t)cases[i].preset,
                                       .model = (char *)(uintptr_t)cases[i].model,
                                       .goal = cases[i].goal,
                                       .worlds = {cases[i].worlds[0], cases[i].worlds[1]},
                                       .world_count = 2,
                                       .world = 8,
                                       .sequences = 1};
        char *shared = searched(&options, cases[i].machine);
        options.unshared = true;
        char *each = searched(&options, cases[i].machine);
        cr_expect_str_eq(shared, each);
        cr_expect(strstr(each, cases[i].part), "%s", each);
        free(shared);
        free(each);
    }
}

// No work of a plan grows with the product of layers and buckets, with the square of a layer's parameters, or with the
// ranks: these searches take about a second of processor time each.
Test(plan_search, the_largest_searches_take_seconds, .timeout = 300)
{
    static const char *const searches[] = {
        "--preset zero3 --model infinity-100t --world 100000",
        "--preset zero3 --model qwen3-30b-a3b --world 100000",
        "--preset zero3 --model deepseek-v3 --goal cheapest",
    };
    char command[1024], output[8192];
    for (size_t i = 0; i < sizeof searches / sizeof searches[0]; i++) {
        struct rusage before, after;
        getrusage(RUSAGE_CHILDREN, &before);
        snprintf(command, sizeof command, "cd /tmp && '%s/zerogauge' plan %s --search 2>&1", ZG_BINARY_DIR,
                 searches[i]);
        int status = command_run(command, output, sizeof output);
        getrusage(RUSAGE_CHILDREN, &after);
        cr_expect_leq(status, 1, "%s: %s", searches[i], output);
        cr_expect_lt(after.ru_utime.tv_sec - before.ru_utime.tv_sec, 30, "%s", searches[i]);
    }
}
