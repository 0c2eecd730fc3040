// SPDX-License-Identifier: Apache-2.0
#include "bench/step/step_bench.h"

#include "base/err.h"
#include "bench/step/lane_load.h"

#include <stdlib.h>

// A collective's load has two ranks.
static int load_count(const struct step_links *links, int lane)
{
    int pairs = links->ranks / 2;
    return lane != LANE_COLLECTIVE ? links->ranks : pairs > 1 ? pairs : 1;
}

int step_links_open(const double bytes[LANE_COUNT], int ranks, double seconds, const struct bench_storage *storage,
                    const struct bench_device *device, struct step_links *out)
{
    *out = (struct step_links){.seconds = seconds, .ranks = ranks};
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        struct lane_load_setting setting = {.storage = storage, .copy_bytes = (size_t)bytes[lane], .device = device};
        if (bytes[lane] == 0)
            continue;
        out->loads[lane] = calloc((size_t)ranks, sizeof *out->loads[lane]);
        if (!out->loads[lane])
            return err_set(ERR_MEMORY, "no memory for lanes");
        for (; setting.rank < load_count(out, lane); setting.rank++)
            TRY(lane_load_open((enum lane)lane, &setting, &out->loads[lane][setting.rank]));
    }
    return ERR_NONE;
}

void step_links_close(struct step_links *links)
{
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        for (int i = 0; links->loads[lane] && i < links->ranks; i++)
            lane_load_close(links->loads[lane][i]);
        free(links->loads[lane]);
    }
    *links = (struct step_links){0};
}

static int measure(struct step_links *links, int lane, bool counted)
{
    int count = load_count(links, lane);
    struct lane_part parts[count];
    for (int i = 0; i < count; i++)
        parts[i] = (struct lane_part){.load = links->loads[lane][i], .name = ledger_lane_name((enum lane)lane)};
    TRY(lane_parts_run(parts, count, LANE_DIRECT, links->seconds));
    if (!counted)
        return ERR_NONE;
    struct bench_samples *samples = &links->gb_per_s[lane];
    double rate = 0, *least = &links->items[lane];
    for (int i = 0; i < count; i++) {
        rate += parts[i].done.items / (double)parts[i].done.ns / count;
        *least = (samples->count == 0 && i == 0) || parts[i].done.items < *least ? parts[i].done.items : *least;
    }
    samples->values[samples->count++] = rate;
    return ERR_NONE;
}

int step_links_measure(struct step_links *links, bool counted)
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (links->loads[lane])
            TRY(measure(links, lane, counted));
    return ERR_NONE;
}
