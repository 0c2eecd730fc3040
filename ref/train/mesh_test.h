// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of training on meshes: what trials vary, and the demands that every kind of mesh has to meet.
#pragma once

#include "base/folder_test.h"
#include "ref/comm/mpirun_test.h"
#include "ref/train/offload_test.h"

#include <limits.h>

// Sanitizers look at memory and threads, for which fewer trials do.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static const struct executor_schedule schedules[] = {
    {EXECUTOR_SERIAL, 0}, {EXECUTOR_OVERLAP, 0}, {EXECUTOR_CHAOS, 1}, {EXECUTOR_CHAOS, 2}};

// Precision, communication and accumulation of gradients.
static const enum dtype dtypes[][3] = {{DTYPE_FP32, DTYPE_FP32, DTYPE_FP32}, {DTYPE_BF16, DTYPE_BF16, DTYPE_BF16},
                                       {DTYPE_BF16, DTYPE_FP32, DTYPE_FP32}, {DTYPE_FP16, DTYPE_FP16, DTYPE_FP32},
                                       {DTYPE_FP32, DTYPE_BF16, DTYPE_FP32}, {DTYPE_BF16, DTYPE_BF16, DTYPE_FP32}};

static inline void set_dtypes(struct offload_trial *trial, const enum dtype dtype[3])
{
    trial->precision = dtype[0];
    trial->communication = dtype[1];
    trial->sum = dtype[2];
}

// Where optimizer, gradients and parameters live in the number-th trial with offloaded states; its stage, which allows
// it.
static const enum ledger_tier placements[][3] = {{TIER_HOST, TIER_HOST, TIER_DEVICE},
                                                 {TIER_HOST, TIER_HOST, TIER_HOST},
                                                 {TIER_NVME, TIER_NVME, TIER_NVME},
                                                 {TIER_NVME, TIER_HOST, TIER_DEVICE}};

static inline int offloaded_stage(int number)
{
    const enum ledger_tier *tiers = placements[number % 4];
    return tiers[0] == TIER_NVME || tiers[2] != TIER_DEVICE ? 3 : 1 + number % 3;
}

static inline struct offload_trial offloaded(struct offload_trial trial, int number)
{
    trial.optimizer = placements[number % 4][0];
    trial.gradient = placements[number % 4][1];
    trial.parameter = placements[number % 4][2];
    return trial;
}

// Most meshes vary this with the number of a trial.
static inline struct offload_trial vary(struct offload_trial trial, int number)
{
    trial.accumulation = 1 + (size_t)number / 2 % 3;
    trial.schedule = schedules[number / 3 % 4];
    set_dtypes(&trial, dtypes[number % 6]);
    trial.overlap_comm = number % 4 < 2;
    trial.contiguous = number % 5 != 0;
    trial.clip = number % 2 ? 0.05 : 0;
    trial.persistence = number % 7 == 0 ? 100 : 0;
    return trial;
}

// Trials 0 to count - 1 of the stages from `first` to `last`.
static inline void demand_trials(struct offload_trial (*trial_of)(int number, int stage), int first, int last,
                                 int count)
{
    for (int stage = first; stage <= last; stage++)
        for (int number = 0; number < count; number++) {
            struct offload_trial trial = trial_of(number, stage);
            offload_demand(&trial);
        }
}

// A loss scale that overflows at first: all ranks skip the same steps, but not all steps.
static inline void expect_overflow(struct offload_trial trial, uint64_t steps)
{
    set_dtypes(&trial, dtypes[3]);
    cr_assert_eq(trial.precision, DTYPE_FP16);
    trial.overflows = true;
    trial.steps = steps;
    struct train_result result = offload_demand(&trial);
    cr_expect(result.skipped_steps > 0 && result.skipped_steps < steps, "%d steps skipped\n%s",
              (int)result.skipped_steps, offload_name(&trial));
}

static inline const char *digest_of(struct offload_trial trial, char digest[FILE_DIGEST_BYTES])
{
    return strcpy(digest, offload_demand(&trial).digest);
}

// The same ranks of data parallelism, each with the whole model, have the same digest.
static inline void expect_digest_of_whole(struct offload_trial trial)
{
    char cut[FILE_DIGEST_BYTES], whole[FILE_DIGEST_BYTES];
    struct offload_trial one = trial;
    one.world /= (trial.tensor ? trial.tensor : 1) * (trial.pipeline ? trial.pipeline : 1);
    one.tensor = one.pipeline = 0;
    digest_of(trial, cut);
    cr_expect_str_eq(cut, digest_of(one, whole), "%s", offload_name(&trial));
}

// The digest of `zerogauge train WORDS --json`.
static inline void train_digest(const char *words, char digest[33])
{
    static char output[1 << 16];
    char command[3 * PATH_MAX];
    snprintf(command, sizeof command, "'%s/zerogauge' train %s --json 2>&1", ZG_BINARY_DIR, words);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s: %s", command, output);
    digest_in(output, digest);
    cr_assert_eq(strlen(digest), 32, "%s: %s", command, output);
}

// A run of `words` and `first` saves after step 2; one of `words` and `second` continues to step 4 and must have this
// digest.
static inline void expect_continuation(const char *words, const char *first, const char *second, const char *whole)
{
    char folder[PATH_MAX], command[2 * PATH_MAX], digest[33];
    folder_make(folder);
    snprintf(command, sizeof command, "%s %s --steps 2 --save %s/saved", words, first, folder);
    train_digest(command, digest);
    cr_expect_str_neq(digest, whole, "%s", command);
    snprintf(command, sizeof command, "%s %s --steps 4 --resume %s/saved", words, second, folder);
    train_digest(command, digest);
    cr_expect_str_eq(digest, whole, "from %s to %s", first, second);
    folder_remove(folder);
}

// `plain` is a run without interruption; of every two meshes the first one's run is saved, the second one continues it.
static inline void expect_continuations(const char *words, const char *plain, int count, const char *const meshes[])
{
    char first[256], second[256], whole[33];
    snprintf(first, sizeof first, "%s %s --steps 4", words, plain);
    train_digest(first, whole);
    for (int from = 0; from < count; from++)
        for (int to = 0; to < count; to++) {
            snprintf(first, sizeof first, "--preset zero%d --mesh %s", 1 + from, meshes[from]);
            snprintf(second, sizeof second, "--preset zero%d --mesh %s", 3 - to, meshes[to]);
            expect_continuation(words, first, second, whole);
        }
}

// A run of these words and one step is refused as a mistake of the user, with this message.
static inline void expect_refusal(const char *words, const char *message)
{
    static char output[1 << 16];
    char command[PATH_MAX + 512];
    snprintf(command, sizeof command, "'%s/zerogauge' train --steps 1 %s 2>&1", ZG_BINARY_DIR, words);
    cr_expect_eq(command_run(command, output, sizeof output), 2, "%s: %s", command, output);
    cr_expect(strstr(output, message), "%s: expected \"%s\", got:\n%s", command, message, output);
}

// Four processes have the digest of four threads.
static inline void expect_processes_as_threads(const char *words)
{
    static char output[1 << 16];
    char command[1024], threads[33], processes[33];
    snprintf(command, sizeof command, "%s --verify", words);
    train_digest(command, threads);
    snprintf(command, sizeof command, "train %s --verify --json", words);
    cr_assert_eq(mpirun(4, "zerogauge", command, output, sizeof output), 0, "%s", output);
    digest_in(output, processes);
    cr_expect_str_eq(processes, threads, "%s", words);
}
