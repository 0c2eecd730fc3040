// SPDX-License-Identifier: Apache-2.0
// What a node's preflight learns from the other nodes, but for the bits (preflight_report.c).
#include "validate/health/preflight.h"

#include "base/clock.h"
#include "base/err.h"
#include "bench/harness/bench_world.h"
#include "ref/arithmetic/random.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

// A rank sends LINK_BYTES, or less in a large world, where it receives LINK_RECEIVED_BYTES at most; with --seconds 0,
// for what is small, LINK_RECEIVED_LEAST_BYTES, so that many nodes may be processes of one machine.
enum { LINK_BYTES = 16 << 20, LINK_RECEIVED_BYTES = 512 << 20, LINK_RECEIVED_LEAST_BYTES = 8 << 20, LINK_REPEAT = 8 };

enum { CLOCK_WITHIN_S = 60 };

int preflight_without_some(struct preflight *p, struct comm *comm, int code)
{
    char message[ERR_MESSAGE_BYTES];
    err_keep(message);
    uint8_t checked = code == ERR_NONE, any = 0;
    TRY(comm_all_reduce(comm, &checked, &any, 1, DTYPE_BYTE, COMM_MAX));
    if (!checked && !any)
        return err_set(code, "%s", message);
    if (!checked)
        preflight_add(p, "setup", "FAIL", message);
    return ERR_NONE;
}

static int in_order(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void preflight_judge_clock(const int64_t clocks_s[], int count, int rank, char text[160])
{
    int64_t sorted[count], own_s = clocks_s[rank];
    int near = 0;
    memcpy(sorted, clocks_s, sizeof sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, in_order);
    for (int i = 0; i < count; i++)
        near += llabs(clocks_s[i] - own_s) <= CLOCK_WITHIN_S;
    // Of two nodes the other one.
    long long ahead_s = own_s - (count == 2 ? clocks_s[1 - rank] : sorted[(count - 1) / 2]);
    text[0] = '\0';
    if (2 * near <= count && llabs(ahead_s) > CLOCK_WITHIN_S)
        snprintf(text, 160, "this node's clock is %lld s %s %s", llabs(ahead_s), ahead_s > 0 ? "ahead of" : "behind",
                 count == 2 ? "the other node's" : "those of most nodes");
    else if (2 * near <= count)
        snprintf(text, 160, "this node's clock is right for one half of the nodes alone");
}

int preflight_place(struct preflight *p, struct comm *comm)
{
    int world = comm_world(comm);
    int64_t clocks_s[world], own_s;
    char text[160];
    if (bench_world_name_is_shared())
        preflight_add(p, "name", "FAIL", "another node has this name, too");
    TRY(comm_barrier(comm));
    own_s = (int64_t)time(NULL);
    TRY(comm_all_gather_equal(comm, &own_s, clocks_s, sizeof own_s));
    preflight_judge_clock(clocks_s, world, comm_rank(comm), text);
    if (*text)
        preflight_add(p, "clock", "FAIL", text);
    return ERR_NONE;
}

// Every rank receives the bytes of all others.
int preflight_link(struct preflight *p, struct comm *comm)
{
    int rank = comm_rank(comm), world = comm_world(comm);
    size_t most = (p->seconds > 0 ? LINK_RECEIVED_BYTES : LINK_RECEIVED_LEAST_BYTES) / (size_t)world;
    size_t words = (most < LINK_BYTES ? most : LINK_BYTES) / sizeof(uint64_t), bytes = words * sizeof(uint64_t);
    uint64_t *send = malloc(bytes), *received = malloc((size_t)world * bytes);
    size_t counts[world], offsets[world];
    char text[160];
    if (!send || !received) {
        free(send);
        free(received);
        return err_set(ERR_MEMORY, "out of memory for the links");
    }
    for (int r = 0; r < world; r++) {
        counts[r] = bytes / sizeof(float);
        offsets[r] = (size_t)r * counts[r];
    }
    for (size_t i = 0; i < words; i++)
        send[i] = random_at((uint64_t)rank, i);
    int code = comm_barrier(comm);
    double begin = clock_now_s();
    for (int i = 0; i < LINK_REPEAT && code == ERR_NONE; i++)
        code = comm_all_gather(comm, send, received, counts, offsets, DTYPE_FP32);
    double gbs = (double)LINK_REPEAT * (world - 1) * (double)bytes * 1e-9 / (clock_now_s() - begin);
    size_t wrong = 0;
    for (int r = 0; r < world && code == ERR_NONE; r++)
        for (size_t i = 0; i < words; i++)
            wrong += received[(size_t)r * words + i] != random_at((uint64_t)r, i);
    free(send);
    free(received);
    TRY(code);
    snprintf(text, sizeof text, "%zu of %zu words received from %d ranks are wrong, %.2f GB/s%s", wrong,
             (size_t)world * words, world, gbs, gbs < p->link_gbs ? ", less than asked for by --at-least" : "");
    preflight_add(p, "link", wrong || gbs < p->link_gbs ? "FAIL" : "ok", text);
    return ERR_NONE;
}
