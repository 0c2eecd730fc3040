// SPDX-License-Identifier: Apache-2.0
#include "validate/health/device_check.h"

#include "base/err.h"

#ifdef ZG_HAVE_CUDA
#include "ref/cuda/cuda_lane.h"
#endif

#include <stdio.h>
#include <string.h>

int device_check_find(const char *name, int *devices, int *multiprocessors)
{
    *devices = *multiprocessors = 0;
    if (strcmp(name, "cuda") != 0)
        return err_set(ERR_USAGE, "--device %s: expected cuda", name);
#ifdef ZG_HAVE_CUDA
    const char *absent = cuda_lane_absent();
    if (absent)
        return err_set(ERR_USAGE, "--device cuda: %s", absent);
    *devices = cuda_lane_device_count();
    for (int device = 0; device < *devices; device++) {
        int count = cuda_check_multiprocessors(device);
        *multiprocessors = count > *multiprocessors ? count : *multiprocessors;
    }
    return ERR_NONE;
#else
    return err_set(ERR_USAGE, "--device cuda: this program was built without CUDA");
#endif
}

int device_check(uint64_t seed, const struct device_flip *flip, uint64_t round_number, struct health_round *round,
                 char text[HEALTH_TEXT_MAX])
{
#ifdef ZG_HAVE_CUDA
    return cuda_check(seed, flip, round_number, round, text);
#else
    (void)seed, (void)flip, (void)round_number, (void)round, (void)text;
    return err_set(ERR_INTERNAL, "no device was found");
#endif
}
