// SPDX-License-Identifier: Apache-2.0
// After each repetition the device sums the words that it wrote, by the reading kernel, whose sums are compared with
// the host's. At the end of a case the host compares every word.
#include "bench/memory/memory_case.h"

#include "base/err.h"

#include <string.h>

// Words that the host makes or compares at a time; the period after which the mix has restored its arrays; and what a
// target holds before a repetition.
enum { PART_WORDS = 2 << 20, MIX_PERIOD = 6, MIX_STATES = 3, MIX_GRADIENT = 3, FORGOTTEN = -1 };

struct bench_device memory_case_device(const struct memory_case *c)
{
    return (struct bench_device){c->device->gpu.accelerator, 1};
}

size_t memory_case_bytes(const struct memory_case *c)
{
    return c->count * sizeof(memory_word);
}

static memory_word *source_of(const struct memory_case *c)
{
    return c->arrays[c->array_count - 2];
}

static memory_word *target_of(const struct memory_case *c)
{
    return c->arrays[c->array_count - 1];
}

// Returns the value that a word of an array must have after the case's mixes.
static memory_word expected_at(const struct memory_case *c, int array, size_t i)
{
    memory_word state[MIX_STATES];
    if (array >= MIX_STATES || c->mix_count % MIX_PERIOD == 0)
        return memory_value_at(array, i);
    for (int a = 0; a < MIX_STATES; a++)
        state[a] = memory_value_at(a, i);
    for (uint64_t k = 0; k < c->mix_count % MIX_PERIOD; k++) {
        memory_word first = state[0];
        state[0] = state[1];
        state[1] = state[2];
        state[2] = first ^ memory_value_at(MIX_GRADIENT, i);
    }
    return state[array];
}

static size_t part_words(const struct memory_case *c, size_t from)
{
    return c->count - from < PART_WORDS ? c->count - from : PART_WORDS;
}

// Writes an array's initial values; *sum: of all words.
static int fill_array(struct memory_case *c, int array, memory_word *sum)
{
    memory_word total = 0;
    for (size_t from = 0; from < c->count; from += PART_WORDS) {
        size_t words = part_words(c, from);
#pragma omp parallel for num_threads(bench_thread_count()) schedule(static) reduction(+ : total)
        for (size_t i = 0; i < words; i++)
            total += c->part[i] = memory_value_at(array, from + i);
        TRY(bytes_copy(c->arrays[array] + from, c->part, words * sizeof *c->part));
    }
    *sum = total;
    return ERR_NONE;
}

int memory_case_open(struct memory_case *c)
{
    const struct bench_device device = memory_case_device(c);
    void *memory;
    c->array_count = c->operation == MEMORY_ADAM_MIX ? MEMORY_ARRAY_COUNT : 2;
    c->rounds = 1;
    TRY(bench_device_alloc_host(&device, PART_WORDS * sizeof *c->part, &memory));
    c->part = memory;
    TRY(bench_device_alloc(&device, sizeof *c->sum, &memory));
    c->sum = memory;
    for (int a = 0; a < c->array_count; a++) {
        TRY(bench_device_alloc(&device, memory_case_bytes(c), &memory));
        c->arrays[a] = memory;
    }
    for (int a = 0; a < c->array_count - 1; a++)
        TRY(fill_array(c, a, &c->source_sum));
    return ERR_NONE;
}

void memory_case_close(struct memory_case *c)
{
    const struct bench_device device = memory_case_device(c);
    for (int a = 0; a < c->array_count; a++)
        bench_device_free(&device, c->arrays[a], memory_case_bytes(c));
    bench_device_free(&device, c->sum, sizeof *c->sum);
    bench_device_free_host(&device, c->part, PART_WORDS * sizeof *c->part);
}

// --- one repetition ---

static int forget_sum(const struct memory_case *c)
{
    const struct bench_device device = memory_case_device(c);
    return bench_device_fill(&device, c->sum, 0, sizeof *c->sum);
}

static int forget_target(const struct memory_case *c)
{
    const struct bench_device device = memory_case_device(c);
    return bench_device_fill(&device, target_of(c), (uint32_t)FORGOTTEN, memory_case_bytes(c));
}

static int check_sum(const struct memory_case *c, const char *name, memory_word expected)
{
    memory_word found;
    TRY(bytes_copy(&found, c->sum, sizeof found));
    return found == expected ? ERR_NONE
                             : err_set(ERR_CHECK, "%s of %zu words on the device: the sum is %016llx, expected %016llx",
                                       name, c->count, (unsigned long long)found, (unsigned long long)expected);
}

static int check_target(const struct memory_case *c, const char *name, memory_word expected)
{
    TRY(forget_sum(c));
    c->device->read(target_of(c), c->count, c->sum);
    return check_sum(c, name, expected);
}

static void issue(struct memory_case *c)
{
    const struct memory_device *device = c->device;
    if (c->operation == MEMORY_COPY) {
        device->copy(target_of(c), source_of(c), c->count);
    } else if (c->operation == MEMORY_READ) {
        device->read(source_of(c), c->count, c->sum);
    } else if (c->operation == MEMORY_WRITE) {
        device->write(target_of(c), c->count, c->value);
    } else {
        const struct adam_step step = {.param = (float *)c->arrays[0],
                                       .exp_avg = (float *)c->arrays[1],
                                       .exp_avg_sq = (float *)c->arrays[2],
                                       .grad = c->arrays[MIX_GRADIENT],
                                       .grad_dtype = DTYPE_FP32,
                                       .count = memory_case_bytes(c) / sizeof(float)};
        device->gpu.mix(&step);
        c->mix_count++;
    }
}

static int check_own(const struct memory_case *c)
{
    const char *name = memory_operation_name(c->operation);
    switch (c->operation) {
    case MEMORY_COPY:
        return check_target(c, name, c->source_sum);
    case MEMORY_WRITE:
        return check_target(c, name, c->value * c->count);
    case MEMORY_READ:
        return check_sum(c, name, c->source_sum * c->rounds);
    default:
        return ERR_NONE;  // the mixes add up, and the end of the case compares them
    }
}

int memory_case_run(void *context, double *ms)
{
    struct memory_case *c = context;
    TRY(c->operation == MEMORY_READ ? forget_sum(c) : forget_target(c));
    c->value = memory_value_at(0, (size_t)c->value);
    TRY(c->device->gpu.begin());
    for (uint64_t round = 0; round < c->rounds; round++)
        issue(c);
    TRY(c->device->gpu.end(ms));
    return check_own(c);
}

int memory_case_copy(void *context, double *ms)
{
    const struct memory_case *c = context;
    const struct accelerator *accelerator = c->device->gpu.accelerator;
    TRY(forget_target(c));
    TRY(c->device->gpu.begin());
    for (uint64_t round = 0; round < c->rounds; round++)
        TRY(accelerator->copy(target_of(c), source_of(c), memory_case_bytes(c)));
    TRY(c->device->gpu.end(ms));
    return check_target(c, "cudaMemcpyAsync", c->source_sum);
}

int memory_case_set(void *context, double *ms)
{
    const struct memory_case *c = context;
    const unsigned char byte = 0x5a;
    memory_word word;
    memset(&word, byte, sizeof word);
    TRY(forget_target(c));
    TRY(c->device->gpu.begin());
    for (uint64_t round = 0; round < c->rounds; round++)
        c->device->set(target_of(c), byte, memory_case_bytes(c));
    TRY(c->device->gpu.end(ms));
    return check_target(c, "cudaMemsetAsync", word * c->count);
}

// --- the whole case ---

static int compare_array(const struct memory_case *c, int array)
{
    size_t wrong = 0;
    int from_array = c->operation == MEMORY_COPY ? 0 : array;
    for (size_t from = 0; from < c->count; from += PART_WORDS) {
        size_t words = part_words(c, from);
        TRY(bytes_copy(c->part, c->arrays[array] + from, words * sizeof *c->part));
#pragma omp parallel for num_threads(bench_thread_count()) schedule(static) reduction(+ : wrong)
        for (size_t i = 0; i < words; i++)
            wrong += c->part[i] != (c->operation == MEMORY_WRITE ? c->value : expected_at(c, from_array, from + i));
    }
    return wrong == 0 ? ERR_NONE
                      : err_set(ERR_CHECK, "%s of %zu words on the device left %zu wrong ones",
                                memory_operation_name(c->operation), c->count, wrong);
}

// Compares every word: of a last copy or write, or of all mixes. A read has left none.
int memory_case_compare(struct memory_case *c)
{
    double ms;
    if (c->operation == MEMORY_READ)
        return ERR_NONE;
    if (c->operation != MEMORY_ADAM_MIX) {
        TRY(memory_case_run(c, &ms));
        return compare_array(c, c->array_count - 1);
    }
    for (int a = 0; a <= MIX_GRADIENT; a++)
        TRY(compare_array(c, a));
    return ERR_NONE;
}
