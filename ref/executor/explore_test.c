// SPDX-License-Identifier: Apache-2.0
// The explorer finds every order in which a version is wrong, and none where all are right.
#include "ref/executor/explore.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

// A log that is written by hand. Memory is a few bytes, of which each span takes some.
enum { ENTRIES = 16, BYTES = 8 };
static char memory[BYTES];

struct script {
    struct executor_log log;
    struct executor_entry entries[ENTRIES];
    struct executor_span spans[ENTRIES][2];
    const char *names[ENTRIES][2];
};

static void add(struct script *s, struct executor_entry entry, size_t begin, size_t bytes, enum executor_access access)
{
    size_t at = s->log.count++;
    s->entries[at] = entry;
    s->spans[at][0] = (struct executor_span){memory + begin, bytes, access};
    s->names[at][0] = s->names[at][1] = "memory";
    s->entries[at].spans = s->spans[at];
    s->entries[at].memory = s->names[at];
    s->entries[at].span_count = bytes > 0;
    s->log.entries = s->entries;
}

static void operation(struct script *s, const char *name, enum lane lane, size_t begin, size_t bytes,
                      enum executor_access access)
{
    add(s, (struct executor_entry){.kind = ENTRY_OPERATION, .name = name, .lane = lane}, begin, bytes, access);
}

static void wait_for(struct script *s, size_t begin, size_t bytes, enum executor_access access)
{
    add(s, (struct executor_entry){.kind = ENTRY_WAIT}, begin, bytes, access);
}

static void touch(struct script *s, size_t begin, size_t bytes, enum executor_access access)
{
    add(s, (struct executor_entry){.kind = ENTRY_TOUCH}, begin, bytes, access);
}

// The last exploration finds these.
static struct explored proof;
static struct left_out left_out;

static struct walked explore(const struct script *s)
{
    struct explorer *explorer;
    struct walked walked;
    cr_assert_eq(explorer_open(&s->log, &explorer), ERR_NONE);
    cr_assert_eq(explorer_prove(explorer, &proof), ERR_NONE);
    cr_assert_eq(explorer_walk(explorer, 1 << 20, &walked), ERR_NONE);
    cr_assert_eq(explorer_leave_out(explorer, &left_out), ERR_NONE);
    explorer_close(explorer);
    return walked;
}

Test(explore, orders_of_independent_lanes_are_counted)
{
    // Two operations on one lane and one on another: it may run before, between and behind them.
    struct script s = {0};
    operation(&s, "a", LANE_CPU, 0, 1, EXECUTOR_WRITE);
    operation(&s, "b", LANE_CPU, 1, 1, EXECUTOR_WRITE);
    operation(&s, "c", LANE_H2D, 2, 1, EXECUTOR_WRITE);
    struct walked walked = explore(&s);
    cr_expect(walked.right && walked.complete && proof.right);
    cr_expect_eq(walked.orders, 3);
    cr_expect_eq(proof.operation_count, 3u);
    cr_expect_eq(proof.conflict_count, 0u);
    cr_expect_eq(left_out.found + left_out.implied + left_out.missed, 0u);
}

Test(explore, a_dependency_is_found_when_it_is_left_out)
{
    struct script s = {0};
    operation(&s, "write", LANE_CPU, 0, 4, EXECUTOR_WRITE);
    operation(&s, "read", LANE_H2D, 2, 4, EXECUTOR_READ);
    operation(&s, "read again", LANE_D2H, 0, 8, EXECUTOR_READ);
    operation(&s, "overwrite", LANE_CPU, 0, 1,
              EXECUTOR_WRITE);  // behind "read again"; its lane orders it behind "write"
    wait_for(&s, 0, 1, EXECUTOR_READ);
    touch(&s, 0, 1, EXECUTOR_WRITE);
    struct walked walked = explore(&s);
    cr_expect(walked.right && proof.right, "%s", proof.message);
    cr_expect_eq(walked.orders, 5);  // "read" happens anywhere behind "write"
    cr_expect_eq(left_out.found, 4u);
    cr_expect_eq(left_out.implied + left_out.missed + left_out.idle, 0u);
}

// The issuing thread clears a sum to which an operation of a skipped step may still add.
Test(explore, a_thread_that_does_not_wait_is_found)
{
    struct script s = {0};
    touch(&s, 0, 1, EXECUTOR_WRITE);
    operation(&s, "sum of squares", LANE_CPU, 0, 1, EXECUTOR_READ_WRITE);
    touch(&s, 0, 1, EXECUTOR_WRITE);
    operation(&s, "sum of squares", LANE_CPU, 0, 1, EXECUTOR_READ_WRITE);
    wait_for(&s, 0, 1, EXECUTOR_READ);
    struct walked walked = explore(&s);
    cr_expect_not(walked.right);
    cr_expect_not(proof.right);
    cr_expect_str_eq(proof.message,
                     "the issuing thread (entry 3) can write \"memory\" before operation \"sum of squares\" "
                     "(1 on lane cpu) writes it: it expects an older version to be done with");
    cr_expect_str_eq(walked.message, proof.message);
}

static uint32_t draw(uint64_t *state, uint32_t limit)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % limit;
}

// Operations, waits, and touches of which some are not waited for.
static void draw_script(struct script *s, uint64_t seed)
{
    static const enum executor_access accesses[] = {EXECUTOR_READ, EXECUTOR_WRITE, EXECUTOR_READ_WRITE};
    uint64_t state = seed;
    for (int i = 0; i < 12; i++) {
        size_t begin = draw(&state, BYTES), bytes = 1 + draw(&state, (uint32_t)(BYTES - begin) > 3 ? 3 : 1);
        enum executor_access access = accesses[draw(&state, 3)];
        uint32_t kind = draw(&state, 10);
        if (kind < 7)
            operation(s, "operation", (enum lane)draw(&state, 4), begin, bytes, access);
        else if (kind < 9)
            wait_for(s, begin, bytes, access);
        else if (i > 0 && draw(&state, 3) > 0)
            touch(s, begin, bytes, access);
    }
}

Test(explore, the_walk_and_the_proof_agree)
{
    int wrong = 0, right = 0;
    size_t found = 0;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct script s = {0};
        draw_script(&s, seed);
        struct walked walked = explore(&s);
        cr_assert(walked.complete);
        cr_assert_eq(walked.right, proof.right, "seed %d: walk %d, proof %d: %s%s", (int)seed, walked.right,
                     proof.right, walked.message, proof.message);
        wrong += !proof.right;
        right += proof.right;
        cr_assert(!proof.right || left_out.missed == 0, "seed %d", (int)seed);
        found += proof.right ? left_out.found : 0;
    }
    cr_expect(wrong > 200 && right > 200 && found > 1000, "%d wrong, %d right, %zu found", wrong, right, found);
}

static bool is_no_digest(const char *name)
{
    return strcmp(name, "digest") != 0;
}

Test(explore, dependencies_are_told_without_operations_that_do_not_count)
{
    struct script s = {0};
    struct explorer *explorer;
    char *text;
    operation(&s, "write", LANE_CPU, 0, 4, EXECUTOR_WRITE);
    operation(&s, "digest", LANE_CPU, 0, 4, EXECUTOR_READ);
    operation(&s, "send", LANE_D2H, 0, 4, EXECUTOR_READ);
    wait_for(&s, 0, 2, EXECUTOR_WRITE);
    wait_for(&s, 0, 0, EXECUTOR_READ);
    cr_assert_eq(explorer_open(&s.log, &explorer), ERR_NONE);
    cr_assert_eq(explorer_dependencies(explorer, is_no_digest, &text), ERR_NONE);
    cr_expect_str_eq(text, "1 write:\n2 send: 1\n3 wait: 1 2\n4 wait: 1 2\n");
    free(text);
    explorer_close(explorer);
}
