// SPDX-License-Identifier: Apache-2.0
// The first operation that fails ends a program in every mode: its error is kept and reported once, nothing runs after
// it, and the owner hears of it while other lanes still wait.
#include "ref/executor/executor_test.h"

#include <string.h>
#include <unistd.h>

struct failure {
    int calls;
    char message[100];
};

static void keep_failure(void *context, const char *message)
{
    struct failure *failure = context;
    failure->calls++;
    strncpy(failure->message, message, sizeof failure->message - 1);
    err_set(ERR_PEER, "the owner's own call failed");
}

static int fail(void *arguments)
{
    return err_set(ERR_IO, "operation %d failed", *(int *)arguments);
}

Test(executor_failure, concurrent_first_failure_is_kept_reported_once_and_nothing_runs_after_it)
{
    for (uint64_t round = 0; round < 30; round++) {
        const struct executor_schedule schedules[] = {SERIAL, OVERLAP, chaos(round)};
        struct executor_schedule schedule = schedules[round % 3];
        struct failure failure = {0};
        struct log log = {.count = 0};
        struct executor *executor;
        uint32_t word = 0;
        cr_assert_eq(executor_open(schedule, 0, NULL, keep_failure, &failure, &executor), ERR_NONE);
        // The span makes every operation depend on those before it, across lanes.
        struct executor_span span = {&word, sizeof word, EXECUTOR_READ_WRITE};
        int code = ERR_NONE;
        for (int i = 0; i < 20; i++) {
            struct log_entry entry = {&log, i};
            enum lane lane = (enum lane)(i % 4);
            code = i == 5 || i == 9 ? issue(executor, "fail", lane, fail, &i, sizeof i, &span, 1)
                                    : issue(executor, "log", lane, write_log, &entry, sizeof entry, &span, 1);
            cr_assert(code == ERR_NONE || (code == ERR_IO && i >= 5));
            cr_assert(schedule.mode != EXECUTOR_SERIAL || i < 5 || code == ERR_IO);
        }
        for (int again = 0; again < 2; again++) {
            err_set(ERR_USAGE, "something else");
            cr_assert_eq(executor_wait(executor), ERR_IO);
            cr_assert_str_eq(err_message(), "operation 5 failed");
        }
        err_set(ERR_USAGE, "something else");
        cr_assert_eq(issue_log(executor, LANE_COMPUTE, &log, 100), ERR_IO);
        cr_assert_str_eq(err_message(), "operation 5 failed");
        cr_assert_eq(log.count, 5);
        cr_assert_eq(failure.calls, 1);
        cr_assert_str_eq(failure.message, "operation 5 failed");
        executor_close(executor);
    }
}

static int meet_and_fail(void *arguments)
{
    meet(*(struct meeting **)arguments);
    return err_set(ERR_IO, "failed together");
}

Test(executor_failure, concurrent_failures_are_reported_once, .timeout = 500)
{
    for (int round = 0; round < 50; round++) {
        struct meeting meeting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 4, 0, 0}, *pointer = &meeting;
        struct failure failure = {0};
        struct executor *executor;
        cr_assert_eq(executor_open(OVERLAP, 0, NULL, keep_failure, &failure, &executor), ERR_NONE);
        for (int lane = 0; lane < 4; lane++)
            cr_assert_eq(issue(executor, "fail", (enum lane)lane, meet_and_fail, &pointer, sizeof pointer, NULL, 0),
                         ERR_NONE);
        cr_assert_eq(executor_wait(executor), ERR_IO);
        cr_assert_eq(failure.calls, 1);
        cr_assert_str_eq(failure.message, "failed together");
        executor_close(executor);
    }
}

static void release_meeting(void *context, const char *message)
{
    (void)message;
    meet(context);
}

Test(executor_failure, concurrent_owner_hears_of_a_failure_while_other_lanes_still_wait, .timeout = 500)
{
    // The operation on the collective lane returns only when the owner hears of the failure, as after comm_abort.
    struct meeting meeting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 2, 0, 0}, *pointer = &meeting;
    struct executor *executor;
    int number = 1;
    cr_assert_eq(executor_open(OVERLAP, 0, NULL, release_meeting, &meeting, &executor), ERR_NONE);
    cr_assert_eq(issue(executor, "waits", LANE_COLLECTIVE, run_meet, &pointer, sizeof pointer, NULL, 0), ERR_NONE);
    usleep(20000);
    issue(executor, "fails", LANE_COMPUTE, fail, &number, sizeof number, NULL, 0);
    cr_assert_eq(executor_wait(executor), ERR_IO);
    executor_close(executor);
}
