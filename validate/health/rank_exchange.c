// SPDX-License-Identifier: Apache-2.0
// Bytes over the links between ranks, whose receivers know what must arrive.
#include "validate/health/rank_vote.h"

#include "base/clock.h"
#include "base/err.h"
#include "bench/ranks/links.h"
#include "validate/health/vote.h"
#include "ref/arithmetic/random.h"

#include <stdio.h>
#include <stdlib.h>

enum { EXCHANGE_WORDS = 1 << 17 };

static const struct health_operation link_operation = {.name = HEALTH_LINK, .lane = HEALTH_COLLECTIVE};

static uint64_t word_at(uint64_t seed, int rank, size_t i)
{
    return random_at(random_key(seed, (uint64_t)rank), i);
}

static int check(const struct health_round_setting *setting, const uint64_t *received, int partner, const char *name,
                 struct health_round *round)
{
    struct health_mismatch mismatch = {
        .core = HEALTH_CORE_NOBODY, .operation = &link_operation, .round = setting->round, .seed = setting->seed};
    size_t wrong = 0;
    for (size_t i = EXCHANGE_WORDS; i-- > 0;)
        if (received[i] != word_at(setting->seed, partner, i)) {
            mismatch.element = i;
            wrong++;
        }
    if (wrong == 0)
        return ERR_NONE;
    mismatch.wrong_bytes = wrong * sizeof *received;
    snprintf(mismatch.text, sizeof mismatch.text,
             "%zu of %d words received from rank %d on host %.64s are wrong, the first is word %zu", wrong,
             EXCHANGE_WORDS, partner, name, mismatch.element);
    return health_mismatch_add(round, &mismatch);
}

int health_exchange_ranks(const struct health_round_setting *setting, struct comm *comm,
                          const char *(*name_of)(int rank), struct health_round *round)
{
    int world = comm_world(comm), rank = comm_rank(comm);
    int turn = (int)((setting->round - 1) % (uint64_t)links_rounds(world));
    int partner = links_partner_position(world, turn, rank);
    size_t bytes = EXCHANGE_WORDS * sizeof(uint64_t);
    const struct health_place place = {.core = setting->cores[0], .round = setting->round, .flip = setting->flip};
    uint64_t *send = malloc(2 * bytes), *received = send ? send + EXCHANGE_WORDS : NULL;
    int code = send ? ERR_NONE : err_set(ERR_MEMORY, "no memory to exchange %zu bytes", bytes);
    for (size_t i = 0; i < EXCHANGE_WORDS && code == ERR_NONE; i++)
        send[i] = word_at(setting->seed, rank, i);
    if (code == ERR_NONE && partner >= 0) {
        double begin = clock_now_s();
        code = comm_exchange(comm, partner, send, received, bytes);
        double seconds = clock_now_s() - begin;
        round->work.moving_seconds[HEALTH_COLLECTIVE] += seconds;
        round->work.core_seconds[HEALTH_COLLECTIVE] += seconds;
        round->work.moved_bytes[HEALTH_COLLECTIVE] += bytes;
        round->work.compared_bits[HEALTH_COLLECTIVE] += 8 * bytes;
        round->work.runs[HEALTH_COLLECTIVE]++;
        health_spoil(&link_operation, &place, received, bytes);
        if (code == ERR_NONE)
            code = check(setting, received, partner, name_of(partner), round);
    }
    free(send);
    return code;
}
