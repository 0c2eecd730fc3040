// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of training on meshes: what trials vary, and the demands that every kind of mesh has to meet.
#ifndef ZG_MESH_TEST_H
#define ZG_MESH_TEST_H

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

// Trials 0 to count - 1 of a stage.
static inline void demand_trials(struct offload_trial (*trial_of)(int number, int stage), int stage, int count)
{
    for (int number = 0; number < count; number++) {
        struct offload_trial trial = trial_of(number, stage);
        struct train_result result;
        offload_demand(&trial, &result);
    }
}

static inline const char *digest_of(struct offload_trial trial, char digest[FILE_DIGEST_BYTES])
{
    struct train_result result;
    offload_demand(&trial, &result);
    return strcpy(digest, result.digest);
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

#endif
