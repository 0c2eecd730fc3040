// SPDX-License-Identifier: Apache-2.0
#include "ref/oracle/oracle_internal.h"

#include "base/err.h"

#include <stdlib.h>

int oracle_device_open(const struct accelerator *accelerator, int device, struct tier **out)
{
    const struct tier_setting setting = {.accelerator = accelerator, .device = device};
    *out = NULL;
    return accelerator ? tier_open(NULL, &setting, out) : ERR_NONE;
}

int oracle_array_open(struct tier *tier, size_t bytes, const char *name, struct oracle_array *out)
{
    // An empty tensor has memory, too.
    size_t room = bytes + sizeof(float);
    *out = (struct oracle_array){.here = calloc(1, room), .bytes = bytes};
    if (!out->here)
        return err_set(ERR_MEMORY, "no memory for the unsharded parameters of %s", name);
    out->there = out->here;
    return tier ? tier_allocate(tier, TIER_DEVICE, KIND_PARAMETER, "unsharded array", room, 0, &out->there) : ERR_NONE;
}

void oracle_array_close(struct oracle_array *array)
{
    free(array->here);
}

int oracle_array_push(const struct oracle_array *array)
{
    return array->there == array->here ? ERR_NONE : bytes_copy(array->there, array->here, array->bytes);
}

int oracle_array_pull(const struct oracle_array *array)
{
    return array->there == array->here ? ERR_NONE : bytes_copy(array->here, array->there, array->bytes);
}
