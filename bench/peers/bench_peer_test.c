// SPDX-License-Identifier: Apache-2.0
// Tests of `bench peer` with a stand-in as the peer: each part leaves a result file that verifies, and no record if the
// stand-in computes something else; and of the driver of ci/peers bench.
#include "bench/table/benchmarks.h"
#include "bench/harness/bench.h"
#include "base/command_test.h"
#include "base/err.h"
#include "base/folder_test.h"
#include "bench/harness/printed_test.h"
#include "ref/model/names/model_find.h"
#include "results/record/record_verify.h"
#include "ref/tier/storage_test.h"
#include "bench/peers/peer.h"
#include "bench/harness/json_test.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAND_IN ZG_BINARY_DIR "/peer_stand_in "

// Runs `bench peer` with options, a stand-in and a result file; returns the exit status.
static int run(const char *path, const char *stand_in, const char *options)
{
    char beside[1024], *text;
    snprintf(beside, sizeof beside, "%s%s", STAND_IN, stand_in);
    const char *const first[] = {"peer", "--repeat=3", "--warmup=1", "--out", path, "--beside", beside, NULL};
    int status = printed_run(bench_peer.run, first, options, &text);
    free(text);
    return status;
}

// Expects a result file that verifies, with one bench record of three samples on both sides, which the caller releases.
static json_t *expect_record(const char *path, const char *peer)
{
    struct result_file file;
    size_t refusals;
    cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
    cr_assert_eq(record_verify(&file, stderr, &refusals), ERR_NONE);
    cr_expect_eq(refusals, 0);
    cr_assert_eq(file.line_count, 3);
    json_t *record = json_deep_copy(file.lines[1]), *baseline = json_object_get(record, "yardstick");
    cr_expect_str_eq(json_string_value(json_object_get(record, "name")), "peer");
    cr_expect_str_eq(json_string_value(json_object_get(baseline, "name")), peer);
    cr_expect_eq(json_array_size(json_object_get(record, "samples")), 3);
    cr_expect_eq(json_array_size(json_object_get(baseline, "samples")), 3);
    result_close(&file);
    unlink(path);
    return record;
}

static json_int_t detail_number(const json_t *record, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(record, "detail"), key));
}

static char folder[PATH_MAX], path[PATH_MAX + 16];

static void begin(void)
{
    snprintf(path, sizeof path, "%s/r.jsonl", folder_make(folder));
}

static void end(void)
{
    folder_remove(folder);
}

TestSuite(bench_peer, .init = begin, .fini = end);
TestSuite(peer, .init = begin, .fini = end);

Test(bench_peer, adam_of_the_same_recipe_has_the_same_bits)
{
    static const int sizes[] = {1, 7, 1021, 70001};
    for (int i = 0; i < 8; i++) {
        char words[128];
        snprintf(words, sizeof words, "--part=adam --recipe=deepspeed-cpu-gcc-avx512 --threads=2 --sizes=%d --step=%s",
                 sizes[i / 2], i % 2 ? "whole" : "update");
        cr_assert_eq(run(path, "adam deepspeed-cpu-gcc-avx512", words), 0, "%s", err_message());
        json_t *record = expect_record(path, "stand-in Adam");
        cr_expect_eq(detail_number(record, "params_different"), 0);
        cr_expect_geq(detail_number(record, "steps_compared"), 4);
        cr_expect_str_eq(text_of(json_object_get(record, "detail"), "peer_recipe"), "deepspeed-cpu-gcc-avx512");
        const json_t *copy = json_object_get(json_object_get(record, "detail"), "copy_ns_per_param");
        cr_expect(i % 2 ? json_is_null(copy) : json_number_value(copy) > 0, "of updates alone");
        json_decref(record);
    }
}

Test(bench_peer, a_different_bit_in_any_array_leaves_no_record)
{
    static const char *const arrays[] = {"param", "exp_avg", "copy"};
    for (int i = 0; i < 3; i++) {
        char stand_in[64];
        snprintf(stand_in, sizeof stand_in, "adam torch-fused-cpu %s", arrays[i]);
        cr_expect_eq(run(path, stand_in, "--part=adam --recipe=torch-fused-cpu --sizes=5003 --step=whole"), 1, "%s",
                     arrays[i]);
        struct result_file file;
        cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
        cr_expect_null(file.end);
        cr_expect_eq(file.line_count, 1, "only the run record");
        result_close(&file);
        unlink(path);
    }
}

Test(bench_peer, adam_of_another_recipe_is_refused)
{
    cr_expect_eq(run(path, "adam torch-cpu", "--part=adam --recipe=deepspeed-cpu-clang --sizes=5003"), 1);
}

Test(bench_peer, collectives_and_storage_leave_records_that_verify)
{
    cr_assert_eq(run(path, "times", "--part=comm --operation=all-reduce --sizes=4K"), 0, "%s", err_message());
    json_decref(expect_record(path, "stand-in"));
    if (storage_skips(NVME_LIBAIO))
        return;
    char words[300];
    snprintf(words, sizeof words, "--part=nvme --size=2M --sizes=64K --seconds=0.01 --depth=4 --nvme-path %s",
             storage_folder);
    cr_assert_eq(run(path, "times", words), 0, "%s", err_message());
    json_t *record = expect_record(path, "stand-in");
    cr_expect_str_eq(json_string_value(json_object_get(record, "unit")), "GB/s");
    json_decref(record);
}

Test(bench_peer, checkpoints_leave_records_that_verify_and_nothing_else)
{
    static const char *const operations[] = {"save", "load"};
    char on_disk[PATH_MAX], words[PATH_MAX + 128];
    snprintf(on_disk, sizeof on_disk, "%s/checkpoint-XXXXXX", storage_folder);
    for (int i = 0; i < 2; i++) {
        cr_assert_not_null(i == 0 ? mkdtemp(on_disk) : on_disk);
        snprintf(words, sizeof words, "--part=checkpoint --operation=%s --world=%d --model=gpt-nano --nvme-path %s",
                 operations[i], 3 - i, on_disk);
        int status = run(path, "times", words);
        if (status == 77) {
            rmdir(on_disk);
            cr_skip("%s keeps its files in memory", storage_folder);
        }
        cr_assert_eq(status, 0, "%s", err_message());
        json_t *record = expect_record(path, "stand-in"), *of_case = json_object_get(record, "case");
        cr_expect_str_eq(text_of(of_case, "operation"), operations[i]);
        cr_expect_eq(json_integer_value(json_object_get(of_case, "world")), 3 - i);
        cr_expect_str_eq(text_of(record, "unit"), "GB/s");
        json_decref(record);
    }
    cr_expect_eq(rmdir(on_disk), 0, "there is more in it");
    cr_expect_eq(run(path, "times", "--part=checkpoint --operation=copy --model=gpt-nano"), 2);
    cr_expect_eq(run(path, "times", "--part=checkpoint --world=65 --model=gpt-nano"), 2);
}

// Nothing of a load that is not cold is printed, and what a save wrote is verified all the same.
Test(bench_peer, loads_of_files_that_stay_in_memory_are_skipped)
{
    char words[PATH_MAX + 128], memory[] = "/dev/shm/zg-peer-XXXXXX";
    if (!mkdtemp(memory))
        cr_skip("there is no /dev/shm");
    for (int saves = 0; saves < 2; saves++) {
        snprintf(words, sizeof words, "--part=checkpoint --operation=%s --model=gpt-nano --nvme-path %s",
                 saves ? "save" : "load", memory);
        cr_expect_eq(run(path, "times", words), saves ? 0 : 77);
        unlink(path);
    }
    cr_expect_eq(rmdir(memory), 0, "there is more in it");
}

static double figure(const json_t *figures, const char *side, const char *key)
{
    return json_number_value(json_object_get(json_object_get(figures, side), key));
}

// The figures of both sides follow from the samples and the operations of gpt-nano on `world` ranks.
static void expect_figures(const json_t *record, double world)
{
    const json_t *figures = json_object_get(json_object_get(record, "detail"), "figures");
    const struct model *model;
    cr_assert_eq(model_find("gpt-nano", &model), ERR_NONE);
    double sequences = json_number_value(json_object_get(json_object_get(record, "case"), "sequences_a_rank"));
    double square_gflops = json_number_value(json_object_get(figures, "square_gflops"));
    for (int theirs = 0; theirs < 2; theirs++) {
        const char *side = theirs ? "peers" : "ours";
        double ms =
            json_number_value(json_object_get(theirs ? json_object_get(record, "yardstick") : record, "median"));
        double tokens = world * sequences * (double)model->sequence_length / ms * 1e3;
        double gflops = world * model_flops(model, (size_t)sequences) / ms * 1e-6;
        cr_expect_float_eq(figure(figures, side, "tokens_per_s"), tokens, 1e-6 * tokens, "%s", side);
        cr_expect_float_eq(figure(figures, side, "share_of_square"), gflops / square_gflops,
                           1e-6 * gflops / square_gflops, "%s", side);
    }
    cr_expect_eq(figure(figures, "peers", "resident_peak_bytes"), 1 << 20);
    cr_expect_gt(figure(figures, "ours", "resident_peak_bytes"), 4 << 20);
}

Test(bench_peer, a_training_step_is_compared_loss_by_loss)
{
#define OPTIONS "--part=step --model=gpt-nano --steps=2 --preset=zero3 --quick"
    cr_assert_eq(run(path, "step", OPTIONS), 0, "%s", err_message());
    json_t *record = expect_record(path, "stand-in training");
    cr_expect_eq(detail_number(record, "losses_compared"), 8);
    expect_figures(record, 2);
    json_decref(record);
    cr_expect_eq(run(path, "step loss", OPTIONS), 1);
    unlink(path);
    cr_assert_eq(run(path, "step loss", OPTIONS " --tolerance=0.1"), 0, "%s", err_message());
    record = expect_record(path, "stand-in training");
    double apart = json_number_value(json_object_get(json_object_get(record, "detail"), "most_loss_difference"));
    cr_expect(apart > 1e-3 && apart < 0.1, "%g", apart);
    json_decref(record);
    unlink(path);
    cr_assert_eq(run(path, "step", OPTIONS " --world=4 --set=zerogauge.mesh=replicate=2,shard=2"), 0, "%s",
                 err_message());
    record = expect_record(path, "stand-in training");
    cr_expect_str_eq(json_string_value(json_object_get(json_object_get(record, "case"), "mesh")),
                     "replicate=2,shard=2");
    json_decref(record);
}

Test(bench_peer, a_missing_option_is_a_usage_error_and_a_missing_peer_a_skip)
{
    cr_expect_eq(run(path, "times", ""), 2, "no part");
    unlink(path);
    cr_expect_eq(run(path, "times", "--part=comm --operation=gather"), 2);
    unlink(path);
    cr_expect_eq(run(path, "times", "--part=adam --recipe=none"), 2);
    unlink(path);
    const char *argv[] = {"peer", NULL};
    cr_expect_eq(bench_peer.run(1, argv), 77);
}

// Runs the driver over a table of stand-ins; returns its exit status and output.
static int drive(const char *table, const char *options, char *output, size_t output_bytes)
{
    char file[PATH_MAX + 16], command[2 * PATH_MAX + 512];
    snprintf(file, sizeof file, "%s/table.txt", folder);
    folder_write(file, table, strlen(table));
    snprintf(command, sizeof command, "python3 %s/bench/peers/bench.py %s/zerogauge %s --table %s --quick %s 2>&1",
             ZG_SOURCE_DIR, ZG_BINARY_DIR, folder, file, options);
    return command_run(command, output, output_bytes);
}

Test(bench_peer, the_driver_prints_a_line_for_each_peer_and_counts_them)
{
    char output[8192];
    static const char table[] =
        "# a comment\n\n"
        "one   | --part adam --recipe torch-cpu --sizes 1K | " STAND_IN "adam torch-cpu\n"
        "two   | --part comm --operation all-gather --sizes 1M | " STAND_IN "times\n"
        "sizes | --part comm --operation broadcast --world 3 --sizes 8,64K | " STAND_IN "times\n"
        "wrong | --part adam --recipe torch-cpu --sizes 1K | " STAND_IN "adam torch-cpu exp_avg\n"
        "none  | --part adam | zerogauge-no-such-program\n"
        "disk  | --part nvme --direction read --size 1M | " STAND_IN "times\n";
    cr_expect_eq(drive(table, "", output, sizeof output), 1, "%s", output);
    cr_expect_not_null(strstr(output, "stand-in Adam"), "%s", output);
    cr_expect_not_null(strstr(output, "FAILED: wrong: zerogauge bench peer: exp_avg differs"), "%s", output);
    cr_expect_not_null(strstr(output, "SKIP: none"), "%s", output);
    cr_expect_not_null(strstr(output, "sizes 8 B "), "%s", output);
    cr_expect_not_null(strstr(output, "sizes 64 KiB "), "%s", output);
    cr_expect_not_null(strstr(output, "SKIP: disk: a disk's line is not in quick runs"), "%s", output);
    cr_expect_not_null(strstr(output, "\n3 passed, 1 failed, 2 skipped\n"), "%s", output);
    cr_expect_eq(drive(table, "--markdown two", output, sizeof output), 0, "%s", output);
    cr_expect_not_null(strstr(output, "| all-gather, 2 ranks, 1 MiB | stand-in | "), "%s", output);
    cr_expect_not_null(strstr(output, "\n1 passed, 0 failed, 0 skipped\n"), "%s", output);
    cr_expect_eq(drive(table, "--markdown sizes two", output, sizeof output), 0, "%s", output);
    cr_expect_not_null(strstr(output, "| all-gather, 2 ranks, 1 MiB | stand-in | "), "%s", output);
    cr_expect_not_null(strstr(output, "\n| collective | compared with | 8 B | 64 KiB |\n| --- | --- | --- | --- |\n"
                                      "| broadcast, 3 ranks | stand-in | "),
                       "%s", output);
    cr_expect_eq(drive(table, "none", output, sizeof output), 77, "%s", output);
    cr_expect_eq(drive(table, "three", output, sizeof output), 1, "%s", output);
    cr_expect_not_null(strstr(output, "no such line: three"), "%s", output);
}

Test(bench_peer, the_driver_says_what_is_far_from_the_published_and_what_differs_quickly)
{
    static const char program[] =
        "import sys; sys.path.insert(0, \"" ZG_SOURCE_DIR "/bench/peers\"); sys.dont_write_bytecode = True\n"
        "import bench\n"
        "def of(*turns):\n"
        "    return dict(case=dict(part=\"comm\", operation=\"all-gather\", world=2, asked_bytes=1 << 20),\n"
        "                yardstick=dict(name=\"a peer v4.1\", samples=turns), samples=[1] * len(turns),\n"
        "                lower_is_better=True)\n"
        "record = of(1.1, 1.2, 1.3)\n"
        "assert bench.ratio_of(of(1, 9, 2)) == 2 and bench.ratio_of(dict(of(4, 1, 1), lower_is_better=False)) == 1\n"
        "there = {bench.row_key(\"all-gather, 2 ranks, 1 MiB\", \"a peer 2.15.0\"): 1.85}\n"
        "assert bench.far_text(record, there) and not bench.far_text(of(1.25), there)\n"
        "assert bench.far_text(of(2.8), there) and not bench.far_text(record, {})\n"
        "steady = of(1.19, 1.2, 1.21)\n"
        "quick = of(1.3, 1.31, 1.32), of(1.32, 1.33, 1.34), of(1, 1.07, 1.08), of(1, 1.2, 2), of(1, 1.4, 2), of(1.2)\n"
        "found = bench.differing(\"a\", [steady] * 6, quick)\n"
        "assert found == [0, 1, -1, None, None, None], found\n"
        "assert bench.differing(\"a\", [of(1, 1.2, 2)] * 3, [of(4, 4.1), of(1.1, 1.5, 3), steady]) == [1, None, None]\n"
        "assert abs(bench.uncertainty(of(*range(95, 106))) - 0.08 / 11 ** 0.5) < 1e-9\n"
        "def trials(*quick):\n"
        "    left = iter(quick)\n"
        "    bench.measure = lambda _, __, short, *___: (next(left) if short else [steady, steady], None)\n"
        "    return bench.compare_quick((0, 0), \"a\", [steady, steady], (0, 0)), len(list(left))\n"
        "near, apart, below, wide = (of(0.99 * at, at, 1.01 * at, *far) for at, far in (\n"
        "    (1.21, []), (1.4, []), (0.9, []), (1.4, [9, 0.1])))\n"
        "assert trials([near, near], 0) == (\"passed\", 1)\n"
        "assert trials([near, apart], [apart, near], 0) == (\"passed\", 1)\n"
        "assert trials([near, apart], [apart, apart], [near, apart], 0) == (\"failed\", 1)\n"
        "assert trials([near, wide], [apart, apart], [near, apart], 0) == (\"not decided\", 1)\n"
        "assert trials([near, wide], [near, near], 0) == (\"passed\", 1)\n"
        "assert trials([near, apart], [near, below], [near, apart], 0) == (\"not decided\", 1)\n"
        "assert trials([near], 0) == (\"failed\", 1)\n"
        "def status(*outcomes):\n"
        "    bench.read_table = lambda _: [[outcome, \"\", \"true\"] for outcome in outcomes]\n"
        "    bench.compare_quick = lambda _, name, *__: name\n"
        "    bench.measure = lambda *_: ([record], None)\n"
        "    return bench.main()\n"
        "assert status(\"not decided\", \"passed\", \"not decided\") == 0 and status(\"not decided\") == 77\n"
        "assert status(\"passed\", \"failed\", \"not decided\") == 1\n"
        "assert bench.published()[\"AdamW update, 64 M parameters, 2 threads\", \"DeepSpeed CPUAdam\"] > 0.5\n";
    char command[8192], output[8192];
    snprintf(command, sizeof command, "python3 -c '%s' bench %s --self 2>&1", program, folder);
    cr_expect_eq(command_run(command, output, sizeof output), 0, "%s", output);
    cr_expect(strstr(output, "\n1 passed, 0 failed, 0 skipped, 2 not decided\n"), "%s", output);
    cr_expect_eq(drive("one | --part adam | true\n", "--self", output, sizeof output), 2, "%s", output);
}

// Starts a shell that answers its setting and then runs `answer` for each request.
static struct peer open_shell(const char *answer)
{
    char command[1024];
    struct peer peer;
    snprintf(command, sizeof command, "sh -c 'read s; echo {\\\"name\\\":\\\"shell 1\\\"}; while read l; do %s; done'",
             answer);
    cr_assert_eq(peer_open(command, &peer), ERR_NONE, "%s", err_message());
    cr_assert_eq(peer_send_line(&peer, json_pack("{s:i}", "threads", 2)), ERR_NONE, "%s", err_message());
    return peer;
}

static void expect_run_fails(const char *answer, int code, const char *part)
{
    struct peer peer = open_shell(answer);
    double ns;
    cr_assert_eq(peer_ready(&peer), ERR_NONE, "%s", err_message());
    cr_expect_eq(peer_run(&peer, 1, &ns), code, "%s", answer);
    cr_expect_not_null(strstr(err_message(), part), "%s: %s", answer, err_message());
    peer_close(&peer);
}

Test(peer, a_peer_reports_its_name_and_time)
{
    struct peer peer = open_shell("sleep 0.001; echo {\\\"ns\\\":5}");
    double ns;
    cr_assert_eq(peer_ready(&peer), ERR_NONE, "%s", err_message());
    cr_expect_str_eq(peer.name, "shell 1");
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(peer_run(&peer, 2, &ns), ERR_NONE, "%s", err_message());
        cr_expect_eq(ns, 5);
    }
    peer_close(&peer);
    cr_expect_eq(peer.process, 0);
}

Test(peer, answers_that_are_errors_or_impossible_are_refused)
{
    expect_run_fails("echo {\\\"error\\\":\\\"no room\\\"}", ERR_CHECK, "shell 1: no room");
    expect_run_fails("echo hello", ERR_IO, "'hello\n', expected an object");
    expect_run_fails("echo {\\\"s\\\":5}", ERR_IO, "\"ns\" is not a number");
    expect_run_fails("echo {\\\"ns\\\":0}", ERR_IO, "\"ns\" is not a number");
    expect_run_fails("echo {\\\"ns\\\":1e15}", ERR_CHECK, "1000000000000000 ns by its own clock");
    expect_run_fails("exit 3", ERR_IO, "has ended");
}

Test(peer, a_missing_program_is_an_error)
{
    struct peer peer;
    cr_assert_eq(peer_open("zerogauge-no-such-program --now", &peer), ERR_NONE);
    cr_expect_eq(peer_ready(&peer), ERR_IO);
    peer_close(&peer);
    cr_expect_eq(peer_open("", &peer), ERR_USAGE);
    peer_close(&peer);
}

Test(peer, the_last_answer_explains_a_closed_input)
{
    struct peer peer;
    char *bytes = calloc(1, 8 << 20);
    cr_assert_eq(peer_open("sh -c 'echo {\\\"error\\\":\\\"no such module\\\"}'", &peer), ERR_NONE);
    cr_expect_eq(peer_send(&peer, bytes, 8 << 20), ERR_CHECK);
    cr_expect_not_null(strstr(err_message(), "no such module"), "%s", err_message());
    peer_close(&peer);
    free(bytes);
}

Test(peer, bytes_come_back_as_they_were_sent)
{
    enum { BYTES = 1000003 };
    struct peer peer;
    char *sent = malloc(BYTES), *got = calloc(1, BYTES);
    for (int i = 0; i < BYTES; i++)
        sent[i] = (char)(i * 7 + i / 251);
    cr_assert_eq(peer_open("sh -c 'f=$(mktemp) && head -c 1000003 >$f && cat $f && rm $f'", &peer), ERR_NONE);
    cr_assert_eq(peer_send(&peer, sent, BYTES), ERR_NONE, "%s", err_message());
    cr_assert_eq(peer_receive(&peer, got, BYTES), ERR_NONE, "%s", err_message());
    cr_expect_eq(memcmp(sent, got, BYTES), 0);
    cr_expect_eq(peer_receive(&peer, got, 1), ERR_IO, "the peer sends no more bytes");
    peer_close(&peer);
    free(sent);
    free(got);
}

static int write_a(void *context)
{
    FILE *file = fopen(context, "a");
    fputc('a', file);
    return fclose(file);
}

// Both sides leave a letter each time that they run.
static void expect_turns(const char *their_answer, double their_ns, size_t warmup, size_t repeat, const char *expected)
{
    char answer[PATH_MAX + 128];
    snprintf(answer, sizeof answer, "printf b >>%s; %s", path, their_answer);
    struct peer peer = open_shell(answer);
    cr_assert_eq(peer_ready(&peer), ERR_NONE, "%s", err_message());
    const struct bench_work work = {.name = "a", .run = write_a, .context = path};
    const struct bench_options options = {.warmup = warmup, .repeat = repeat};
    struct bench_samples ours, theirs;
    cr_assert_eq(peer_alternate(&work, &peer, &options, 1, 1000, &ours, &theirs), ERR_NONE, "%s", err_message());
    peer_close(&peer);
    size_t bytes;
    char *turns = folder_read(path, &bytes);
    turns[bytes] = '\0';
    cr_expect_str_eq(turns, expected);
    free(turns);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(ours.count, repeat);
    cr_assert_eq(theirs.count, repeat);
    for (size_t i = 0; i < repeat; i++) {
        cr_expect_eq(theirs.values[i], their_ns / 1000);
        cr_expect_gt(ours.values[i], 0);
    }
}

Test(peer, turns_alternate_and_warmup_is_not_counted)
{
    expect_turns("echo {\\\"ns\\\":4000}", 4000, 2, 3, "abaabbaabbaabbaabb");
    expect_turns("sleep 0.3; echo {\\\"ns\\\":250000000}", 250000000, 1, 2, "ababab");
}
