// SPDX-License-Identifier: Apache-2.0
// The command line of a benchmark: shared options, options of storage, and its own.
#include "bench/harness/bench_file.h"
#include "bench/harness/bench_world.h"

#include "base/err.h"
#include "base/safe_text.h"
#include "base/help.h"
#include "base/slow.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Sizes are multiplied by bytes and ranks; the limit keeps the products below 2^64.
static const unsigned long long SIZE_LIMIT = 1ULL << 44;

// Parses one number with an optional K, M or G and moves *text behind it.
static int parse_size(const char **text, size_t *out)
{
    const char *start = *text;
    char *end;
    errno = 0;
    unsigned long long value = isdigit((unsigned char)*start) ? strtoull(start, &end, 10) : 0;
    if (value == 0 || errno != 0)
        return err_set(ERR_USAGE, "'%s' is not a list of sizes from 1 up, such as 64K,1M", start);
    const char *suffixes = "KMG", *suffix = *end ? strchr(suffixes, *end) : NULL;
    int shift = suffix ? 10 * (int)(suffix - suffixes + 1) : 0;
    if (value > SIZE_LIMIT >> shift)
        return err_set(ERR_USAGE, "the size '%s' is too large: expected at most 16384G", start);
    value <<= shift;
    end += suffix != NULL;
    *out = (size_t)value;
    *text = end;
    return ERR_NONE;
}

// Parses a comma-separated list. all: the number that the word "all" means; 0: the word is an error.
static int parse_list(const char *text, size_t all, size_t *out, size_t *count)
{
    size_t found = 0;
    for (;;) {
        if (found == BENCH_LIST_MAX)
            return err_set(ERR_USAGE, "a list has more than %d entries", BENCH_LIST_MAX);
        if (all && strncmp(text, "all", 3) == 0) {
            out[found++] = all;
            text += 3;
        } else {
            TRY(parse_size(&text, &out[found++]));
        }
        if (*text == '\0')
            break;
        if (*text++ != ',')
            return err_set(ERR_USAGE, "expected a comma at '%s' in a list of sizes", text - 1);
    }
    *count = found;
    return ERR_NONE;
}

int bench_parse_sizes(const char *text, size_t *out, size_t *count)
{
    return parse_list(text, 0, out, count);
}

static int parse_threads(const char *text, struct bench_options *options)
{
    size_t numbers[BENCH_LIST_MAX];
    TRY(parse_list(text, (size_t)bench_thread_count(), numbers, &options->thread_count));
    for (size_t i = 0; i < options->thread_count; i++) {
        if (numbers[i] > 4096)
            return err_set(ERR_USAGE, "--threads %zu: at most 4096", numbers[i]);
        options->threads[i] = (int)numbers[i];
    }
    return ERR_NONE;
}

enum { BUDGET_MAX_S = 1000000, DEFAULT_BUDGET_S = 120 };

// The shared options as popt stores them; popt allocates the strings.
struct raw_options {
    char *sizes, *threads, *out;
    double budget_s;
    int repeat, warmup, quick, json, help, buffered, no_checksum;
};

static int options_convert(const struct raw_options *raw, struct bench_options *out)
{
    static const char *const here[] = {"."};
    if (raw->repeat < 0 || raw->repeat > BENCH_REPEAT_MAX || raw->warmup < 0 || raw->warmup > BENCH_REPEAT_MAX)
        return err_set(ERR_USAGE, "--repeat and --warmup must be from 0 (the default) to %d", BENCH_REPEAT_MAX);
    if (!(raw->budget_s >= 0 && raw->budget_s < BUDGET_MAX_S))
        return err_set(ERR_USAGE, "--budget %g: expected seconds, at most %d", raw->budget_s, BUDGET_MAX_S);
    out->budget_s = raw->budget_s;
    bench_budget_begin(raw->budget_s);
    out->repeat = (size_t)raw->repeat;
    out->warmup = (size_t)raw->warmup;
    out->quick = raw->quick;
    out->json = raw->json;
    out->help = raw->help;
    struct bench_storage *storage = &out->storage;
    storage->buffered = raw->buffered;
    storage->no_checksum = raw->no_checksum;
    storage->paths = storage->given_paths ? (const char *const *)storage->given_paths : here;
    for (storage->path_count = 1; storage->given_paths && storage->given_paths[storage->path_count];)
        storage->path_count++;
    if (raw->sizes)
        TRY(bench_parse_sizes(raw->sizes, out->sizes, &out->size_count));
    if (raw->threads)
        TRY(parse_threads(raw->threads, out));
    return ERR_NONE;
}

// popt's type for included tables lacks const, but popt only reads them.
static struct poptOption included(const struct poptOption *table, const char *title)
{
    static const struct poptOption nothing[] = {POPT_TABLEEND};
    return (struct poptOption){
        NULL, '\0', POPT_ARG_INCLUDE_TABLE, (void *)(uintptr_t)(table ? table : nothing), 0, table ? title : NULL,
        NULL};
}

// Parses argv by `table` into *raw and *out, and prints the help text if asked for.
static int options_read(int argc, const char **argv, const struct benchmark *benchmark, const struct poptOption *table,
                        struct raw_options *raw, struct bench_options *out)
{
    char name[64];
    const char *named[argc + 1];  // popt prints the first argument as the program's name
    snprintf(name, sizeof name, "zerogauge bench %s", argv[0]);
    memcpy(named, argv, (size_t)argc * sizeof *named);
    named[0] = name;
    named[argc] = NULL;
    poptContext context = poptGetContext(NULL, argc, named, table, 0);
    if (!context)
        return err_set(ERR_MEMORY, "no memory for the command line");
    int code = help_no_arguments(context, named, poptGetNextOpt(context));
    if (code == ERR_NONE)
        code = options_convert(raw, out);
    if (code == ERR_NONE && out->help) {
        char sentence[256];
        snprintf(sentence, sizeof sentence, "%c%s.", toupper(*benchmark->summary), benchmark->summary + 1);
        const struct help help = {
            .usage = "[OPTION...]",
            .text = benchmark->text ? benchmark->text : sentence,
            .examples = benchmark->examples,
        };
        help_show(context, table, &help);
    }
    poptFreeContext(context);
    return code;
}

int bench_parse(int argc, const char **argv, const struct benchmark *benchmark, const struct poptOption *own,
                struct bench_options *out)
{
    enum { TEXT = POPT_ARG_STRING, INT = POPT_ARG_INT, FLAG = POPT_ARG_NONE };
    assert(argc > 0 && benchmark->name && benchmark->summary);
    *out = (struct bench_options){0};
    struct raw_options raw = {0};
    const enum bench_uses uses = benchmark->uses;
    struct bench_storage *storage = &out->storage;
    const struct poptOption shared[] = {
        {"sizes", '\0', TEXT, &raw.sizes, 0, "sizes to measure, in the benchmark's unit; K, M and G are powers of 1024",
         "64K,64M"},
        {"threads", '\0', TEXT, &raw.threads, 0, "thread counts to measure", "1,all"},
        {"repeat", '\0', INT, &raw.repeat, 0, "counted repetitions of each case", "N"},
        {"warmup", '\0', INT, &raw.warmup, 0, "uncounted repetitions before the counted ones", "N"},
        {"budget", '\0', POPT_ARG_DOUBLE, &raw.budget_s, 0, "seconds after which cases end with fewer repetitions",
         "S"},
        {"quick", '\0', FLAG, &raw.quick, 0, "fewer and smaller cases", NULL},
        {"json", '\0', FLAG, &raw.json, 0, "print one line of JSON per case", NULL},
        {"out", '\0', TEXT, &raw.out, 0, "write a new result file", "FILE"},
        {"help", 'h', FLAG, &raw.help, 0, "show this help", NULL},
        POPT_TABLEEND,
    };
    const struct poptOption of_storage[] = {
        {"nvme-path", '\0', POPT_ARG_ARGV, &storage->given_paths, 0, "a folder for files (default: .); repeatable",
         "DIR"},
        {"engine", '\0', TEXT, &storage->engine, 0, "measure this engine only", "libaio|io_uring"},
        {"buffered", '\0', FLAG, &raw.buffered, 0,
         uses == BENCH_USES_DIRECT ? "refused: this benchmark bypasses the page cache"
                                   : "use the page cache; results say so",
         NULL},
        POPT_TABLEEND,
    };
    const struct poptOption of_states[] = {
        {"no-swap-checksum", '\0', FLAG, &raw.no_checksum, 0, "do not verify checksums of data read from NVMe", NULL},
        {"inject", '\0', TEXT, &storage->inject, 0, "inject faults, as in train; the measurement is discarded",
         "FAULT,..."},
        POPT_TABLEEND,
    };
    const struct poptOption table[] = {
        included(own, "Options of this benchmark:"),
        included(uses != BENCH_USES_NOTHING ? of_storage : NULL, "Options of storage:"),
        included(uses >= BENCH_USES_STATES ? of_states : NULL, "Options of states on storage:"),
        included(shared, "Options of every benchmark:"),
        POPT_TABLEEND,
    };
    int code = options_read(argc, argv, benchmark, table, &raw, out);
    if (code == ERR_NONE && !out->help && bench_world_rank() == 0)
        slow_print();
    if (code == ERR_NONE && raw.out && !out->help && bench_world_rank() == 0)
        code = bench_file_open(raw.out, argc, argv, out);
    free(raw.sizes);
    free(raw.threads);
    free(raw.out);
    return code;
}

void bench_release(struct bench_options *options, const struct poptOption *own)
{
    if (own)
        help_release(own);
    struct bench_storage *storage = &options->storage;
    for (int i = 0; storage->given_paths && storage->given_paths[i]; i++)
        free(storage->given_paths[i]);
    free(storage->given_paths);
    free(storage->engine);
    free(storage->inject);
    *storage = (struct bench_storage){0};
}

void bench_default_sizes(struct bench_options *options, const size_t *sizes, size_t count)
{
    assert(count > 0 && count <= BENCH_LIST_MAX);
    if (options->size_count > 0)
        return;
    memcpy(options->sizes, sizes, count * sizeof *sizes);
    options->size_count = count;
}

void bench_default_budget(struct bench_options *options)
{
    if (options->budget_s > 0 || options->repeat > 0 || options->json || options->quick || bench_file_is_open())
        return;
    options->budget_s = DEFAULT_BUDGET_S;
    bench_budget_begin(DEFAULT_BUDGET_S);
}

void bench_say_budget(const struct bench_options *options)
{
    if (options->budget_s > 0 && !options->json && bench_world_rank() == 0)
        printf("for at most %g s (--budget)\n", options->budget_s);
}

bool bench_budget_next(const struct bench_options *options, const char *name, size_t *cases_left)
{
    bool fits = options->quick || bench_budget_fits(options->budget_s / 10);
    if (!fits && *cases_left > 0)
        bench_skip("%s: %zu cases would end after the %g s of --budget", name, *cases_left, options->budget_s);
    if (!fits)
        *cases_left = 0;
    if (*cases_left == 0)
        return false;
    bench_budget_case((*cases_left)--);
    return true;
}

void bench_default_repeat(struct bench_options *options, size_t repeat, size_t quick_repeat, size_t warmup)
{
    assert(repeat > 0 && repeat <= BENCH_REPEAT_MAX && quick_repeat > 0 && quick_repeat <= BENCH_REPEAT_MAX);
    if (options->repeat == 0)
        options->repeat = options->quick ? quick_repeat : repeat;
    if (options->warmup == 0)
        options->warmup = warmup;
}

// Under a launcher on all ranks, or on one of each host.
int bench_run(const struct benchmark *benchmark, int argc, const char **argv)
{
    int code = bench_world_join();
    if (code != ERR_NONE)
        text_error("zerogauge bench %s", benchmark->name);
    if (code != ERR_NONE || !bench_world_comm())
        return code == ERR_NONE ? benchmark->run(argc, argv) : err_exit_status(code);
    bool leads = bench_world_rank_on_host() == 0;
    bench_world_set_together(benchmark->together);
    bench_world_report_begin();
    if (!benchmark->together && leads)
        bench_world_take_host(true);
    int status = benchmark->together || leads ? benchmark->run(argc, argv) : bench_exit(benchmark->name, ERR_NONE);
    bench_world_take_host(false);
    bench_world_report_end();
    bench_world_set_together(false);
    return status;
}
