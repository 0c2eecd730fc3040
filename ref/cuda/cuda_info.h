// SPDX-License-Identifier: Apache-2.0
// The CUDA devices and libraries of this machine, for `zerogauge info` and for result files. Works without a GPU.
#pragma once

#include <jansson.h>

// Returns {"runtime":"13.0","driver":"13.0","absent":null,"cublas":"13.1.0","devices":[{"name":"..",
// "compute_capability":"9.0","memory_bytes":..,"multiprocessors":..,"copy_engines":..,"pci":"0000:3b:00"},...]}.
// driver is null if none is loaded; absent is null if devices are usable, else the reason; cublas is the version of the
// library found.
json_t *cuda_info(void);

// Returns [{"model":"..","pci":"0000:3b:00"},...], the usable devices.
json_t *cuda_info_models(void);
