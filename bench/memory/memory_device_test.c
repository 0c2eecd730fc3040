// SPDX-License-Identifier: Apache-2.0
// Tests of `bench memory --device` on the shadow accelerator: every operation has its record with rates of the bytes
// that it moves, and a word that any of the functions leaves wrong is found.
#include "bench/table/benchmarks.h"
#include "bench/memory/memory_case.h"

#include "bench/harness/bench_device.h"
#include "bench/harness/printed_test.h"
#include "ref/arithmetic/shadow_test.h"

#include <criterion/criterion.h>

#include <stdlib.h>

enum { WORDS = 5 * MEMORY_STAMP_WORDS, BYTES = WORDS * sizeof(memory_word) };

// Each function counts its calls; the one of this name and number does its work wrong.
static struct {
    const char *function;
    int number;
    size_t word;
} spoilt;
static int calls;

static bool is_spoilt(const char *function)
{
    return spoilt.function && strcmp(spoilt.function, function) == 0 && ++calls == spoilt.number;
}

static int begin(void)
{
    return ERR_NONE;
}

static int end(double *ms)
{
    *ms = 2.5;  // so that a repetition has one round
    return ERR_NONE;
}

static void mix(const struct adam_step *step)
{
    uint32_t *p = at(step->param), *m = at(step->exp_avg), *v = at(step->exp_avg_sq);
    const uint32_t *g = at(step->grad);
    for (size_t i = 0; i < step->count; i++) {
        uint32_t first = p[i];
        p[i] = m[i];
        m[i] = v[i];
        v[i] = first ^ g[i];
    }
    if (is_spoilt("mix"))
        v[spoilt.word] ^= 1;
}

static void copy(memory_word *to, const memory_word *from, size_t count)
{
    memory_word *target = at(to);
    memcpy(target, at(from), count * sizeof *to);
    if (is_spoilt("copy"))
        target[spoilt.word] = ~(memory_word)0;
}

static void write_words(memory_word *to, size_t count, memory_word value)
{
    memory_word *target = at(to);
    for (size_t i = 0; i < count; i++)
        target[i] = value;
    if (is_spoilt("write"))
        target[spoilt.word] = ~(memory_word)0;
}

static void read_words(const memory_word *from, size_t count, memory_word *sum)
{
    const memory_word *source = at(from);
    memory_word *total = at(sum);
    bool wrong = is_spoilt("read");
    for (size_t i = 0; i < count; i++)
        *total += wrong && i == spoilt.word ? 0 : source[i];
}

static void set(void *to, unsigned char byte, size_t bytes)
{
    memset(at(to), byte, bytes);
    if (is_spoilt("set"))
        ((memory_word *)at(to))[spoilt.word] = 0;
}

static const struct memory_device on_shadow = {
    {&shadow_accelerator, begin, end, mix, 2 * BYTES}, copy, write_words, read_words, set};

static int run(const char *operation, char **text)
{
    char name[16];
    snprintf(name, sizeof name, "%s", operation);
    struct memory_bench bench = {
        .options = {.sizes = {BYTES, 2 * BYTES}, .size_count = 2, .repeat = 3, .warmup = 1, .json = true},
        .operation = name};
    calls = 0;
    cr_assert_eq(shadow_accelerator.enter(0), ERR_NONE);
    struct printed printed = printed_begin();
    int code = memory_device_run(&on_shadow, &bench);
    *text = printed_end(printed);
    cr_expect_eq(shadow.block_count, 0);
    return code;
}

Test(memory_device, every_operation_has_the_rate_of_its_bytes_against_the_drivers_functions)
{
    for (int o = 0; o < MEMORY_OPERATION_COUNT; o++) {
        const char *operation = memory_operation_name((enum memory_operation)o), *baseline, *device, *line;
        double bytes = BYTES, median, yardstick, copied, share;
        int in_cache, lines = 0;
        char *text;
        cr_assert_eq(run(operation, &text), ERR_NONE, "%s", err_message());
        for (line = text; *line; line = strchr(line, '\n') + 1, lines++, bytes *= 2) {
            json_t *record = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
            cr_assert_eq(json_unpack(record, "{s:F, s:{s:s, s:b}, s:{s:s, s:F}, s:{s:F, s:F}}", "median", &median,
                                     "case", "device", &device, "in_cache", &in_cache, "yardstick", "name", &baseline,
                                     "median", &yardstick, "detail", "device_copy_GB_per_s", &copied,
                                     "share_of_device_copy", &share),
                         0, "%s", line);
            cr_expect_str_eq(device, "shadow");
            cr_expect_eq(in_cache, lines == 0);
            cr_expect_float_eq(median, bytes * memory_operation_bytes((enum memory_operation)o) / 2.5e6, 1e-3 * median);
            cr_expect_float_eq(copied, bytes * 2 / 2.5e6, 1e-3 * copied);
            cr_expect_float_eq(share, median / copied, 1e-3);
            cr_expect_str_eq(baseline, o == MEMORY_WRITE ? "cudaMemsetAsync" : "cudaMemcpyAsync");
            cr_expect_float_eq(yardstick, bytes * (o == MEMORY_WRITE ? 1 : 2) / 2.5e6, 1e-3 * yardstick);
            json_decref(record);
        }
        cr_expect_eq(lines, 2);
        free(text);
    }
}

Test(memory_device, a_wrong_word_of_any_repetition_is_an_error_and_leaves_no_record)
{
    // Two repetitions choose the rounds, four are samples, and one more copy or write is compared word by word.
    static const struct {
        const char *operation, *function;
        int last;
    } rows[] = {
        {"copy", "copy", 7}, {"read", "read", 6}, {"write", "write", 7}, {"write", "set", 4}, {"adam_mix", "mix", 6}};
    static const size_t words[] = {0, MEMORY_STAMP_WORDS + 1, WORDS - 1};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int number = 1; number <= rows[r].last; number++)
            for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
                char *text;
                spoilt.function = rows[r].function;
                spoilt.number = number;
                spoilt.word = words[w];
                cr_expect_eq(run(rows[r].operation, &text), ERR_CHECK, "%s, call %d, word %zu", rows[r].function,
                             number, words[w]);
                cr_expect_str_empty(text);
                free(text);
            }
}

static int command(const char *words)
{
    static const char *const first[] = {"memory", "--device=cuda", "--operation=copy", "--sizes=64K", "--json", NULL};
    char *text;
    int status = printed_run(bench_memory.run, first, words, &text);
    free(text);
    return status;
}

Test(memory_device, an_absent_device_is_a_skip_and_options_of_processors_are_refused)
{
    struct bench_device device;
    bool absent;
    cr_assert_eq(bench_device_find("cuda", 1, false, &device, &absent), ERR_NONE);
    cr_expect_eq(command("--repeat 1"), absent ? 77 : 0);
    cr_expect_eq(command("--threads 1"), 2);
    cr_expect_eq(command("--device gpu"), 2);
}
