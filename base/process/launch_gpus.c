// SPDX-License-Identifier: Apache-2.0
#include "base/process/launch_gpus.h"

#include "base/gpu.h"

static void add(void *context, pid_t pid, uint64_t bytes)
{
    struct process *process = process_find(context, pid);
    if (process)
        process->device_now_bytes += bytes;
}

void launch_gpus_read(struct process_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        list->list[i].device_now_bytes = 0;
    gpus_each_holder(add, list);
    for (size_t i = 0; i < list->count; i++)
        if (list->list[i].device_now_bytes > list->list[i].device_bytes)
            list->list[i].device_bytes = list->list[i].device_now_bytes;
}
