// SPDX-License-Identifier: Apache-2.0
#include "validate/health/pin.h"

#include "base/err.h"

#include <sched.h>
#include <string.h>

// More cores than any machine of these years has; the kernel's masks have a fixed size in glibc's simple interface.
enum { CORE_LIMIT = 4096 };

int pin_to(int core)
{
    cpu_set_t *set = CPU_ALLOC(CORE_LIMIT);
    size_t bytes = CPU_ALLOC_SIZE(CORE_LIMIT);
    if (!set)
        return err_set(ERR_MEMORY, "out of memory for a set of cores");
    CPU_ZERO_S(bytes, set);
    CPU_SET_S((size_t)core, bytes, set);
    int status = sched_setaffinity(0, bytes, set);
    CPU_FREE(set);
    return status == 0 ? ERR_NONE : err_set(ERR_USAGE, "core %d: this process may not run there", core);
}

size_t pin_cores(int out[], size_t most)
{
    size_t count = 0, bytes = CPU_ALLOC_SIZE(CORE_LIMIT);
    cpu_set_t *set = CPU_ALLOC(CORE_LIMIT);
    if (set && sched_getaffinity(0, bytes, set) == 0)
        for (int core = 0; core < CORE_LIMIT && count < most; core++)
            if (CPU_ISSET_S((size_t)core, bytes, set))
                out[count++] = core;
    if (set)
        CPU_FREE(set);
    return count;
}
