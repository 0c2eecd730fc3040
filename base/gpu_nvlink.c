// SPDX-License-Identifier: Apache-2.0
// NVLinks between GPUs, by NVML's functions, structures and numbers of fields as nvml.h has them.
#include "base/gpu.h"

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef void *device;

enum { SUCCESS = 0, ACTIVE = 1, TO_SWITCH = 2, UNTOLD = 255, LINKS_MAX = 18 };
enum { SPEED_OF_ALL = 90, SPEED_OF_LINK = 164, UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3 };  // MB/s each way

struct place {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
};

struct field {
    unsigned id, scope;
    long long timestamp, latency_us;
    int type, status;
    unsigned long long value;  // a union; NVML's machines keep the low bytes first
};

struct functions {
    int (*at)(const char *, device *);
    int (*state)(device, unsigned, int *);
    int (*far_end)(device, unsigned, struct place *);
    int (*far_type)(device, unsigned, int *);
    int (*fields)(device, int, struct field *);
};

static bool find_functions(struct functions *out)
{
    static const char *const names[] = {"nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetNvLinkState",
                                        "nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemoteDeviceType",
                                        "nvmlDeviceGetFieldValues"};
    void *library = gpu_library(), *found[sizeof names / sizeof *names];
    bool all = library;
    for (size_t i = 0; all && i < sizeof names / sizeof *names; i++)
        all = (found[i] = dlsym(library, names[i])) != NULL;
    if (all)
        memcpy(out, found, sizeof *out);
    return all;
}

static double speed_of(const struct functions *nvml, device d, unsigned link)
{
    struct field fields[] = {{.id = SPEED_OF_ALL}, {.id = SPEED_OF_LINK, .scope = link}};
    for (size_t i = 0; i < 2; i++)
        if (nvml->fields(d, 1, &fields[i]) == SUCCESS && fields[i].status == SUCCESS &&
            fields[i].type >= UNSIGNED_INT && fields[i].type <= UNSIGNED_LONG_LONG && fields[i].value > 0)
            return (double)fields[i].value * 1e-3;
    return NAN;
}

// The active links of a GPU by where they lead: to the other GPU, to a switch, or where NVML does not say.
struct ends {
    int direct, switched, untold;
    double direct_gb_per_s, switched_gb_per_s;
};

static struct ends ends_of(const struct functions *nvml, device d, const char *other)
{
    struct ends ends = {0};
    for (unsigned link = 0; link < LINKS_MAX; link++) {
        int state = 0, type = UNTOLD;
        struct place far_end;
        char place[GPU_TEXT_BYTES] = "";
        if (nvml->state(d, link, &state) != SUCCESS || state != ACTIVE)
            continue;
        if (nvml->far_end(d, link, &far_end) == SUCCESS)
            snprintf(place, sizeof place, "%04x:%02x:%02x", far_end.domain, far_end.bus, far_end.device);
        if (nvml->far_type(d, link, &type) != SUCCESS)
            type = UNTOLD;
        if (strcmp(place, other) == 0) {
            ends.direct++;
            ends.direct_gb_per_s += speed_of(nvml, d, link);
        } else if (type == TO_SWITCH) {
            ends.switched++;
            ends.switched_gb_per_s += speed_of(nvml, d, link);
        } else
            ends.untold += type == UNTOLD || !*place;
    }
    return ends;
}

static double rate_of(const struct ends *ends, int *links)
{
    *links = ends->direct ? ends->direct : ends->switched;
    if (*links > 0)
        return ends->direct ? ends->direct_gb_per_s : ends->switched_gb_per_s;
    return ends->untold ? (double)NAN : 0;
}

double gpu_nvlink_gb_per_s(const char *one, const char *other, int *links)
{
    const char *places[] = {one, other};
    double least = INFINITY;
    struct functions nvml;
    *links = LINKS_MAX;
    if (!find_functions(&nvml))
        return NAN;
    for (int i = 0; i < 2; i++) {
        char bus[GPU_TEXT_BYTES + 2];
        int count;
        device d;
        snprintf(bus, sizeof bus, "%s.0", places[i]);
        if (nvml.at(bus, &d) != SUCCESS)
            return NAN;
        const struct ends ends = ends_of(&nvml, d, places[1 - i]);
        double rate = rate_of(&ends, &count);
        if (isnan(rate))
            return NAN;
        least = fmin(least, rate);
        *links = count < *links ? count : *links;
    }
    return least;
}
