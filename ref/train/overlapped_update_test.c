// SPDX-License-Identifier: Apache-2.0
// Steps whose update overlaps the next forward: what that forward waits for, and kills in its midst.
#include "ref/train/offload_test.h"

#include "base/folder_test.h"
#include "ref/executor/trace.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static const struct offload_trial on_nvme =
    OFFLOAD_TRIAL(.model = "gpt:layers=6,width=32,heads=2,length=32", .world = 1, .steps = 3, OFFLOAD_ON_NVME,
                  .buffers = 15, .sub_group = 1000000, .prefetch = 2);

// The largest number of reads of a moment from NVMe before an operation of that name and after the one before it.
static size_t longest_run(const struct trace_rank *rank, const char *between)
{
    size_t longest = 0, length = 0;
    for (size_t i = 0; i < rank->interval_count[LANE_NVME_READ]; i++) {
        const char *name = rank->intervals[LANE_NVME_READ][i].name;
        bool ends = strcmp(name, between) == 0;
        longest = ends && length > longest ? length : longest;
        length = ends ? 0 : length + (strcmp(name, "read exp_avg") == 0);
    }
    return longest;
}

// A lane runs operations in the order of issue. The states of three sub-groups, for which there are buffers,
// precede the first gradient that the update reads. A layer's parameters precede the states of all but the next
// layer; in the first step, whose norm takes the buffers, also behind those that were read ahead. With one buffer for
// parameters the forward reads them from NVMe.
Test(overlapped_update, the_next_forward_waits_for_the_states_of_its_first_layers)
{
    enum { AHEAD = 3, NEXT = 2 };
    struct offload_trial t = on_nvme;
    struct trace trace;
    t.param_buffers = 1;
    cr_assert(offload_trace(&t, (struct train_setting){0}, &trace).accounting_equal);
    cr_expect_eq(longest_run(&trace.ranks[0], "read gradient"), AHEAD);
    cr_expect_eq(longest_run(&trace.ranks[0], "read parameters"), AHEAD + NEXT);
    trace_close(&trace);
}

// Where the exponent of the norm is not among the guesses, gradients are read from NVMe once more; in the first step
// there are none. The largest gradient of a model that begins to learn changes fast.
Test(overlapped_update, the_norm_of_nearly_every_step_is_summed_as_gradients_pass)
{
    struct offload_trial t = on_nvme;
    struct train_result result;
    t.model = "gpt:layers=4,width=128,heads=4,length=32";
    t.steps = 40;
    cr_assert_eq(offload_run(&t, &result), ERR_NONE, "%s", err_message());
    cr_assert(result.accounting_equal);
    cr_expect_leq(result.rescanned_steps, 2, "%d of 40 steps", (int)result.rescanned_steps);
}

// A run that ends itself some time after a step that it makes, and surely before its last step is saved.
struct death {
    int steps;  // to make
    unsigned pause_ns;
};

static void *die_later(void *context)
{
    const struct death *death = context;
    nanosleep(&(struct timespec){.tv_nsec = death->pause_ns}, NULL);
    kill(getpid(), SIGKILL);
    return NULL;
}

static void count_down(void *context, const struct train_progress *progress)
{
    struct death *death = context;
    pthread_t thread;
    if (--death->steps == 0 || (death->steps > 0 && progress->step == progress->steps))
        cr_assert_eq(pthread_create(&thread, NULL, die_later, death), 0);
    while (progress->step == progress->steps)
        pause();
}

// With death the run does not return.
static int run(const struct offload_trial *t, const char *folder, struct death *death, struct train_result *result)
{
    const struct train_setting setting = {
        .emulation = {{[LANE_NVME_WRITE] = 2e6}}, .progress = death ? count_down : NULL, .progress_context = death};
    return folder ? offload_run_saving(t, setting, folder, 3, result) : offload_run_with(t, setting, result);
}

// On a mesh, with updates before and after the decision: a run is killed again and again, and ends in the bits of one
// that is not and that waits for each update.
Test(overlapped_update, kills_beside_the_next_forward_show_in_no_bit)
{
    for (int speculative = 0; speculative < 2; speculative++) {
        struct offload_trial t = OFFLOAD_TRIAL(.model = "gpt-nano", .world = 4, .replicas = 2, .steps = 12,
                                               OFFLOAD_ON_NVME, .buffers = 15, .clip = 1.3, .speculative = speculative);
        char folder[PATH_MAX];
        struct train_result whole, result;
        unsigned random = 1;
        folder_make(folder);
        struct train_result verified = offload_demand(&t);
        cr_assert_eq(run(&t, NULL, NULL, &whole), ERR_NONE, "%s", err_message());
        cr_expect_str_eq(whole.digest, verified.digest, "%s", offload_name(&t));
        for (int i = 0; i < 12; i++) {
            struct death death = {1 + rand_r(&random) % 5, (unsigned)rand_r(&random) % 40000000};
            pid_t child = fork();
            cr_assert_geq(child, 0);
            if (child == 0)
                _exit(run(&t, folder, &death, &result) == ERR_NONE ? 0 : 1);
            int status;
            waitpid(child, &status, 0);
            cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%#x", (unsigned)status);
        }
        cr_assert_eq(run(&t, folder, NULL, &result), ERR_NONE, "%s", err_message());
        cr_expect_str_eq(result.digest, whole.digest, "%s", offload_name(&t));
        folder_remove(folder);
    }
}
