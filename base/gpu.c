// SPDX-License-Identifier: Apache-2.0
// Declarations and numbers of enumerations as NVML's reference has them.
#include "base/gpu.h"

#include "base/digest.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef void *device;

enum { SM = 1, MEMORY = 2, CORRECTED = 0, UNCORRECTED = 1, VOLATILE = 0, GPU_SENSOR = 0 };
enum { HOLDERS_MAX = 256, NVLINK_COUNT = 18, NVLINK_COUNTER_COUNT = 4, SUCCESS = 0 };
// Of nvmlDeviceGetCurrentClocksThrottleReasons: hardware slowdown, software and hardware thermal slowdown, power brake.
enum { SLOWED_MASK = 0x08 | 0x20 | 0x40 | 0x80 };

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
};

struct holder {
    unsigned pid;
    unsigned long long bytes;  // all bits set: not told
    unsigned gpu_instance, compute_instance;
};

// Functions of later libraries are missing in earlier ones: what they say is then unknown.
static struct {
    int (*init)(void);
    int (*driver)(char *, unsigned);
    int (*count)(unsigned *);
    int (*at)(unsigned, device *);
    int (*name)(device, char *, unsigned);
    int (*uuid)(device, char *, unsigned);
    int (*vbios)(device, char *, unsigned);
    int (*pci)(device, struct pci *);
    int (*ecc)(device, unsigned *, unsigned *);
    int (*mig)(device, unsigned *, unsigned *);
    int (*power_limit)(device, unsigned *);
    int (*power_default)(device, unsigned *);
    int (*power)(device, unsigned *);
    int (*clock)(device, int, unsigned *);
    int (*clock_most)(device, int, unsigned *);
    int (*generation)(device, unsigned *);
    int (*generation_most)(device, unsigned *);
    int (*lanes)(device, unsigned *);
    int (*lanes_most)(device, unsigned *);
    int (*replays)(device, unsigned *);
    int (*throttle_reasons)(device, unsigned long long *);
    int (*ecc_errors)(device, int, int, unsigned long long *);
    int (*rows)(device, unsigned *, unsigned *, unsigned *, unsigned *);
    int (*nvlink)(device, unsigned, int, unsigned long long *);
    int (*temperature)(device, int, unsigned *);
    int (*holders)(device, unsigned *, struct holder *);
} nvml;

static const struct {
    const char *name;
    void *pointer;
} functions[] = {
    {"nvmlInit_v2", &nvml.init},
    {"nvmlSystemGetDriverVersion", &nvml.driver},
    {"nvmlDeviceGetCount_v2", &nvml.count},
    {"nvmlDeviceGetHandleByIndex_v2", &nvml.at},
    {"nvmlDeviceGetName", &nvml.name},
    {"nvmlDeviceGetUUID", &nvml.uuid},
    {"nvmlDeviceGetVbiosVersion", &nvml.vbios},
    {"nvmlDeviceGetPciInfo_v3", &nvml.pci},
    {"nvmlDeviceGetEccMode", &nvml.ecc},
    {"nvmlDeviceGetMigMode", &nvml.mig},
    {"nvmlDeviceGetEnforcedPowerLimit", &nvml.power_limit},
    {"nvmlDeviceGetPowerManagementDefaultLimit", &nvml.power_default},
    {"nvmlDeviceGetPowerUsage", &nvml.power},
    {"nvmlDeviceGetClockInfo", &nvml.clock},
    {"nvmlDeviceGetMaxClockInfo", &nvml.clock_most},
    {"nvmlDeviceGetCurrPcieLinkGeneration", &nvml.generation},
    {"nvmlDeviceGetMaxPcieLinkGeneration", &nvml.generation_most},
    {"nvmlDeviceGetCurrPcieLinkWidth", &nvml.lanes},
    {"nvmlDeviceGetMaxPcieLinkWidth", &nvml.lanes_most},
    {"nvmlDeviceGetPcieReplayCounter", &nvml.replays},
    {"nvmlDeviceGetCurrentClocksThrottleReasons", &nvml.throttle_reasons},
    {"nvmlDeviceGetTotalEccErrors", &nvml.ecc_errors},
    {"nvmlDeviceGetRemappedRows", &nvml.rows},
    {"nvmlDeviceGetNvLinkErrorCounter", &nvml.nvlink},
    {"nvmlDeviceGetTemperature", &nvml.temperature},
    {"nvmlDeviceGetComputeRunningProcesses_v3", &nvml.holders},
};

static void *library;  // null: of no use
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    void *handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; handle && i < sizeof functions / sizeof *functions; i++) {
        void *address = dlsym(handle, functions[i].name);
        memcpy(functions[i].pointer, &address, sizeof address);
    }
    library = nvml.init && nvml.count && nvml.at && nvml.init() == SUCCESS ? handle : NULL;
}

void *gpu_library(void)
{
    pthread_once(&once, load);
    return library;
}

static unsigned device_count(void)
{
    unsigned count = 0;
    return gpu_library() && nvml.count(&count) == SUCCESS ? count : 0;
}

#define TOLD(function, ...) (nvml.function && nvml.function(__VA_ARGS__) == SUCCESS)

static void read_text(int (*of)(device, char *, unsigned), device d, char out[GPU_TEXT_BYTES])
{
    if (!of || of(d, out, GPU_TEXT_BYTES) != SUCCESS)
        *out = '\0';
}

static void read_settings(device d, double *values)
{
    const struct {
        enum gpu_value value;
        int (*of)(device, unsigned *);
        double unit;
    } plain[] = {
        {GPU_POWER_LIMIT_W, nvml.power_limit, 1e-3},
        {GPU_POWER_DEFAULT_W, nvml.power_default, 1e-3},
        {GPU_POWER_W, nvml.power, 1e-3},
        {GPU_PCIE_GENERATION, nvml.generation, 1},
        {GPU_PCIE_GENERATION_MOST, nvml.generation_most, 1},
        {GPU_PCIE_LANES, nvml.lanes, 1},
        {GPU_PCIE_LANES_MOST, nvml.lanes_most, 1},
        {GPU_PCIE_REPLAYS, nvml.replays, 1},
    };
    const struct {
        enum gpu_value value;
        int (*of)(device, int, unsigned *);
        int which;
    } chosen[] = {
        {GPU_CLOCK_MHZ, nvml.clock, SM},
        {GPU_CLOCK_MOST_MHZ, nvml.clock_most, SM},
        {GPU_MEMORY_CLOCK_MHZ, nvml.clock, MEMORY},
        {GPU_MEMORY_CLOCK_MOST_MHZ, nvml.clock_most, MEMORY},
        {GPU_TEMPERATURE_C, nvml.temperature, GPU_SENSOR},
    };
    unsigned found, pending;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (plain[i].of && plain[i].of(d, &found) == SUCCESS)
            values[plain[i].value] = found * plain[i].unit;
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++)
        if (chosen[i].of && chosen[i].of(d, chosen[i].which, &found) == SUCCESS)
            values[chosen[i].value] = found;
    if (TOLD(ecc, d, &found, &pending))
        values[GPU_ECC] = found;
    if (TOLD(mig, d, &found, &pending))
        values[GPU_MIG] = found;
}

static double slowed_by(double reasons)
{
    return reasons >= 0 && reasons < 0x1p63 ? ((unsigned long long)reasons & SLOWED_MASK) != 0 : (double)NAN;
}

static void read_errors(device d, double *values)
{
    unsigned long long found;
    unsigned corrected, uncorrected, pending, failed;
    if (TOLD(throttle_reasons, d, &found))
        values[GPU_THROTTLE_REASONS] = (double)found;
    values[GPU_SLOWED] = slowed_by(values[GPU_THROTTLE_REASONS]);
    if (TOLD(ecc_errors, d, CORRECTED, VOLATILE, &found))
        values[GPU_ECC_CORRECTED] = (double)found;
    if (TOLD(ecc_errors, d, UNCORRECTED, VOLATILE, &found))
        values[GPU_ECC_UNCORRECTED] = (double)found;
    if (TOLD(rows, d, &corrected, &uncorrected, &pending, &failed))
        values[GPU_ROWS_REMAPPED] = (double)corrected + uncorrected;
    for (unsigned link = 0; link < NVLINK_COUNT; link++)
        for (int counter = 0; counter < NVLINK_COUNTER_COUNT; counter++)
            if (TOLD(nvlink, d, link, counter, &found))
                values[GPU_NVLINK_ERRORS] = fmax(values[GPU_NVLINK_ERRORS], 0) + (double)found;
}

static void gpu_read(device d, struct gpu *out)
{
    struct pci place;
    *out = (struct gpu){0};
    for (int i = 0; i < GPU_VALUE_COUNT; i++)
        out->values[i] = NAN;
    read_text(nvml.name, d, out->model);
    read_text(nvml.uuid, d, out->uuid);
    read_text(nvml.vbios, d, out->vbios);
    if (!TOLD(driver, out->driver, GPU_TEXT_BYTES))
        *out->driver = '\0';
    if (TOLD(pci, d, &place))
        snprintf(out->pci, sizeof out->pci, "%04x:%02x:%02x", place.domain, place.bus, place.device);
    read_settings(d, out->values);
    read_errors(d, out->values);
}

size_t gpus_read(struct gpu out[GPU_MAX])
{
    unsigned count = device_count(), found = 0;
    device d;
    for (unsigned i = 0; i < count && found < GPU_MAX; i++)
        if (nvml.at(i, &d) == SUCCESS)
            gpu_read(d, &out[found++]);
    return found;
}

void gpus_each_holder(void (*each)(void *context, pid_t pid, uint64_t bytes), void *context)
{
    struct holder holders[HOLDERS_MAX];
    unsigned devices = device_count();
    device d;
    for (unsigned i = 0; i < devices; i++) {
        unsigned count = HOLDERS_MAX;
        if (nvml.at(i, &d) != SUCCESS || !TOLD(holders, d, &count, holders))
            continue;
        for (unsigned k = 0; k < count; k++)
            if (~holders[k].bytes != 0)
                each(context, (pid_t)holders[k].pid, holders[k].bytes);
    }
}

static const char *const keys[GPU_SETTING_COUNT] = {
    [GPU_ECC] = "ecc",
    [GPU_MIG] = "mig",
    [GPU_POWER_LIMIT_W] = "power_limit_w",
    [GPU_POWER_DEFAULT_W] = "power_default_w",
    [GPU_CLOCK_MHZ] = "clock_mhz",
    [GPU_CLOCK_MOST_MHZ] = "clock_most_mhz",
    [GPU_MEMORY_CLOCK_MHZ] = "memory_clock_mhz",
    [GPU_MEMORY_CLOCK_MOST_MHZ] = "memory_clock_most_mhz",
    [GPU_PCIE_GENERATION] = "pcie_generation",
    [GPU_PCIE_GENERATION_MOST] = "pcie_generation_most",
    [GPU_PCIE_LANES] = "pcie_lanes",
    [GPU_PCIE_LANES_MOST] = "pcie_lanes_most",
    [GPU_THROTTLE_REASONS] = "throttle_reasons",
};

static json_t *text_or_null(const char *text)
{
    json_t *string = *text ? json_string(text) : NULL;  // null: not UTF-8
    return string ? string : json_null();
}

json_t *gpu_json(const struct gpu *gpu)
{
    char id[DIGEST_TEXT_BYTES] = "";
    if (*gpu->uuid)
        digest_text(XXH3_128bits(gpu->uuid, strlen(gpu->uuid)), id);
    json_t *facts = json_pack("{s:o, s:o, s:o, s:o}", "model", text_or_null(*gpu->model ? gpu->model : "unknown"), "id",
                              text_or_null(id), "driver", text_or_null(gpu->driver), "vbios", text_or_null(gpu->vbios));
    for (int i = 0; i < GPU_SETTING_COUNT; i++)
        json_object_set_new(facts, keys[i], isnan(gpu->values[i]) ? json_null() : json_real(gpu->values[i]));
    return facts;
}

void gpu_from_json(const json_t *facts, struct gpu *out)
{
    const char *model = json_string_value(json_object_get(facts, "model"));
    *out = (struct gpu){0};
    snprintf(out->model, sizeof out->model, "%s", model ? model : "unknown");
    for (int i = 0; i < GPU_VALUE_COUNT; i++) {
        const json_t *value = i < GPU_SETTING_COUNT ? json_object_get(facts, keys[i]) : NULL;
        out->values[i] = json_is_number(value) ? json_number_value(value) : NAN;
    }
    out->values[GPU_SLOWED] = slowed_by(out->values[GPU_THROTTLE_REASONS]);
}

void gpu_reason(const struct gpu *gpu, char out[GPU_REASON_BYTES])
{
    const double *v = gpu->values;
    *out = '\0';
    if (v[GPU_POWER_LIMIT_W] < v[GPU_POWER_DEFAULT_W])
        snprintf(out, GPU_REASON_BYTES, "%.64s may take %.0f W of its %.0f: nvidia-smi -pl %.0f", gpu->model,
                 v[GPU_POWER_LIMIT_W], v[GPU_POWER_DEFAULT_W], v[GPU_POWER_DEFAULT_W]);
    else if (v[GPU_SLOWED] > 0)
        snprintf(out, GPU_REASON_BYTES, "%.64s is slowed by heat or its power supply: nvidia-smi -q -d PERFORMANCE",
                 gpu->model);
    else if (v[GPU_PCIE_LANES] < v[GPU_PCIE_LANES_MOST])
        snprintf(out, GPU_REASON_BYTES, "%.64s has %.0f of its %.0f PCIe lanes", gpu->model, v[GPU_PCIE_LANES],
                 v[GPU_PCIE_LANES_MOST]);
    else if (v[GPU_MIG] > 0)
        snprintf(out, GPU_REASON_BYTES, "%.64s is partitioned (MIG): nvidia-smi -mig 0", gpu->model);
}
