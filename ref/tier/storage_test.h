// SPDX-License-Identifier: Apache-2.0
// For tests of files: memory and folders for direct I/O, and contents that identify their position.
#pragma once

#include "base/err.h"
#include "ref/tier/io.h"
#include "ref/arithmetic/random.h"

#include <criterion/criterion.h>

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// A folder on a disk with direct I/O: that of the environment variable ZG_TEST_STORAGE, or the build folder. And a
// second folder on the same disk. Set before main.
static char storage_folder[192], storage_second_folder[200];

__attribute__((constructor)) static void storage_find(void)
{
    const char *named = getenv("ZG_TEST_STORAGE");
    int length = snprintf(storage_folder, sizeof storage_folder, "%s", named && *named ? named : ZG_BINARY_DIR);
    if (length >= (int)sizeof storage_folder)
        abort();
    snprintf(storage_second_folder, sizeof storage_second_folder, "%s/second", storage_folder);
    (void)mkdir(storage_second_folder, 0777);  // a test that needs it says that it is not there
}

// A folder without direct I/O on most systems.
#define STORAGE_MEMORY_FOLDER "/dev/shm"

// Allocates memory aligned for direct I/O; release it with free.
static inline unsigned char *storage_memory(size_t bytes)
{
    size_t whole = (bytes / IO_ALIGNMENT + 1) * IO_ALIGNMENT;
    unsigned char *memory = aligned_alloc(IO_ALIGNMENT, whole);
    cr_assert_not_null(memory);
    memset(memory, 0xa5, whole);
    return memory;
}

// Fills memory with words that differ from word to word and from seed to seed.
static inline void storage_fill(unsigned char *memory, size_t bytes, uint64_t seed)
{
    for (size_t at = 0; at + 8 <= bytes; at += 8) {
        uint64_t word = random_at(seed, at);
        memcpy(memory + at, &word, 8);
    }
}

static inline void expect_message(const char *part)
{
    cr_expect(strstr(err_message(), part), "no \"%s\" in: %s", part, err_message());
}

// Returns whether the engine is usable here, and reports the reason if not. For tests of both engines; tests of a
// single engine use storage_skips.
static inline bool storage_has(enum nvme_engine engine)
{
    struct io_queue *queue;
    if (io_queue_open(io_engine_of(engine), 1, &queue) != ERR_NONE) {
        printf("not tested with %s: %s\n", io_engine_of(engine)->name, err_message());
        return false;
    }
    io_queue_close(queue);
    return true;
}

static inline bool storage_skips(enum nvme_engine engine)
{
    if (storage_has(engine))
        return false;
    printf("TEST SKIPPED: %s\n", err_message());
    return true;
}
