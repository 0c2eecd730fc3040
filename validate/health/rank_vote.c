// SPDX-License-Identifier: Apache-2.0
#include "validate/health/rank_vote.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/err.h"
#include "bench/ranks/links.h"
#include "ref/arithmetic/random.h"
#include "validate/health/vote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

// One vote, which every rank counts alike.
struct poll {
    const struct health_round_setting *setting;
    struct comm *comm;
    struct health_round *round;
    struct health_ballot *first, *ballots;  // [world][HEALTH_OPERATION_MAX]: at first, and after repeated runs
    struct core_run run;                    // this rank's repeated runs, on its first core
    unsigned char *good;                    // the elected result, at result_offset of this rank's operations
};

static const struct health_ballot *ballot_of(const struct health_ballot *ballots, int rank, const char *operation)
{
    const struct health_ballot *own = ballots + (size_t)rank * HEALTH_OPERATION_MAX;
    for (int i = 0; i < HEALTH_OPERATION_MAX && *own[i].operation; i++)
        if (strcmp(own[i].operation, operation) == 0)
            return &own[i];
    return NULL;
}

// The votes for a digest among operations whose names agree in `length` characters.
static int votes_for(const struct health_ballot *ballots, int world, const char *operation, size_t length,
                     const char *digest)
{
    int votes = 0;
    for (size_t i = 0; i < (size_t)world * HEALTH_OPERATION_MAX; i++)
        votes += strncmp(ballots[i].operation, operation, length) == 0 && strcmp(ballots[i].digest, digest) == 0;
    return votes;
}

// The length without the instruction set; the zero byte counts where there is none.
static size_t family_length(const char *operation)
{
    const char *comma = strchr(operation, ',');
    return comma ? (size_t)(comma - operation) : strlen(operation) + 1;
}

void health_elect_digest(const struct health_ballot *ballots, int world, const char *operation, char digest[33])
{
    int most = 0, most_family = 0;
    bool tie = false;
    digest[0] = '\0';
    for (int rank = 0; rank < world; rank++) {
        const struct health_ballot *ballot = ballot_of(ballots, rank, operation);
        if (!ballot || !*ballot->digest || strcmp(ballot->digest, digest) == 0)
            continue;
        int votes = votes_for(ballots, world, operation, strlen(operation) + 1, ballot->digest);
        int family = votes_for(ballots, world, operation, family_length(operation), ballot->digest);
        if (votes < most || (votes == most && family < most_family))
            continue;
        tie = votes == most && family == most_family;
        most = votes;
        most_family = family;
        snprintf(digest, 33, "%s", ballot->digest);
    }
    if (tie)
        digest[0] = '\0';
}

static size_t own_operation(const struct poll *poll, const char *operation)
{
    size_t i = 0;
    while (i < poll->setting->operation_count && strcmp(poll->setting->operations[i].name, operation) != 0)
        i++;
    return i;
}

static int gather(const struct poll *poll, char (*digests)[33], struct health_ballot *ballots)
{
    struct health_ballot own[HEALTH_OPERATION_MAX] = {0};
    size_t count = 0;
    for (size_t i = 0; i < poll->setting->operation_count; i++) {
        const struct health_operation *o = &poll->setting->operations[i];
        snprintf(own[count].operation, sizeof own[count].operation, "%s", o->name);
        snprintf(own[count].digest, sizeof own[count].digest, "%.32s", digests[i]);
        own[count++].result_bytes = o->result_bytes;
    }
    return comm_all_gather_equal(poll->comm, own, ballots, sizeof own);
}

// Repeats the operation on every rank until one result has a majority: an error that passes leaves one.
static int elect_again(struct poll *poll, const char *operation, char digest[33])
{
    size_t own = own_operation(poll, operation);
    for (int i = 0; i < HEALTH_AGAIN && !*digest; i++) {
        char digests[HEALTH_OPERATION_MAX][33];
        memcpy(digests, poll->round->digests, sizeof digests);
        if (own < poll->setting->operation_count) {
            TRY(core_run_again(&poll->run, own, i + 1));
            digest_text(XXH3_128bits(poll->run.results + result_offset(poll->setting, own),
                                     poll->setting->operations[own].result_bytes),
                        digests[own]);
            if (poll->run.codes[own] != ERR_NONE)
                digests[own][0] = '\0';
        }
        TRY(gather(poll, digests, poll->ballots));
        health_elect_digest(poll->ballots, comm_world(poll->comm), operation, digest);
    }
    return ERR_NONE;
}

// A result that is compared with another rank's has a place, which says more than that it is not the known one.
static void forget_known(struct health_round *round, const struct health_operation *operation)
{
    size_t kept = 0;
    for (size_t i = 0; i < round->mismatch_count; i++)
        if (!round->mismatches[i].by_known || round->mismatches[i].operation != operation)
            round->mismatches[kept++] = round->mismatches[i];
    round->mismatch_count = kept;
}

// Sends the elected result to all ranks; those that had another one hold theirs against it.
static int compare(struct poll *poll, const char *operation, const char *digest, int holder)
{
    const struct health_ballot *held = ballot_of(poll->first, holder, operation);
    const struct health_ballot *own = ballot_of(poll->first, comm_rank(poll->comm), operation);
    const struct health_round_setting *setting = poll->setting;
    size_t index = own_operation(poll, operation);
    unsigned char *good = malloc(held->result_bytes);
    if (!good)
        return err_set(ERR_MEMORY, "no memory for a result of %zu bytes", (size_t)held->result_bytes);
    if (comm_rank(poll->comm) == holder)
        memcpy(good, poll->round->results + result_offset(setting, index), held->result_bytes);
    int code = comm_broadcast(poll->comm, good, held->result_bytes, holder);
    if (code == ERR_NONE && own && *own->digest && strcmp(own->digest, digest) != 0) {
        struct core_run elected = {.setting = setting, .results = poll->good};
        size_t at = result_offset(setting, index);
        memcpy(poll->good + at, good, held->result_bytes);
        memcpy(poll->run.results + at, poll->round->results + at, held->result_bytes);
        poll->run.codes[index] = ERR_NONE;
        poll->run.texts[index][0] = '\0';
        forget_known(poll->round, &setting->operations[index]);
        code = health_suspect(&elected, &poll->run, index,
                              setting->core_count == 1 ? setting->cores[0] : HEALTH_CORE_ALL, poll->round);
    }
    free(good);
    return code;
}

static int name_nobody(struct poll *poll, const char *operation)
{
    size_t index = own_operation(poll, operation);
    if (comm_rank(poll->comm) != 0 || index == poll->setting->operation_count)
        return ERR_NONE;
    struct health_mismatch nobody = {.core = HEALTH_CORE_NOBODY,
                                     .operation = &poll->setting->operations[index],
                                     .round = poll->setting->round,
                                     .seed = poll->setting->seed};
    snprintf(nobody.text, sizeof nobody.text, "no result has a majority of the ranks (round %llu, seed %llu)",
             (unsigned long long)nobody.round, (unsigned long long)nobody.seed);
    return health_mismatch_add(poll->round, &nobody);
}

static int vote_on(struct poll *poll, const char *operation)
{
    char digest[33];
    int world = comm_world(poll->comm), holder = -1;
    bool differ = false;
    health_elect_digest(poll->first, world, operation, digest);
    for (int rank = 0; rank < world; rank++) {
        const struct health_ballot *ballot = ballot_of(poll->first, rank, operation);
        differ |= ballot && *ballot->digest && strcmp(ballot->digest, digest) != 0;
    }
    if (!differ)
        return ERR_NONE;
    if (!*digest)
        TRY(elect_again(poll, operation, digest));
    for (int rank = world; rank-- > 0 && *digest;) {
        const struct health_ballot *ballot = ballot_of(poll->first, rank, operation);
        if (ballot && strcmp(ballot->digest, digest) == 0)
            holder = rank;
    }
    return holder < 0 ? name_nobody(poll, operation) : compare(poll, operation, digest, holder);
}

// Every operation that a rank has, each once, in an order that is the same on all ranks.
static int vote_on_all(struct poll *poll)
{
    int world = comm_world(poll->comm);
    for (int rank = 0; rank < world; rank++)
        for (int i = 0; i < HEALTH_OPERATION_MAX; i++) {
            const char *operation = poll->first[rank * HEALTH_OPERATION_MAX + i].operation;
            bool earlier = !*operation;
            for (int before = 0; before < rank && !earlier; before++)
                earlier = ballot_of(poll->first, before, operation) != NULL;
            if (!earlier)
                TRY(vote_on(poll, operation));
        }
    return ERR_NONE;
}

int health_vote_ranks(const struct health_round_setting *setting, struct comm *comm, struct health_round *round)
{
    size_t bytes = result_offset(setting, setting->operation_count);
    size_t ballots = (size_t)comm_world(comm) * HEALTH_OPERATION_MAX * sizeof(struct health_ballot);
    struct poll poll = {.setting = setting, .comm = comm, .round = round, .run = {.setting = setting}};
    poll.first = malloc(ballots);
    poll.ballots = malloc(ballots);
    poll.good = malloc(bytes);
    poll.run.results = malloc(bytes);
    int code = poll.first && poll.ballots && poll.good && poll.run.results
                   ? ERR_NONE
                   : err_set(ERR_MEMORY, "no memory for the vote of %d ranks", comm_world(comm));
    if (code == ERR_NONE)
        code = gather(&poll, round->digests, poll.first);
    if (code == ERR_NONE)
        code = vote_on_all(&poll);
    // Each rank but the first is compared with another one.
    for (size_t i = 0; i < setting->operation_count && comm_rank(comm) > 0; i++)
        if (*round->digests[i])
            round->work.compared_bits[setting->operations[i].lane] += 8 * setting->operations[i].result_bytes;
    free(poll.first);
    free(poll.ballots);
    free(poll.good);
    free(poll.run.results);
    return code;
}

// Bytes over the links between ranks, whose receivers know what must arrive.

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
