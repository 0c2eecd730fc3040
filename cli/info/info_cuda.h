// SPDX-License-Identifier: Apache-2.0
// The facts about GPUs, in builds with and without CUDA.
#ifndef ZG_INFO_CUDA_H
#define ZG_INFO_CUDA_H

#include <jansson.h>

// The facts of cuda_info.h; JSON's null in a build without CUDA.
json_t *info_cuda(void);

// machine_facts (base/machine.h), with the GPUs that CUDA can use, if there are any, instead of those that the driver
// lists.
json_t *info_machine(const char *const *folders);

// Appends a row for cuda and, in a build with CUDA, cublas. cuda: the result of info_cuda.
void info_cuda_backends(const json_t *cuda, json_t *list);

// Prints a line for each device.
void info_cuda_print(const json_t *cuda);

#endif
