// SPDX-License-Identifier: Apache-2.0
#include "ref/executor/emulation.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double BYTES_PER_GB = 1e9, GB_PER_S_MIN = 1e-6, GB_PER_S_MAX = 1e6;
static const char FORM[] = "expected LANE=GB/s,... with lanes of collective, h2d, d2h, nvme-read, nvme-write",
                  FORM_OF_ALL[] = "expected LANE=GB/s,... with lanes of collective, h2d, d2h, nvme-read, nvme-write, "
                                  "cpu, and compute=GFLOP/s";
enum { SHOWN_BYTES = 60 };

// The ledger's name of a lane with hyphens for underscores. out has EMULATION_TEXT_BYTES; returns it.
static const char *lane_text(enum lane lane, char *out)
{
    snprintf(out, EMULATION_TEXT_BYTES, "%s", ledger_lane_name(lane));
    for (char *c = out; *c; c++)
        *c = *c == '_' ? '-' : *c;
    return out;
}

// Returns LANE_COUNT if no lane has this name.
static enum lane lane_find(const char *name, size_t bytes)
{
    char text[EMULATION_TEXT_BYTES];
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (strlen(lane_text((enum lane)lane, text)) == bytes && memcmp(text, name, bytes) == 0)
            return (enum lane)lane;
    return LANE_COUNT;
}

// One "LANE=GB/s", terminated.
static int parse_one(const char *text, bool all, struct emulation *out)
{
    const char *form = all ? FORM_OF_ALL : FORM;
    char shown[TEXT_MESSAGE_BYTES];
    text_message(shown, text, SHOWN_BYTES);
    size_t bytes = strcspn(text, "=");
    enum lane lane = lane_find(text, bytes);
    if (lane == LANE_COUNT || text[bytes] == '\0')
        return err_set(ERR_USAGE, "--emulate: \"%s\": %s", shown, form);
    if (!all && (lane == LANE_COMPUTE || lane == LANE_CPU))
        return err_set(ERR_USAGE, "--emulate: \"%s\": this lane computes and cannot be emulated; %s", shown, form);
    if (out->bytes_per_s[lane] != 0)
        return err_set(ERR_USAGE, "--emulate: \"%s\": the lane is given twice", shown);
    const char *number = text + bytes + 1;
    char *end = NULL;
    // strtod alone would also accept names and hexadecimal digits.
    bool plain = *number && strspn(number, "0123456789.eE+-") == strlen(number);
    double rate = plain ? strtod(number, &end) : 0;
    if (!plain || *end || !(rate >= GB_PER_S_MIN && rate <= GB_PER_S_MAX))
        return err_set(ERR_USAGE, "--emulate: \"%s\": expected a number of GB/s from %g to %g", shown, GB_PER_S_MIN,
                       GB_PER_S_MAX);
    out->bytes_per_s[lane] = rate * BYTES_PER_GB;
    return ERR_NONE;
}

static int parse(const char *text, bool all, struct emulation *out)
{
    *out = (struct emulation){0};
    char *copy = strdup(text), *rest = copy, *one;
    if (!copy)
        return err_set(ERR_MEMORY, "no memory for a list of lanes");
    int rc = ERR_NONE;
    while (rc == ERR_NONE && (one = strsep(&rest, ",")) != NULL)
        rc = parse_one(one, all, out);
    free(copy);
    return rc;
}

int emulation_parse(const char *text, struct emulation *out)
{
    return parse(text, false, out);
}

int emulation_parse_all(const char *text, struct emulation *out)
{
    return parse(text, true, out);
}

bool emulation_any(const struct emulation *emulation)
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (emulation->bytes_per_s[lane] != 0)
            return true;
    return false;
}

void emulation_sleep_until(uint64_t time_ns)
{
    struct timespec time = {(time_t)(time_ns / UINT64_C(1000000000)), (long)(time_ns % UINT64_C(1000000000))};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        continue;
}

const char *emulation_text(const struct emulation *emulation, char out[EMULATION_TEXT_BYTES])
{
    char name[EMULATION_TEXT_BYTES];
    size_t used = 0;
    out[0] = '\0';
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        double rate = emulation->bytes_per_s[lane];
        if (rate != 0 && used < EMULATION_TEXT_BYTES)
            used += (size_t)snprintf(out + used, EMULATION_TEXT_BYTES - used, "%s%s=%.10g", used ? "," : "",
                                     lane_text((enum lane)lane, name), rate / BYTES_PER_GB);
    }
    return out;
}
