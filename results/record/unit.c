// SPDX-License-Identifier: Apache-2.0
#include "results/record/unit.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    double s;
} times[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};

// Rates whose unit counts many items: 1 GB is 1e9 items.
static const struct {
    const char *name;
    double items;
} rates[] = {{"GB/s", 1e9}, {"GFLOP/s", 1e9}};

// True for one or more lower-case letters, digits and underscores.
static bool is_item(const char *text, size_t length)
{
    return length > 0 && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") >= length;
}

// Seconds of a unit of time, 0 for another unit.
static double time_s(const char *unit)
{
    size_t letters = strcspn(unit, "_");
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        if (strlen(times[i].name) != letters || strncmp(unit, times[i].name, letters) != 0)
            continue;
        const char *rest = unit + letters, *item = rest + strlen("_per_");
        if (!*rest || (strncmp(rest, "_per_", strlen("_per_")) == 0 && is_item(item, strlen(item))))
            return times[i].s;
    }
    return 0;
}

// Items a second of a rate of 1, 0 for another unit.
static double rate_items(const char *unit)
{
    size_t length = strlen(unit);
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        if (strcmp(unit, rates[i].name) == 0)
            return rates[i].items;
    return length > 2 && strcmp(unit + length - 2, "/s") == 0 && is_item(unit, length - 2) ? 1 : 0;
}

bool unit_is_time(const char *unit)
{
    return time_s(unit) > 0;
}

double unit_duration_s(const char *unit, double sample, double items)
{
    double seconds = time_s(unit);
    return seconds > 0 ? sample * items * seconds : items / (sample * rate_items(unit));
}
