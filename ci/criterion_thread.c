// SPDX-License-Identifier: Apache-2.0
// Part of every test program in builds with the thread sanitizer. Criterion's sandbox draws addresses below
// 0x600000000000, asks mincore and msync whether one is free, and maps its arena there. Most of that range is the
// sanitizer's own, so that none ever is. These functions send the arena to where programs may have memory.
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

void *__interceptor_mmap64(void *address, size_t bytes, int protection, int flags, int file, off_t offset);

__attribute__((no_sanitize_thread)) int mincore(void *address, size_t bytes, unsigned char *resident)
{
    (void)address;
    (void)bytes;
    (void)resident;
    errno = ENOMEM;
    return -1;
}

__attribute__((no_sanitize_thread)) int msync(void *address, size_t bytes, int flags)
{
    (void)address;
    (void)bytes;
    (void)flags;
    errno = ENOMEM;
    return -1;
}

__attribute__((no_sanitize_thread)) void *mmap64(void *address, size_t bytes, int protection, int flags, int file,
                                                 off_t offset)
{
    const uintptr_t window = UINT64_C(0x550000000000), window_bytes = UINT64_C(0x004000000000);
    const uintptr_t wanted = (uintptr_t)address;
    if ((flags & MAP_FIXED) && (flags & MAP_SHARED) && wanted - window >= window_bytes)
        address = (void *)(window + wanted % window_bytes);
    return __interceptor_mmap64(address, bytes, protection, flags, file, offset);
}
