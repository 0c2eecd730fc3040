// SPDX-License-Identifier: Apache-2.0
// After each repetition the device sums the words that it wrote, by the reading kernel, whose sums are compared with
// the host's. At the end of a case the host compares every word.
#include "bench/memory/memory_trial.h"

#include "base/err.h"

#include <string.h>

// Words that the host makes or compares at a time; the period after which the mix has restored its arrays; and what a
// target holds before a repetition.
enum { PART_WORDS = 2 << 20, MIX_PERIOD = 6, MIX_STATES = 3, MIX_GRADIENT = 3, FORGOTTEN = -1 };

struct bench_device memory_trial_device(const struct memory_trial *trial)
{
    return (struct bench_device){trial->device->adam.accelerator, 1};
}

size_t memory_trial_bytes(const struct memory_trial *trial)
{
    return trial->count * sizeof(memory_word);
}

static memory_word *source_of(const struct memory_trial *trial)
{
    return trial->arrays[trial->array_count - 2];
}

static memory_word *target_of(const struct memory_trial *trial)
{
    return trial->arrays[trial->array_count - 1];
}

// Returns the value that a word of an array must have after the trial's mixes.
static memory_word expected_at(const struct memory_trial *trial, int array, size_t i)
{
    memory_word state[MIX_STATES];
    if (array >= MIX_STATES || trial->mix_count % MIX_PERIOD == 0)
        return memory_value_at(array, i);
    for (int a = 0; a < MIX_STATES; a++)
        state[a] = memory_value_at(a, i);
    for (uint64_t k = 0; k < trial->mix_count % MIX_PERIOD; k++) {
        memory_word first = state[0];
        state[0] = state[1];
        state[1] = state[2];
        state[2] = first ^ memory_value_at(MIX_GRADIENT, i);
    }
    return state[array];
}

static size_t part_words(const struct memory_trial *trial, size_t from)
{
    return trial->count - from < PART_WORDS ? trial->count - from : PART_WORDS;
}

// Writes an array's initial values; *sum: of all words.
static int fill_array(struct memory_trial *trial, int array, memory_word *sum)
{
    memory_word total = 0;
    for (size_t from = 0; from < trial->count; from += PART_WORDS) {
        size_t words = part_words(trial, from);
#pragma omp parallel for num_threads(bench_thread_count()) schedule(static) reduction(+ : total)
        for (size_t i = 0; i < words; i++)
            total += trial->part[i] = memory_value_at(array, from + i);
        TRY(bytes_copy(trial->arrays[array] + from, trial->part, words * sizeof *trial->part));
    }
    *sum = total;
    return ERR_NONE;
}

int memory_trial_open(struct memory_trial *trial)
{
    const struct bench_device device = memory_trial_device(trial);
    void *memory;
    trial->array_count = trial->operation == MEMORY_ADAM_MIX ? MEMORY_ARRAY_COUNT : 2;
    trial->rounds = 1;
    TRY(bench_device_alloc_host(&device, PART_WORDS * sizeof *trial->part, &memory));
    trial->part = memory;
    TRY(bench_device_alloc(&device, sizeof *trial->sum, &memory));
    trial->sum = memory;
    for (int a = 0; a < trial->array_count; a++) {
        TRY(bench_device_alloc(&device, memory_trial_bytes(trial), &memory));
        trial->arrays[a] = memory;
    }
    for (int a = 0; a < trial->array_count - 1; a++)
        TRY(fill_array(trial, a, &trial->source_sum));
    return ERR_NONE;
}

void memory_trial_close(struct memory_trial *trial)
{
    const struct bench_device device = memory_trial_device(trial);
    for (int a = 0; a < trial->array_count; a++)
        bench_device_free(&device, trial->arrays[a], memory_trial_bytes(trial));
    bench_device_free(&device, trial->sum, sizeof *trial->sum);
    bench_device_free_host(&device, trial->part, PART_WORDS * sizeof *trial->part);
}

// --- one repetition ---

static int forget_sum(const struct memory_trial *trial)
{
    const struct bench_device device = memory_trial_device(trial);
    return bench_device_fill(&device, trial->sum, 0, sizeof *trial->sum);
}

static int forget_target(const struct memory_trial *trial)
{
    const struct bench_device device = memory_trial_device(trial);
    return bench_device_fill(&device, target_of(trial), (uint32_t)FORGOTTEN, memory_trial_bytes(trial));
}

static int check_sum(const struct memory_trial *trial, const char *name, memory_word expected)
{
    memory_word found;
    TRY(bytes_copy(&found, trial->sum, sizeof found));
    TRY(accelerator_wait());
    return found == expected ? ERR_NONE
                             : err_set(ERR_CHECK, "%s of %zu words on the device: the sum is %016llx, expected %016llx",
                                       name, trial->count, (unsigned long long)found, (unsigned long long)expected);
}

static int check_target(const struct memory_trial *trial, const char *name, memory_word expected)
{
    TRY(forget_sum(trial));
    trial->device->read(target_of(trial), trial->count, trial->sum);
    return check_sum(trial, name, expected);
}

static void issue(struct memory_trial *trial)
{
    const struct memory_device *device = trial->device;
    if (trial->operation == MEMORY_COPY) {
        device->copy(target_of(trial), source_of(trial), trial->count);
    } else if (trial->operation == MEMORY_READ) {
        device->read(source_of(trial), trial->count, trial->sum);
    } else if (trial->operation == MEMORY_WRITE) {
        device->write(target_of(trial), trial->count, trial->value);
    } else {
        const struct adam_step step = {.param = (float *)trial->arrays[0],
                                       .exp_avg = (float *)trial->arrays[1],
                                       .exp_avg_sq = (float *)trial->arrays[2],
                                       .grad = trial->arrays[MIX_GRADIENT],
                                       .grad_dtype = DTYPE_FP32,
                                       .count = memory_trial_bytes(trial) / sizeof(float)};
        device->adam.mix(&step);
        trial->mix_count++;
    }
}

static int check_own(const struct memory_trial *trial)
{
    const char *name = memory_operation_name(trial->operation);
    switch (trial->operation) {
    case MEMORY_COPY:
        return check_target(trial, name, trial->source_sum);
    case MEMORY_WRITE:
        return check_target(trial, name, trial->value * trial->count);
    case MEMORY_READ:
        return check_sum(trial, name, trial->source_sum * trial->rounds);
    default:
        return ERR_NONE;  // the mixes add up, and the end of the case compares them
    }
}

int memory_trial_run(void *context, double *ms)
{
    struct memory_trial *trial = context;
    TRY(trial->operation == MEMORY_READ ? forget_sum(trial) : forget_target(trial));
    trial->value = memory_value_at(0, (size_t)trial->value);
    TRY(trial->device->adam.begin());
    for (uint64_t round = 0; round < trial->rounds; round++)
        issue(trial);
    TRY(trial->device->adam.end(ms));
    return check_own(trial);
}

int memory_trial_copy(void *context, double *ms)
{
    const struct memory_trial *trial = context;
    const struct accelerator *accelerator = trial->device->adam.accelerator;
    TRY(forget_target(trial));
    TRY(trial->device->adam.begin());
    for (uint64_t round = 0; round < trial->rounds; round++)
        TRY(accelerator->copy(target_of(trial), source_of(trial), memory_trial_bytes(trial)));
    TRY(trial->device->adam.end(ms));
    return check_target(trial, "cudaMemcpyAsync", trial->source_sum);
}

int memory_trial_set(void *context, double *ms)
{
    const struct memory_trial *trial = context;
    const unsigned char byte = 0x5a;
    memory_word word;
    memset(&word, byte, sizeof word);
    TRY(forget_target(trial));
    TRY(trial->device->adam.begin());
    for (uint64_t round = 0; round < trial->rounds; round++)
        trial->device->set(target_of(trial), byte, memory_trial_bytes(trial));
    TRY(trial->device->adam.end(ms));
    return check_target(trial, "cudaMemsetAsync", word * trial->count);
}

// --- the whole case ---

static int compare_array(const struct memory_trial *trial, int array)
{
    size_t wrong = 0;
    int from_array = trial->operation == MEMORY_COPY ? 0 : array;
    for (size_t from = 0; from < trial->count; from += PART_WORDS) {
        size_t words = part_words(trial, from);
        TRY(bytes_copy(trial->part, trial->arrays[array] + from, words * sizeof *trial->part));
#pragma omp parallel for num_threads(bench_thread_count()) schedule(static) reduction(+ : wrong)
        for (size_t i = 0; i < words; i++)
            wrong += trial->part[i] !=
                     (trial->operation == MEMORY_WRITE ? trial->value : expected_at(trial, from_array, from + i));
    }
    return wrong == 0 ? ERR_NONE
                      : err_set(ERR_CHECK, "%s of %zu words on the device left %zu wrong ones",
                                memory_operation_name(trial->operation), trial->count, wrong);
}

// Compares every word: of a last copy or write, or of all mixes. A read has left none.
int memory_trial_compare(struct memory_trial *trial)
{
    double ms;
    if (trial->operation == MEMORY_READ)
        return ERR_NONE;
    if (trial->operation != MEMORY_ADAM_MIX) {
        TRY(memory_trial_run(trial, &ms));
        return compare_array(trial, trial->array_count - 1);
    }
    for (int a = 0; a <= MIX_GRADIENT; a++)
        TRY(compare_array(trial, a));
    return ERR_NONE;
}
