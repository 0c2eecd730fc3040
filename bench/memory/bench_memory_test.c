// SPDX-License-Identifier: Apache-2.0
// Tests of `bench memory`: every operation touches every word and nothing else, one wrong word is found, memory has the
// requested pages, and the records describe their cases.
#include "bench/table/benchmarks.h"
#include "bench/memory/memory_bench.h"

#include "base/err.h"
#include "base/pretended_test.h"
#include "bench/harness/printed_test.h"

#include <criterion/criterion.h>

#include <sched.h>
#include <string.h>

static const size_t counts[] = {1, 7, 8, 63, 64, 1021, 4099};
enum { COUNT_COUNT = sizeof counts / sizeof counts[0], MOST = 4099, GUARD = 8 };

static _Alignas(64) memory_word from[MOST + GUARD], to[MOST + GUARD];

static void reset(void)
{
    for (size_t i = 0; i < MOST + GUARD; i++) {
        from[i] = i + 1;
        to[i] = ~i;
    }
}

static void expect_only(size_t count, bool copied, memory_word value)
{
    for (size_t i = 0; i < MOST + GUARD; i++)
        cr_assert_eq(to[i], i >= count ? ~i : copied ? i + 1 : value, "word %zu of %zu", i, count);
}

Test(bench_memory, copies_and_writes_touch_every_word_and_nothing_else)
{
    for (int c = 0; c < COUNT_COUNT; c++)
        for (int threads = 1; threads <= 3; threads++)
            for (int w = 0; w < MEMORY_WAY_COUNT; w++) {
                enum memory_way way = (enum memory_way)w;
                bool of_bytes = way == MEMORY_LIBC || way == MEMORY_REP;
                if (way == MEMORY_PREFETCH)
                    continue;
                reset();
                memory_copy(to, from, counts[c], way, threads);
                expect_only(counts[c], true, 0);
                reset();
                memory_write(to, counts[c], 0x123456789abcdef0, way, threads);
                expect_only(counts[c], false, of_bytes ? 0xf0f0f0f0f0f0f0f0 : 0x123456789abcdef0);
            }
}

Test(bench_memory, a_read_sees_every_word)
{
    for (int c = 0; c < COUNT_COUNT; c++)
        for (int threads = 1; threads <= 3; threads++) {
            size_t count = counts[c];
            reset();
            cr_expect_eq(memory_read(from, count, MEMORY_LOOP, threads), (memory_word)count * (count + 1) / 2);
            cr_expect_eq(memory_read(from, count, MEMORY_PREFETCH, threads), (memory_word)count * (count + 1) / 2);
            memset(from, 1, sizeof from);
            for (size_t i = 0; i < count; i += 1 + i % 11) {
                unsigned char *byte = (unsigned char *)&from[i] + i % sizeof *from;
                cr_assert(memory_read_libc(from, count * sizeof *from, 2, threads));
                *byte = 2;
                cr_assert_not(memory_read_libc(from, count * sizeof *from, 2, threads), "word %zu of %zu", i, count);
                *byte = 1;
            }
            ((unsigned char *)from)[count * sizeof *from] = 2;
            cr_expect(memory_read_libc(from, count * sizeof *from, 2, threads), "the byte lies behind the end");
        }
}

static int repeat(struct memory_work *work, int times)
{
    for (int i = 0; i < times; i++) {
        TRY(memory_work_prepare(work));
        TRY(memory_work_run(work));
    }
    return ERR_NONE;
}

// Repeats an operation in one way and spoils words of what it wrote.
static void expect_wrong_words_found(enum memory_operation operation, enum memory_way way, int times)
{
    enum { COUNT = 5 * MEMORY_STAMP_WORDS };
    static const size_t positions[] = {0, 1, MEMORY_STAMP_WORDS, COUNT - 1};
    struct memory_arrays arrays;
    cr_assert_eq(memory_arrays_open(operation, COUNT, 2, 3, times % 2, &arrays), ERR_NONE);
    struct memory_work work = {.arrays = &arrays, .way = way, .threads = 2};
    cr_assert_eq(repeat(&work, times), ERR_NONE, "%s", err_message());
    cr_assert_eq(memory_arrays_check(&arrays), ERR_NONE, "%s", err_message());
    // The mix writes to the first three arrays, the others write to the last.
    memory_word *written = arrays.arrays[operation == MEMORY_ADAM_MIX ? times % 3 : MEMORY_ARRAY_COUNT - 1];
    for (size_t i = 0; i < sizeof positions / sizeof positions[0] && operation != MEMORY_READ; i++) {
        cr_assert_eq(repeat(&work, 1), ERR_NONE, "%s", err_message());
        written[positions[i]] ^= 1;
        cr_expect_eq(memory_work_prepare(&work), ERR_CHECK, "%s by %s, word %zu", memory_operation_name(operation),
                     memory_way_name(operation, way), positions[i]);
        written[positions[i]] ^= 1;
    }
    memory_arrays_close(&arrays);
}

Test(bench_memory, right_repetitions_are_accepted_and_one_wrong_word_is_found)
{
    for (int operation = 0; operation < MEMORY_OPERATION_COUNT; operation++)
        for (int way = 0; way < MEMORY_WAY_COUNT; way++)
            for (int times = 1; times <= 4; times++)
                if (memory_way_name((enum memory_operation)operation, (enum memory_way)way))
                    expect_wrong_words_found((enum memory_operation)operation, (enum memory_way)way, times);
}

Test(bench_memory, stale_data_of_the_previous_repetition_is_found)
{
    enum { COUNT = 3 * MEMORY_STAMP_WORDS };
    static const enum memory_operation operations[] = {MEMORY_COPY, MEMORY_WRITE};
    for (size_t o = 0; o < sizeof operations / sizeof operations[0]; o++)
        for (int way = 0; way < MEMORY_WAY_COUNT; way++) {
            struct memory_arrays arrays;
            if (!memory_way_name(operations[o], (enum memory_way)way))
                continue;
            cr_assert_eq(memory_arrays_open(operations[o], COUNT, 1, 1, true, &arrays), ERR_NONE);
            struct memory_work work = {.arrays = &arrays, .way = (enum memory_way)way, .threads = 1};
            static memory_word old[COUNT];
            memory_word *target = arrays.arrays[MEMORY_ARRAY_COUNT - 1];
            cr_assert_eq(repeat(&work, 1), ERR_NONE);
            memcpy(old, target, sizeof old);
            cr_assert_eq(repeat(&work, 1), ERR_NONE);
            memcpy(target + MEMORY_STAMP_WORDS, old + MEMORY_STAMP_WORDS, MEMORY_STAMP_WORDS * sizeof *old);
            cr_expect_eq(memory_arrays_check(&arrays), ERR_CHECK, "4 KiB are stale: %s",
                         memory_way_name(operations[o], (enum memory_way)way));
            memory_arrays_close(&arrays);
        }
}

Test(bench_memory, a_wrong_sum_is_found)
{
    struct memory_arrays arrays;
    cr_assert_eq(memory_arrays_open(MEMORY_READ, MEMORY_STAMP_WORDS, 1, 1, true, &arrays), ERR_NONE);
    struct memory_work sum = {.arrays = &arrays, .way = MEMORY_LOOP, .threads = 1}, search = sum;
    search.way = MEMORY_LIBC;
    cr_assert_eq(memory_work_prepare(&sum), ERR_NONE);
    ((unsigned char *)&arrays.arrays[0][77])[3] = 0x80;
    cr_expect_eq(memory_work_run(&sum), ERR_CHECK);
    cr_expect_eq(memory_work_run(&search), ERR_CHECK);
    memory_arrays_close(&arrays);
}

Test(bench_memory, the_fastest_way_is_one_of_the_operation_and_leaves_nothing_unverified)
{
    for (int operation = 0; operation < MEMORY_OPERATION_COUNT; operation++) {
        struct memory_arrays arrays;
        cr_assert_eq(memory_arrays_open((enum memory_operation)operation, MEMORY_STAMP_WORDS, 1, 1, true, &arrays),
                     ERR_NONE);
        struct memory_work base = {.arrays = &arrays, .threads = 1}, fastest;
        cr_assert_eq(memory_work_fastest(&base, &fastest), ERR_NONE, "%s", err_message());
        cr_expect_not_null(memory_way_name((enum memory_operation)operation, fastest.way));
        cr_expect_null(arrays.last);
        memory_arrays_close(&arrays);
    }
}

Test(bench_memory, arrays_are_larger_than_the_caches_and_smaller_than_the_memory)
{
    static const struct {
        size_t cache_mib, memory_mib;
        bool quick;
        enum memory_operation operation;
        int sets;
        size_t expected_mib;
        bool in_cache;
    } cases[] = {
        {32, 17000, true, MEMORY_COPY, 1, 64, false},    {32, 17000, true, MEMORY_READ, 1, 128, false},
        {480, 17000, true, MEMORY_READ, 1, 1024, false}, {480, 17000, true, MEMORY_ADAM_MIX, 1, 256, false},
        {480, 17000, false, MEMORY_COPY, 1, 960, false}, {1152, 6144, true, MEMORY_WRITE, 1, 2304, false},
        {1152, 6144, true, MEMORY_COPY, 2, 1152, false}, {1152, 6144, false, MEMORY_WRITE, 2, 3072, false},
        {1152, 1000, true, MEMORY_READ, 1, 1000, true},  {0, 17000, true, MEMORY_ADAM_MIX, 1, 64, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct memory_room room = {cases[i].cache_mib << 20, cases[i].memory_mib << 20, cases[i].quick};
        struct memory_size size = memory_size_of(cases[i].operation, cases[i].sets, &room);
        size_t all = size.bytes * (size_t)memory_operation_arrays(cases[i].operation);
        cr_expect_eq(size.bytes >> 20, cases[i].expected_mib, "%zu: %zu MiB", i, size.bytes >> 20);
        cr_expect_eq(size.in_cache, cases[i].in_cache, "%zu", i);
        cr_expect_eq(all > room.cache_bytes, !size.in_cache, "%zu", i);
        cr_expect_leq(all * (size_t)cases[i].sets, room.memory_bytes, "%zu", i);
        cr_expect_eq(size.needs_bytes > room.memory_bytes, size.in_cache, "%zu: needs %zu", i, size.needs_bytes);
    }
}

Test(bench_memory, small_pages_are_small_and_nothing_is_counted_twice)
{
    enum { BYTES = 6 << 20 };
    unsigned char *small = bench_map(BYTES, false), *huge = bench_map(BYTES, true);
    cr_assert(small && huge);
    cr_expect_eq(bench_huge_bytes(huge, BYTES), 0, "no page exists before the first touch");
    bench_touch(small, BYTES, 2);
    bench_touch(huge, BYTES, 2);
    cr_expect_eq(bench_huge_bytes(small, BYTES), 0);
    cr_expect_leq(bench_huge_bytes(huge, BYTES), BYTES);
    bench_free(small, BYTES);
    bench_free(huge, BYTES);
}

Test(bench_memory, nodes_have_the_threads_of_this_process_and_memory_lies_on_the_node_that_touched_it)
{
    enum { BYTES = 1 << 20 };
    struct memory_nodes nodes;
    cr_assert_eq(memory_nodes_open(&nodes), ERR_NONE, "%s", err_message());
    cr_assert_geq(nodes.count, 1);
    int threads = 0;
    for (int node = 0; node < nodes.count; node++) {
        threads += memory_nodes_threads(&nodes, node);
        cr_assert_eq(memory_nodes_bind(&nodes, node, 2), ERR_NONE, "%s", err_message());
        void *memory = bench_alloc(BYTES, 2);
        cr_expect_eq(memory_nodes_check(&nodes, node, memory, BYTES), ERR_NONE, "%s", err_message());
        bench_free(memory, BYTES);
    }
    cr_assert_eq(memory_nodes_bind(&nodes, -1, 2), ERR_NONE);
    cr_expect_eq(threads, bench_thread_count());
    memory_nodes_close(&nodes);
}

static const char *const first_words[] = {"memory", NULL};

static int run(const char *words, char **text)
{
    return printed_run(bench_memory.run, first_words, words, text);
}

// Checks every record and returns how many have this name and operation (null: any).
static int lines_of(const char *text, const char *name, const char *operation)
{
    int count = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        json_t *record = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL), *description;
        const char *found, *what, *unit;
        double items, median, ratio, limit;
        int verified;
        cr_assert_eq(json_unpack(record, "{s:s, s:o, s:s, s:b, s:F, s:F, s:F, s:{s:F}}", "name", &found, "case",
                                 &description, "unit", &unit, "verified", &verified, "items", &items, "median", &median,
                                 "ratio", &ratio, "yardstick", "median", &limit),
                     0, "%s", line);
        what = json_string_value(json_object_get(description, "operation"));
        cr_expect(verified && median > 0 && strcmp(unit, "GB/s") == 0, "%s", line);
        cr_expect_float_eq(ratio, median / limit, 1e-4 * ratio);
        cr_expect_eq(json_integer_value(json_object_get(description, "array_bytes")), 65536);
        count += strcmp(found, name) == 0 && (!operation || strcmp(what, operation) == 0);
        json_decref(record);
    }
    return count;
}

Test(bench_memory, lines_name_operation_threads_and_pages)
{
    char *text;
    cr_assert_eq(run("--sizes 64K --threads 1,2 --repeat 2 --json", &text), 0);
    for (int operation = 0; operation < MEMORY_OPERATION_COUNT; operation++)
        cr_expect_eq(lines_of(text, "memory", memory_operation_name((enum memory_operation)operation)), 2, "%s", text);
    cr_expect_eq(lines_of(text, "memory_touch", NULL), 2, "%s", text);
    cr_expect(strstr(text, "\"pages\":\"4 KiB\""), "%s", text);
    free(text);
}

Test(bench_memory, one_operation_can_be_chosen_and_its_row_shows_the_baseline)
{
    char *text;
    cr_assert_eq(run("--sizes 64K --operation copy --repeat 1 --quick", &text), 0);
    cr_expect(strstr(text, " %  memory       copy       1 threads "), "%s", text);
    cr_expect(strstr(text, "  memcpy ") || strstr(text, "  loop ") || strstr(text, "  streaming stores ") ||
                  strstr(text, "  rep movsb "),
              "%s", text);
    cr_expect_null(strstr(text, "adam_mix"), "%s", text);
    free(text);
}

Test(bench_memory, what_memory_does_not_permit_is_skipped_with_its_reason)
{
    char root[PATH_MAX], *text;
    pretended_machine(folder_make(root), "numa:2 l3:1(size=32MiB) core:1 pu:1", 80);
    cr_assert_eq(run("--operation read --repeat 1 --quick --json", &text), 0);
    unsetenv("ZG_MACHINE_ROOT");
    folder_remove(root);
    cr_expect(strstr(text, "{\"record\":\"skip\",\"name\":\"memory\",\"case\":{\"operation\":\"read\",\"threads\":2"),
              "%s", text);
    cr_expect(strstr(text, "\"array_bytes\":62914560,\"in_cache\":true"), "%s", text);
    cr_expect(strstr(text, "\"node\":0,\"memory_node\":1"), "pretended nodes are measured: %s", text);
    free(text);
}

Test(bench_memory, bad_input_is_refused)
{
    static const char *const bad[] = {"--operation scale", "--sizes 5000", "--sizes 8191G", "--threads 0", NULL};
    static const char *const first[] = {"memory", "--json", NULL};
    printed_expect_refused(bench_memory.run, first, bad);
}

// The processors that each thread of a team may run on.
static void masks_of(cpu_set_t *masks, int threads)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int thread = 0; thread < threads; thread++)
        sched_getaffinity(0, sizeof masks[thread], &masks[thread]);
}

Test(memory_affinity, each_thread_has_a_core_of_its_own_and_is_released_again)
{
    struct memory_nodes nodes;
    cpu_set_t masks[256], all, before;
    CPU_ZERO(&all);
    sched_getaffinity(0, sizeof before, &before);
    cr_assert_eq(memory_nodes_open(&nodes), ERR_NONE, "%s", err_message());
    int cores = memory_nodes_cores(&nodes);
    cr_assert(cores >= 1 && cores <= 256);
    cr_expect_leq(cores, CPU_COUNT(&before));
    cr_assert_eq(memory_nodes_place(&nodes, MEMORY_ONE_PER_CORE, cores), ERR_NONE, "%s", err_message());
    masks_of(masks, cores);
    for (int i = 0; i < cores; i++) {
        cr_expect_eq(CPU_COUNT(&masks[i]), 1, "thread %d", i);
        CPU_OR(&all, &all, &masks[i]);
    }
    cr_expect_eq(CPU_COUNT(&all), cores, "no two threads share a core");
    cr_assert_eq(memory_nodes_place(&nodes, MEMORY_BY_NODE, cores), ERR_NONE);
    masks_of(masks, cores);
    for (int i = 0; i < cores; i++)
        cr_expect_eq(CPU_COUNT(&masks[i]), memory_nodes_threads(&nodes, i * nodes.count / cores));
    cr_assert_eq(memory_nodes_place(&nodes, MEMORY_AS_GIVEN, cores), ERR_NONE);
    masks_of(masks, cores);
    for (int i = 0; i < cores; i++)
        cr_expect(CPU_EQUAL(&masks[i], &before));
    memory_nodes_close(&nodes);
}

// Returns what it prints on a machine with this processor.
static char *text_on(const char *processor, const char *words)
{
    char root[PATH_MAX], *text;
    pretended_machine(folder_make(root), processor, 200);
    cr_expect_eq(run(words, &text), 0);
    unsetenv("ZG_MACHINE_ROOT");
    folder_remove(root);
    return text;
}

#define ONE_COPY "--operation copy --sizes=1M --threads=1 --repeat=3"

Test(memory_affinity, one_node_is_measured_by_core_alone)
{
    char *text = text_on("numa:1 l3:1(size=1MiB) core:2 pu:1", ONE_COPY);
    cr_expect(strstr(text, "memory_affinity copy"), "%s", text);
    cr_expect(strstr(text, "threads as given"), "%s", text);
    cr_expect(strstr(text, "placement=one per core\nHINT     threads bound one per core "), "%s", text);
    cr_expect_null(strstr(text, "by NUMA node"), "%s", text);
    free(text);
}

Test(memory_affinity, several_nodes_are_measured_by_node_too)
{
    char *text = text_on("numa:2 l3:1(size=1MiB) core:1 pu:1", ONE_COPY " --json");
    cr_expect(strstr(text, "\"placement\":\"one per core\""), "%s", text);
    // A process with one processor has one node.
    if (strstr(text, "memory_numa"))
        cr_expect(strstr(text, "\"placement\":\"by NUMA node\""), "%s", text);
    cr_expect_null(strstr(text, "HINT"), "%s", text);
    free(text);
}

static struct bench_samples samples_of(const double values[5])
{
    struct bench_samples samples = {.count = 5};
    for (int i = 0; i < 5; i++)
        samples.values[i] = values[i];
    return samples;
}

Test(memory_affinity, a_gain_is_what_the_spread_does_not_hide)
{
    struct bench_samples slow = samples_of((const double[]){10, 10, 10, 11, 9});
    struct bench_samples fast = samples_of((const double[]){12, 13, 12, 14, 12.5});
    struct bench_samples wide = samples_of((const double[]){9, 15, 14, 16, 10});
    cr_expect_float_eq(memory_gain(&fast, &slow), 0.25, 1e-9);
    cr_expect_float_eq(memory_gain(&slow, &fast), -0.2, 1e-9);
    cr_expect_eq(memory_gain(&wide, &slow), 0);
    cr_expect_eq(memory_gain(&slow, &slow), 0);
}
