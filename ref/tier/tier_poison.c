// SPDX-License-Identifier: Apache-2.0
#include "ref/tier/tier_poison.h"

#include <wchar.h>

_Static_assert(sizeof(wchar_t) == sizeof TIER_POISON, "wmemset fills with the pattern");

static const uint8_t pattern[2] = {TIER_POISON & 0xff, TIER_POISON >> 8 & 0xff};

void tier_poison(void *memory, size_t bytes)
{
    uint8_t *byte = memory, *end = byte + bytes;
    for (; byte < end && (uintptr_t)byte % sizeof TIER_POISON; byte++)
        *byte = pattern[(uintptr_t)byte % 2];
    size_t word_count = (size_t)(end - byte) / sizeof TIER_POISON;
    wmemset((wchar_t *)byte, (wchar_t)TIER_POISON, word_count);
    byte += word_count * sizeof TIER_POISON;
    for (; byte < end; byte++)
        *byte = pattern[(uintptr_t)byte % 2];
}

bool tier_is_poison(const void *memory, size_t bytes, uintptr_t address)
{
    const uint8_t *byte = memory;
    for (size_t i = 0; i < bytes; i++)
        if (byte[i] != pattern[(address + i) % 2])
            return false;
    return true;
}
