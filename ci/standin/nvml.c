// SPDX-License-Identifier: Apache-2.0
// For gpu_test: a libnvidia-ml.so.1 of GPUs that a file describes, which ZG_NVML_STAND_IN names. A line is
// "GPU.NAME VALUE", and "GPU.NAME FIRST GROWTH" for a count that grows with each call; a GPU exists if any line is of
// it. What no line names, the library does not support. GPU.linkN is "off", "switch", "gpu OTHER" or "untold", an
// active link of which it does not say where it leads.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_SUPPORTED = 3, NOT_FOUND = 6, GPU_COUNT = 8, CALLS_MAX = 64, BUS = 0x3b };

// A device is a pointer to its number here, and so never null.
static unsigned numbers[GPU_COUNT] = {0, 1, 2, 3, 4, 5, 6, 7};

// How often each name was asked for, of each GPU.
static struct {
    unsigned gpu, count;
    char name[48];
} calls[CALLS_MAX];

static unsigned count_call(unsigned gpu, const char *name)
{
    size_t i = 0;
    while (i < CALLS_MAX - 1 && *calls[i].name && (calls[i].gpu != gpu || strcmp(calls[i].name, name) != 0))
        i++;
    calls[i].gpu = gpu;
    snprintf(calls[i].name, sizeof calls[i].name, "%s", name);
    return calls[i].count++;
}

static int find(unsigned gpu, const char *name, char value[96])
{
    char line[160], key[64];
    const char *path = getenv("ZG_NVML_STAND_IN");
    FILE *file = path ? fopen(path, "re") : NULL;
    size_t length = (size_t)snprintf(key, sizeof key, "%u.%s ", gpu, name);
    int found = NOT_SUPPORTED;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, length) == 0) {
            snprintf(value, 96, "%.*s", (int)strcspn(line + length, "\n"), line + length);
            found = 0;
        }
    if (file)
        fclose(file);
    return found;
}

static int find_link(void *device, unsigned link, const char *what, char value[96])
{
    char name[32];
    snprintf(name, sizeof name, "link%u%s", link, what);
    return find(*(unsigned *)device, name, value);
}

static int text(void *device, const char *name, char *out, unsigned bytes)
{
    char value[96];
    int status = find(*(unsigned *)device, name, value);
    if (status == 0)
        snprintf(out, bytes, "%s", value);
    return status;
}

static int number(void *device, const char *name, unsigned long long *out)
{
    char value[96];
    unsigned long long first = 0, growth = 0;
    int status = find(*(unsigned *)device, name, value);
    if (status == 0 && sscanf(value, "%llu %llu", &first, &growth) >= 1)
        *out = first + growth * count_call(*(unsigned *)device, name);
    return status;
}

static int small(void *device, const char *name, unsigned *out)
{
    unsigned long long value = 0;
    int status = number(device, name, &value);
    if (status == 0)
        *out = (unsigned)value;
    return status;
}

#define TEXT(function, name)                                                                                           \
    int function(void *device, char *out, unsigned bytes);                                                             \
    int function(void *device, char *out, unsigned bytes)                                                              \
    {                                                                                                                  \
        return text(device, name, out, bytes);                                                                         \
    }
#define SMALL(function, name)                                                                                          \
    int function(void *device, unsigned *out);                                                                         \
    int function(void *device, unsigned *out)                                                                          \
    {                                                                                                                  \
        return small(device, name, out);                                                                               \
    }
#define CHOSEN(function, first, second)                                                                                \
    int function(void *device, int which, unsigned *out);                                                              \
    int function(void *device, int which, unsigned *out)                                                               \
    {                                                                                                                  \
        return small(device, which == 1 ? first : second, out);                                                        \
    }
#define MODE(function, name)                                                                                           \
    int function(void *device, unsigned *now, unsigned *pending);                                                      \
    int function(void *device, unsigned *now, unsigned *pending)                                                       \
    {                                                                                                                  \
        *pending = 0;                                                                                                  \
        return small(device, name, now);                                                                               \
    }

TEXT(nvmlDeviceGetName, "model")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
MODE(nvmlDeviceGetEccMode, "ecc")
MODE(nvmlDeviceGetMigMode, "mig")
SMALL(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw")
SMALL(nvmlDeviceGetPowerManagementDefaultLimit, "power_default_mw")
SMALL(nvmlDeviceGetPowerUsage, "power_mw")
SMALL(nvmlDeviceGetCurrPcieLinkGeneration, "generation")
SMALL(nvmlDeviceGetMaxPcieLinkGeneration, "generation_most")
SMALL(nvmlDeviceGetCurrPcieLinkWidth, "lanes")
SMALL(nvmlDeviceGetMaxPcieLinkWidth, "lanes_most")
SMALL(nvmlDeviceGetPcieReplayCounter, "replays")
CHOSEN(nvmlDeviceGetClockInfo, "clock", "memory_clock")
CHOSEN(nvmlDeviceGetMaxClockInfo, "clock_most", "memory_clock_most")
CHOSEN(nvmlDeviceGetTemperature, "no sensor", "temperature")

int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
    return 0;
}

int nvmlSystemGetDriverVersion(char *out, unsigned bytes);
int nvmlSystemGetDriverVersion(char *out, unsigned bytes)
{
    snprintf(out, bytes, "580.95.05");
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *out);
int nvmlDeviceGetCount_v2(unsigned *out)
{
    char value[96];
    *out = 0;
    while (*out < GPU_COUNT && find(*out, "model", value) == 0)
        ++*out;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out)
{
    *out = &numbers[index];
    return 0;
}

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
};

int nvmlDeviceGetHandleByPciBusId_v2(const char *place, void **out);
int nvmlDeviceGetHandleByPciBusId_v2(const char *place, void **out)
{
    unsigned bus = 0;
    char value[96];
    if (sscanf(place, "0000:%2x:00.0", &bus) != 1 || bus < BUS || bus >= BUS + GPU_COUNT ||
        find(bus - BUS, "model", value) != 0)
        return NOT_FOUND;
    *out = &numbers[bus - BUS];
    return 0;
}

int nvmlDeviceGetPciInfo_v3(void *device, struct pci *out);
int nvmlDeviceGetPciInfo_v3(void *device, struct pci *out)
{
    *out = (struct pci){.bus = BUS + *(unsigned *)device};
    return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out)
{
    return number(device, "throttle_reasons", out);
}

int nvmlDeviceGetTotalEccErrors(void *device, int error, int counter, unsigned long long *out);
int nvmlDeviceGetTotalEccErrors(void *device, int error, int counter, unsigned long long *out)
{
    return counter != 0 ? NOT_SUPPORTED : number(device, error == 0 ? "ecc_corrected" : "ecc_uncorrected", out);
}

int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                              unsigned *failed);
int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                              unsigned *failed)
{
    *uncorrected = *pending = *failed = 0;
    return small(device, "rows", corrected);
}

int nvmlDeviceGetNvLinkErrorCounter(void *device, unsigned link, int counter, unsigned long long *out);
int nvmlDeviceGetNvLinkErrorCounter(void *device, unsigned link, int counter, unsigned long long *out)
{
    return link == 1 && counter == 3 ? number(device, "nvlink", out) : NOT_SUPPORTED;
}

// 1: active.
int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *out);
int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *out)
{
    char value[96] = "";
    int status = find_link(device, link, "", value);
    *out = !strstr(value, " off");
    return status;
}

// 0: a GPU; 2: a switch.
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *out);
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *out)
{
    char value[96] = "";
    int status = find_link(device, link, "", value);
    *out = strncmp(value, "switch", 6) == 0 ? 2 : 0;
    return strcmp(value, "untold") == 0 ? NOT_SUPPORTED : status;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, struct pci *out);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, struct pci *out)
{
    char value[96] = "";
    unsigned other = 0;
    int status = find_link(device, link, "", value);
    *out = (struct pci){.bus = sscanf(value, "gpu %u", &other) == 1 ? BUS + other : 0xc0};
    return strcmp(value, "untold") == 0 ? NOT_SUPPORTED : status;
}

struct field {
    unsigned id, scope;
    long long timestamp, latency_us;
    int type, status;
    union {
        double real;
        unsigned whole;
    } value;
};

// The speed of all links, and of the one that `scope` names, in MB/s.
int nvmlDeviceGetFieldValues(void *device, int count, struct field *fields);
int nvmlDeviceGetFieldValues(void *device, int count, struct field *fields)
{
    for (int i = 0; i < count; i++) {
        char value[96] = "";
        fields[i].status = fields[i].id == 90    ? find(*(unsigned *)device, "links_mb_per_s", value)
                           : fields[i].id == 164 ? find_link(device, fields[i].scope, "_mb_per_s", value)
                                                 : NOT_SUPPORTED;
        fields[i].type = 1;
        fields[i].value.whole = fields[i].status == 0 ? (unsigned)atoi(value) : 1;
    }
    return 0;
}
