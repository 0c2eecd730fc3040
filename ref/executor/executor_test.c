// SPDX-License-Identifier: Apache-2.0
// Programs of operations give the same bits and keep the order of their lanes in every mode.
#include "ref/executor/executor_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Random programs. An operation hashes what it reads into what it writes, so that any other order of two operations
// that touch the same bytes gives other bits. The last region is not the tier's.
enum { REGIONS = 5, SPANS = 4 };
static const size_t REGION_WORDS[REGIONS] = {90, 3000, 1024, 5000, 500};

struct machine {
    struct tier *tier;
    uint32_t *regions[REGIONS];
};

static void machine_open(struct machine *machine, unsigned seed)
{
    cr_assert_eq(tier_open(NULL, &(struct tier_setting){0}, &machine->tier), ERR_NONE);
    for (int i = 0; i < REGIONS; i++) {
        size_t bytes = REGION_WORDS[i] * sizeof(uint32_t);
        void *address = malloc(bytes);
        if (i < REGIONS - 1) {
            free(address);
            cr_assert_eq(tier_allocate(machine->tier, TIER_DEVICE, KIND_STAGING, "region", bytes, 0, &address),
                         ERR_NONE);
        }
        machine->regions[i] = address;
        for (size_t word = 0; word < REGION_WORDS[i]; word++)
            machine->regions[i][word] = (uint32_t)rand_r(&seed);
    }
}

static void machine_close(struct machine *machine)
{
    free(machine->regions[REGIONS - 1]);
    tier_close(machine->tier);
}

static bool machine_equal(const struct machine *a, const struct machine *b)
{
    for (int i = 0; i < REGIONS; i++)
        if (memcmp(a->regions[i], b->regions[i], REGION_WORDS[i] * sizeof(uint32_t)) != 0)
            return false;
    return true;
}

struct mix {
    uint32_t id;
    unsigned pause_us;
    size_t span_count;
    struct executor_span spans[SPANS];
};

static int mix(void *arguments)
{
    struct mix *self = arguments;
    uint32_t hash = self->id;
    if (self->pause_us)
        usleep(self->pause_us);
    for (size_t i = 0; i < self->span_count; i++)
        for (size_t word = 0; word < self->spans[i].bytes / 4 && (self->spans[i].access & EXECUTOR_READ); word++)
            hash = (hash ^ ((const uint32_t *)self->spans[i].address)[word]) * 16777619u;
    for (size_t i = 0; i < self->span_count; i++)
        for (size_t word = 0; word < self->spans[i].bytes / 4 && (self->spans[i].access & EXECUTOR_WRITE); word++)
            ((uint32_t *)self->spans[i].address)[word] = hash = hash * 1664525u + 1013904223u;
    memset(self, 0xee, sizeof *self);
    return ERR_NONE;
}

// Waits until a region may be written, and writes it.
static void take_turn(const struct machine *machine, struct executor *executor, unsigned *seed)
{
    int region = rand_r(seed) % REGIONS;
    size_t from = (size_t)rand_r(seed) % REGION_WORDS[region];
    size_t count = 1 + (size_t)rand_r(seed) % (REGION_WORDS[region] - from);
    uint32_t *words = machine->regions[region] + from;
    const struct executor_span span = {words, count * sizeof *words, EXECUTOR_READ_WRITE};
    cr_assert_eq(executor_wait_for(executor, &span), ERR_NONE, "%s", err_message());
    for (size_t i = 0; i < count; i++)
        words[i] = words[i] * 16777619u + (uint32_t)i;
}

// Issues the program of this seed, with a wait now and then, for everything or for a region. Pauses only bring out more
// of the possible orders.
static void play(const struct machine *machine, struct executor *executor, unsigned seed, int length, bool pauses)
{
    for (int i = 0; i < length; i++) {
        struct mix self = {.id = (uint32_t)i, .span_count = (size_t)rand_r(&seed) % (SPANS + 1)};
        for (size_t s = 0; s < self.span_count; s++) {
            int region = rand_r(&seed) % REGIONS;
            size_t from = (size_t)rand_r(&seed) % REGION_WORDS[region], rest = REGION_WORDS[region] - from;
            size_t count = (size_t)rand_r(&seed) % (rand_r(&seed) % 2 ? rest + 1 : rest / 16 + 1);
            self.spans[s] = (struct executor_span){machine->regions[region] + from, count * 4,
                                                   (enum executor_access)(1 + rand_r(&seed) % 3)};
        }
        enum lane lane = (enum lane)(rand_r(&seed) % LANE_COUNT);
        if (pauses && i % 8 == 0)
            self.pause_us = 1 + (unsigned)i % 300;
        cr_assert_eq(issue(executor, "mix", lane, mix, &self, sizeof self, self.spans, self.span_count), ERR_NONE, "%s",
                     err_message());
        memset(&self, 0xdd, sizeof self);
        if (rand_r(&seed) % 8 == 0)
            take_turn(machine, executor, &seed);
        if (rand_r(&seed) % 40 == 0)
            cr_assert_eq(executor_wait(executor), ERR_NONE, "%s", err_message());
    }
    cr_assert_eq(executor_wait(executor), ERR_NONE, "%s", err_message());
}

static bool same_bits_as_serial(struct executor_schedule schedule, unsigned seed, int length)
{
    struct machine expected, machine;
    machine_open(&expected, seed);
    struct executor *executor = open_executor(SERIAL, 0, expected.tier);
    play(&expected, executor, seed, length, false);
    executor_close(executor);
    machine_open(&machine, seed);
    executor = open_executor(schedule, 0, machine.tier);
    play(&machine, executor, seed, length, schedule.mode == EXECUTOR_OVERLAP);
    executor_close(executor);
    bool equal = machine_equal(&expected, &machine);
    machine_close(&expected);
    machine_close(&machine);
    return equal;
}

// Ends when somebody sets the number, and then sets it again.
static int run_until_told(void *arguments)
{
    _Atomic int *told = *(_Atomic int **)arguments;
    while (*told == 0)
        usleep(1000);
    *told = 2;
    return ERR_NONE;
}

// A wait for memory does not wait for operations that leave it alone: one of them goes on until the waits are over.
Test(executor, a_wait_for_spans_leaves_other_operations_running, .timeout = 500)
{
    char mine, others;
    _Atomic int told[] = {1, 0};
    struct executor *executor = open_executor(OVERLAP, 0, NULL);
    const struct executor_span spans[] = {{&mine, 1, EXECUTOR_READ}, {&others, 1, EXECUTOR_WRITE}};
    for (int i = 0; i < 2; i++) {
        _Atomic int *pointer = &told[i];
        cr_assert_eq(issue(executor, "until told", i ? LANE_NVME_WRITE : LANE_CPU, run_until_told, &pointer,
                           sizeof pointer, &spans[i], 1),
                     ERR_NONE);
    }
    const struct executor_span read = {&mine, 1, EXECUTOR_READ}, write = {&mine, 1, EXECUTOR_WRITE};
    cr_assert_eq(executor_wait_for(executor, &read), ERR_NONE);
    cr_assert_eq(executor_wait_for(executor, &write), ERR_NONE);
    cr_expect_eq(told[0], 2);
    told[1] = 1;
    cr_assert_eq(executor_wait(executor), ERR_NONE);
    cr_expect_eq(told[1], 2);
    executor_close(executor);
}

Test(executor, concurrent_lanes_give_the_bits_of_serial)
{
    for (unsigned seed = 0; seed < 60; seed++)
        cr_assert(same_bits_as_serial(OVERLAP, seed, 150), "program %u", seed);
}

Test(executor, chaos_gives_the_bits_of_serial)
{
    for (unsigned seed = 0; seed < 150; seed++)
        cr_assert(same_bits_as_serial(chaos(seed), seed % 50, 100), "program %u, chaos seed %u", seed % 50, seed);
}

static void *play_many(void *argument)
{
    unsigned *seed = argument;
    bool equal = true;
    for (unsigned i = 0; i < 8; i++)
        equal &= same_bits_as_serial(i % 2 ? OVERLAP : chaos(i), *seed + i, 80);
    return equal ? argument : NULL;
}

Test(executor, concurrent_executors_do_not_disturb_each_other)
{
    pthread_t threads[4];
    unsigned seeds[4];
    for (unsigned i = 0; i < 4; i++) {
        seeds[i] = 1000 * (i + 1);
        cr_assert_eq(pthread_create(&threads[i], NULL, play_many, &seeds[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *equal;
        pthread_join(threads[i], &equal);
        cr_assert_not_null(equal);
    }
}

// Numbers 0 to LOG_LENGTH-1, on one of three lanes each, without any span.
static struct log log_order(struct executor_schedule schedule, int rank)
{
    struct log log = {.count = 0};
    struct executor *executor = open_executor(schedule, rank, NULL);
    for (int i = 0; i < LOG_LENGTH; i++)
        cr_assert_eq(issue_log(executor, (enum lane)(i % 3), &log, i), ERR_NONE);
    cr_assert_eq(executor_wait(executor), ERR_NONE);
    cr_assert_eq(log.count, LOG_LENGTH);
    executor_close(executor);
    return log;
}

Test(executor, concurrent_lanes_are_first_in_first_out)
{
    for (int round = 0; round < 30; round++) {
        struct log log = log_order(round % 2 ? OVERLAP : chaos((uint64_t)round), 0);
        int next[3] = {0, 1, 2};
        for (int i = 0; i < LOG_LENGTH; i++) {
            int lane = log.entries[i] % 3;
            cr_assert_eq(log.entries[i], next[lane]);
            next[lane] += 3;
        }
    }
}

Test(executor, chaos_order_is_a_function_of_seed_and_rank)
{
    struct log first = log_order(chaos(7), 1), again = log_order(chaos(7), 1);
    struct log seed = log_order(chaos(8), 1), rank = log_order(chaos(7), 2);
    cr_assert_arr_eq(first.entries, again.entries, sizeof first.entries);
    cr_assert_arr_neq(first.entries, seed.entries, sizeof first.entries);
    cr_assert_arr_neq(first.entries, rank.entries, sizeof first.entries);
    // An even choice among three lanes would hardly take 12 in a row from one lane.
    int run = 1, longest = 1;
    for (int i = 1; i < LOG_LENGTH; i++) {
        run = first.entries[i] % 3 == first.entries[i - 1] % 3 ? run + 1 : 1;
        longest = run > longest ? run : longest;
    }
    cr_assert_geq(longest, 12, "lanes never get further than %d operations ahead", longest);
}

Test(executor, serial_runs_inside_issue)
{
    struct log log = {.count = 0};
    struct executor *executor = open_executor(SERIAL, 0, NULL);
    cr_assert_eq(issue_log(executor, LANE_CPU, &log, 5), ERR_NONE);
    cr_assert_eq(log.count, 1);
    executor_close(executor);
}

Test(executor, chaos_accepts_more_operations_than_it_keeps)
{
    enum { COUNT = 10000 };
    uint32_t *sums = calloc(3, sizeof *sums), expected[3] = {0};
    struct executor *executor = open_executor(chaos(1), 0, NULL);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct mix self = {i, 0, 2, {{sums + i % 3, 4, EXECUTOR_READ_WRITE}, {sums + (i + 1) % 3, 4, EXECUTOR_READ}}};
        cr_assert_eq(issue(executor, "mix", (enum lane)(i % 5), mix, &self, sizeof self, self.spans, 2), ERR_NONE);
        self.spans[0].address = expected + i % 3;
        self.spans[1].address = expected + (i + 1) % 3;
        mix(&self);
    }
    cr_assert_eq(executor_wait(executor), ERR_NONE);
    cr_assert_arr_eq(sums, expected, sizeof expected);
    executor_close(executor);
    free(sums);
}

Test(executor, concurrent_lanes_run_at_the_same_time, .timeout = 500)
{
    struct meeting meeting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, LANE_COUNT, 0, 0},
                   *pointer = &meeting;
    struct executor *executor = open_executor(OVERLAP, 0, NULL);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        cr_assert_eq(issue(executor, "meet", (enum lane)lane, run_meet, &pointer, sizeof pointer, NULL, 0), ERR_NONE);
    cr_assert_eq(executor_wait(executor), ERR_NONE);
    executor_close(executor);
}

// Ranks exchange memory as a shared-memory collective does: a barrier, each reads the others' data, a barrier.
enum { RANKS = 3, EXCHANGES = 8, WORDS = 700 };

struct world {
    struct meeting meeting;
    struct executor_schedule schedule;
    const uint32_t *sent[RANKS];
    uint64_t digests[RANKS];
};
struct exchange {
    struct world *world;
    int rank;
    const uint32_t *send;
    uint32_t *recv;
};

static int run_exchange(void *arguments)
{
    struct exchange *self = arguments;
    self->world->sent[self->rank] = self->send;
    meet(&self->world->meeting);
    for (size_t word = 0; word < WORDS; word++) {
        self->recv[word] = 0;
        for (uint32_t rank = 0; rank < RANKS; rank++)
            self->recv[word] += (rank + 1) * self->world->sent[rank][word];
    }
    meet(&self->world->meeting);
    return ERR_NONE;
}

struct rank {
    struct world *world;
    int rank;
};

static void *run_rank(void *argument)
{
    const struct rank *self = argument;
    struct tier *tier;
    void *memory;
    cr_assert_eq(tier_open(NULL, &(struct tier_setting){0}, &tier), ERR_NONE);
    cr_assert_eq(tier_allocate(tier, TIER_DEVICE, KIND_STAGING, "buffers", 4 * WORDS * 4, 0, &memory), ERR_NONE);
    uint32_t *buffers = memset(memory, 0, 4 * WORDS * 4);
    struct executor *executor = open_executor(self->world->schedule, self->rank, tier);
    for (int i = 0; i < EXCHANGES; i++) {
        uint32_t *send = buffers + i % 2 * WORDS, *recv = buffers + (2 + i % 2) * WORDS;
        struct mix make = {(uint32_t)(i * RANKS + self->rank),
                           0,
                           2,
                           {{send, WORDS * 4, EXECUTOR_READ_WRITE}, {recv, WORDS * 4, EXECUTOR_READ}}};
        cr_assert_eq(issue(executor, "make", LANE_COMPUTE, mix, &make, sizeof make, make.spans, 2), ERR_NONE);
        struct exchange exchange = {self->world, self->rank, send, recv};
        struct executor_span spans[] = {{send, WORDS * 4, EXECUTOR_READ}, {recv, WORDS * 4, EXECUTOR_WRITE}};
        cr_assert_eq(issue(executor, "exchange", LANE_COLLECTIVE, run_exchange, &exchange, sizeof exchange, spans, 2),
                     ERR_NONE);
    }
    cr_assert_eq(executor_wait(executor), ERR_NONE, "%s", err_message());
    executor_close(executor);
    uint64_t digest = 0;
    for (size_t word = 0; word < 4 * WORDS; word++)
        digest = digest * 31 + buffers[word];
    self->world->digests[self->rank] = digest;
    tier_close(tier);
    return NULL;
}

static void run_world(struct world *world, struct executor_schedule schedule)
{
    *world = (struct world){{PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, RANKS, 0, 0}, schedule, {0}, {0}};
    pthread_t threads[RANKS];
    struct rank ranks[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        ranks[rank] = (struct rank){world, rank};
        cr_assert_eq(pthread_create(&threads[rank], NULL, run_rank, &ranks[rank]), 0);
    }
    for (int rank = 0; rank < RANKS; rank++)
        pthread_join(threads[rank], NULL);
}

Test(executor, concurrent_ranks_with_collectives_never_deadlock, .timeout = 500)
{
    struct world expected, world;
    run_world(&expected, SERIAL);
    for (uint64_t seed = 0; seed < 240; seed++) {
        run_world(&world, seed < 200 ? chaos(seed) : OVERLAP);
        cr_assert_arr_eq(world.digests, expected.digests, sizeof world.digests, "seed %lu", seed);
    }
}

Test(executor, closing_waits_for_issued_operations)
{
    const struct executor_schedule schedules[] = {SERIAL, OVERLAP, chaos(3)};
    for (int i = 0; i < 3; i++) {
        struct log log = {.count = 0};
        struct executor *executor = open_executor(schedules[i], 0, NULL);
        for (int n = 0; n < 50; n++)
            cr_assert_eq(issue_log(executor, (enum lane)(n % 3), &log, n), ERR_NONE);
        executor_close(executor);
        cr_assert_eq(log.count, 50);
    }
    executor_close(NULL);
}

Test(executor, schedules_are_parsed_and_other_text_refused)
{
    struct executor_schedule schedule;
    cr_assert(executor_schedule_parse("serial", &schedule) == ERR_NONE && schedule.mode == EXECUTOR_SERIAL);
    cr_assert(executor_schedule_parse("overlap", &schedule) == ERR_NONE && schedule.mode == EXECUTOR_OVERLAP);
    cr_assert_eq(executor_schedule_parse("chaos:18446744073709551615", &schedule), ERR_NONE);
    cr_assert(schedule.mode == EXECUTOR_CHAOS && schedule.seed == UINT64_MAX);
    cr_assert(executor_schedule_parse("chaos:0", &schedule) == ERR_NONE && schedule.seed == 0);
    const char *const wrong[] = {"",          "Serial",    "serial ",  "overlap:1",
                                 "chaos",     "chaos:",    "chaos:-1", "chaos: 1",
                                 "chaos:1x",  "chaos:0x1", "dry",      "chaos:18446744073709551616",
                                 "chaos:1.5", "chaos:+1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_assert_eq(executor_schedule_parse(wrong[i], &schedule), ERR_USAGE, "%s", wrong[i]);
        char quoted[50];
        snprintf(quoted, sizeof quoted, "schedule \"%s\": expected", wrong[i]);
        cr_assert(strstr(err_message(), quoted) && strstr(err_message(), "serial, overlap or chaos:SEED"));
    }
}
