// SPDX-License-Identifier: Apache-2.0
// Tests of transfers and of both engines, on a file that is compared with a copy of it in memory.
#include "ref/tier/io_pool.h"

#include "ref/tier/storage_test.h"

#include <errno.h>
#include <signal.h>
#include <sys/time.h>

enum { BLOCK = IO_ALIGNMENT };

static int open_file(void)
{
    int file = open(storage_folder, O_TMPFILE | O_RDWR | O_DIRECT, 0600);
    cr_assert_geq(file, 0, "%s: %s", storage_folder, strerror(errno));
    return file;
}

// A transfer from byte `base` of a file, which notes the finished requests.
struct trial {
    int file;
    bool write;
    unsigned char *memory;
    uint64_t base;
    size_t contiguous_bytes;  // between places
    size_t alignment_bytes;
    _Atomic uint64_t finished_bytes;
    _Atomic int finished_count;
    int fail_at;      // the finished request, from 1, that is refused; 0: none
    int first_until;  // the finished request, from 1, up to which another transfer goes first; 0: none does
};

static struct trial trial_of_file(void)
{
    return (struct trial){.file = open_file(), .contiguous_bytes = 64 * BLOCK, .alignment_bytes = 512};
}

static void locate(void *context, uint64_t at, struct io_location *out)
{
    const struct trial *trial = context;
    *out = (struct io_location){.write = trial->write,
                                .file = trial->file,
                                .path = "the folder",
                                .alignment_bytes = trial->alignment_bytes,
                                .offset = trial->base + at,
                                .memory = trial->memory + at,
                                .bytes = trial->contiguous_bytes - at % trial->contiguous_bytes};
}

static atomic_int prior_count;

static int finish(void *context, uint64_t at, const unsigned char *memory, size_t bytes)
{
    struct trial *trial = context;
    cr_assert(at % BLOCK == 0 && memory && bytes > 0);
    trial->finished_bytes += bytes;
    trial->finished_count++;
    prior_count = trial->finished_count < trial->first_until;
    return trial->finished_count == trial->fail_at ? err_set(ERR_CHECK, "refused") : ERR_NONE;
}

static int transfer(struct io_pool *pool, struct trial *trial, bool write, unsigned char *memory, size_t bytes)
{
    trial->write = write;
    trial->memory = memory;
    trial->finished_bytes = 0;
    trial->finished_count = 0;
    prior_count = trial->first_until > 0;
    return io_pool_transfer(pool, &(struct io_transfer){bytes, locate, finish, trial, &prior_count});
}

static struct io_pool *open_pool(const struct nvme_aio *aio)
{
    struct io_pool *pool = NULL;
    cr_assert_eq(io_pool_open(io_engine_of(aio->engine), aio, NULL, &pool), ERR_NONE, "%s", err_message());
    return pool;
}

// Writes and reads back a file of that size with a new content, through a pool.
static void there_and_back(struct io_pool *pool, struct trial *trial, size_t bytes, uint64_t seed)
{
    unsigned char *source = storage_memory(bytes), *memory = storage_memory(bytes + BLOCK);
    storage_fill(source, bytes, seed);
    cr_assert_eq(transfer(pool, trial, true, source, bytes), ERR_NONE, "%s", err_message());
    cr_assert_eq(trial->finished_bytes, bytes);
    // Through the page cache the file is seen by others than the engine.
    ssize_t got = bytes == 0 ? 0 : pread(trial->file, memory, bytes, (off_t)trial->base);
    cr_assert_eq(got, (ssize_t)bytes);
    cr_assert(memcmp(memory, source, bytes) == 0, "%zu bytes were not written as they are", bytes);
    memset(memory, 0x5a, bytes + BLOCK);
    cr_assert_eq(transfer(pool, trial, false, memory, bytes), ERR_NONE, "%s", err_message());
    cr_assert_eq(trial->finished_bytes, bytes);
    cr_assert(memcmp(memory, source, bytes) == 0, "%zu bytes were not read as they are", bytes);
    for (size_t i = 0; i < BLOCK; i++)
        cr_assert_eq(memory[bytes + i], 0x5a, "written beyond the end");
    free(source);
    free(memory);
}

static void every_shape(enum nvme_engine engine)
{
    if (storage_skips(engine))
        return;
    static const size_t sizes[] = {0, 1, 2, 5, 13, 31};
    static const size_t blocks[] = {1, 2, 7};
    static const int depths[] = {1, 3, 8}, threads[] = {1, 2, 4};
    struct trial trial = {
        .file = open_file(), .base = 3 * BLOCK, .contiguous_bytes = 8 * BLOCK, .alignment_bytes = 512};
    uint64_t seed = 0;
    // Every block with every depth and every pair of flags; the numbers of threads go through all of each.
    for (int i = 0; i < 3 * 3 * 4; i++) {
        struct nvme_aio aio = {.block_bytes = blocks[i % 3] * BLOCK,
                               .queue_depth = depths[i / 3 % 3],
                               .intra_op_parallelism = threads[(i + i / 3 + i / 9) % 3],
                               .single_submit = i / 9 & 1,
                               .overlap_events = i / 9 & 2,
                               .engine = engine};
        struct io_pool *pool = open_pool(&aio);
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
            there_and_back(pool, &trial, sizes[k] * BLOCK, ++seed);
        io_pool_close(pool);
    }
    close(trial.file);
}

Test(io, concurrent_libaio_moves_every_byte_whatever_the_shape)
{
    every_shape(NVME_LIBAIO);
}

Test(io, concurrent_io_uring_moves_every_byte_whatever_the_shape)
{
    every_shape(NVME_IO_URING);
}

// The kernel's limit of contexts still counts those that it is destroying.
Test(io, a_closed_queue_of_libaio_makes_room_for_the_next)
{
    struct io_queue *queue;
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(io_queue_open(&io_engine_libaio, IO_DEPTH_MAX, &queue), ERR_NONE, "%d: %s", i, err_message());
        io_queue_close(queue);
    }
}

// An engine on an array, which counts requests and can simulate difficulties. One thread at a time uses it.
struct difficulties {
    int refusals;          // submits that are answered with EAGAIN first
    int accept_most;       // requests of one submit; 0: all
    size_t piece_bytes;    // that one request moves at most; 0: all
    int64_t first_result;  // of the first request to end, where not 0
    int reap_error;        // the answer to every reap, where not 0
};
static struct {
    struct io_queue queue;
    struct difficulties difficulties;
    unsigned char content[64 * BLOCK];
    struct io_request *in_flight[64];
    int flight_count, most_in_flight, submit_count, request_count, most_at_once, least_most;
    bool closed;
} fake;

static int fake_submit(struct io_queue *queue, struct io_request *const requests[], int count)
{
    cr_assert(queue == &fake.queue && count > 0);
    fake.submit_count++;
    if (fake.difficulties.refusals-- > 0)
        return -EAGAIN;
    if (fake.difficulties.accept_most > 0 && count > fake.difficulties.accept_most)
        count = fake.difficulties.accept_most;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < fake.flight_count; k++)
            cr_assert_neq(fake.in_flight[k]->slot, requests[i]->slot);
        fake.in_flight[fake.flight_count++] = requests[i];
        fake.request_count++;
    }
    fake.most_at_once = count > fake.most_at_once ? count : fake.most_at_once;
    fake.most_in_flight = fake.flight_count > fake.most_in_flight ? fake.flight_count : fake.most_in_flight;
    return count;
}

// Ends as many as must end, the youngest first.
static int fake_reap(struct io_queue *queue, int least, struct io_request *done[], int most)
{
    cr_assert(queue == &fake.queue && least <= fake.flight_count && least <= most);
    if (fake.difficulties.reap_error)
        return fake.difficulties.reap_error;
    fake.least_most = least > fake.least_most ? least : fake.least_most;
    for (int i = 0; i < least; i++) {
        struct io_request *request = done[i] = fake.in_flight[--fake.flight_count];
        size_t bytes = request->bytes, piece = fake.difficulties.piece_bytes;
        if (piece > 0 && bytes > piece)
            bytes = piece;
        request->result = (int64_t)bytes;
        if (fake.difficulties.first_result) {
            request->result = fake.difficulties.first_result;
            bytes = request->result > 0 ? (size_t)request->result : 0;
            fake.difficulties.first_result = 0;
        }
        cr_assert_leq(request->offset + bytes, sizeof fake.content);
        if (request->write)
            memcpy(fake.content + request->offset, request->memory, bytes);
        else
            memcpy(request->memory, fake.content + request->offset, bytes);
    }
    return least;
}

static void fake_close(struct io_queue *queue)
{
    cr_assert(queue == &fake.queue && !fake.closed);
    fake.closed = true;
}

static int fake_open(int depth, struct io_queue **out);
static const struct io_engine fake_engine = {"fake", fake_open, fake_submit, fake_reap, fake_close};

static int fake_open(int depth, struct io_queue **out)
{
    cr_assert_leq(depth, 64);
    fake.queue.engine = &fake_engine;
    *out = &fake.queue;
    return ERR_NONE;
}

static struct trial fake_trial = {.contiguous_bytes = 16 * BLOCK, .alignment_bytes = 512};

// Writes 29 blocks through the difficult engine, in requests of two, and gives the code.
static int fake_write(struct nvme_aio aio, struct difficulties difficulties)
{
    enum { BLOCKS = 29 };
    memset(&fake, 0, sizeof fake);
    fake.difficulties = difficulties;
    aio.block_bytes = 2 * BLOCK;
    aio.intra_op_parallelism = 1;
    struct io_pool *pool;
    cr_assert_eq(io_pool_open(&fake_engine, &aio, NULL, &pool), ERR_NONE, "%s", err_message());
    unsigned char *source = storage_memory(BLOCKS * BLOCK);
    storage_fill(source, BLOCKS * BLOCK, 3);
    int code = transfer(pool, &fake_trial, true, source, BLOCKS * BLOCK);
    cr_expect(fake.flight_count == 0 || fake.closed, "requests are in flight that nobody waits for");
    if (code == ERR_NONE) {
        cr_expect(memcmp(fake.content, source, BLOCKS * BLOCK) == 0);
        cr_expect_eq(fake_trial.finished_bytes, BLOCKS * BLOCK);
    }
    io_pool_close(pool);
    cr_expect(fake.closed);
    free(source);
    return code;
}

Test(io, the_queue_is_refilled_as_requests_end_or_after_all_have_as_was_asked)
{
    struct nvme_aio aio = {.queue_depth = 6, .overlap_events = true};
    cr_assert_eq(fake_write(aio, (struct difficulties){0}), ERR_NONE);
    cr_expect_eq(fake.request_count, 15);
    cr_expect_eq(fake.most_in_flight, 6);
    cr_expect_eq(fake.most_at_once, 6);
    cr_expect_eq(fake.least_most, 1);
    cr_expect_eq(fake.submit_count, 1 + 9, "one that ends makes room for one");
    aio.overlap_events = false;
    cr_assert_eq(fake_write(aio, (struct difficulties){0}), ERR_NONE);
    cr_expect_eq(fake.submit_count, 3, "6, 6 and 3 requests");
    cr_expect_eq(fake.least_most, 6);
    aio.single_submit = true;
    cr_assert_eq(fake_write(aio, (struct difficulties){0}), ERR_NONE);
    cr_expect_eq(fake.submit_count, 15);
    cr_expect_eq(fake.most_at_once, 1);
    cr_expect_eq(fake.most_in_flight, 6);
}

// A transfer goes on behind another: with a quarter of its queue, at least one request, until the other has ended.
Test(io, a_transfer_behind_another_keeps_a_quarter_of_its_queue)
{
    static const int depths[] = {1, 2, 6, 8, 14}, shares[] = {1, 1, 1, 2, 3};
    for (int i = 0; i < 5; i++) {
        struct nvme_aio aio = {.queue_depth = depths[i], .overlap_events = true};
        fake_trial.first_until = 15;
        cr_assert_eq(fake_write(aio, (struct difficulties){0}), ERR_NONE);
        cr_expect_eq(fake.most_in_flight, shares[i], "depth %d: %d", depths[i], fake.most_in_flight);
        fake_trial.first_until = 1;
        cr_assert_eq(fake_write(aio, (struct difficulties){0}), ERR_NONE);
        cr_expect_eq(fake.most_in_flight, depths[i], "depth %d: %d", depths[i], fake.most_in_flight);
    }
    fake_trial.first_until = 0;
}

Test(io, what_the_kernel_does_not_take_or_not_move_at_once_is_asked_for_again)
{
    static const struct difficulties all[] = {
        {.refusals = 3},           {.accept_most = 1},       {.accept_most = 3},  {.piece_bytes = 3 * 512},
        {.first_result = -EAGAIN}, {.first_result = -EINTR}, {.piece_bytes = 512}};
    for (int i = 0; i < 2 * 7; i++) {
        struct nvme_aio aio = {.queue_depth = 4, .overlap_events = i % 2};
        cr_expect_eq(fake_write(aio, all[i / 2]), ERR_NONE, "%s", err_message());
        cr_expect_eq(fake_trial.finished_count, 15, "a request is finished once, however many times it was asked for");
    }
    cr_expect_eq(fake.request_count, 29 * 8);
}

static void expect_failure(struct difficulties difficulties, const char *said)
{
    for (int overlap = 0; overlap < 2; overlap++) {
        struct nvme_aio aio = {.queue_depth = 4, .overlap_events = overlap};
        cr_expect_eq(fake_write(aio, difficulties), ERR_IO);
        expect_message(said);
        cr_expect_leq(fake.request_count, 4 + 4, "nothing is begun after a failure");
    }
}

Test(io, a_request_that_fails_or_cannot_go_on_ends_the_transfer_with_its_place)
{
    expect_failure((struct difficulties){.first_result = -EIO},
                   "the folder: writing 8192 bytes at offset 24576 of the file there: Input/output error");
    expect_failure((struct difficulties){.first_result = 100}, "the kernel moved only 100 bytes");
    expect_failure((struct difficulties){.first_result = 100}, "not aligned");
    expect_failure((struct difficulties){.first_result = 2 * BLOCK + 512}, "only 8704 bytes");
    expect_failure((struct difficulties){.piece_bytes = 2 * BLOCK, .reap_error = -EBADF}, "Bad file descriptor");
}

// A place beyond which there is nothing ends the transfer, wherever its bytes would.
static void place_until(void *context, uint64_t at, struct io_location *out)
{
    locate(context, at, out);
    if (at == 10 * BLOCK)
        out->bytes = 0;
}

Test(io, a_transfer_ends_where_its_places_do)
{
    struct trial trial = {.file = open_file(), .contiguous_bytes = 64 * BLOCK, .alignment_bytes = 512, .write = true};
    struct nvme_aio aio = {.block_bytes = BLOCK, .queue_depth = 3, .overlap_events = true, .intra_op_parallelism = 1};
    struct io_pool *pool = open_pool(&aio);
    trial.memory = storage_memory(16 * BLOCK);
    struct io_transfer endless = {UINT64_MAX / 2, place_until, finish, &trial, NULL};
    cr_expect_eq(io_pool_transfer(pool, &endless), ERR_NONE, "%s", err_message());
    cr_expect_eq(trial.finished_bytes, 10 * BLOCK);
    cr_expect_eq(lseek(trial.file, 0, SEEK_END), 10 * BLOCK);
    io_pool_close(pool);
    close(trial.file);
    free(trial.memory);
}

Test(io, a_finish_that_refuses_ends_the_transfer)
{
    fake_trial.fail_at = 3;
    struct nvme_aio aio = {.queue_depth = 4, .overlap_events = true};
    cr_expect_eq(fake_write(aio, (struct difficulties){0}), ERR_CHECK);
    cr_expect_str_eq(err_message(), "refused");
    cr_expect_eq(fake_trial.finished_count, 3, "and what ends later is not looked at");
    fake_trial.fail_at = 0;
}

Test(io, concurrent_the_failure_of_one_thread_is_that_of_the_transfer)
{
    struct trial trial = {.file = open_file(), .contiguous_bytes = 64 * BLOCK, .alignment_bytes = 512, .fail_at = 7};
    struct nvme_aio aio = {.block_bytes = BLOCK, .queue_depth = 2, .overlap_events = true, .intra_op_parallelism = 4};
    struct io_pool *pool = open_pool(&aio);
    unsigned char *memory = storage_memory(64 * BLOCK);
    cr_expect_eq(transfer(pool, &trial, true, memory, 64 * BLOCK), ERR_CHECK);
    cr_expect_str_eq(err_message(), "refused");
    trial.fail_at = 0;
    cr_expect_eq(transfer(pool, &trial, true, memory, 64 * BLOCK), ERR_NONE, "the pool is as it was: %s",
                 err_message());
    close(trial.file);
    cr_expect_eq(transfer(pool, &trial, true, memory, 64 * BLOCK), ERR_IO);
    cr_expect(strstr(err_message(), "Bad file descriptor"), "%s", err_message());
    io_pool_close(pool);
    free(memory);
}

static void beyond_the_end(enum nvme_engine engine)
{
    if (!storage_has(engine))
        return;
    struct trial trial = trial_of_file();
    struct nvme_aio aio = {.block_bytes = 2 * BLOCK, .queue_depth = 2, .intra_op_parallelism = 1, .engine = engine};
    struct io_pool *pool = open_pool(&aio);
    unsigned char *memory = storage_memory(8 * BLOCK);
    cr_assert_eq(transfer(pool, &trial, true, memory, 3 * BLOCK), ERR_NONE, "%s", err_message());
    cr_expect_eq(transfer(pool, &trial, false, memory, 8 * BLOCK), ERR_IO);
    cr_expect(strstr(err_message(), "the folder: reading ") && strstr(err_message(), "the file ends there"), "%s",
              err_message());
    io_pool_close(pool);
    close(trial.file);
    free(memory);
}

Test(io, a_file_that_is_too_short_is_no_read_of_zeros)
{
    beyond_the_end(NVME_LIBAIO);
    beyond_the_end(NVME_IO_URING);
}

static volatile sig_atomic_t tick_count;

static void tick(int signal_number)
{
    (void)signal_number;
    tick_count++;
}

Test(io, signals_do_not_disturb_a_transfer)
{
    struct trial trial = trial_of_file();
    // Without SA_RESTART, so that calls end with EINTR.
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = tick}, NULL);
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    for (int engine = 0; engine < NVME_ENGINE_COUNT; engine++) {
        if (!storage_has((enum nvme_engine)engine))
            continue;
        struct nvme_aio aio = {.block_bytes = BLOCK,
                               .queue_depth = 4,
                               .overlap_events = true,
                               .intra_op_parallelism = 2,
                               .engine = (enum nvme_engine)engine};
        struct io_pool *pool = open_pool(&aio);
        setitimer(ITIMER_REAL, &often, NULL);
        for (uint64_t seed = 0; seed < 5; seed++)
            there_and_back(pool, &trial, 61 * BLOCK, seed);
        setitimer(ITIMER_REAL, &never, NULL);
        io_pool_close(pool);
    }
    cr_expect_gt(tick_count, 0);
    close(trial.file);
}

Test(io, engines_have_names)
{
    for (int engine = 0; engine < NVME_ENGINE_COUNT; engine++) {
        enum nvme_engine parsed;
        cr_assert_eq(io_engine_parse(io_engine_of((enum nvme_engine)engine)->name, &parsed), ERR_NONE);
        cr_expect_eq(parsed, engine);
    }
    enum nvme_engine parsed;
    cr_expect_eq(io_engine_parse("aio", &parsed), ERR_USAGE);
    cr_expect(strstr(err_message(), "libaio or io_uring"), "%s", err_message());
}

Test(io, a_pool_gives_back_its_files_and_memory)
{
    struct nvme_aio aio = {.block_bytes = BLOCK, .queue_depth = 8, .intra_op_parallelism = 3};
    int before = dup(0);
    close(before);
    for (int i = 0; i < 60; i++) {
        aio.engine = (enum nvme_engine)(i % NVME_ENGINE_COUNT);
        struct io_pool *pool;
        if (io_pool_open(io_engine_of(aio.engine), &aio, NULL, &pool) == ERR_NONE)
            io_pool_close(pool);
    }
    int after = dup(0);
    close(after);
    cr_expect_eq(after, before, "the first free file number has changed");
}
