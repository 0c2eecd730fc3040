// SPDX-License-Identifier: Apache-2.0
#include "base/openblas.h"

#include "base/err.h"

#include <assert.h>
#include <cblas.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

// Keeps OpenBLAS's calls of its own functions from coming here.
#define HIDDEN __attribute__((visibility("hidden")))

static struct {
    pthread_once_t once;
    char absent[512];     // the reason why OpenBLAS is not available; "" if it is
    char no_memory[256];  // the reason why it cannot be used although it is there; ""
    __typeof__(&cblas_sgemm) sgemm;
    __typeof__(&openblas_set_num_threads) set_num_threads;
    __typeof__(&openblas_get_num_threads) get_num_threads;
    __typeof__(&openblas_get_parallel) get_parallel;
    __typeof__(&openblas_get_config) get_config;
    __typeof__(&openblas_get_corename) get_corename;
} library = {.once = PTHREAD_ONCE_INIT};

// Memory for OpenBLAS where a limit may refuse it. Each thread in a product uses a buffer of the library, which maps a
// new one when all are in use, and tries for ever when it gets none. Under a limit the buffers are mapped here, after a
// look whether there is room; threads beyond their number wait for one.

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

// Linux then refuses what it could not give to all programs together.
static bool commits_strictly(void)
{
    FILE *file = fopen("/proc/sys/vm/overcommit_memory", "re");
    int mode = file ? fgetc(file) : 0;
    if (file)
        fclose(file);
    return mode == '2';
}

// Before the library is loaded.
static void room_open(void)
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

// Maps one buffer more, while no thread is in a product: all that are taken at the same time are mapped.
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

// Maps the first buffer of the library that was loaded. False: there is no room for it.
static bool room_begin(void *handle)
{
    void *take = dlsym(handle, "blas_memory_alloc"), *give = dlsym(handle, "blas_memory_free");
    if (take && give) {
        memcpy(&room.take, &take, sizeof take);
        memcpy(&room.give, &give, sizeof give);
    }
    return !room.limited || map_another();
}

// Writes which limit it is, and what to do; "" where there is none.
static void room_explain(char *text, size_t bytes)
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

// Around each product.
static void room_enter(void)
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

static void room_leave(void)
{
    if (!room.limited)
        return;
    pthread_mutex_lock(&room.lock);
    room.inside--;
    pthread_cond_broadcast(&room.left);
    pthread_mutex_unlock(&room.lock);
}

// Tries the program's own folder and the system's search path, then the path found at build time.
static void *open_from_paths(void)
{
    void *handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        snprintf(library.absent, sizeof library.absent, "%s", dlerror());
    return handle ? handle : dlopen(ZG_OPENBLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
}

// OpenBLAS starts a thread for each further processor that its loader may use. Ranks have threads of their own, and
// where memory is short its threads never end: so the loader may use one processor meanwhile.
static void *open_library(void)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    bool known = sched_getaffinity(0, sizeof all, &all) == 0;
    int here = sched_getcpu();
    if (known && here >= 0 && here < CPU_SETSIZE) {
        CPU_SET((size_t)here, &one);
        known = sched_setaffinity(0, sizeof one, &one) == 0;
    }
    void *handle = open_from_paths();
    if (known)
        (void)sched_setaffinity(0, sizeof all, &all);
    return handle;
}

static void load(void)
{
    const struct {
        const char *name;
        void *function;  // a pointer to the function's pointer
    } symbols[] = {
        {"cblas_sgemm", &library.sgemm},
        {"openblas_set_num_threads", &library.set_num_threads},
        {"openblas_get_num_threads", &library.get_num_threads},
        {"openblas_get_parallel", &library.get_parallel},
        {"openblas_get_config", &library.get_config},
        {"openblas_get_corename", &library.get_corename},
    };
    room_open();
    void *handle = open_library();
    if (!handle) {
        if (strstr(library.absent, "map segment") || strstr(library.absent, "allocate memory"))
            room_explain(library.no_memory, sizeof library.no_memory);
        return;
    }
    library.absent[0] = '\0';
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address)
            snprintf(library.absent, sizeof library.absent, "it lacks %s", symbols[i].name);
        memcpy(symbols[i].function, &address, sizeof address);
    }
    if (library.absent[0] == '\0' && !room_begin(handle))
        room_explain(library.no_memory, sizeof library.no_memory);
}

static bool is_loaded(void)
{
    pthread_once(&library.once, load);
    return library.absent[0] == '\0';
}

int openblas_load(void)
{
    bool loaded = is_loaded();
    if (library.no_memory[0] != '\0')
        return err_set(ERR_MEMORY, "%s", library.no_memory);
    return loaded ? ERR_NONE
                  : err_set(ERR_USAGE,
                            "GPTs need OpenBLAS, which is not available: %s; install it (Debian: "
                            "libopenblas0-pthread), or train a model of vectors (--model linear)",
                            library.absent);
}

HIDDEN void cblas_sgemm(const enum CBLAS_ORDER order, const enum CBLAS_TRANSPOSE transpose_a,
                        const enum CBLAS_TRANSPOSE transpose_b, const blasint m, const blasint n, const blasint k,
                        const float alpha, const float *a, const blasint a_stride, const float *b,
                        const blasint b_stride, const float beta, float *c, const blasint c_stride)
{
    bool loaded = is_loaded();
    assert(loaded && library.no_memory[0] == '\0');
    (void)loaded;
    room_enter();
    library.sgemm(order, transpose_a, transpose_b, m, n, k, alpha, a, a_stride, b, b_stride, beta, c, c_stride);
    room_leave();
}

HIDDEN void openblas_set_num_threads(int count)
{
    if (is_loaded())
        library.set_num_threads(count);
}

HIDDEN int openblas_get_num_threads(void)
{
    return is_loaded() ? library.get_num_threads() : -1;
}

HIDDEN int openblas_get_parallel(void)
{
    return is_loaded() ? library.get_parallel() : -1;
}

HIDDEN char *openblas_get_config(void)
{
    static char absent[] = "absent";
    return is_loaded() ? library.get_config() : absent;
}

HIDDEN char *openblas_get_corename(void)
{
    static char absent[] = "absent";
    return is_loaded() ? library.get_corename() : absent;
}
