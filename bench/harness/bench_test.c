// SPDX-License-Identifier: Apache-2.0
// Tests of the harness: it times and counts the right repetitions, refuses bad options, and prints results.
#include "bench/table/benchmarks.h"
#include "bench/harness/bench.h"
#include "bench/harness/bench_file.h"
#include "base/err.h"
#include "bench/harness/printed_test.h"

#include <criterion/criterion.h>

#include <popt.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct bench_samples samples_of(size_t count, const double *values)
{
    struct bench_samples samples = {.count = count};
    memcpy(samples.values, values, count * sizeof *values);
    return samples;
}

Test(bench, the_median_does_not_depend_on_the_order_of_samples)
{
    struct bench_samples odd = samples_of(5, (double[]){9, 1, 100, 3, 2});
    cr_assert_eq(bench_median(&odd), 3);
    struct bench_samples even = samples_of(4, (double[]){4, 1, 3, 1000});
    cr_assert_eq(bench_median(&even), 3.5);
    struct bench_samples one = samples_of(1, (double[]){7});
    cr_assert_eq(bench_median(&one), 7);
    cr_assert_eq(odd.values[0], 9, "the samples keep their order");
}

Test(bench, quantiles_interpolate_linearly_between_two_samples)
{
    struct bench_samples samples = samples_of(11, (double[]){10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    cr_assert_eq(bench_quantile(&samples, 0), 0);
    cr_assert_eq(bench_quantile(&samples, 1), 10);
    cr_assert_float_eq(bench_quantile(&samples, 0.1), 1, 1e-12);
    cr_assert_float_eq(bench_quantile(&samples, 0.25), 2.5, 1e-12);
}

// Logs the calls: w of the work, y of the baseline, W of the work's preparation.
struct diary {
    char text[64];
    uint64_t at_ns[64];  // when each letter was written
    size_t length, fail_after;
};

static int note(struct diary *diary, char what)
{
    if (diary->fail_after && diary->length == diary->fail_after)
        return err_set(ERR_CHECK, "the diary is full");
    diary->at_ns[diary->length] = clock_now_ns();
    diary->text[diary->length++] = what;
    return ERR_NONE;
}

static int work_run(void *context)
{
    usleep(2000);
    return note(context, 'w');
}

static int work_prepare(void *context)
{
    usleep(20000);
    return note(context, 'W');
}

static int baseline_run(void *context)
{
    return note(context, 'y');
}

Test(bench, work_and_baseline_run_in_turn_and_only_the_runs_are_timed)
{
    struct diary diary = {0};
    struct bench_work work = {.name = "w", .run = work_run, .prepare = work_prepare, .context = &diary};
    struct bench_work baseline = {.name = "y", .run = baseline_run, .context = &diary};
    struct bench_samples timed, against;
    cr_assert_eq(bench_alternate(&work, &baseline, 1, 3, 1000, &timed, &against), ERR_NONE);
    cr_assert_str_eq(diary.text, "WwyWwyWwyWwy");
    cr_assert_eq(timed.count, 3);
    cr_assert_eq(against.count, 3);
    // The work sleeps 2 ms; samples are per 1/1000 of the run, which lies between the notes of preparation and
    // baseline.
    for (size_t i = 0; i < 3; i++) {
        const uint64_t *of_round = diary.at_ns + 3 * (i + 1);
        cr_assert_geq(timed.values[i], 2000);
        cr_assert_leq(timed.values[i], (double)(of_round[2] - of_round[0]) / 1000);
        cr_assert_geq(against.values[i], 0);
    }
}

Test(bench, a_repetition_that_fails_ends_the_measurement)
{
    struct diary diary = {.fail_after = 4};
    struct bench_work work = {.name = "w", .run = work_run, .context = &diary};
    struct bench_work baseline = {.name = "y", .run = baseline_run, .context = &diary};
    struct bench_samples timed, against;
    cr_assert_eq(bench_alternate(&work, &baseline, 0, 9, 1, &timed, &against), ERR_CHECK);
    cr_assert_str_eq(err_message(), "the diary is full");
    cr_assert_str_eq(diary.text, "wywy");
}

// A record of 2 ns against 1 ns.
static size_t rounds_within(double budget_s, size_t warmup, size_t repeat)
{
    size_t round = 0;
    bench_budget_begin(budget_s);
    if (budget_s > 0)
        bench_budget_case(1);
    while (bench_repeats(warmup, repeat, round))
        round++;
    bench_budget_begin(0);
    return round;
}

Test(bench, a_case_ends_with_three_samples_when_its_time_is_over)
{
    cr_expect_eq(rounds_within(0, 2, 10), 12, "no budget");
    cr_expect_eq(rounds_within(1000, 2, 10), 12, "enough time");
    cr_expect_eq(rounds_within(1e-9, 2, 10), 2 + BENCH_REPEAT_LEAST);
    cr_expect_eq(rounds_within(1e-9, 1, 2), 3, "fewer were asked for");
    bench_budget_begin(1e-9);
    cr_expect(bench_tries(5, 0) && !bench_tries(5, 1), "a choice takes one trial");
    bench_budget_begin(0);
    cr_expect(bench_tries(5, 4) && !bench_tries(5, 5));
}

Test(bench, the_time_left_is_divided_among_the_cases_left)
{
    bench_budget_begin(1000);
    bench_budget_case(100000);
    usleep(20000);
    cr_expect_not(bench_repeats(0, 10, BENCH_REPEAT_LEAST), "10 ms are over");
    bench_budget_case(1);
    cr_expect(bench_repeats(0, 10, BENCH_REPEAT_LEAST), "the rest is not");
    cr_expect_lt(bench_budget_left_s(), 1000 - 0.02 + 1e-9);
    bench_budget_begin(0);
    cr_expect(isinf(bench_budget_left_s()));
}

Test(bench, cases_that_would_end_after_the_time_are_left_out)
{
    struct bench_options options = {.budget_s = 0.01};
    size_t left = 4;
    bench_budget_begin(options.budget_s);
    usleep(12000);
    cr_expect(bench_budget_next(&options, "b", &left), "the first one is measured");
    cr_expect_eq(left, 3);
    cr_expect_not(bench_budget_next(&options, "b", &left));
    cr_expect_eq(left, 0, "nor are those after it");
    cr_expect_not(bench_budget_next(&options, "b", &left));
    options.quick = true;
    left = 1;
    cr_expect(bench_budget_next(&options, "b", &left));
    left = 2;
    // A case of 20 ms twice into 1000 s, and not into what is left of 30 ms.
    options = (struct bench_options){.budget_s = 1000};
    bench_budget_begin(options.budget_s);
    cr_expect(bench_budget_next(&options, "b", &left));
    usleep(20000);
    cr_expect(bench_budget_next(&options, "b", &left));
    bench_budget_begin(options.budget_s = 0.03);
    left = 2;
    cr_expect(bench_budget_next(&options, "b", &left));
    usleep(20000);
    cr_expect_not(bench_budget_next(&options, "b", &left));
    bench_budget_begin(0);
    left = 1;
    cr_expect(bench_budget_next(&options, "b", &left) && left == 0, "no budget");
}

Test(bench, two_minutes_are_the_default_where_nothing_was_chosen)
{
    struct bench_options none = {0}, chosen[] = {{.json = true}, {.quick = true}, {.repeat = 3}, {.budget_s = 500}};
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++) {
        double before_s = chosen[i].budget_s;
        bench_default_budget(&chosen[i]);
        cr_expect_eq(chosen[i].budget_s, before_s, "%zu", i);
    }
    cr_expect(isinf(bench_budget_left_s()));
    char path[] = "/tmp/zg-bench-budget-XXXXXX";
    close(mkstemp(path));
    unlink(path);
    static const char *const here[] = {"."};
    const struct bench_options of_file = {.storage = {.paths = here, .path_count = 1}};
    cr_assert_eq(bench_file_open(path, 1, (const char *[]){"b"}, &of_file), ERR_NONE, "%s", err_message());
    bench_default_budget(&none);
    cr_expect_eq(none.budget_s, 0, "a file is whole");
    cr_expect_eq(bench_file_close("b", ERR_NONE), ERR_NONE, "%s", err_message());
    unlink(path);
    bench_default_budget(&none);
    cr_expect_eq(none.budget_s, 120);
    cr_expect(bench_budget_left_s() > 100 && bench_budget_left_s() <= 120);
    bench_budget_begin(0);
}

static struct bench_record record_of(const struct bench_samples *samples, const struct bench_samples *baseline)
{
    return (struct bench_record){
        .name = "adam",
        .description = json_pack("{s:s, s:i, s:b}", "recipe", "torch-cpu", "params", 65536, "in_cache", 1),
        .unit = "ns_per_param",
        .lower_is_better = true,
        .items = 65536,
        .begin_ns = clock_now_ns(),
        .item_bytes = 28,
        .samples = samples,
        .baseline_name = "copy_4r_3w",
        .baseline = baseline,
    };
}

// Appends its letter and takes as many ms as the text is long.
struct turn {
    char letter, *text;
    size_t fail_at;
};

static int take_turn(void *context, double *ms)
{
    const struct turn *turn = context;
    size_t length = strlen(turn->text);
    if (turn->fail_at && length == turn->fail_at)
        return err_set(ERR_CHECK, "spoilt");
    turn->text[length] = turn->letter;
    *ms = (double)(length + 1);
    return ERR_NONE;
}

Test(bench, works_that_time_themselves_take_turns_and_each_begins_a_round)
{
    char text[32] = "";
    struct turn a = {'a', text, 0}, b = {'b', text, 0}, c = {'c', text, 0};
    struct bench_samples samples[3];
    const struct bench_timed works[] = {
        {take_turn, &a, 1e6, &samples[0]}, {take_turn, &b, 1e6, &samples[1]}, {take_turn, &c, 2e6, &samples[2]}};
    cr_assert_eq(bench_take_turns(works, 3, 1, 3), ERR_NONE);
    cr_expect_str_eq(text, "abcbcacababc");
    cr_expect_arr_eq(samples[0].values, ((double[]){6, 8, 10}), 3 * sizeof(double));
    cr_expect_arr_eq(samples[1].values, ((double[]){4, 9, 11}), 3 * sizeof(double));
    cr_expect_arr_eq(samples[2].values, ((double[]){2.5, 3.5, 6}), 3 * sizeof(double));
    cr_expect(samples[0].count == 3 && samples[1].count == 3 && samples[2].count == 3);
    c.fail_at = strlen(text) + 2;
    cr_expect_eq(bench_take_turns(works, 3, 0, 1), ERR_CHECK);
}

// The first repetition takes 50 ms more, as one that loads code does.
static int take_rounds(void *context, double *ms)
{
    const uint64_t *rounds = context;
    static int runs;
    *ms = 0.3 * (double)*rounds + (runs++ == 0 ? 50 : 0);
    return ERR_NONE;
}

Test(bench, rounds_fill_a_sample_whatever_the_first_repetition_takes)
{
    uint64_t rounds;
    cr_assert_eq(bench_choose_rounds(take_rounds, &rounds, &rounds), ERR_NONE);
    cr_expect_eq(rounds, 8);
}

Test(bench, the_ratio_is_achieved_over_baseline_for_times_and_for_rates)
{
    struct bench_samples two = samples_of(1, (double[]){2}), one = samples_of(1, (double[]){1});
    struct bench_record record = record_of(&two, &one);
    cr_assert_eq(bench_ratio(&record), 0.5);  // 2 ns against 1 ns
    record.lower_is_better = false;
    cr_assert_eq(bench_ratio(&record), 2);  // 2 GB/s against 1 GB/s
    json_decref(record.description);
}

static const struct bench_options for_reader, for_programs = {.json = true};

// Returns the standard output of bench_print, which the caller frees, and its result in *code.
static char *printed(const struct bench_options *options, struct bench_record *record, int *code)
{
    struct printed output = printed_begin();
    *code = bench_print(options, record);
    return printed_end(output);
}

Test(bench, a_result_is_one_json_line_with_every_field)
{
    struct bench_samples two = samples_of(3, (double[]){2, 2.5, 1}), one = samples_of(1, (double[]){1});
    struct bench_record record = record_of(&two, &one);
    record.begin_ns -= 1500000000;
    int code;
    char *text = printed(&for_programs, &record, &code);
    cr_assert_eq(code, ERR_NONE);
    json_t *line = json_loads(text, 0, NULL);
    cr_assert_not_null(line, "%s", text);
    double elapsed_s = json_number_value(json_object_get(line, "elapsed_s"));
    cr_expect(elapsed_s >= 1.5 && elapsed_s < 60, "%g", elapsed_s);
    json_object_set_new(line, "elapsed_s", json_integer(2));
    char *canonical = json_dumps(line, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    cr_expect_str_eq(canonical, "{\"record\":\"bench\",\"name\":\"adam\","
                                "\"case\":{\"recipe\":\"torch-cpu\",\"params\":65536,\"in_cache\":true},"
                                "\"samples\":[2.0,2.5,1.0],\"median\":2.0,\"p10\":1.2,\"p90\":2.4,"
                                "\"unit\":\"ns_per_param\",\"lower_is_better\":true,\"items\":65536,"
                                "\"elapsed_s\":2,\"verified\":true,\"yardstick\":{\"name\":\"copy_4r_3w\","
                                "\"samples\":[1.0],\"median\":1.0,\"p10\":1.0,\"p90\":1.0,"
                                "\"unit\":\"ns_per_param\",\"items\":65536},\"ratio\":0.5}");
    cr_expect_eq(strchr(text, '\n'), text + strlen(text) - 1, "one line: %s", text);
    json_decref(line);
    free(canonical);
    free(text);
}

Test(bench, a_line_without_a_baseline_has_null_and_keeps_its_timeline)
{
    struct bench_samples two = samples_of(1, (double[]){2});
    struct bench_record record = record_of(&two, NULL);
    record.items = 2.5;
    record.timeline = json_pack("[{s:s, s:i, s:i}]", "lane", "compute", "begin_ms", 0, "end_ms", 3);
    int code;
    char *text = printed(&for_programs, &record, &code);
    cr_assert_eq(code, ERR_NONE);
    cr_expect(strstr(text, "\"yardstick\":null,\"ratio\":null,"
                           "\"timeline\":[{\"lane\":\"compute\",\"begin_ms\":0,\"end_ms\":3}]}\n"),
              "%s", text);
    cr_expect(strstr(text, "\"items\":2.5,"), "%s", text);
    free(text);
}

Test(bench, the_text_of_a_result_begins_with_the_percentage_and_shows_spread_and_bandwidth)
{
    struct bench_samples two = samples_of(3, (double[]){2, 2.5, 1}), one = samples_of(1, (double[]){1});
    struct bench_record record = record_of(&two, &one);
    int code;
    char *text = printed(&for_reader, &record, &code);
    cr_assert_eq(code, ERR_NONE);
    cr_assert_str_eq(text, " 50.0 %  adam  recipe=torch-cpu  params=65536  in_cache=yes\n"
                           "         2 ns_per_param (1.2 to 2.4 in 3 runs)  14.0 GB/s  copy_4r_3w: 1\n");
    free(text);
    record = record_of(&two, NULL);
    record.row = "a row of a table";
    text = printed(&for_reader, &record, &code);
    cr_assert_str_eq(text, "    - %  a row of a table\n");
    free(text);
}

Test(bench, the_exit_status_is_77_only_if_all_was_skipped)
{
    struct bench_samples two = samples_of(1, (double[]){2});
    struct bench_record record = record_of(&two, NULL);
    int code;
    cr_expect_eq(bench_exit("x", ERR_NONE), 0);
    bench_skip("no %s here", "device");
    cr_expect_eq(bench_exit("x", ERR_NONE), 77);
    cr_expect_eq(bench_exit("x", ERR_NONE), 0, "the next benchmark skipped nothing");
    bench_skip("no device here");
    free(printed(&for_reader, &record, &code));
    cr_expect_eq(bench_exit("x", ERR_NONE), 0);
    bench_skip("no device here");
    cr_expect_eq(bench_exit("x", err_set(ERR_CHECK, "wrong")), 1);
}

Test(bench, sizes_have_binary_suffixes)
{
    size_t sizes[BENCH_LIST_MAX], count;
    cr_assert_eq(bench_parse_sizes("1,7,64K,3M,2G", sizes, &count), ERR_NONE);
    cr_assert_eq(count, 5);
    cr_assert_eq(sizes[0], 1);
    cr_assert_eq(sizes[1], 7);
    cr_assert_eq(sizes[2], 65536);
    cr_assert_eq(sizes[3], 3u << 20);
    cr_assert_eq(sizes[4], (size_t)2 << 30);
}

Test(bench, wrong_sizes_are_refused)
{
    static const char *const wrong[] = {"",    ",",  "1,",  ",1", "0", "-1",     "1.5", "64T",
                                        "64k", "1 ", "1;2", "x",  "K", "16385G", "1,2x"};
    static const char *const too_large[] = {"99999999999999999999999", "18446744073709551615K", "18446744073709551615",
                                            "17592186044417"};
    size_t sizes[BENCH_LIST_MAX], count, largest[BENCH_LIST_MAX], largest_count;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_assert_eq(bench_parse_sizes(wrong[i], sizes, &count), ERR_USAGE, "'%s'", wrong[i]);
    for (size_t i = 0; i < sizeof too_large / sizeof too_large[0]; i++)
        cr_assert_eq(bench_parse_sizes(too_large[i], sizes, &count), ERR_USAGE, "'%s'", too_large[i]);
    cr_assert_eq(bench_parse_sizes("17592186044416,16384G", largest, &largest_count), ERR_NONE);
    cr_expect_eq(largest[0], largest[1]);
    char many[4 * BENCH_LIST_MAX] = "1";
    for (int i = 1; i <= BENCH_LIST_MAX; i++)
        strcat(many, ",1");
    cr_assert_eq(bench_parse_sizes(many, sizes, &count), ERR_USAGE);
}

Test(bench, shared_options_are_parsed_together_with_a_benchmarks_own)
{
    char *recipe = NULL;
    struct poptOption own[] = {{"recipe", '\0', POPT_ARG_STRING, &recipe, 0, "one recipe", "NAME"}, POPT_TABLEEND};
    const char *argv[] = {"adam", "--recipe", "torch-cpu", "--sizes=1K,2K", "--threads", "1,all", "--repeat",
                          "11",   "--warmup", "2",         "--json",        NULL};
    struct bench_options options;
    cr_assert_eq(bench_parse(11, argv, &bench_adam, own, &options), ERR_NONE, "%s", err_message());
    cr_assert_str_eq(recipe, "torch-cpu");
    cr_assert_eq(options.size_count, 2);
    cr_assert_eq(options.sizes[1], 2048);
    cr_assert_eq(options.thread_count, 2);
    cr_assert_eq(options.threads[0], 1);
    cr_assert_eq(options.threads[1], bench_thread_count());
    cr_assert_eq(options.repeat, 11);
    cr_assert_eq(options.warmup, 2);
    cr_assert(options.json);
    cr_assert_not(options.quick);
    bench_release(&options, own);
    cr_expect_null(recipe);
}

Test(bench, options_of_storage_and_of_states_are_accepted_only_by_benchmarks_that_use_them)
{
    const char *argv[] = {"swap",     "--nvme-path", "/a",       "--nvme-path",        "/b", "--engine",
                          "io_uring", "--buffered",  "--inject", "--no-swap-checksum", NULL};
    struct bench_options options;
    cr_assert_eq(bench_parse(8, argv, &bench_nvme, NULL, &options), ERR_NONE, "%s", err_message());
    cr_assert_eq(options.storage.path_count, 2);
    cr_expect_str_eq(options.storage.paths[0], "/a");
    cr_expect_str_eq(options.storage.paths[1], "/b");
    cr_expect_str_eq(options.storage.engine, "io_uring");
    cr_expect(options.storage.buffered && !options.storage.no_checksum);
    bench_release(&options, NULL);
    cr_expect_eq(bench_parse(8, argv, &bench_adam, NULL, &options), ERR_USAGE);
    bench_release(&options, NULL);
    argv[8] = "--no-swap-checksum";
    cr_expect_eq(bench_parse(9, argv, &bench_nvme, NULL, &options), ERR_USAGE);
    bench_release(&options, NULL);
    cr_expect_eq(bench_parse(9, argv, &bench_swap, NULL, &options), ERR_NONE);
    cr_expect(options.storage.no_checksum);
    bench_release(&options, NULL);
    cr_expect_eq(bench_parse(1, argv, &bench_swap, NULL, &options), ERR_NONE);
    cr_expect(options.storage.path_count == 1 && strcmp(options.storage.paths[0], ".") == 0);
    bench_release(&options, NULL);
}

Test(bench, defaults_apply_only_to_options_that_were_not_given)
{
    struct bench_options options = {.quick = true, .warmup = 9};
    bench_default_sizes(&options, (const size_t[]){3, 5}, 2);
    bench_default_repeat(&options, 15, 10, 2);
    cr_expect(options.size_count == 2 && options.sizes[0] == 3 && options.sizes[1] == 5);
    cr_expect(options.repeat == 10 && options.warmup == 9);
    bench_default_sizes(&options, (const size_t[]){7}, 1);
    cr_expect(options.size_count == 2 && options.sizes[0] == 3);
}

Test(bench, unknown_and_out_of_range_options_are_usage_errors)
{
    const char *const wrong[] = {"--siezs=1",   "stray",       "--repeat=-1",    "--repeat=2000", "--repeat=x",
                                 "--warmup=-3", "--threads=0", "--threads=5000", "--sizes=1,,2",  "--json=yes"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *argv[] = {"adam", wrong[i], NULL};
        struct bench_options options;
        cr_assert_eq(bench_parse(2, argv, &bench_adam, NULL, &options), ERR_USAGE, "%s", wrong[i]);
        cr_assert_str_not_empty(err_message());
    }
}

Test(bench, an_unknown_benchmark_exits_with_2)
{
    cr_assert_eq(bench_main(2, (const char *[]){"bench", "adma", NULL}), 2);
    cr_assert_eq(bench_main(1, (const char *[]){"bench", NULL}), 0);
}

Test(bench, memory_is_zero_and_begins_at_a_huge_page)
{
    const size_t bytes = (3u << 20) + 5;
    unsigned char *memory = bench_alloc(bytes, 3);
    cr_assert_not_null(memory);
    cr_assert_eq((uintptr_t)memory % (2u << 20), 0);
    for (size_t i = 0; i < bytes; i++)
        cr_assert_eq(memory[i], 0);
    memset(memory, 1, bytes);
    bench_free(memory, bytes);
    bench_free(NULL, 0);
}
