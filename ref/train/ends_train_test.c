// SPDX-License-Identifier: Apache-2.0
// Training ends on every rank, with the first failure's message, whichever rank fails in whichever collective or in
// whichever access to a disk, on every kind of mesh, and in whatever order the ranks close their communicators.
#include "ref/comm/comm_hook_test.h"
#include "ref/model/names/model_find.h"
#include "ref/train/mesh_test.h"

#include <stdlib.h>

struct ends {
    const char *preset, *mesh, *model, *more;  // more: another override of the configuration; null: none
    int world;
};

static const struct ends trials[] = {
    {"zero3", "shard=3", "gpt-nano", NULL, 3},
    {"zero_infinity", "tensor=2,shard=2", "gpt-nano:blocks=2", NULL, 4},
    {"zero1", "pipeline=2,shard=2", "gpt-nano:layers=2", "gradient_accumulation_steps=2", 4},
    {"zero2_offload", "replicate=2,shard=2", "gpt-nano", NULL, 4},
    {"zero3", "shard=4,expert=2", "gpt-nano:experts=4", NULL, 4},
    {"zero3", "shard=4", "gpt-nano", "zero_optimization.zero_hpz_partition_size=2", 4},
};
enum { TRIALS = sizeof trials / sizeof *trials };

// A run of a trial, shared by its ranks.
struct run {
    struct config config;
    struct train_setting setting;
    int codes[HOOK_RANKS];
    char messages[HOOK_RANKS][512];
};

static struct text *text;
static char folder[PATH_MAX];

static void open_all(void)
{
    folder_make(folder);
    cr_assert_eq(text_open(NULL, &text), ERR_NONE, "%s", err_message());
}

static void close_all(void)
{
    text_close(text);
    folder_remove(folder);
}

TestSuite(ends_train, .init = open_all, .fini = close_all);

static void set_up(const struct ends *t, struct run *run)
{
    char mesh[128];
    const char *set[2] = {mesh, t->more}, *path = folder;
    snprintf(mesh, sizeof mesh, "zerogauge.mesh=%s", t->mesh);
    const struct config_options options = {.world = t->world,
                                           .steps = 1,
                                           .set = set,
                                           .set_count = t->more ? 2 : 1,
                                           .nvme_paths = &path,
                                           .nvme_path_count = 1};
    *run = (struct run){0};
    cr_assert_eq(config_load_preset(t->preset, &options, &run->config, NULL), ERR_NONE, "%s", err_message());
    run->setting = (struct train_setting){.config = &run->config,
                                          .text = text,
                                          .world = t->world,
                                          .steps = 1,
                                          .seed = 1,
                                          .threads = 1,
                                          .buffered = true,
                                          .schedule = {EXECUTOR_OVERLAP, 0}};
    cr_assert_eq(model_find(t->model, &run->setting.model), ERR_NONE, "%s", err_message());
}

static void train_rank(struct hook_rank *rank, void *context)
{
    struct run *run = context;
    struct train_setting setting = run->setting;
    struct train_result result;
    setting.comm = rank->world;
    int code = train_run(&setting, &result);
    run->codes[rank->index] = code;
    snprintf(run->messages[rank->index], sizeof run->messages[0], "%s", code == ERR_NONE ? "" : err_message());
    free(result.step_ns);
}

static void run_hooked(struct hook *h, struct run *run)
{
    for (int i = 0; i < h->world; i++)
        h->order[i] = h->call % 2 == 0 ? i : h->world - 1 - i;
    memset(run->codes, 0, sizeof run->codes);
    hook_run_world(h, train_rank, run);
}

static void fail_in_call(const struct ends *t, struct run *run, int failing, int call)
{
    struct hook h = {
        .world = t->world, .failing = failing, .call = call, .moment = call / 2 % 2 ? HOOK_AFTER : HOOK_BEFORE};
    run_hooked(&h, run);
    cr_expect_eq(run->codes[failing] == ERR_NONE, 0, "%s, %s: rank %d, call %d", t->preset, t->mesh, failing, call);
    for (int i = 0; i < t->world; i++)
        cr_expect(run->codes[i] == ERR_NONE || strstr(run->messages[i], "injected"), "%s, %s: rank %d, call %d; %d: %s",
                  t->preset, t->mesh, failing, call, i, run->messages[i]);
}

static void fail_in_every_call(const struct ends *t)
{
    struct run run;
    struct hook clean = {.world = t->world, .call = HOOK_NEVER};
    set_up(t, &run);
    run_hooked(&clean, &run);
    for (int i = 0; i < t->world; i++)
        cr_assert_eq(run.codes[i], ERR_NONE, "%s, %s: %s", t->preset, t->mesh, run.messages[i]);
    for (int call = 0; call < clean.ranks[0].calls; call += SANITIZED ? 7 : 1) {
        int failing = call % t->world;
        if (call < clean.ranks[failing].calls)
            fail_in_call(t, &run, failing, call);
    }
}

#define FAIL_IN_EVERY_CALL(number, name)                                                                               \
    Test(ends_train, a_failure_in_any_collective_ends_all_ranks_##name##_concurrent, .timeout = 600)                   \
    {                                                                                                                  \
        fail_in_every_call(&trials[number]);                                                                           \
    }
FAIL_IN_EVERY_CALL(0, of_a_shard_group)
FAIL_IN_EVERY_CALL(1, of_tensor_parallelism)
FAIL_IN_EVERY_CALL(2, of_a_pipeline)
FAIL_IN_EVERY_CALL(3, with_replicas)
FAIL_IN_EVERY_CALL(4, with_experts)
FAIL_IN_EVERY_CALL(5, with_second_copies)

// The K-th allocation, read or write of some rank; until a run has fewer of them.
static void fail_in_every_access(const struct ends *t, const char *fault)
{
    struct run run;
    int failed = 0;
    for (int k = 1;; k += SANITIZED ? 5 : 1) {
        char words[32];
        struct train_result result;
        set_up(t, &run);
        snprintf(words, sizeof words, "nvme:%s@%d", fault, k);
        cr_assert_eq(inject_parse(words, &run.setting.inject), ERR_NONE, "%s", err_message());
        int code = train_run(&run.setting, &result);
        free(result.step_ns);
        if (code == ERR_NONE)
            break;
        failed++;
        cr_expect(strstr(err_message(), "rank ") && strstr(err_message(), folder), "%s: %s", words, err_message());
    }
    cr_expect_gt(failed, SANITIZED ? 1 : 5, "%s", fault);
}

Test(ends_train, a_failure_in_any_access_to_a_disk_ends_all_ranks_concurrent, .timeout = 600)
{
    static const struct ends meshes[] = {
        {"zero_infinity", "shard=2", "gpt-nano", NULL, 2},
        {"zero_infinity", "tensor=2,shard=2", "gpt-nano:blocks=2", NULL, 4},
        {"zero_infinity", "replicate=2,shard=2", "gpt-nano", NULL, 4},
        {"zero_infinity", "shard=4,expert=2", "gpt-nano:experts=4", NULL, 4},
    };
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
        fail_in_every_access(&meshes[i], "enospc");
        fail_in_every_access(&meshes[i], "eio");
    }
}

// The same for ranks that are processes.
Test(ends_train, a_failure_in_an_access_to_a_disk_ends_all_processes, .timeout = 600)
{
    MPI_OR_SKIP();
    static const char *const meshes[] = {"--mesh tensor=2,shard=2 --model gpt-nano:blocks=2",
                                         "--mesh replicate=2,shard=2 --model gpt-nano"};
    static const char *const faults[] = {"enospc@1", "enospc@3", "eio@20"};
    static char output[1 << 16];
    for (size_t i = 0; i < 6; i++) {
        char words[PATH_MAX + 256];
        snprintf(words, sizeof words,
                 "train --preset zero_infinity %s --steps 1 --buffered --nvme-path %s --inject nvme:%s", meshes[i / 3],
                 folder, faults[i % 3]);
        int status = mpirun(4, "zerogauge", words, output, sizeof output);
        cr_expect(status != 0 && status < 124, "%s: status %d: %s", words, status, output);
        cr_expect(strstr(output, "NVMe of rank ") && !strstr(output, "signal 11"), "%s: %s", words, output);
    }
}
