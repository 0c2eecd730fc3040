// SPDX-License-Identifier: Apache-2.0
// The part of `zerogauge info` about GPUs, in every build.
#ifndef ZG_INFO_CUDA_H
#define ZG_INFO_CUDA_H

#include <jansson.h>

// What cuda_info.h finds, or null in a build without CUDA.
json_t *info_cuda(void);

// Appends a row each to the list of backends: cuda, cublas, cufile; cuda is what info_cuda has returned.
void info_cuda_backends(const json_t *cuda, json_t *list);

// A line for each device.
void info_cuda_print(const json_t *cuda);

#endif
