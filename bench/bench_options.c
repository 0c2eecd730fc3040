// SPDX-License-Identifier: Apache-2.0
// What benchmarks share besides their frame: the command line, and memory laid out for the threads that use it.
#include "bench.h"

#include "err.h"

#include <hwloc.h>
#include <popt.h>

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int bench_thread_count(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 1;
    return CPU_COUNT(&allowed);
}

size_t bench_cache_bytes(void)
{
    static const hwloc_obj_type_t levels[] = {HWLOC_OBJ_L5CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE,
                                              HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L1CACHE};
    size_t bytes = 0;
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return 0;
    if (hwloc_topology_load(topology) == 0) {
        for (size_t i = 0; i < sizeof levels / sizeof levels[0] && bytes == 0; i++) {
            hwloc_obj_t cache = NULL;
            while ((cache = hwloc_get_next_obj_by_type(topology, levels[i], cache)))
                bytes += cache->attr->cache.size;
        }
    }
    hwloc_topology_destroy(topology);
    return bytes;
}

// One number with an optional K, M or G from *text on, which is left behind it.
static int parse_size(const char **text, size_t *out)
{
    const char *start = *text;
    char *end;
    errno = 0;
    unsigned long long value = isdigit((unsigned char)*start) ? strtoull(start, &end, 10) : 0;
    if (value == 0 || errno != 0)
        return err_set(ERR_USAGE, "'%s' is not a list of sizes from 1 up, such as 64K,1M", start);
    const char *suffixes = "KMG", *suffix = *end ? strchr(suffixes, *end) : NULL;
    if (suffix) {
        int shift = 10 * (int)(suffix - suffixes + 1);
        if (value > (SIZE_MAX >> shift))
            return err_set(ERR_USAGE, "the size '%s' is too large", start);
        value <<= shift;
        end++;
    }
    *out = (size_t)value;
    *text = end;
    return ERR_NONE;
}

// `text` as a comma-separated list; with `all` the word "all" stands for that number.
static int parse_list(const char *text, size_t all, size_t *out, size_t *count)
{
    size_t found = 0;
    for (;;) {
        if (found == BENCH_LIST_MAX)
            return err_set(ERR_USAGE, "more than %d sizes in a list", BENCH_LIST_MAX);
        if (all && strncmp(text, "all", 3) == 0) {
            out[found++] = all;
            text += 3;
        } else {
            TRY(parse_size(&text, &out[found++]));
        }
        if (*text == '\0')
            break;
        if (*text++ != ',')
            return err_set(ERR_USAGE, "'%s' in a list of sizes: a comma was expected", text - 1);
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

// The shared options as popt stores them; the strings are popt's allocations.
struct raw_options {
    char *sizes, *threads;
    int repeat, warmup, quick, json, help;
};

static int options_convert(const struct raw_options *raw, struct bench_options *out)
{
    if (raw->repeat < 0 || raw->repeat > BENCH_REPEAT_MAX || raw->warmup < 0 || raw->warmup > BENCH_REPEAT_MAX)
        return err_set(ERR_USAGE, "--repeat and --warmup go from 0 (the default) to %d", BENCH_REPEAT_MAX);
    out->repeat = (size_t)raw->repeat;
    out->warmup = (size_t)raw->warmup;
    out->quick = raw->quick;
    out->json = raw->json;
    out->help = raw->help;
    if (raw->sizes)
        TRY(bench_parse_sizes(raw->sizes, out->sizes, &out->size_count));
    if (raw->threads)
        TRY(parse_threads(raw->threads, out));
    return ERR_NONE;
}

int bench_parse(int argc, const char **argv, const struct poptOption *own, struct bench_options *out)
{
    *out = (struct bench_options){0};
    struct raw_options raw = {0};
    struct poptOption nothing[] = {POPT_TABLEEND};
    struct poptOption shared[] = {
        {"sizes", '\0', POPT_ARG_STRING, &raw.sizes, 0, "sizes to measure; K, M and G are powers of 1024", "64K,64M"},
        {"threads", '\0', POPT_ARG_STRING, &raw.threads, 0, "thread counts to measure", "1,all"},
        {"repeat", '\0', POPT_ARG_INT, &raw.repeat, 0, "counted repetitions of each case", "N"},
        {"warmup", '\0', POPT_ARG_INT, &raw.warmup, 0, "repetitions before them", "N"},
        {"quick", '\0', POPT_ARG_NONE, &raw.quick, 0, "fewer and smaller cases", NULL},
        {"json", '\0', POPT_ARG_NONE, &raw.json, 0, "one JSON line a case", NULL},
        {"help", '?', POPT_ARG_NONE, &raw.help, 0, "show this text", NULL},
        POPT_TABLEEND,
    };
    // popt takes the included table without const, and only reads it.
    struct poptOption table[] = {
        {NULL, '\0', POPT_ARG_INCLUDE_TABLE, own ? (void *)(uintptr_t)own : nothing, 0,
         own ? "Options of this benchmark:" : NULL, NULL},
        {NULL, '\0', POPT_ARG_INCLUDE_TABLE, shared, 0, "Options of every benchmark:", NULL},
        POPT_TABLEEND,
    };
    char name[64];
    const char *named[argc + 1];  // popt calls the program by its first argument
    snprintf(name, sizeof name, "zerogauge bench %s", argv[0]);
    memcpy(named, argv, (size_t)argc * sizeof *named);
    named[0] = name;
    named[argc] = NULL;
    poptContext context = poptGetContext(NULL, argc, named, table, 0);
    if (!context)
        return err_set(ERR_MEMORY, "no memory for the command line");
    poptSetOtherOptionHelp(context, "[OPTION...]");
    int code, rc = poptGetNextOpt(context);
    if (rc < -1)
        code = err_set(ERR_USAGE, "%s: %s", poptBadOption(context, POPT_BADOPTION_NOALIAS), poptStrerror(rc));
    else if (poptPeekArg(context))
        code = err_set(ERR_USAGE, "'%s' is not an option; --help lists them", poptPeekArg(context));
    else
        code = options_convert(&raw, out);
    if (code == ERR_NONE && out->help)
        poptPrintHelp(context, stdout, 0);
    poptFreeContext(context);
    free(raw.sizes);
    free(raw.threads);
    return code;
}

enum { HUGE_PAGE_BYTES = 2 << 20 };

void *bench_alloc(size_t bytes, int threads)
{
    // A mapping is rounded up to whole huge pages and begins at one, so that all of it can be made of them.
    size_t whole = (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    unsigned char *mapped =
        mmap(NULL, whole + HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    size_t skip = (HUGE_PAGE_BYTES - (uintptr_t)mapped % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    unsigned char *memory = mapped + skip;
    if (skip > 0)
        munmap(mapped, skip);
    if (skip < HUGE_PAGE_BYTES)
        munmap(memory + whole, HUGE_PAGE_BYTES - skip);
    madvise(memory, whole, MADV_HUGEPAGE);  // advice: a refusal costs speed alone
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < threads; part++) {
        size_t begin = bytes / (size_t)threads * (size_t)part;
        size_t end = part + 1 == threads ? bytes : begin + bytes / (size_t)threads;
        memset(memory + begin, 0, end - begin);
    }
    return memory;
}

void bench_free(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES);
}
