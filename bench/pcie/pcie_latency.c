// SPDX-License-Identifier: Apache-2.0
// The time of one small copy, as an operation of a lane pays for it: from the call until the host knows that the stream
// has completed it. Round trips copy other bytes to the device and back each time, so that every byte and every wait of
// both ways shows; a sample is the median of many, each way.
#include "bench/pcie/pcie.h"

#include "base/err.h"
#include "base/size.h"
#include "ref/arithmetic/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIPS = 101, WAYS = PCIE_BOTH };
_Static_assert((int)TRIPS <= (int)BENCH_REPEAT_MAX, "a sample has room for its trips");

static const size_t sizes[] = {8, 64, 512, 4 << 10, 64 << 10};

// Trips from `source` to the device and back to `target`.
struct trips {
    struct pcie_setting setting;     // block_bytes: of a copy
    void *device, *source, *target;  // source, target: on the host, or on the peer
    unsigned char *sent, *received;  // the same on the host, or stages of a peer
};

static int peer_of(const struct pcie_setting *s)
{
    return (s->first_device + s->distance) % s->link->device_count;
}

static int open_on_peer(struct trips *trips)
{
    const struct pcie_setting *s = &trips->setting;
    TRY(s->link->enter(peer_of(s)));
    TRY(s->link->device_open(s->block_bytes, &trips->source));
    return s->link->device_open(s->block_bytes, &trips->target);
}

static int open_trips(struct trips *trips)
{
    const struct pcie_setting *s = &trips->setting;
    bool is_peer = pcie_memory_is_peer(s->memory);
    void *sent, *received;
    TRY(is_peer ? open_on_peer(trips) : ERR_NONE);
    TRY(s->link->enter(s->first_device));
    TRY(s->link->device_open(s->block_bytes, &trips->device));
    TRY(s->link->host_open(s->memory, s->block_bytes, &sent));
    trips->sent = sent;
    TRY(s->link->host_open(s->memory, s->block_bytes, &received));
    trips->received = received;
    if (!is_peer) {
        trips->source = sent;
        trips->target = received;
    }
    for (size_t i = 0; i < s->block_bytes; i++)
        trips->sent[i] = (unsigned char)random_at(random_key((uint64_t)s->first_device, 1), i);
    return ERR_NONE;
}

static void close_trips(struct trips *trips)
{
    const struct pcie_setting *s = &trips->setting;
    if (pcie_memory_is_peer(s->memory)) {
        s->link->device_close(trips->source);
        s->link->device_close(trips->target);
    }
    s->link->device_close(trips->device);
    s->link->host_close(s->memory, trips->sent, s->block_bytes);
    s->link->host_close(s->memory, trips->received, s->block_bytes);
}

static int copy_and_wait(const struct trips *trips, void *to, const void *from, bool by_kernel, double *us)
{
    const struct pcie_link *link = trips->setting.link;
    uint64_t begin_ns = clock_now_ns();
    TRY((by_kernel ? link->copy_by_kernel : link->copy)(to, from, trips->setting.block_bytes));
    TRY(link->wait());
    *us = (double)(clock_now_ns() - begin_ns) * 1e-3;
    return ERR_NONE;
}

static int run_trip(const struct trips *trips, double us[WAYS])
{
    const struct pcie_setting *s = &trips->setting;
    bool is_peer = pcie_memory_is_peer(s->memory),
         by_kernel = s->memory == PCIE_MAPPED || s->memory == PCIE_PEER_MAPPED;
    double untimed;
    size_t at = 0;
    for (size_t i = 0; i < s->block_bytes; i++)
        trips->sent[i]++;
    TRY(is_peer ? copy_and_wait(trips, trips->source, trips->sent, false, &untimed) : ERR_NONE);
    TRY(copy_and_wait(trips, trips->device, trips->source, by_kernel, &us[PCIE_H2D]));
    TRY(copy_and_wait(trips, trips->target, trips->device, by_kernel, &us[PCIE_D2H]));
    TRY(is_peer ? copy_and_wait(trips, trips->received, trips->target, false, &untimed) : ERR_NONE);
    while (at < s->block_bytes && trips->received[at] == trips->sent[at])
        at++;
    return at == s->block_bytes ? ERR_NONE
                                : err_set(ERR_CHECK, "pcie: byte %zu of %zu copied to device %d and back is wrong", at,
                                          s->block_bytes, s->first_device);
}

// Appends the median of the trips to the samples of each way.
static int sample(struct trips *trips, struct bench_samples us[WAYS])
{
    struct bench_samples each[WAYS] = {{0}};
    TRY(trips->setting.link->enter(trips->setting.first_device));
    for (int trip = 0; trip < TRIPS; trip++) {
        double took[WAYS];
        TRY(run_trip(trips, took));
        for (int way = 0; way < WAYS; way++)
            each[way].values[each[way].count++] = took[way];
    }
    for (int way = 0; way < WAYS; way++)
        us[way].values[us[way].count++] = bench_median(&each[way]);
    return ERR_NONE;
}

static int take_turns(const struct bench_options *options, struct trips sides[2], struct bench_samples us[2][WAYS])
{
    const struct pcie_setting *s = &sides[0].setting;
    for (size_t i = 0; bench_repeats(options->warmup, options->repeat, i); i++) {
        bench_progress("pcie latency, %s, %zu bytes: sample %zu", pcie_memory_name(s->memory), s->block_bytes, i + 1);
        if (i == options->warmup)
            memset(us, 0, 2 * sizeof *us);
        for (size_t turn = 0; turn < 2; turn++)
            TRY(sample(&sides[(i + turn) % 2], us[(i + turn) % 2]));
    }
    return ERR_NONE;
}

static int print(const struct bench_options *options, const struct pcie_setting *s, const char *baseline_name,
                 const struct bench_samples *us, const struct bench_samples *baseline, uint64_t begin_ns)
{
    char row[200], block[SIZE_TEXT_BYTES], devices[PCIE_NAME_BYTES];
    snprintf(row, sizeof row, "%-9s %-5s %-11s %9s %9.3f (%6.3f to %6.3f) %9.3f  us for one copy",
             pcie_devices_text(s, devices), pcie_direction_name(s->memory, s->direction), pcie_memory_name(s->memory),
             size_short_text(s->block_bytes, block), bench_median(us), bench_quantile(us, 0.1), bench_quantile(us, 0.9),
             bench_median(baseline));
    struct bench_record record = {.name = "pcie_latency",
                                  .description = pcie_case_json(s, "nothing"),
                                  .detail = json_pack("{s:i}", "copies_a_sample", TRIPS),
                                  .unit = "us",
                                  .lower_is_better = true,
                                  .items = 1,
                                  .begin_ns = begin_ns,
                                  .samples = us,
                                  .baseline_name = baseline_name,
                                  .baseline = baseline,
                                  .row = row};
    return bench_print(options, &record);
}

int pcie_latency_against(const struct bench_options *options, const struct pcie_setting *ours,
                         const char *baseline_name, const struct pcie_setting *theirs)
{
    struct trips sides[2] = {{.setting = *ours}, {.setting = *theirs}};
    struct bench_samples us[2][WAYS] = {{{0}}};
    uint64_t begin_ns = clock_now_ns();
    int code = open_trips(&sides[0]);
    if (code == ERR_NONE)
        code = open_trips(&sides[1]);
    if (code == ERR_NONE)
        code = take_turns(options, sides, us);
    close_trips(&sides[0]);
    close_trips(&sides[1]);
    for (int way = 0; way < WAYS && code == ERR_NONE; way++) {
        struct pcie_setting s = *ours;
        s.direction = (enum pcie_direction)way;
        s.bytes = s.block_bytes;
        code = print(options, &s, baseline_name, &us[0][way], &us[1][way], begin_ns);
    }
    return code;
}

int pcie_latency_run(const struct bench_options *options, const struct pcie_setting *of)
{
    size_t count = sizeof sizes / sizeof *sizes;
    for (size_t i = 0; i < count; i += options->quick ? count - 1 : 1) {
        struct pcie_setting pinned = *of, drivers, mapped;
        pinned.memory = PCIE_PINNED;
        pinned.block_bytes = sizes[i];
        drivers = mapped = pinned;
        drivers.memory = PCIE_DRIVERS;
        mapped.memory = PCIE_MAPPED;
        TRY(pcie_latency_against(options, &pinned, "memory of the driver", &drivers));
        if (sizes[i] % PCIE_COPY_BYTES == 0)
            TRY(pcie_latency_against(options, &mapped, "the copy engines", &pinned));
    }
    return ERR_NONE;
}
