// SPDX-License-Identifier: Apache-2.0
// Tests of the NVMe tier against a copy of its contents in memory.
#include "ref/tier/tier_nvme.h"

#include "ref/tier/storage_test.h"

#include <errno.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

static const char *const disks[] = {storage_folder, storage_second_folder, storage_folder};

static struct tier_nvme_setting setting(int path_count, size_t block_bytes)
{
    return (struct tier_nvme_setting){
        .paths = disks,
        .path_count = path_count,
        .aio = {.block_bytes = block_bytes, .queue_depth = 4, .overlap_events = true, .intra_op_parallelism = 1},
        .checksum = true};
}

static struct tier_nvme *open_tier(const struct tier_nvme_setting *wanted, struct ledger *ledger)
{
    struct tier_nvme *tier = NULL;
    cr_assert_eq(tier_nvme_open(wanted, ledger, &tier), ERR_NONE, "%s", err_message());
    return tier;
}

static unsigned char *allocate(struct tier_nvme *tier, const char *name, size_t bytes)
{
    void *out = NULL;
    cr_assert_eq(tier_nvme_allocate(tier, KIND_OPTIMIZER, name, bytes, 0, &out), ERR_NONE, "%s", err_message());
    return out;
}

enum { BLOCK = TIER_NVME_ALIGNMENT };

// Allocations of 1, 3, 17 and 61 blocks; random parts of them are written and read, and compared with the shadow.
static void random_transfers(const struct tier_nvme_setting *wanted, uint64_t seed, int count)
{
    static const size_t blocks[] = {1, 3, 17, 61};
    enum { ALLOCATIONS = 4, MOST = 61 };
    struct tier_nvme *tier = open_tier(wanted, NULL);
    unsigned char *at[ALLOCATIONS], *shadow[ALLOCATIONS], *memory = storage_memory(MOST * BLOCK);
    for (int i = 0; i < ALLOCATIONS; i++) {
        at[i] = allocate(tier, "state", blocks[i] * BLOCK);
        shadow[i] = storage_memory(blocks[i] * BLOCK);
        storage_fill(shadow[i], blocks[i] * BLOCK, random_key(seed, (uint64_t)i));
        cr_assert_eq(tier_nvme_write(tier, at[i], shadow[i], blocks[i] * BLOCK), ERR_NONE, "%s", err_message());
    }
    for (int step = 0; step < count; step++) {
        uint64_t bits = random_at(seed, (uint64_t)step);
        size_t which = random_below(bits, ALLOCATIONS);
        size_t first = random_below(random_mix(bits + 1), blocks[which]);
        size_t bytes = random_below(random_mix(bits + 2), blocks[which] - first + 1) * BLOCK;
        unsigned char *there = at[which] + first * BLOCK, *copy = shadow[which] + first * BLOCK;
        if (bits & 1) {
            storage_fill(copy, bytes, bits);
            cr_assert_eq(tier_nvme_write(tier, there, copy, bytes), ERR_NONE, "%s", err_message());
        } else {
            memset(memory, 0xa5, MOST * BLOCK);
            cr_assert_eq(tier_nvme_read(tier, there, memory, bytes), ERR_NONE, "%s", err_message());
            cr_assert(memcmp(memory, copy, bytes) == 0, "step %d: blocks %zu + %zu", step, first, bytes / BLOCK);
            cr_assert_eq(memory[bytes], bytes < MOST * BLOCK ? 0xa5 : memory[bytes], "step %d: beyond the end", step);
        }
    }
    for (int i = 0; i < ALLOCATIONS; i++)
        free(shadow[i]);
    free(memory);
    tier_nvme_close(tier);
}

static void every_setting(enum nvme_engine engine)
{
    if (storage_skips(engine))
        return;
    uint64_t seed = 1;
    for (int paths = 1; paths <= 3; paths++)
        for (int flags = 0; flags < 8; flags++) {
            struct tier_nvme_setting wanted = setting(paths, (size_t[]){1, 4, 16}[(paths + flags) % 3] * BLOCK);
            wanted.aio.engine = engine;
            wanted.aio.single_submit = flags & 1;
            wanted.aio.overlap_events = flags & 2;
            wanted.aio.intra_op_parallelism = flags & 4 ? 2 : 1;
            wanted.checksum = seed % 3 != 0;
            random_transfers(&wanted, seed++, 60);
        }
}

Test(tier_nvme, concurrent_libaio_gives_back_what_was_written_whatever_the_setting)
{
    every_setting(NVME_LIBAIO);
}

Test(tier_nvme, concurrent_io_uring_gives_back_what_was_written_whatever_the_setting)
{
    every_setting(NVME_IO_URING);
}

static uint64_t held(const struct ledger *ledger, enum ledger_kind kind)
{
    return ledger->held_bytes[TIER_NVME][kind];
}

Test(tier_nvme, the_ledger_counts_whole_blocks_and_names_their_ends_padding)
{
    struct ledger ledger = {0};
    struct tier_nvme_setting wanted = setting(2, BLOCK);
    struct tier_nvme *tier = open_tier(&wanted, &ledger);
    void *one, *exact, *none;
    cr_assert_eq(tier_nvme_allocate(tier, KIND_MASTER, "one", 1, 0, &one), ERR_NONE);
    cr_assert_eq(tier_nvme_allocate(tier, KIND_MASTER, "exact", 3 * BLOCK, 100, &exact), ERR_NONE);
    cr_assert_eq(tier_nvme_allocate(tier, KIND_MASTER, "none", 0, 0, &none), ERR_NONE);
    cr_assert(none && none != one && none != exact);
    cr_expect_eq(held(&ledger, KIND_MASTER), 1 + 3 * BLOCK - 100);
    cr_expect_eq(held(&ledger, KIND_PADDING), BLOCK - 1 + 100);
    cr_expect_eq(ledger.tier_bytes[TIER_NVME], 4 * BLOCK);
    tier_nvme_close(tier);
    cr_expect_eq(held(&ledger, KIND_MASTER), 0);
    cr_expect_eq(held(&ledger, KIND_PADDING), 0);
    cr_expect_eq(ledger.tier_bytes[TIER_NVME], 0);
    cr_expect_eq(ledger.tier_peak_bytes[TIER_NVME], 4 * BLOCK);
}

Test(tier_nvme, beyond_the_budget_is_refused_with_a_list_of_what_is_held)
{
    struct ledger ledger = {0};
    struct tier_nvme_setting wanted = setting(2, BLOCK);
    wanted.budget_bytes = 10 * BLOCK;
    struct tier_nvme *tier = open_tier(&wanted, &ledger);
    void *out;
    allocate(tier, "moments", 9 * BLOCK);
    cr_assert_eq(tier_nvme_allocate(tier, KIND_MASTER, "master", BLOCK + 1, 0, &out), ERR_BUDGET);
    expect_message("8 KiB for \"master\" does not fit: 40 KiB budget, 36 KiB held (optimizer 36 KiB), 4 KiB short");
    expect_message("--nvme-space");
    cr_assert_eq(ledger.tier_bytes[TIER_NVME], 9 * BLOCK);
    cr_assert_eq(tier_nvme_allocate(tier, KIND_MASTER, "master", BLOCK, 0, &out), ERR_NONE, "%s", err_message());
    cr_assert_eq(tier_nvme_allocate(tier, KIND_MASTER, "master", 1, 0, &out), ERR_BUDGET);
    tier_nvme_close(tier);
}

Test(tier_nvme, a_block_that_was_never_written_cannot_be_read)
{
    for (int checksum = 0; checksum < 2; checksum++) {
        struct tier_nvme_setting wanted = setting(2, 2 * BLOCK);
        wanted.checksum = checksum;
        struct tier_nvme *tier = open_tier(&wanted, NULL);
        unsigned char *at = allocate(tier, "moments", 5 * BLOCK), *memory = storage_memory(5 * BLOCK);
        cr_assert_eq(tier_nvme_write(tier, at, memory, 2 * BLOCK), ERR_NONE, "%s", err_message());
        cr_assert_eq(tier_nvme_write(tier, at + 3 * BLOCK, memory, 2 * BLOCK), ERR_NONE, "%s", err_message());
        cr_expect_eq(tier_nvme_read(tier, at, memory, 2 * BLOCK), ERR_NONE, "%s", err_message());
        cr_expect_eq(tier_nvme_read(tier, at, memory, 5 * BLOCK), ERR_INTERNAL);
        expect_message("byte 8192 of \"moments\" is read before it was written");
        tier_nvme_close(tier);
        free(memory);
    }
}

Test(tier_nvme, what_is_outside_or_not_aligned_is_refused)
{
    struct tier_nvme_setting wanted = setting(1, BLOCK);
    struct tier_nvme *tier = open_tier(&wanted, NULL);
    unsigned char *at = allocate(tier, "moments", 3 * BLOCK - 1), *memory = storage_memory(4 * BLOCK);
    cr_expect_eq(tier_nvme_write(tier, at, memory, 3 * BLOCK), ERR_NONE, "%s", err_message());
    cr_expect_eq(tier_nvme_write(tier, at + BLOCK, memory, 3 * BLOCK), ERR_INTERNAL);
    cr_expect_eq(tier_nvme_write(tier, at, memory, 100), ERR_INTERNAL);
    cr_expect_eq(tier_nvme_write(tier, at + 512, memory, BLOCK), ERR_INTERNAL);
    cr_expect_eq(tier_nvme_read(tier, at, memory + 64, BLOCK), ERR_INTERNAL);
    expect_message("\"moments\"");
    cr_expect_eq(tier_nvme_read(tier, memory, memory, BLOCK), ERR_INTERNAL);
    expect_message("lies in no allocation");
    cr_expect_eq(tier_nvme_read(tier, at + BLOCK, memory, 0), ERR_NONE, "%s", err_message());
    tier_nvme_close(tier);
    free(memory);
}

// Returns the disk space of this program's unnamed files.
static uint64_t unnamed_bytes(void)
{
    uint64_t bytes = 0;
    for (int file = 3; file < 256; file++) {
        struct stat status;
        if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 0)
            bytes += (uint64_t)status.st_blocks * 512;
    }
    return bytes;
}

Test(tier_nvme, a_folder_without_direct_io_says_so_and_works_when_told_to)
{
    struct tier_nvme_setting wanted = setting(2, BLOCK);
    static const char *const folders[] = {storage_folder, STORAGE_MEMORY_FOLDER};
    wanted.paths = folders;
    struct statfs system;
    if (statfs(STORAGE_MEMORY_FOLDER, &system) != 0 || system.f_type != TMPFS_MAGIC) {
        printf("TEST SKIPPED: %s is not memory here\n", STORAGE_MEMORY_FOLDER);
        return;
    }
    struct tier_nvme *tier;
    cr_assert_eq(tier_nvme_open(&wanted, NULL, &tier), ERR_USAGE);
    expect_message(STORAGE_MEMORY_FOLDER ": ");
    expect_message("O_DIRECT");
    expect_message("--buffered");
    wanted.buffered = true;
    for (int engine = 0; engine < NVME_ENGINE_COUNT; engine++) {
        wanted.aio.engine = (enum nvme_engine)engine;
        if (storage_has(wanted.aio.engine))
            random_transfers(&wanted, 5, 30);
    }
}

Test(tier_nvme, folders_and_settings_that_cannot_be_are_named)
{
    static const struct {
        const char *folder;
        size_t block_bytes;
        int depth, threads;
        const char *said;
    } bad[] = {
        {ZG_SOURCE_DIR "/none", BLOCK, 1, 1, "/none: cannot create a file there: No such file or directory"},
        {ZG_SOURCE_DIR "/README.md", BLOCK, 1, 1, "README.md: cannot create a file there: Not a directory"},
        {storage_folder, 0, 1, 1, "aio.block_size 0"},
        {storage_folder, 5000, 1, 1, "aio.block_size 5000: expected a multiple of 4096"},
        {storage_folder, BLOCK, 0, 1, "aio.queue_depth 0"},
        {storage_folder, BLOCK, 1, 0, "aio.intra_op_parallelism 0"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct tier_nvme_setting wanted = setting(1, bad[i].block_bytes);
        wanted.paths = &bad[i].folder;
        wanted.aio.queue_depth = bad[i].depth;
        wanted.aio.intra_op_parallelism = bad[i].threads;
        struct tier_nvme *tier;
        cr_expect_eq(tier_nvme_open(&wanted, NULL, &tier), ERR_USAGE, "case %zu", i);
        expect_message(bad[i].said);
    }
    struct tier_nvme_setting nowhere = setting(0, BLOCK);
    struct tier_nvme *tier;
    cr_expect_eq(tier_nvme_open(&nowhere, NULL, &tier), ERR_USAGE);
}

// A file system of 1 MiB that this process alone sees.
static bool mount_small(const char *folder)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return false;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount("small", folder, "tmpfs", 0, "size=1m") == 0;
}

Test(tier_nvme, a_full_file_system_shows_at_the_allocation_and_takes_nothing)
{
    char folder[sizeof storage_folder + 16];
    snprintf(folder, sizeof folder, "%s/small-XXXXXX", storage_folder);
    cr_assert_not_null(mkdtemp(folder));
    if (!mount_small(folder)) {
        printf("TEST SKIPPED: no file system can be mounted here: %s\n", strerror(errno));
        rmdir(folder);
        return;
    }
    const char *const folders[] = {folder, storage_folder};
    struct ledger ledger = {0};
    struct tier_nvme_setting wanted = setting(2, BLOCK);
    wanted.paths = folders;
    wanted.buffered = true;
    struct tier_nvme *tier = open_tier(&wanted, &ledger);
    unsigned char *memory = storage_memory(400 * BLOCK), *kept = allocate(tier, "kept", 400 * BLOCK);
    uint64_t taken = unnamed_bytes();
    for (int i = 0; i < 3; i++) {
        void *out;
        cr_expect_eq(tier_nvme_allocate(tier, KIND_MASTER, "master", 400 * BLOCK, 0, &out), ERR_IO);
        expect_message(folder);
        expect_message("no space for 800 KiB of \"master\" (No space left on device, 224 KiB free)");
    }
    cr_expect_eq(held(&ledger, KIND_MASTER), 0);
    cr_expect_leq(unnamed_bytes(), taken + BLOCK, "what was refused is held");
    cr_expect_eq(tier_nvme_write(tier, kept, memory, 400 * BLOCK), ERR_NONE, "%s", err_message());
    allocate(tier, "small", 100 * BLOCK);
    tier_nvme_close(tier);
    free(memory);
    umount(folder);
    rmdir(folder);
}

Test(tier_nvme, a_limit_on_files_shows_at_the_allocation_and_takes_nothing)
{
    struct ledger ledger = {0};
    struct tier_nvme_setting wanted = setting(2, BLOCK);
    struct tier_nvme *tier = open_tier(&wanted, &ledger);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 100 * BLOCK;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    unsigned char *memory = storage_memory(150 * BLOCK), *kept = allocate(tier, "kept", 150 * BLOCK);
    void *out;
    int code = tier_nvme_allocate(tier, KIND_MASTER, "master", 51 * BLOCK, 0, &out);
    cr_expect_eq(code, ERR_IO);
    expect_message("\"master\"");
    expect_message("ulimit -f");
    cr_expect_eq(held(&ledger, KIND_MASTER), 0);
    cr_expect_eq(tier_nvme_write(tier, kept, memory, 150 * BLOCK), ERR_NONE, "%s", err_message());
    cr_expect_eq(tier_nvme_allocate(tier, KIND_MASTER, "master", 50 * BLOCK, 0, &out), ERR_NONE, "%s", err_message());
    cr_expect_eq(tier_nvme_write(tier, out, memory, 50 * BLOCK), ERR_NONE, "%s", err_message());
    setrlimit(RLIMIT_FSIZE, &before);
    tier_nvme_close(tier);
    free(memory);
}

// One direction's work of a thread: its own allocation, over and over.
struct traffic {
    struct tier_nvme *tier;
    unsigned char *at, *memory;
    size_t bytes;
    bool write;
    int code;
};

static void *traffic_run(void *argument)
{
    struct traffic *traffic = argument;
    for (int i = 0; i < 20 && traffic->code == ERR_NONE; i++)
        traffic->code = traffic->write ? tier_nvme_write(traffic->tier, traffic->at, traffic->memory, traffic->bytes)
                                       : tier_nvme_read(traffic->tier, traffic->at, traffic->memory, traffic->bytes);
    return NULL;
}

static void read_beside_write(enum nvme_engine engine, int threads)
{
    if (!storage_has(engine))
        return;
    const size_t bytes = 301 * BLOCK;
    struct tier_nvme_setting wanted = setting(2, 4 * BLOCK);
    wanted.aio.engine = engine;
    wanted.aio.intra_op_parallelism = threads;
    struct tier_nvme *tier = open_tier(&wanted, NULL);
    unsigned char *first = allocate(tier, "first", bytes), *second = allocate(tier, "second", bytes);
    unsigned char *source = storage_memory(bytes), *memory = storage_memory(bytes);
    storage_fill(source, bytes, 11);
    cr_assert_eq(tier_nvme_write(tier, first, source, bytes), ERR_NONE, "%s", err_message());
    struct traffic reading = {tier, first, memory, bytes, false, ERR_NONE};
    struct traffic writing = {tier, second, source, bytes, true, ERR_NONE};
    pthread_t reader, writer;
    cr_assert_eq(pthread_create(&reader, NULL, traffic_run, &reading), 0);
    cr_assert_eq(pthread_create(&writer, NULL, traffic_run, &writing), 0);
    // Others allocate meanwhile.
    for (int i = 0; i < 20; i++)
        allocate(tier, "passing", (size_t)(i + 1) * BLOCK);
    pthread_join(reader, NULL);
    pthread_join(writer, NULL);
    cr_assert_eq(reading.code, ERR_NONE);
    cr_assert_eq(writing.code, ERR_NONE);
    cr_assert(memcmp(memory, source, bytes) == 0);
    memset(memory, 0, bytes);
    cr_assert_eq(tier_nvme_read(tier, second, memory, bytes), ERR_NONE, "%s", err_message());
    cr_assert(memcmp(memory, source, bytes) == 0);
    tier_nvme_close(tier);
    free(source);
    free(memory);
}

Test(tier_nvme, concurrent_one_thread_reads_while_another_writes)
{
    for (int engine = 0; engine < NVME_ENGINE_COUNT; engine++)
        for (int threads = 1; threads <= 3; threads += 2)
            read_beside_write((enum nvme_engine)engine, threads);
}
