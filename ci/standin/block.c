// SPDX-License-Identifier: Apache-2.0
// The threads of a block are fibers of the thread that runs the kernel. A fiber runs thread after thread until one of
// them waits for others; only then does another fiber begin.
#include "ci/standin/standin.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { THREADS_MAX = 1024, WARP = 32, STACK_BYTES = 64 << 10 };

enum wait { RUNS, WAITS_FOR_BLOCK, WAITS_FOR_WARP, IS_IDLE };

struct fiber {
    jmp_buf at;
    char *stack;  // null: the fiber was never started
    enum wait wait;
    struct standin_thread thread;
    uint32_t mask;                // of the lanes that it waits for
    uint64_t given, taken[WARP];  // its value, and those of the lanes
};

// Of the thread of the host that runs kernels.
struct grid {
    jmp_buf scheduler;
    struct fiber fibers[THREADS_MAX];
    unsigned fiber_count;  // that were started
    struct fiber *now;
    unsigned next, ended, threads;  // of the block: the next thread to begin, those that ended, all
    struct fiber *of_thread[THREADS_MAX];
    struct standin_thread first;
    void (*run)(void *what);
    void *what;
};

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void free_grid(void *value)
{
    struct grid *grid = value;
    for (unsigned i = 0; i < grid->fiber_count; i++)
        munmap(grid->fibers[i].stack, STACK_BYTES);
    free(grid);
}

static void make_key(void)
{
    if (pthread_key_create(&key, free_grid) != 0)
        standin_die("no key for the fibers of kernels");
}

static _Thread_local struct grid *own;

static struct grid *own_grid(void)
{
    pthread_once(&once, make_key);
    own = pthread_getspecific(key);
    if (!own) {
        own = calloc(1, sizeof *own);
        if (!own || pthread_setspecific(key, own) != 0)
            standin_die("no memory for the fibers of kernels");
    }
    return own;
}

const struct standin_thread *standin_thread(void)
{
    return &own->now->thread;
}

// Returns when the scheduler lets the fiber go on.
static void wait_as(struct fiber *fiber, enum wait wait)
{
    fiber->wait = wait;
    if (_setjmp(fiber->at) == 0)
        _longjmp(own->scheduler, 1);
}

void standin_meet_block(void)
{
    wait_as(own->now, WAITS_FOR_BLOCK);
}

static struct fiber *fiber_of_lane(const struct fiber *fiber, unsigned lane)
{
    unsigned thread = fiber->thread.index / WARP * WARP + lane;
    return thread < own->next ? own->of_thread[thread] : NULL;
}

// If all lanes of the mask wait for each other, gives them each other's values and lets them run.
static bool lanes_met(struct fiber *fiber)
{
    struct fiber *lanes[WARP];
    uint64_t values[WARP] = {0};
    unsigned count = 0;
    for (unsigned lane = 0; lane < WARP; lane++) {
        if (!(fiber->mask >> lane & 1))
            continue;
        struct fiber *other = fiber_of_lane(fiber, lane);
        if (!other || other->wait != WAITS_FOR_WARP || other->mask != fiber->mask)
            return false;
        values[lane] = other->given;
        lanes[count++] = other;
    }
    for (unsigned i = 0; i < count; i++) {
        memcpy(lanes[i]->taken, values, sizeof values);
        lanes[i]->wait = RUNS;
    }
    return true;
}

const uint64_t *standin_meet_warp(uint32_t mask, uint64_t value)
{
    struct fiber *fiber = own->now;
    if (!(mask >> fiber->thread.index % WARP & 1))
        standin_die("a thread of a kernel waits for a mask without its lane");
    fiber->mask = mask;
    fiber->given = value;
    fiber->wait = WAITS_FOR_WARP;
    if (!lanes_met(fiber))
        wait_as(fiber, WAITS_FOR_WARP);
    return fiber->taken;
}

static void run_fiber(void)
{
    for (;;) {
        struct grid *grid = own;
        struct fiber *fiber = grid->now;
        while (grid->next < grid->threads) {
            fiber->thread = grid->first;
            fiber->thread.index = grid->next++;
            grid->of_thread[fiber->thread.index] = fiber;
            grid->run(grid->what);
            grid->of_thread[fiber->thread.index] = NULL;
            grid->ended++;
        }
        wait_as(fiber, IS_IDLE);
    }
}

static void start(struct fiber *fiber)
{
    ucontext_t context;
    fiber->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fiber->stack == MAP_FAILED || getcontext(&context) != 0)
        standin_die("no stack for a thread of a kernel");
    context.uc_stack.ss_sp = fiber->stack;
    context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&context, run_fiber, 0);
    setcontext(&context);
}

static void resume(struct grid *grid, struct fiber *fiber)
{
    grid->now = fiber;
    fiber->wait = RUNS;
    if (_setjmp(grid->scheduler) != 0)
        return;
    if (fiber->stack)
        _longjmp(fiber->at, 1);
    start(fiber);
}

// Lets fibers run until none can. Returns whether any did.
static bool run_fibers(struct grid *grid)
{
    bool ran = false;
    for (unsigned i = 0; i < THREADS_MAX && (i < grid->fiber_count || grid->next < grid->threads); i++) {
        struct fiber *fiber = &grid->fibers[i];
        bool is_new = i == grid->fiber_count;
        grid->fiber_count += is_new;
        if (!is_new && fiber->wait != RUNS && !(fiber->wait == IS_IDLE && grid->next < grid->threads))
            continue;
        resume(grid, fiber);
        ran = true;
    }
    return ran;
}

static void run_block(struct grid *grid)
{
    grid->next = grid->ended = 0;
    while (grid->ended < grid->threads) {
        if (run_fibers(grid))
            continue;
        unsigned waiting = 0;
        for (unsigned i = 0; i < grid->fiber_count; i++)
            waiting += grid->fibers[i].wait == WAITS_FOR_BLOCK;
        if (waiting < grid->threads - grid->ended)
            standin_die("threads of a kernel wait for others that do not arrive");
        for (unsigned i = 0; i < grid->fiber_count; i++)
            if (grid->fibers[i].wait == WAITS_FOR_BLOCK)
                grid->fibers[i].wait = RUNS;
    }
}

void standin_run_kernel(unsigned blocks, unsigned threads, void (*thread)(void *what), void *what)
{
    struct grid *grid = own_grid();
    grid->threads = threads;
    grid->run = thread;
    grid->what = what;
    for (unsigned block = 0; block < blocks; block++) {
        grid->first = (struct standin_thread){.block = block, .thread_count = threads, .block_count = blocks};
        run_block(grid);
    }
}
