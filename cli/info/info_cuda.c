// SPDX-License-Identifier: Apache-2.0
#include "cli/info/info.h"

#include "base/gpu.h"
#include "base/machine.h"

#ifdef ZG_HAVE_CUDA
#include "ref/cuda/cuda_info.h"
#endif

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *text_of(const json_t *cuda, const char *key)
{
    return json_string_value(json_object_get(cuda, key));
}

json_t *info_cuda(void)
{
#ifdef ZG_HAVE_CUDA
    return cuda_info();
#else
    return json_null();
#endif
}

#ifdef ZG_HAVE_CUDA
// The devices that CUDA lets this process use, in its order, with what the driver's management library says of each.
static json_t *usable_gpus(void)
{
    struct gpu gpus[GPU_MAX];
    size_t count = gpus_read(gpus), index;
    json_t *devices = cuda_info_models(), *device, *facts = json_array();
    json_array_foreach (devices, index, device) {
        size_t i = 0;
        while (i < count && strcmp(gpus[i].pci, text_of(device, "pci")) != 0)
            i++;
        json_array_append_new(facts,
                              i < count ? gpu_json(&gpus[i]) : json_pack("{s:s}", "model", text_of(device, "model")));
    }
    json_decref(devices);
    return facts;
}
#endif

json_t *info_machine(const char *const *folders)
{
    json_t *machine = machine_facts(folders);
#ifdef ZG_HAVE_CUDA
    json_t *gpus = usable_gpus();
    if (machine && json_array_size(gpus) > 0)
        json_object_set(machine, "gpus", gpus);
    json_decref(gpus);
#endif
    return machine;
}

static void add(json_t *list, const char *name, bool built_in, const char *note)
{
    json_array_append_new(list, json_pack("{s:s, s:b, s:s}", "name", name, "built_in", built_in, "note", note));
}

void info_cuda_backends(const json_t *cuda, json_t *list)
{
    char note[1024];
    if (!json_is_object(cuda)) {
        add(list, "cuda", false,
            "not found at build time (needs nvcc of the CUDA toolkit): the device tier is host memory under a budget");
        return;
    }
    const char *absent = text_of(cuda, "absent"), *driver = text_of(cuda, "driver");
    const char *cublas = text_of(cuda, "cublas");
    if (absent)
        snprintf(note, sizeof note, "runtime %s; %s: the device tier is host memory under a budget",
                 text_of(cuda, "runtime"), absent);
    else
        snprintf(note, sizeof note, "runtime %s, driver %s, devices: %zu; --device cuda uses them",
                 text_of(cuda, "runtime"), driver ? driver : "unknown",
                 json_array_size(json_object_get(cuda, "devices")));
    add(list, "cuda", true, note);
    snprintf(note, sizeof note, cublas ? "%s, matrix products on GPUs" : "not found: a GPT cannot run on a GPU%s",
             cublas ? cublas : "");
    add(list, "cublas", cublas != NULL, note);
}

void info_cuda_print(const json_t *cuda)
{
    size_t index;
    const json_t *device;
    json_array_foreach (json_object_get(cuda, "devices"), index, device)
        printf("device %-4zu %s, compute capability %s, %.4g GiB, %lld multiprocessors, %lld copy engines, PCI %s\n",
               index, text_of(device, "name"), text_of(device, "compute_capability"),
               (double)json_integer_value(json_object_get(device, "memory_bytes")) / (1 << 30),
               (long long)json_integer_value(json_object_get(device, "multiprocessors")),
               (long long)json_integer_value(json_object_get(device, "copy_engines")), text_of(device, "pci"));
}

void info_gpu_print(const json_t *facts)
{
    struct gpu gpu;
    char reason[GPU_REASON_BYTES];
    gpu_from_json(facts, &gpu);
    const double *v = gpu.values;
    printf("GPU         %s", gpu.model);
    if (json_is_string(json_object_get(facts, "driver")))
        printf(", driver %s", text_of(facts, "driver"));
    if (v[GPU_POWER_LIMIT_W] > 0)
        printf(", %.0f of %.0f W", v[GPU_POWER_LIMIT_W], v[GPU_POWER_DEFAULT_W]);
    if (v[GPU_CLOCK_MOST_MHZ] > 0)
        printf(", %.0f MHz at most", v[GPU_CLOCK_MOST_MHZ]);
    if (v[GPU_ECC] >= 0)
        printf(", ECC %s", v[GPU_ECC] > 0 ? "on" : "off");
    if (v[GPU_PCIE_LANES] > 0)
        printf(", PCIe %.0f x%.0f", v[GPU_PCIE_GENERATION_MOST], v[GPU_PCIE_LANES]);
    gpu_reason(&gpu, reason);
    printf("%s%s\n", *reason ? "; SLOW: " : "", reason);
}
