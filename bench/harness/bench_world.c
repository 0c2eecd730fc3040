// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/bench_world.h"

#include "ref/train/device.h"
#include "base/err.h"
#include "base/safe_text.h"
#include "ref/comm/launcher.h"

#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Properties of a rank that all others receive as it joins.
struct member {
    char host[BENCH_HOST_BYTES];
    uint64_t machine;      // two hosts may have one name
    cpu_set_t processors;  // that the rank may run on
};

// The world, from the first benchmark to the end of the process.
static struct {
    struct comm *comm;       // null: no launcher
    struct member *members;  // by rank
    int host_count, rank_on_host, host_size;
    bool name_is_shared;
} world;

static bool together;  // all ranks run the current benchmark
static bool broken;    // a rank has failed or is stuck, so no collective works

static bool same_name(int a, int b)
{
    return strcmp(world.members[a].host, world.members[b].host) == 0;
}

static bool same_host(int a, int b)
{
    return same_name(a, b) && world.members[a].machine == world.members[b].machine;
}

// Gives hosts that share a name the rank of their first rank in addition, as node7#12, and says so on rank 0.
static int tell_hosts_apart(void)
{
    int ranks = comm_world(world.comm);
    int *firsts = calloc((size_t)ranks, sizeof *firsts);  // by rank: the first of its host + 1, where it shares a name
    if (!firsts)
        return err_set(ERR_MEMORY, "no memory for the names of %d ranks", ranks);
    for (int i = 0; i < ranks; i++) {
        int named = 0, first = 0;
        while (!same_name(named, i))
            named++;
        while (!same_host(first, i))
            first++;
        if (first == named)
            continue;
        for (int k = named; k < i; k++)
            if (same_host(k, named))
                firsts[k] = named + 1;
        firsts[i] = first + 1;
        if (first == i && comm_rank(world.comm) == 0)
            text_say("ranks %d and %d are on two hosts of one name, %s: here called %s#%d and %s#%d", named, i,
                     world.members[i].host, world.members[i].host, named, world.members[i].host, i);
    }
    for (int i = 0; i < ranks; i++) {
        char plain[BENCH_HOST_BYTES];
        memcpy(plain, world.members[i].host, sizeof plain);
        if (firsts[i] > 0)
            snprintf(world.members[i].host, BENCH_HOST_BYTES, "%.51s#%d", plain, firsts[i] - 1);
    }
    world.name_is_shared = firsts[comm_rank(world.comm)] > 0;
    free(firsts);
    return ERR_NONE;
}

static void count_hosts(void)
{
    int rank = comm_rank(world.comm);
    world.host_count = world.rank_on_host = world.host_size = 0;
    for (int i = 0; i < comm_world(world.comm); i++) {
        int first = 0;
        while (!same_host(first, i))
            first++;
        world.host_count += first == i;
        world.host_size += same_host(i, rank);
        world.rank_on_host += i < rank && same_host(i, rank);
    }
}

static int exchange_members(void)
{
    size_t ranks = (size_t)comm_world(world.comm), bytes = sizeof(struct member);
    struct member own = {.machine = launcher_machine()};
    world.members = calloc(ranks, bytes);
    int code = world.members ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the names of %zu ranks", ranks);
    gethostname(own.host, sizeof own.host - 1);
    sched_getaffinity(0, sizeof own.processors, &own.processors);
    if (code == ERR_NONE)
        code = comm_all_gather_equal(world.comm, &own, world.members, bytes);
    if (code == ERR_NONE)
        code = tell_hosts_apart();
    if (code == ERR_NONE)
        count_hosts();
    return code;
}

int bench_world_join(void)
{
    struct launcher launcher;
    if (world.comm)
        return ERR_NONE;
    TRY(launcher_find(&launcher));
    if (launcher.world < 2)
        return ERR_NONE;
    TRY(launcher_open(&launcher, &world.comm));
    return exchange_members();
}

void bench_world_leave(int code)
{
    if (!world.comm)
        return;
    // MPI would wait for the rank that has failed.
    launcher_close(world.comm, broken ? ERR_PEER : code);
    free(world.members);
    world.comm = NULL;
    world.members = NULL;
}

bool bench_world_is_broken(void)
{
    return broken;
}

void bench_world_break(void)
{
    broken = true;
}

bool bench_world_is_together(void)
{
    return world.comm && together;
}

void bench_world_set_together(bool value)
{
    together = value;
}

int bench_world_choose(int *ranks, int default_ranks, int max_ranks)
{
    bool given = *ranks != BENCH_WORLD_DEFAULT;
    if (world.comm && given && *ranks != comm_world(world.comm))
        return err_set(ERR_USAGE, "--world %d, but the launcher has started %d processes: omit --world", *ranks,
                       comm_world(world.comm));
    if (!world.comm && given && (*ranks < 1 || *ranks > max_ranks))
        return err_set(ERR_USAGE, "--world %d: expected 1 to %d ranks", *ranks, max_ranks);
    *ranks = world.comm ? comm_world(world.comm) : given ? *ranks : default_ranks;
    return ERR_NONE;
}

// Sets *absent on all ranks if it is set on one.
static int agree_about_absence(const char *name, bool *absent)
{
    uint8_t own = *absent, any = 0;
    TRY(comm_all_reduce(world.comm, &own, &any, 1, DTYPE_BYTE, COMM_MAX));
    if (any && !own)
        err_set(ERR_USAGE, "--device %s: another rank has no such device", name);
    *absent = any;
    return ERR_NONE;
}

int bench_world_find_device(const char *name, int ranks, struct bench_device *out, bool *absent)
{
    TRY(bench_device_find(name, ranks, world.comm != NULL, out, absent));
    if (!world.comm)
        return ERR_NONE;
    TRY(agree_about_absence(name, absent));
    struct train_setting setting = {.world = ranks, .accelerator = out->accelerator};
    int code = *absent ? ERR_NONE : device_connect(&setting, &world.comm);
    *absent |= code == ERR_USAGE;
    if (*absent)
        *out = (struct bench_device){0};
    return *absent ? ERR_NONE : code;
}

struct comm *bench_world_comm(void)
{
    return world.comm;
}

int bench_world_rank(void)
{
    return world.comm ? comm_rank(world.comm) : 0;
}

int bench_world_size(void)
{
    return world.comm ? comm_world(world.comm) : 1;
}

const char *bench_world_host(int rank)
{
    assert(world.members && rank >= 0 && rank < bench_world_size());
    return world.members[rank].host;
}

bool bench_world_name_is_shared(void)
{
    return world.name_is_shared;
}

int bench_world_host_count(void)
{
    return world.host_count;
}

int bench_world_rank_on_host(void)
{
    return world.rank_on_host;
}

int bench_world_processor(void)
{
    assert(world.comm);
    int rank = comm_rank(world.comm), before = 0;
    const cpu_set_t *set = &world.members[rank].processors;
    for (int i = 0; i < rank; i++)
        before += same_host(i, rank) && CPU_EQUAL(set, &world.members[i].processors);
    int count = CPU_COUNT(set), processor = 0;
    for (int skip = count > 0 ? before % count : 0; processor < CPU_SETSIZE - 1; processor++)
        if (CPU_ISSET((size_t)processor, set) && skip-- == 0)
            break;
    return processor;
}

int bench_world_host_size(void)
{
    return world.host_size;
}

void bench_world_take_host(bool take)
{
    if (!world.comm)
        return;
    int rank = comm_rank(world.comm);
    cpu_set_t set = world.members[rank].processors;
    for (int i = 0; take && i < comm_world(world.comm); i++)
        if (same_host(i, rank))
            CPU_OR(&set, &set, &world.members[i].processors);
    // If the system refuses, the rank stays on its own processors.
    sched_setaffinity(0, sizeof set, &set);
}

// Gathers texts of known lengths at rank 0.
static int gather_known(const char *text, size_t bytes, const size_t lengths[], char ***all)
{
    size_t ranks = (size_t)comm_world(world.comm), whole = 0;
    bool first = comm_rank(world.comm) == 0;
    size_t *numbers = calloc(4 * ranks, sizeof *numbers);
    size_t *sends = numbers, *send_offsets = numbers + ranks;
    size_t *receives = numbers + 2 * ranks, *receive_offsets = numbers + 3 * ranks;
    char **texts = first ? calloc(ranks, sizeof *texts) : NULL;
    for (size_t i = 0; i < ranks && first && numbers; i++) {
        receives[i] = lengths[i];
        receive_offsets[i] = whole;
        whole += lengths[i];
    }
    char *joined = malloc(whole + 1);
    bool enough = numbers && joined && (texts || !first);
    int code = enough ? ERR_NONE : err_set(ERR_MEMORY, "no memory for %zu bytes", whole);
    if (code == ERR_NONE) {
        sends[0] = bytes;
        code = comm_all_to_all(world.comm, text, sends, send_offsets, joined, receives, receive_offsets, DTYPE_BYTE);
    }
    for (size_t i = 0; i < ranks && first && code == ERR_NONE; i++)
        if (!(texts[i] = strndup(joined + receive_offsets[i], receives[i])))
            code = err_set(ERR_MEMORY, "no memory for the text of rank %zu", i);
    free(joined);
    free(numbers);
    *all = texts;
    return code;
}

int bench_world_gather(const char *text, char ***all)
{
    assert(world.comm && text);
    size_t ranks = (size_t)comm_world(world.comm), bytes = strlen(text);
    size_t *lengths = calloc(ranks, sizeof *lengths);
    *all = NULL;
    if (!lengths)
        return err_set(ERR_MEMORY, "no memory for the lengths of %zu ranks", ranks);
    int code = comm_all_gather_equal(world.comm, &bytes, lengths, sizeof bytes);
    if (code == ERR_NONE)
        code = gather_known(text, bytes, lengths, all);
    free(lengths);
    return code;
}
