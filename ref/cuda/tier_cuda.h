// SPDX-License-Identifier: Apache-2.0
// The device tier on GPUs (accelerator.h): its memory is cudaMalloc's on the calling thread's device, work is enqueued
// on the calling thread's stream (cuda_lane.h), and host memory for transfers is page-locked and known to the driver.
//
// An operation of an executor ends with one wait for its lane's stream: some microseconds of the lane's thread, during
// which the other lanes' streams go on. In exchange an operation that is complete is so for every thread, as on
// processors, and the dependencies that executor.h derives hold across streams without events.
//
// Arrays on different devices are reached by peer access. Ranks that share a device share its memory, not their
// budgets.
#ifndef ZG_TIER_CUDA_H
#define ZG_TIER_CUDA_H

#include "ref/arithmetic/accelerator.h"

extern const struct accelerator cuda_accelerator;

// The number of devices for so many ranks in this process: no more than ranks, and all within reach of each other.
// ERR_USAGE: there is none, or two cannot reach each other; the message says what to do.
int cuda_devices_for(int rank_count, int *device_count);

#endif
