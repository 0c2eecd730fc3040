// SPDX-License-Identifier: Apache-2.0
#include "base/openblas_room.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

// Of a buffer, and for what other threads may allocate between the look and the mapping.
static const size_t BUFFER_BYTES = (size_t)128 << 20, MARGIN_BYTES = (size_t)32 << 20;
enum { BUFFER_MAX = 64 };

// The library's own, with which it takes a buffer for a product and gives it back. The number is not used.
typedef void *take_buffer(int number);
typedef void give_buffer(void *buffer);

static struct {
    bool limited;
    rlim_t address_bytes, data_bytes;  // limits
    take_buffer *take;                 // null: a library without them
    give_buffer *give;
    pthread_mutex_t lock;
    pthread_cond_t left;
    int mapped;  // buffers
    int inside;  // threads in a product
    bool growing;
    bool full;  // there was no room for one more
} room = {.lock = PTHREAD_MUTEX_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};

// Linux then refuses what it could not give to all programs at once.
static bool commits_strictly(void)
{
    FILE *file = fopen("/proc/sys/vm/overcommit_memory", "re");
    int mode = file ? fgetc(file) : 0;
    if (file)
        fclose(file);
    return mode == '2';
}

void openblas_room_open(void)
{
    struct rlimit address = {RLIM_INFINITY, 0}, data = {RLIM_INFINITY, 0};
    getrlimit(RLIMIT_AS, &address);
    getrlimit(RLIMIT_DATA, &data);
    room.address_bytes = address.rlim_cur;
    room.data_bytes = data.rlim_cur;
    room.limited = address.rlim_cur != RLIM_INFINITY || data.rlim_cur != RLIM_INFINITY || commits_strictly();
}

static bool has_room(void)
{
    size_t bytes = BUFFER_BYTES + MARGIN_BYTES;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED)
        munmap(memory, bytes);
    return memory != MAP_FAILED;
}

// Maps one buffer more, while no thread is in a product: so many taken at the same time are so many mapped.
static bool map_another(void)
{
    void *buffers[BUFFER_MAX];
    if (room.mapped == BUFFER_MAX || !has_room())
        return false;
    room.mapped++;
    for (int i = 0; room.take && i < room.mapped; i++)
        buffers[i] = room.take(0);
    for (int i = 0; room.take && i < room.mapped; i++)
        room.give(buffers[i]);
    return true;
}

bool openblas_room_begin(void *handle)
{
    void *take = dlsym(handle, "blas_memory_alloc"), *give = dlsym(handle, "blas_memory_free");
    if (take && give) {
        memcpy(&room.take, &take, sizeof take);
        memcpy(&room.give, &give, sizeof give);
    }
    return !room.limited || map_another();
}

void openblas_room_explain(char *text, size_t bytes)
{
    text[0] = '\0';
    if (room.address_bytes != RLIM_INFINITY || room.data_bytes != RLIM_INFINITY)
        snprintf(text, bytes,
                 "OpenBLAS and its first buffer of %zu MiB do not fit into the limit of %s, %llu KiB: raise it with "
                 "`ulimit -%c`",
                 BUFFER_BYTES >> 20, room.address_bytes != RLIM_INFINITY ? "address space" : "data",
                 (unsigned long long)(room.address_bytes != RLIM_INFINITY ? room.address_bytes : room.data_bytes) /
                     1024,
                 room.address_bytes != RLIM_INFINITY ? 'v' : 'd');
    else if (room.limited)
        snprintf(text, bytes,
                 "OpenBLAS and its first buffer of %zu MiB do not fit into the memory that the system grants "
                 "(vm.overcommit_memory is 2)",
                 BUFFER_BYTES >> 20);
}

// With the lock: waits until no thread is in a product, and maps a buffer more.
static void grow(void)
{
    room.growing = true;
    while (room.inside > 0)
        pthread_cond_wait(&room.left, &room.lock);
    room.full = !map_another();
    room.growing = false;
    pthread_cond_broadcast(&room.left);
}

void openblas_room_enter(void)
{
    if (!room.limited)
        return;
    pthread_mutex_lock(&room.lock);
    while (room.growing || room.inside >= room.mapped)
        if (room.growing || room.full)
            pthread_cond_wait(&room.left, &room.lock);
        else
            grow();
    room.inside++;
    pthread_mutex_unlock(&room.lock);
}

void openblas_room_leave(void)
{
    if (!room.limited)
        return;
    pthread_mutex_lock(&room.lock);
    room.inside--;
    pthread_cond_broadcast(&room.left);
    pthread_mutex_unlock(&room.lock);
}
