// SPDX-License-Identifier: Apache-2.0
// Asynchronous saves: steps go on while files are written, and no bit of a file shows it. A gate holds the threads that
// write back, so that what happens meanwhile does not depend on time.
#include "base/command_test.h"
#include "plan/planner/plan.h"
#include "ref/checkpoint/checkpoint_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

TestSuite(async_save, .init = folder_setup, .fini = folder_teardown, .timeout = 500);

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const char *closed;  // part of the names of files that nobody creates until it opens; null: it is open
    int held;            // threads that wait
} gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0};

static void gate_close(const char *names)
{
    gate.closed = names;
    gate.held = 0;
}

// Opens it when this many threads wait.
static void gate_open(int held)
{
    pthread_mutex_lock(&gate.lock);
    while (gate.held < held)
        pthread_cond_wait(&gate.changed, &gate.lock);
    gate.closed = NULL;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

static void gate_pass(const char *path)
{
    pthread_mutex_lock(&gate.lock);
    if (gate.closed && strstr(path, gate.closed)) {
        gate.held++;
        pthread_cond_broadcast(&gate.changed);
        while (gate.closed)
            pthread_cond_wait(&gate.changed, &gate.lock);
    }
    pthread_mutex_unlock(&gate.lock);
}

// In place of the C library's, for the whole program.
int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list arguments;
        va_start(arguments, flags);
        mode = (mode_t)va_arg(arguments, int);
        va_end(arguments);
        gate_pass(path);
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static void delay(struct config *config)
{
    config->delayed_update_start_step = 2;
    config->offload_optimizer = (struct config_offload_optimizer){.tier = TIER_HOST, .buffer_count = 8, .ratio = 1.0};
    config->gradient_tier = TIER_HOST;
    config->sub_group_size = 700;
}

static void to_host(struct config *config)
{
    delay(config);
    config->delayed_update_start_step = 0;
    config->offload_param = (struct config_offload_param){.tier = TIER_HOST};
}

static void narrow(struct config *config)
{
    config->master_dtype = config->moment_dtype = DTYPE_BF16;
}

static void replicas(struct config *config)
{
    config->mesh = (struct mesh){.replicate = 2, .shard = 2, .tensor = 1, .pipeline = 1, .expert = 1};
}

static void tensor(struct config *config)
{
    config->mesh = (struct mesh){.replicate = 1, .shard = 2, .tensor = 2, .pipeline = 1, .expert = 1};
    config->micro_batch = 6;
}

// The last stage has the tied weight, too, and does not store it.
static void pipeline(struct config *config)
{
    config->mesh = (struct mesh){.replicate = 1, .shard = 2, .tensor = 1, .pipeline = 2, .expert = 1};
    config->micro_batch = 6;
}

enum { SAVED_STEP = 3, STEPS = 5 };

static const char *in_folder(const char *name)
{
    static char path[2][PATH_MAX + 64];
    static int next;
    next = !next;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

// When the last step is made, but nothing is saved after it, every rank waits to create its file of step 3.
static void open_after_last_step(void *context, const struct train_progress *progress)
{
    if (progress->step == STEPS)
        gate_open(*(const int *)context);
}

// Bytes of the states in rank 0's file.
static uint64_t state_bytes(const char *store)
{
    char path[PATH_MAX + 128];
    struct safetensors file;
    snprintf(path, sizeof path, "%s/step-%08d/rank-0.safetensors", store, SAVED_STEP);
    cr_assert_eq(safetensors_open(path, &file), ERR_NONE, "%s", err_message());
    uint64_t bytes = 0;
    for (size_t i = 0; i < file.tensor_count; i++)
        bytes += file.tensors[i].type == TENSOR_FP32 ? sizeof(float) * file.tensors[i].count : 0;
    safetensors_close(&file);
    return bytes;
}

static uint64_t planned_bytes(const struct trial *t)
{
    const struct config config = trial_config(t);
    struct plan_setting setting = {.config = &config, .world = t->world, .steps = STEPS, .only_memory = true};
    struct plan plan;
    cr_assert_eq(model_find(t->model ? t->model : "linear", &setting.model), ERR_NONE);
    cr_assert_eq(plan_run(&setting, &plan), ERR_NONE, "%s", err_message());
    return plan.held_bytes[TIER_HOST][KIND_STAGING];
}

// Saves step 3 once while the run waits, and once while it makes the steps 4 and 5: the same bits, files and bytes
// moved, and in host memory exactly the states of the file more.
static void compare(struct trial t, const char *name)
{
    static char output[1 << 12];
    char command[3 * PATH_MAX];
    t.steps = STEPS;
    t.every = SAVED_STEP;
    t.save = in_folder("waited");
    struct train_result waited = trial_pass(&t);
    t.save = in_folder("async");
    t.async = true;
    t.progress = open_after_last_step;
    t.progress_context = &t.world;
    gate_close("step-00000003.partial/rank-");
    struct train_result async = trial_pass(&t);
    cr_assert_null(gate.closed, "%s", name);
    cr_expect_str_eq(async.digest, waited.digest, "%s", name);
    cr_expect_eq(async.saved_step, STEPS, "%s", name);
    cr_expect_eq(memcmp(async.moved_bytes, waited.moved_bytes, sizeof async.moved_bytes), 0, "%s", name);
    uint64_t staging = async.held_bytes[TIER_HOST][KIND_STAGING];
    cr_expect_eq(staging - waited.held_bytes[TIER_HOST][KIND_STAGING], state_bytes(in_folder("async")), "%s", name);
    cr_expect_eq(async.save_copy_bytes, state_bytes(in_folder("async")), "%s", name);
    cr_expect_eq(staging, planned_bytes(&t), "%s", name);
    snprintf(command, sizeof command, "cd %s && diff -r waited async && ls async && rm -r waited async", folder);
    cr_expect_eq(command_run(command, output, sizeof output), 0, "%s: %s", name, output);
    cr_expect_str_eq(output, "step-00000003\nstep-00000005\n", "%s", name);
}

Test(async_save, files_have_the_bits_of_their_step_whatever_steps_are_made_meanwhile_concurrent)
{
    static const struct {
        const char *name;
        struct trial trial;
    } cases[] = {
        {"stage 0", {.stage = 0, .world = 3, .bucket = 64}},
        {"stage 1, 16-bit states", {.stage = 1, .world = 2, .precision = DTYPE_BF16, .change = narrow}},
        {"stage 2, verified", {.stage = 2, .world = 3, .precision = DTYPE_BF16, .verify = true}},
        {"stage 3, chaos", {.stage = 3, .world = 2, .schedule = {EXECUTOR_CHAOS, 5}, .verify = true}},
        {"an optimizer on the host, chaos",
         {.stage = 3, .world = 2, .change = to_host, .schedule = {EXECUTOR_CHAOS, 6}}},
        {"updates that overlap the next step",
         {.model = "gpt-nano", .stage = 3, .world = 2, .change = to_host, .schedule = {EXECUTOR_OVERLAP, 0}}},
        {"a skipped step", {.model = "linear-overflow", .stage = 2, .world = 3, .precision = DTYPE_FP16}},
        {"a waiting update",
         {.model = "gpt-nano", .stage = 3, .world = 2, .precision = DTYPE_BF16, .change = delay, .verify = true}},
        {"adapters", {.model = "gpt-nano:rank=4,alpha=8,targets=c_attn", .stage = 2, .world = 2}},
        {"replicas", {.stage = 2, .world = 4, .change = replicas}},
        {"tensor parallelism", {.model = "gpt-nano:blocks=2", .stage = 1, .world = 4, .change = tensor}},
        {"a pipeline", {.model = "gpt-nano", .stage = 1, .world = 4, .accumulation = 2, .change = pipeline}},
        {"ranks without states", {.model = "linear-few", .stage = 3, .world = 4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        compare(cases[i].trial, cases[i].name);
}

static void report_step(void *context, const struct train_progress *progress)
{
    *(volatile uint64_t *)context = progress->step;
}

// The last complete checkpoint, every digest of which is right.
static uint64_t newest_sound(void)
{
    struct checkpoint *checkpoint;
    char notes[NOTES_BYTES] = "";
    cr_assert_eq(checkpoint_open(folder, &checkpoint, notes), ERR_NONE, "%s", err_message());
    cr_assert_not_null(checkpoint);
    cr_assert_eq(checkpoint_check_digests(checkpoint), ERR_NONE, "%s", err_message());
    uint64_t step = checkpoint_manifest(checkpoint)->step;
    checkpoint_close(checkpoint);
    return step;
}

// Killed after step 6, while rank 1 has not written its file of step 4.
Test(async_save, a_kill_amid_a_save_leaves_the_checkpoint_before_it)
{
    volatile uint64_t *reported =
        mmap(NULL, sizeof *reported, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct trial trial = {.stage = 2,
                          .world = 2,
                          .precision = DTYPE_FP16,
                          .steps = 7,
                          .every = 2,
                          .async = true,
                          .checkpoint = folder,
                          .progress = report_step,
                          .progress_context = (void *)(uintptr_t)reported};
    gate_close("step-00000004.partial/rank-1");
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        struct train_result result;
        _exit(trial_run(&trial, &result, NULL) == ERR_NONE ? 0 : 1);
    }
    while (*reported < 6) {
        cr_assert_eq(waitpid(child, NULL, WNOHANG), 0, "the run ended by itself after step %d", (int)*reported);
        sched_yield();
    }
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    gate_open(0);
    cr_assert_eq(newest_sound(), 2);
    cr_assert_eq(access(in_folder("step-00000004.partial"), F_OK), 0);
    struct train_result resumed = trial_pass(&trial);
    cr_assert_eq(resumed.resumed_step, 2);
    cr_assert_neq(access(in_folder("step-00000004.partial"), F_OK), 0);
    cr_assert_eq(newest_sound(), 7);
    trial.checkpoint = NULL;
    cr_assert_str_eq(resumed.digest, trial_pass(&trial).digest);
}

// All ranks have heard before that rank 1 has not written its file of step 4.
static void open_after_step_5(void *context, const struct train_progress *progress)
{
    (void)context;
    if (progress->step == 5)
        gate_open(1);
}

// In place of a kill under the thread sanitizer, with which a forked process has no threads.
Test(async_save, a_rank_that_ends_amid_a_save_leaves_the_checkpoint_before_it_concurrent)
{
    struct trial trial = {.stage = 2,
                          .world = 3,
                          .precision = DTYPE_FP16,
                          .steps = 7,
                          .every = 2,
                          .async = true,
                          .schedule = {EXECUTOR_OVERLAP, 0},
                          .checkpoint = folder,
                          .inject = "rank:0:die@6",
                          .progress = open_after_step_5};
    struct train_result result;
    gate_close("step-00000004.partial/rank-1");
    cr_assert_eq(trial_run(&trial, &result, NULL), ERR_IO, "%s", err_message());
    cr_expect_not_null(strstr(err_message(), "ended in step 6 by --inject"), "%s", err_message());
    cr_expect_eq(newest_sound(), 2);
    cr_expect_neq(access(in_folder("step-00000004.partial"), F_OK), 0);
    trial.inject = NULL;
    cr_expect_eq(trial_pass(&trial).resumed_step, 2);
}

enum { EVERY = 1000, OPENED_STEP = EVERY + 5 };

// Gives the threads that write time until the first checkpoint is published, for which rank 1 writes its file after
// some steps.
static void await_published(void *context, const struct train_progress *progress)
{
    uint64_t *published = context;
    if (progress->step == OPENED_STEP)
        gate_open(1);
    if (progress->step <= EVERY || *published > 0)
        return;
    if (access(in_folder("step-00001000"), F_OK) == 0)
        *published = progress->step;
    else
        nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
}

Test(async_save, a_checkpoint_is_published_when_it_is_written_not_when_the_next_one_is_due)
{
    uint64_t published = 0;
    struct trial trial = {.model = "linear-few",
                          .stage = 1,
                          .world = 2,
                          .steps = 2 * EVERY - 1,
                          .every = EVERY,
                          .async = true,
                          .save = folder,
                          .progress = await_published,
                          .progress_context = &published};
    gate_close("step-00001000.partial/rank-1");
    trial_pass(&trial);
    cr_assert(published > OPENED_STEP && published < 2 * EVERY - 1, "published after step %d", (int)published);
}
