// SPDX-License-Identifier: Apache-2.0
#include "conformance/spec/observation.h"

#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>

const char observation_gap_text[] =
    "what is sent through shared memory, Unix sockets and links of accelerators, which no counter open to everybody "
    "shows; memory of accelerators that NVML does not tell";

int64_t observation_saved_bytes(const struct observation *observation)
{
    return (int64_t)observation->unsharded_peak_bytes - (int64_t)observation->peak_bytes;
}

bool observation_shows(const struct observation *observation)
{
    return !observation->why[0] &&
           observation_saved_bytes(observation) >= (int64_t)(observation->formula_saved_bytes / 2);
}

bool observations_measured(const struct observations *observations)
{
    bool measured = false;
    for (int i = 0; i < observations->count; i++)
        measured |= !observations->list[i].why[0];
    return measured;
}

bool observations_lack(const struct observations *observations)
{
    bool lacks = false;
    for (int i = 0; i < observations->count; i++)
        lacks |= !observations->list[i].why[0] && !observation_shows(&observations->list[i]);
    return lacks;
}

const char *observation_text(const struct observation *observation, char out[OBSERVATION_TEXT_BYTES])
{
    char saved[SIZE_TEXT_BYTES], formula[SIZE_TEXT_BYTES];
    int64_t bytes = observation_saved_bytes(observation);
    uint64_t world = (uint64_t)observation->world;
    int used = snprintf(out, OBSERVATION_TEXT_BYTES, "stage %d, %d ranks: ", observation->stage, observation->world);
    if (observation->why[0])
        snprintf(out + used, OBSERVATION_TEXT_BYTES - (size_t)used, "not observed: %s", observation->why);
    else
        snprintf(out + used, OBSERVATION_TEXT_BYTES - (size_t)used, "%s a rank %s than stage 0 (formula %s)%s",
                 size_short_text((uint64_t)llabs(bytes) / world, saved), bytes < 0 ? "more" : "less",
                 size_short_text(observation->formula_saved_bytes / world, formula),
                 observation_shows(observation) ? "" : ": no evidence that states are sharded");
    return out;
}

bool observation_shows_exchange(const struct observation *observation)
{
    return !observation->why[0] && observation->sent_is_known &&
           observation->sent_bytes >= observation->formula_sent_bytes / 2;
}

const char *observation_sent_text(const struct observation *observation, char out[OBSERVATION_TEXT_BYTES])
{
    char sent[4][SIZE_TEXT_BYTES];
    const uint64_t bytes[] = {observation->sent_bytes, observation->formula_sent_bytes,
                              observation->unsharded_sent_bytes, observation->formula_unsharded_sent_bytes};
    for (int i = 0; i < 4; i++)
        size_short_text(bytes[i] / (uint64_t)observation->world, sent[i]);
    int used = snprintf(out, OBSERVATION_TEXT_BYTES, "stage %d, %d ranks: ", observation->stage, observation->world);
    if (!observation->sent_is_known)
        snprintf(out + used, OBSERVATION_TEXT_BYTES - (size_t)used,
                 "bytes sent are not observed: the kernel does not tell the counters of sockets");
    else
        snprintf(out + used, OBSERVATION_TEXT_BYTES - (size_t)used,
                 "%s a rank sent over TCP (formula %s), %s at stage 0 (formula %s)%s", sent[0], sent[1], sent[2],
                 sent[3], observation_shows_exchange(observation) ? "" : ": what goes another way is not observed");
    return out;
}
