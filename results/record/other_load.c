// SPDX-License-Identifier: Apache-2.0
#include "results/record/other_load.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

void other_load_parse(const char *line, double hz, struct other_load *out)
{
    // user nice system idle iowait irq softirq steal; user and nice include the time of guests.
    enum { IDLE = 3, IOWAIT = 4, STEAL = 7, FIELD_COUNT = 8 };
    double ticks[FIELD_COUNT] = {0}, total = 0;
    bool is_all = strncmp(line, "cpu ", strlen("cpu ")) == 0;  // "cpu0" and others are single processors
    int found = !is_all ? 0
                        : sscanf(line, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &ticks[0], &ticks[1], &ticks[2],
                                 &ticks[IDLE], &ticks[IOWAIT], &ticks[5], &ticks[6], &ticks[STEAL]);
    for (int i = 0; i < FIELD_COUNT; i++)
        total += ticks[i];
    out->total_s = found > IDLE ? total / hz : NAN;
    out->busy_s = found > IDLE ? (total - ticks[IDLE] - ticks[IOWAIT]) / hz : NAN;
}

static double used_s(int who)
{
    struct rusage usage;
    if (getrusage(who, &usage) != 0)
        return NAN;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

void other_load_now(struct other_load *out)
{
    char line[512] = "";
    FILE *file = fopen("/proc/stat", "r");
    if (file && !fgets(line, sizeof line, file))
        line[0] = '\0';
    if (file)
        fclose(file);
    other_load_parse(line, (double)sysconf(_SC_CLK_TCK), out);
    out->own_s = used_s(RUSAGE_SELF) + used_s(RUSAGE_CHILDREN);
}

double other_load_share(const struct other_load *begin, const struct other_load *end)
{
    double total = end->total_s - begin->total_s;
    double others = end->busy_s - begin->busy_s - (end->own_s - begin->own_s);
    if (!(total > 0) || !isfinite(others))
        return NAN;
    // The system counts ticks by processor, a process uses the clock: the difference may be slightly negative.
    return fmin(fmax(others / total, 0), 1);
}
