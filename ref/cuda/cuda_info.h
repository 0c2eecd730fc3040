// SPDX-License-Identifier: Apache-2.0
// What CUDA finds on this machine, for `zerogauge info` and for result files. Nothing here needs a GPU.
#ifndef ZG_CUDA_INFO_H
#define ZG_CUDA_INFO_H

#include <jansson.h>

// {"runtime":"13.0","driver":"13.0","absent":null,"cublas":"13.1.0","cufile":null,"devices":[{"name":"..",
// "compute_capability":"9.0","memory_bytes":..,"multiprocessors":..,"copy_engines":..,"pci":"0000:3b:00"},...]}.
// driver is null where none is loaded, absent where devices can be used; cublas is the version of the library found;
// cufile is the library found, and what the kernel has for it.
json_t *cuda_info(void);

#endif
