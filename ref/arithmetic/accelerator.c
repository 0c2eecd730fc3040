// SPDX-License-Identifier: Apache-2.0
#include "ref/arithmetic/accelerator.h"

#include "base/array.h"
#include "base/err.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct claim {
    uintptr_t begin, end;
};

// Global because all ranks of the process share its memory: the claimed ranges, in no order, and the accelerator that
// they belong to. accelerator_of reads `count` without the lock, so that a process without an accelerator pays only for
// a load.
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct claim *claims;
static size_t capacity;
static atomic_size_t count;
static const struct accelerator *_Atomic present;

int accelerator_claim(const struct accelerator *accelerator, const void *memory, size_t bytes)
{
    assert(accelerator && memory && bytes > 0);
    pthread_rwlock_wrlock(&lock);
    assert(!present || present == accelerator);
    int code = array_grow(&claims, &capacity, count, sizeof *claims, "allocations on the accelerator");
    if (code == ERR_NONE) {
        claims[count] = (struct claim){(uintptr_t)memory, (uintptr_t)memory + bytes};
        present = accelerator;
        count++;
    }
    pthread_rwlock_unlock(&lock);
    return code;
}

void accelerator_disclaim(const void *memory)
{
    pthread_rwlock_wrlock(&lock);
    size_t i = 0;
    while (i < count && claims[i].begin != (uintptr_t)memory)
        i++;
    assert(i < count);
    claims[i] = claims[--count];
    pthread_rwlock_unlock(&lock);
}

const struct accelerator *accelerator_of(const void *address)
{
    if (atomic_load_explicit(&count, memory_order_relaxed) == 0)
        return NULL;
    bool found = false;
    pthread_rwlock_rdlock(&lock);
    for (size_t i = 0; i < count && !found; i++)
        found = claims[i].begin <= (uintptr_t)address && (uintptr_t)address < claims[i].end;
    pthread_rwlock_unlock(&lock);
    return found ? present : NULL;
}

int accelerator_wait(void)
{
    const struct accelerator *accelerator = present;
    return accelerator ? accelerator->wait() : ERR_NONE;
}

int bytes_copy(void *to, const void *from, size_t bytes)
{
    if (bytes == 0)
        return ERR_NONE;
    assert(to && from);
    const struct accelerator *accelerator = accelerator_of(to);
    accelerator = accelerator ? accelerator : accelerator_of(from);
    if (accelerator)
        return accelerator->copy(to, from, bytes);
    memcpy(to, from, bytes);
    return ERR_NONE;
}

int bytes_zero(void *memory, size_t bytes)
{
    assert(memory || bytes == 0);
    const struct accelerator *accelerator = accelerator_of(memory);
    assert(!accelerator || ((uintptr_t)memory % 4 == 0 && bytes % 4 == 0));
    if (accelerator)
        return bytes > 0 ? accelerator->fill(memory, 0, bytes) : ERR_NONE;
    memset(memory, 0, bytes);
    return ERR_NONE;
}
