// SPDX-License-Identifier: Apache-2.0
// The memory of NVIDIA's GPUs that processes hold, as NVML tells it where the driver has installed it. In a container
// it tells the process ids of the host, which are nobody's here.
#pragma once

#include "base/process/launch_watch.h"

// Brings `device_bytes` of each process in `list` to the most that it was seen to hold on all GPUs together.
void launch_gpus_read(struct process_list *list);
