// SPDX-License-Identifier: Apache-2.0
#include "ref/tier/tier_internal.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"
#include "ref/tier/tier_poison.h"

// The accelerator's alignment. The border at the end also includes the bytes that rounding up adds.
enum { BORDER_BYTES = 256 };

static size_t round_up(size_t bytes)
{
    return (bytes + BORDER_BYTES - 1) / BORDER_BYTES * BORDER_BYTES;
}

int apart_allocate(const struct accelerator *accelerator, const char *name, size_t bytes, uint8_t **out,
                   uintptr_t *begin, uintptr_t *end)
{
    void *memory;
    size_t all_bytes = BORDER_BYTES + round_up(bytes) + BORDER_BYTES;
    int code =
        bytes > SIZE_MAX / 2 ? err_set(ERR_MEMORY, "the size is too large") : accelerator->allocate(all_bytes, &memory);
    if (code != ERR_NONE)
        return err_prefix(code, "device memory: the device has no %zu bytes for \"%s\"", bytes, name);
    code = accelerator_claim(accelerator, memory, all_bytes);
    if (code != ERR_NONE) {
        (void)accelerator->release(memory);
        return code;
    }
    code = accelerator->fill(memory, TIER_POISON, all_bytes);
    // Waits, because other threads may use the memory as soon as this function returns.
    if (code == ERR_NONE)
        code = accelerator->wait();
    if (code != ERR_NONE) {
        accelerator_disclaim(memory);
        (void)accelerator->release(memory);
        return err_prefix(code, "device memory: \"%s\"", name);
    }
    *out = (uint8_t *)memory + BORDER_BYTES;
    *begin = (uintptr_t)memory;
    *end = (uintptr_t)memory + all_bytes;
    return ERR_NONE;
}

static bool border_is_untouched(const struct accelerator *accelerator, const uint8_t *border, size_t bytes)
{
    uint8_t copy[2 * BORDER_BYTES];
    if (accelerator->copy(copy, border, bytes) != ERR_NONE)
        return true;
    return tier_is_poison(copy, bytes, (uintptr_t)border);
}

bool apart_release(const struct accelerator *accelerator, uint8_t *address, size_t bytes)
{
    uint8_t *memory = address - BORDER_BYTES;
    size_t after_bytes = round_up(bytes) + BORDER_BYTES - bytes;
    // The copies of the borders wait for this thread's last operations on the memory.
    bool intact = border_is_untouched(accelerator, memory, BORDER_BYTES) &&
                  border_is_untouched(accelerator, address + bytes, after_bytes);
    accelerator_disclaim(memory);
    (void)accelerator->release(memory);
    return intact;
}
