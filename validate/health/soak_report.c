// SPDX-License-Identifier: Apache-2.0
// The report of a soak.
#include "validate/health/soak.h"

#include "base/err.h"
#include "base/file.h"
#include "bench/harness/bench_world.h"

#include <inttypes.h>

static void print_lanes(const struct health_exposure *e)
{
    printf("%-12s %12s %12s %14s %16s %6s  %s\n", "lane", "core hours", "runs", "GB moved", "Gbit compared", "wrong",
           "95 % sure: at most, per 1000 core hours");
    for (int lane = 0; lane < HEALTH_LANE_COUNT; lane++) {
        double hours = e->work.core_seconds[lane] / 3600;
        printf("%-12s %12.3f %12" PRIu64 " %14.3f %16.3f %6" PRIu64, health_lane_name((enum health_lane)lane), hours,
               e->work.runs[lane], (double)e->work.moved_bytes[lane] * 1e-9, (double)e->work.compared_bits[lane] * 1e-9,
               e->events[lane]);
        if (hours > 0)
            printf("  %.3g", 1000 * health_poisson_upper(e->events[lane], 0.95) / hours);
        putchar('\n');
    }
}

// Of each kind the first wrong result, and how many more there are. Returns the number of their hosts.
static size_t print_events(const json_t *events)
{
    json_t *kinds = json_object(), *hosts = json_object(), *event;
    char kind[SOAK_KIND_BYTES];
    size_t i, host_count;
    json_array_foreach (events, i, event) {
        json_t *count = json_object_get(kinds, soak_kind(event, kind));
        json_object_set_new(kinds, kind, json_integer(json_integer_value(count) + 1));
        json_object_set(hosts, json_string_value(json_object_get(event, "host")), event);
    }
    json_array_foreach (events, i, event) {
        json_int_t count = json_integer_value(json_object_get(kinds, soak_kind(event, kind)));
        if (count > 0)
            printf("WRONG  %s", json_string_value(json_object_get(event, "text")));
        if (count > 0)
            printf(count > 1 ? "; and %lld times more\n" : "\n", (long long)count - 1);
        json_object_del(kinds, kind);
    }
    host_count = json_object_size(hosts);
    json_decref(kinds);
    json_decref(hosts);
    return host_count;
}

static void print_text(const struct soak *soak, const struct soak_total *total, uint64_t wrong)
{
    const struct health_exposure *e = &total->exposure;
    struct health_counters after;
    int ranks = bench_world_size();
    if (ranks > 1)
        printf("%d ranks on %d host%s, ", ranks, bench_world_host_count(), bench_world_host_count() == 1 ? "" : "s");
    printf("%zu cores, %zu operations, %" PRIu64 " rounds in %.2f hours, seed %lld\n", total->core_count,
           soak->machine.setting.operation_count, e->rounds, e->seconds / 3600, soak->seed);
    print_lanes(e);
    if (health_counters_from_json(total->counters, &after) == ERR_NONE)
        health_counters_print(&soak->before, &after, stdout);
    size_t index;
    json_t *entry;
    json_array_foreach (total->worse, index, entry)
        printf("FAIL   counters of host %s: %s\n", json_string_value(json_object_get(entry, "host")),
               json_string_value(json_object_get(entry, "text")));
    size_t host_count = print_events(total->events);
    if (wrong == 0)
        printf("every result was the same on every core%s%s\n", ranks > 1 ? " of every rank" : "",
               json_array_size(total->worse) > 0 ? ", but the hardware counted errors" : "");
    else if (ranks > 1)
        printf("%" PRIu64 " wrong results, on %zu of %d hosts\n", wrong, host_count, bench_world_host_count());
    else
        printf("%" PRIu64 " wrong results\n", wrong);
}

static void print_json(const struct soak *soak, const struct soak_total *total)
{
    json_t *state = soak_state_json(soak, total);
    json_object_set(state, "counters", total->counters);
    if (bench_world_size() > 1)
        json_object_set(state, "hosts", total->hosts);
    json_dumpf(state, stdout, 0);
    putchar('\n');
    json_decref(state);
}

int soak_report(const struct soak *soak, bool *sound)
{
    struct soak_total total;
    uint64_t wrong = 0;
    int code = soak_gather(soak, &total);
    if (code == ERR_NONE && bench_world_rank() == 0) {
        for (int lane = 0; lane < HEALTH_LANE_COUNT; lane++)
            wrong += total.exposure.events[lane];
        if (soak->common.json)
            print_json(soak, &total);
        else
            print_text(soak, &total, wrong);
        *sound = wrong == 0 && json_array_size(total.worse) == 0;
        code = file_flush(stdout, "the report");
    }
    soak_total_free(&total);
    return code;
}
