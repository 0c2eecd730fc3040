// SPDX-License-Identifier: Apache-2.0
// The threads of a block are fibers of the thread that runs the kernel. One runs until it waits for others or ends, and
// then another one that can, at random: each block and each barrier draws an order of the warps and of their lanes, in
// which a warp mostly runs ahead of the others as far as it can. A seed makes the same draws for the same kernels.
#include "ci/standin/standin.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { THREADS_MAX = 1024, WARP = 32, WARPS_MAX = THREADS_MAX / WARP, STACK_BYTES = 64 << 10 };
enum { COPIES_MAX = 16, COPY_BYTES = 16 };

// A copy that a thread has begun.
struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

struct fiber {
    jmp_buf at;
    char *stack;  // null: the fiber was never started
    struct standin_thread thread;
    uint32_t mask;                // of the lanes that it waits for
    uint64_t given, taken[WARP];  // its value, and those of the lanes
    struct copy copies[COPIES_MAX];
    unsigned copy_count;
};

// Of the thread of the host that runs kernels.
struct grid {
    jmp_buf scheduler;
    struct fiber fibers[THREADS_MAX], *idle[THREADS_MAX], *now;
    unsigned fiber_count, idle_count;  // that were started; of these, without a thread
    // Of the block: its threads, and those that ended.
    unsigned threads, ended;
    unsigned ready[THREADS_MAX], ready_count;            // threads that can go on
    uint32_t at_barrier[WARPS_MAX], in_warp[WARPS_MAX];  // lanes of each warp that wait for the block, for others of it
    struct fiber *of_thread[THREADS_MAX];                // null: it has not begun
    struct standin_thread first;
    void (*run)(void *what);
    void *what;
    uint64_t random;
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
        const char *seed = getenv("ZG_STANDIN_SEED");
        own->random = seed ? strtoull(seed, NULL, 10) : 0;
    }
    return own;
}

const struct standin_thread *standin_thread(void)
{
    return &own->now->thread;
}

// SplitMix64 (Steele, Lea and Flood 2014): a number below `bound`.
static unsigned draw(struct grid *grid, unsigned bound)
{
    uint64_t z = grid->random += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (unsigned)((z >> 32) * bound >> 32);
}

// Lanes of a warp can go on, in random order.
static void add_lanes(struct grid *grid, unsigned warp, uint32_t lanes)
{
    unsigned first = draw(grid, WARP), step = 2 * draw(grid, WARP / 2) + 1;
    for (unsigned i = 0; i < WARP; i++) {
        unsigned lane = (first + i * step) % WARP;
        if (lanes >> lane & 1)
            grid->ready[grid->ready_count++] = warp * WARP + lane;
    }
}

// Who is at the barrier can go on, warps in random order.
static void open_barrier(struct grid *grid)
{
    unsigned warps[WARPS_MAX] = {0};
    for (unsigned i = 0; i < WARPS_MAX && i * WARP < grid->threads; i++) {
        unsigned other = draw(grid, i + 1);
        warps[i] = warps[other];
        warps[other] = i;
    }
    for (unsigned i = 0; i < WARPS_MAX && i * WARP < grid->threads; i++) {
        add_lanes(grid, warps[i], grid->at_barrier[warps[i]]);
        grid->at_barrier[warps[i]] = 0;
    }
}

static void begin(struct grid *grid, struct fiber *fiber, unsigned thread)
{
    fiber->thread = grid->first;
    fiber->thread.index = thread;
    grid->of_thread[thread] = fiber;
}

// One that can go on: mostly the last that was let go on, one of eight times any.
static unsigned take_ready(struct grid *grid)
{
    unsigned i = draw(grid, 8) ? grid->ready_count - 1 : draw(grid, grid->ready_count);
    unsigned thread = grid->ready[i];
    grid->ready[i] = grid->ready[--grid->ready_count];
    return thread;
}

static void start(struct fiber *fiber);

// Leaves the fiber, or the scheduler, for a thread that can go on; where none can, for the scheduler.
static void run_another(struct grid *grid)
{
    if (grid->ready_count == 0)
        _longjmp(grid->scheduler, 1);
    unsigned thread = take_ready(grid);
    struct fiber *fiber = grid->of_thread[thread];
    if (!fiber) {
        fiber = grid->idle_count > 0 ? grid->idle[--grid->idle_count] : &grid->fibers[grid->fiber_count++];
        begin(grid, fiber, thread);
    }
    grid->now = fiber;
    if (fiber->stack)
        _longjmp(fiber->at, 1);
    start(fiber);
}

// Returns when it is the fiber's turn.
static void wait_for_turn(struct fiber *fiber)
{
    if (_setjmp(fiber->at) == 0)
        run_another(own);
}

void standin_meet_block(void)
{
    struct fiber *fiber = own->now;
    own->at_barrier[fiber->thread.index / WARP] |= 1u << fiber->thread.index % WARP;
    wait_for_turn(fiber);
}

// If all lanes of the mask wait for each other, gives them each other's values and lets them go on.
static void meet_lanes(struct grid *grid, unsigned warp, uint32_t mask)
{
    struct fiber *const *fibers = grid->of_thread + warp * WARP;
    uint64_t values[WARP] = {0};
    if (mask & ~grid->in_warp[warp])
        return;
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        if (fibers[lane]->mask != mask)
            return;
        values[lane] = fibers[lane]->given;
    }
    for (uint32_t left = mask; left; left &= left - 1)
        memcpy(fibers[__builtin_ctz(left)]->taken, values, sizeof values);
    grid->in_warp[warp] &= ~mask;
    add_lanes(grid, warp, mask);
}

const uint64_t *standin_meet_warp(uint32_t mask, uint64_t value)
{
    struct fiber *fiber = own->now;
    unsigned warp = fiber->thread.index / WARP;
    if (!(mask >> fiber->thread.index % WARP & 1))
        standin_die("a thread of a kernel waits for a mask without its lane");
    fiber->mask = mask;
    fiber->given = value;
    own->in_warp[warp] |= 1u << fiber->thread.index % WARP;
    meet_lanes(own, warp, mask);
    wait_for_turn(fiber);
    return fiber->taken;
}

static void copy_now(const struct copy *copy)
{
    memcpy(copy->to, copy->from, copy->bytes);
    standin_touch(copy->from, copy->bytes, false);
}

void standin_copy_begin(void *to, const void *from, size_t bytes)
{
    struct fiber *fiber = own->now;
    const struct copy copy = {to, from, bytes};
    if (bytes > COPY_BYTES || (uintptr_t)to % bytes != 0 || (uintptr_t)from % bytes != 0)
        standin_die("a copy to shared memory is not aligned to its %zu bytes", bytes);
    if (draw(own, 2))
        copy_now(&copy);
    else if (fiber->copy_count < COPIES_MAX)
        fiber->copies[fiber->copy_count++] = copy;
    else
        standin_die("a thread of a kernel begins more than %d copies", COPIES_MAX);
}

void standin_copies_wait(void)
{
    struct fiber *fiber = own->now;
    for (; fiber->copy_count > 0; fiber->copy_count--)
        copy_now(&fiber->copies[fiber->copy_count - 1]);
}

static void run_fiber(void)
{
    for (;;) {
        struct grid *grid = own;
        struct fiber *fiber = grid->now;
        for (;;) {
            grid->run(grid->what);
            if (fiber->copy_count > 0)
                standin_die("a thread of a kernel ends before its copies");
            grid->of_thread[fiber->thread.index] = NULL;
            grid->ended++;
            // A thread that has not begun needs no other fiber.
            if (grid->ready_count == 0 || grid->of_thread[grid->ready[grid->ready_count - 1]])
                break;
            begin(grid, fiber, grid->ready[--grid->ready_count]);
        }
        grid->idle[grid->idle_count++] = fiber;
        wait_for_turn(fiber);
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

static void run_block(struct grid *grid)
{
    grid->ended = 0;
    for (unsigned i = 0; i < grid->threads; i++)
        grid->at_barrier[i / WARP] |= 1u << i % WARP;
    while (grid->ended < grid->threads) {
        unsigned waiting = 0;
        for (unsigned warp = 0; warp < WARPS_MAX; warp++)
            waiting += (unsigned)__builtin_popcount(grid->at_barrier[warp]);
        if (waiting < grid->threads - grid->ended)
            standin_die("threads of a kernel wait for others that do not arrive");
        open_barrier(grid);
        if (_setjmp(grid->scheduler) == 0)
            run_another(grid);
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
