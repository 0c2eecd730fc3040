// SPDX-License-Identifier: Apache-2.0
// The chaos mode detects an operation that touches bytes it did not declare.
#include "ref/executor/executor_test.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Pages have 4 KiB on x86-64, and 4, 16 or 64 KiB on aarch64.
#define PAGE sysconf(_SC_PAGESIZE)
#define PAGE_WORDS (PAGE / 4)
#define WORDS (PAGES * PAGE_WORDS)
enum { PAGES = 8 };

// One rank with two allocations of PAGES pages; each word holds its index.
struct rank {
    struct tier *tier;
    struct executor *executor;
    uint32_t *weights, *moments;
};

static struct rank open_rank(int number)
{
    struct rank rank;
    void *weights, *moments;
    cr_assert_eq(tier_open(NULL, &(struct tier_setting){0}, &rank.tier), ERR_NONE);
    cr_assert_eq(tier_allocate(rank.tier, TIER_DEVICE, KIND_PARAMETER, "weights", (size_t)WORDS * 4, 0, &weights),
                 ERR_NONE);
    cr_assert_eq(tier_allocate(rank.tier, TIER_DEVICE, KIND_OPTIMIZER, "moments", (size_t)WORDS * 4, 0, &moments),
                 ERR_NONE);
    rank.weights = weights;
    rank.moments = moments;
    for (uint32_t i = 0; i < WORDS; i++)
        rank.weights[i] = rank.moments[i] = i;
    rank.executor = open_executor(chaos(5), number, rank.tier);
    return rank;
}

static void close_rank(struct rank *rank)
{
    executor_close(rank->executor);
    tier_close(rank->tier);
}

// The operation of most tests: *to = *from; either may be null.
struct copy {
    volatile uint32_t *to;
    const volatile uint32_t *from;
};

static int copy(void *arguments)
{
    const struct copy *self = arguments;
    uint32_t value = self->from ? *self->from : 0xabcd;
    if (self->to)
        *self->to = value;
    return ERR_NONE;
}

static int issue_and_wait(struct executor *executor, struct copy arguments, const struct executor_span *spans,
                          size_t span_count)
{
    TRY(issue(executor, "update shard", LANE_CPU, copy, &arguments, sizeof arguments, spans, span_count));
    return executor_wait(executor);
}

// The child's operation: one span each of weights and moments, and a copy of one word.
struct violation {
    long weights_from, weights_count, moments_from, moments_count;  // words; the weights read, the moments written
    long to, from;                                                  // the word of weights, or WORDS + that of moments
};

static volatile uint32_t *word_of(const struct rank *rank, long word)
{
    return word < WORDS ? rank->weights + word : rank->moments + (word - WORDS);
}

static int violate(const struct rank *rank, const struct violation *violation)
{
    struct executor_span spans[] = {
        {rank->weights + violation->weights_from, (size_t)violation->weights_count * 4, EXECUTOR_READ},
        {rank->moments + violation->moments_from, (size_t)violation->moments_count * 4, EXECUTOR_WRITE},
    };
    struct copy arguments = {word_of(rank, violation->to), word_of(rank, violation->from)};
    return issue_and_wait(rank->executor, arguments, spans, 2);
}

static void violate_in_child(void *argument)
{
    struct rank rank = open_rank(3);
    int code = violate(&rank, argument);
    close_rank(&rank);
    _exit(code == ERR_NONE ? 0 : 77);
}

static void expect_message(void (*body)(void *), void *argument, const char *operation, const char *place)
{
    struct child_end end = child_run(body, argument);
    cr_assert_eq(end.status, 1, "status %d: %s", end.status, end.output);
    cr_assert(strstr(end.output, operation), "%s", end.output);
    cr_assert(strstr(end.output, place), "no %s in %s", place, end.output);
}

static void expect_death(struct violation violation, const char *allocation, long offset)
{
    char place[100];
    snprintf(place, sizeof place, "offset %ld of rank 3's \"%s\", which was not declared", offset, allocation);
    expect_message(violate_in_child, &violation, "zerogauge: rank 3: operation \"update shard\" on lane cpu touched 0x",
                   place);
}

Test(executor_guard, declared_accesses_pass)
{
    struct violation none = {10, 5000, 7, 3000, WORDS + 2000, 4000};
    struct child_end end = child_run(violate_in_child, &none);
    cr_assert_eq(end.status, 0, "status %d: %s", end.status, end.output);
    cr_assert_str_eq(end.output, "");
}

Test(executor_guard, undeclared_access_to_another_page_ends_the_program)
{
    // Reads, then writes, a page beyond the span; then accesses through an empty span; then a page before the span.
    expect_death((struct violation){0, PAGE_WORDS, 0, 10, WORDS, PAGE_WORDS}, "weights", PAGE);
    expect_death((struct violation){0, 10, 0, 10, WORDS + PAGE_WORDS, 0}, "moments", PAGE);
    expect_death((struct violation){0, 10, 0, 0, WORDS + 3, 0}, "moments", 12);
    expect_death((struct violation){3 * PAGE_WORDS, 9, 0, 9, WORDS, 1}, "weights", 4);
    // A write to a span that is read.
    expect_death((struct violation){0, WORDS, 0, WORDS, 2 * PAGE_WORDS, 0}, "weights", 2 * PAGE);
    // The guard pages around an allocation belong to no allocation.
    expect_death((struct violation){0, WORDS, 0, WORDS, WORDS + WORDS, 0}, "moments", PAGES * PAGE);
}

static void expect_error(struct violation violation, const char *location)
{
    struct rank rank = open_rank(2);
    cr_assert_eq(violate(&rank, &violation), ERR_INTERNAL);
    char expected[300];
    snprintf(expected, sizeof expected,
             "rank 2: operation \"update shard\" on lane cpu wrote at %s, which was not declared so (a write needs a "
             "span that is written)",
             location);
    cr_assert_str_eq(err_message(), expected);
    close_rank(&rank);
}

Test(executor_guard, undeclared_write_beside_a_span_on_its_page_is_an_error)
{
    expect_error((struct violation){0, 9, 10, 20, WORDS + 30, 0}, "offset 120 of \"moments\"");
    expect_error((struct violation){0, 9, 10, 20, WORDS + 9, 0}, "offset 36 of \"moments\"");
    char last[64];
    snprintf(last, sizeof last, "offset %ld of \"moments\"", 2 * PAGE - 4);
    expect_error((struct violation){0, 9, 10, PAGE_WORDS, WORDS + 2 * PAGE_WORDS - 1, 0}, last);
    expect_error((struct violation){0, 9, 10, PAGE_WORDS, WORDS + 9, 0}, "offset 36 of \"moments\"");
    expect_error((struct violation){5, 9, 10, 20, 4, 6}, "offset 16 of \"weights\"");
    // A page that is writable only for its poisoned rest still detects writes to a read span.
    expect_error((struct violation){5, 9, 10, 20, 7, 6}, "offset 28 of \"weights\"");
}

Test(executor_guard, undeclared_read_beside_a_span_on_its_page_gives_nan_and_the_bytes_are_restored)
{
    const struct violation reads[] = {{5, 9, 10, 20, WORDS + 12, 4},
                                      {5, 9, 10, 20, WORDS + 12, 14},
                                      {5, 9, 10, 20, WORDS + 12, WORDS + 30},
                                      {5, 9, 10, 20, WORDS + 12, WORDS + 9}};
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++) {
        struct rank rank = open_rank(0);
        cr_assert_eq(violate(&rank, &reads[i]), ERR_NONE, "%s", err_message());
        cr_assert_eq(rank.moments[12], 0x7fc07fc0);
        float value;
        memcpy(&value, &rank.moments[12], 4);
        cr_assert(isnan(value));
        for (uint32_t word = 0; word < WORDS; word++) {
            cr_assert_eq(rank.weights[word], word);
            cr_assert(word == 12 || rank.moments[word] == word);
        }
        close_rank(&rank);
    }
}

Test(executor_guard, span_that_leaves_its_allocation_is_an_error)
{
    struct rank rank = open_rank(1);
    struct violation violation = {0, 9, 10, WORDS - 9, WORDS, 0};
    cr_assert_eq(violate(&rank, &violation), ERR_INTERNAL);
    cr_assert_str_eq(err_message(), "rank 1: operation \"update shard\" on lane cpu: 32732 bytes at offset 40 are not "
                                    "within \"moments\", which has 32768 bytes");
    close_rank(&rank);
}

static int write_and_fail(void *arguments)
{
    *((struct copy *)arguments)->to = 1;
    return err_set(ERR_IO, "the disk is gone");
}

Test(executor_guard, error_of_the_operation_itself_has_precedence)
{
    struct rank rank = open_rank(1);
    struct copy arguments = {rank.weights, NULL};
    struct executor_span span = {rank.weights + 1, 4, EXECUTOR_WRITE};
    cr_assert_eq(issue(rank.executor, "write", LANE_CPU, write_and_fail, &arguments, sizeof arguments, &span, 1),
                 ERR_NONE);
    cr_assert_eq(executor_wait(rank.executor), ERR_IO);
    cr_assert_str_eq(err_message(), "the disk is gone");
    cr_assert_eq(rank.weights[0], 0);
    close_rank(&rank);
}

static void *touch(void *argument)
{
    copy(argument);
    return NULL;
}

static int touch_from_another_thread(void *arguments)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, touch, arguments))
        return ERR_MEMORY;
    pthread_join(thread, NULL);
    return ERR_NONE;
}

static void run_helper_thread(void *argument)
{
    (void)argument;
    struct rank rank = open_rank(3);
    struct copy arguments = {rank.moments, NULL};
    issue(rank.executor, "threaded", LANE_COMPUTE, touch_from_another_thread, &arguments, sizeof arguments, NULL, 0);
    executor_wait(rank.executor);
}

Test(executor_guard, threads_of_an_operation_are_guarded_too)
{
    expect_message(run_helper_thread, NULL, "rank 3: operation \"threaded\" on lane compute",
                   "rank 3's \"moments\", which was not declared");
}

// While rank 1 runs an operation that declares its weights, an operation of rank 0 touches rank 1's moments.
static int run_rank_zero(void *arguments)
{
    struct rank zero = open_rank(0);
    TRY(issue(zero.executor, "peek", LANE_COLLECTIVE, copy, arguments, sizeof(struct copy), NULL, 0));
    return executor_wait(zero.executor);
}

static void touch_peer(void *argument)
{
    (void)argument;
    struct rank one = open_rank(1);
    struct copy arguments = {one.moments, one.weights};
    struct executor_span span = {one.weights, (size_t)WORDS * 4, EXECUTOR_READ};
    issue(one.executor, "gather", LANE_COLLECTIVE, run_rank_zero, &arguments, sizeof arguments, &span, 1);
    executor_wait(one.executor);
}

Test(executor_guard, undeclared_access_to_a_peers_memory_names_both_ranks)
{
    expect_message(touch_peer, NULL, "rank 0: operation \"peek\" on lane collective",
                   "offset 0 of rank 1's \"moments\", which was not declared");
}

static void exit_42(int signal)
{
    (void)signal;
    _exit(42);
}

struct fault_elsewhere {
    void (*handler)(int);
    bool during;  // an operation
};

static void fault_elsewhere(void *argument)
{
    const struct fault_elsewhere *self = argument;
    signal(SIGSEGV, self->handler);
    struct rank rank = open_rank(0), other = open_rank(1);
    close_rank(&other);
    volatile uint32_t *closed = mmap(NULL, (size_t)PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!self->during) {
        close_rank(&rank);
        *closed = 1;
    }
    issue_and_wait(rank.executor, (struct copy){closed, NULL}, NULL, 0);
}

Test(executor_guard, faults_elsewhere_go_to_the_previous_handler_or_are_fatal)
{
    static struct fault_elsewhere trials[] = {{exit_42, true}, {exit_42, false}, {SIG_DFL, true}};
    for (int i = 0; i < 3; i++) {
        struct child_end end = child_run(fault_elsewhere, &trials[i]);
        cr_assert_eq(end.status, i < 2 ? 42 : -1, "status %d: %s", end.status, end.output);
    }
}

static void violate_after_others_closed(void *argument)
{
    struct rank first = open_rank(1), middle = open_rank(3), last = open_rank(2);
    close_rank(&first);
    close_rank(&last);
    violate(&middle, argument);
}

Test(executor_guard, closing_one_rank_leaves_the_others_guarded)
{
    struct violation violation = {0, 10, 0, 10, WORDS + PAGE_WORDS, 0};
    expect_message(violate_after_others_closed, &violation, "", "of rank 3's \"moments\"");
}

Test(executor_guard, last_close_restores_the_handler)
{
    struct sigaction now, mine = {.sa_handler = exit_42};
    sigaction(SIGSEGV, &mine, NULL);
    struct rank rank = open_rank(0), other = open_rank(1);
    close_rank(&rank);
    sigaction(SIGSEGV, NULL, &now);
    cr_assert_neq((void *)now.sa_handler, (void *)exit_42);
    close_rank(&other);
    sigaction(SIGSEGV, NULL, &now);
    cr_assert_eq((void *)now.sa_handler, (void *)exit_42);
}

Test(executor_guard, everything_is_accessible_again_after_the_wait)
{
    struct rank rank = open_rank(0);
    struct violation none = {0, 1, 0, 1, WORDS, 0};
    for (int round = 0; round < 3; round++) {
        cr_assert_eq(violate(&rank, &none), ERR_NONE);
        for (uint32_t word = 0; word < WORDS; word++)
            cr_assert(rank.weights[word]++ == word + (uint32_t)round && (word == 0 || rank.moments[word] == word));
    }
    close_rank(&rank);
}
