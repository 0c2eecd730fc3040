// SPDX-License-Identifier: Apache-2.0
// The device tier on GPUs (accelerator.h). cudaMalloc provides memory on the calling thread's device, work is enqueued
// on the calling thread's stream (cuda_lane.h), and host memory for transfers is pinned.
//
// Each operation of the executor ends with one wait for its lane's stream, which costs the lane's thread some
// microseconds while the other streams continue. A completed operation is then complete for every thread, and the
// dependencies that executor.h derives hold across streams without events.
//
// Devices access each other's arrays as peers. Ranks that share a device share its memory but have separate budgets.
#pragma once

#include "ref/arithmetic/accelerator.h"

extern const struct accelerator cuda_accelerator;

// Returns the number of devices for rank_count ranks in this process: at most one for each rank, all able to access
// each other. ERR_USAGE: there is no device, or two cannot access each other; the message gives the remedy.
int cuda_devices_for(int rank_count, int *device_count);
