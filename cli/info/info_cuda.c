// SPDX-License-Identifier: Apache-2.0
#include "cli/info/info.h"

#include "base/machine.h"

#ifdef ZG_HAVE_CUDA
#include "ref/cuda/cuda_info.h"
#endif

#include <stdbool.h>
#include <stdio.h>

json_t *info_cuda(void)
{
#ifdef ZG_HAVE_CUDA
    return cuda_info();
#else
    return json_null();
#endif
}

json_t *info_machine(const char *const *folders)
{
    json_t *machine = machine_facts(folders);
#ifdef ZG_HAVE_CUDA
    json_t *models = cuda_info_models();
    if (machine && json_array_size(models) > 0)
        json_object_set(machine, "gpus", models);
    json_decref(models);
#endif
    return machine;
}

static void add(json_t *list, const char *name, bool built_in, const char *note)
{
    json_array_append_new(list, json_pack("{s:s, s:b, s:s}", "name", name, "built_in", built_in, "note", note));
}

static const char *text_of(const json_t *cuda, const char *key)
{
    return json_string_value(json_object_get(cuda, key));
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
