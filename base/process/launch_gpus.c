// SPDX-License-Identifier: Apache-2.0
#include "base/process/launch_gpus.h"

#include <dlfcn.h>
#include <pthread.h>

enum { HOLDERS_MAX = 256 };

// nvmlProcessInfo_t of NVML's version 2 of it, which _v3 of the call fills.
struct holder {
    unsigned pid;
    unsigned long long bytes;  // all bits set: not told
    unsigned gpu_instance, compute_instance;
};

static struct {
    pthread_once_t once;
    int (*init)(void);
    int (*count)(unsigned *out);
    int (*device)(unsigned index, void **out);
    int (*holders)(void *device, unsigned *count, struct holder *out);
    unsigned device_count;
} nvml = {.once = PTHREAD_ONCE_INIT};

static void load(void)
{
    void *handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return;
    *(void **)&nvml.init = dlsym(handle, "nvmlInit_v2");
    *(void **)&nvml.count = dlsym(handle, "nvmlDeviceGetCount_v2");
    *(void **)&nvml.device = dlsym(handle, "nvmlDeviceGetHandleByIndex_v2");
    *(void **)&nvml.holders = dlsym(handle, "nvmlDeviceGetComputeRunningProcesses_v3");
    if (!nvml.init || !nvml.count || !nvml.device || !nvml.holders || nvml.init() != 0 ||
        nvml.count(&nvml.device_count) != 0)
        nvml.device_count = 0;
}

void gpus_read(struct process_list *list)
{
    static struct holder holders[HOLDERS_MAX];
    pthread_once(&nvml.once, load);
    for (size_t i = 0; i < list->count; i++)
        list->list[i].device_now_bytes = 0;
    for (unsigned index = 0; index < nvml.device_count; index++) {
        void *device = NULL;
        unsigned count = HOLDERS_MAX;
        if (nvml.device(index, &device) != 0 || nvml.holders(device, &count, holders) != 0)
            continue;
        for (unsigned k = 0; k < count; k++) {
            struct process *process = process_find(list, (pid_t)holders[k].pid);
            if (process && ~holders[k].bytes != 0)
                process->device_now_bytes += holders[k].bytes;
        }
    }
    for (size_t i = 0; i < list->count; i++)
        if (list->list[i].device_now_bytes > list->list[i].device_bytes)
            list->list[i].device_bytes = list->list[i].device_now_bytes;
}
