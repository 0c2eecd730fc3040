// SPDX-License-Identifier: Apache-2.0
// Tests of cuFile's engine, over a stand-in for cuFile: every byte goes to its place in memory and in its file, errors
// of either kind say where and what, and each file and memory is registered once and given back.
#include "ref/cuda/io_cufile.h"

#include "ref/cuda/cufile_standin_test.h"
#include "ref/tier/io_pool.h"
#include "ref/tier/storage_test.h"

#if __has_include(<cufile.h>)
#include <cufile.h>

_Static_assert(sizeof(struct cufile_status) == sizeof(CUfileError_t), "a status is passed as it is");
_Static_assert(offsetof(struct cufile_status, cuda_error) == offsetof(CUfileError_t, cu_err), "CUDA's error");
_Static_assert(sizeof(struct cufile_description) == sizeof(CUfileDescr_t), "a description is passed as it is");
_Static_assert(offsetof(struct cufile_description, handle) == offsetof(CUfileDescr_t, handle), "the descriptor");
_Static_assert(offsetof(struct cufile_description, operations) == offsetof(CUfileDescr_t, fs_ops), "operations");
_Static_assert(sizeof(struct cufile_properties) == sizeof(CUfileDrvProps_t), "properties are passed as they are");
_Static_assert(offsetof(struct cufile_properties, control_flags) == offsetof(CUfileDrvProps_t, nvfs.dcontrolflags),
               "control flags");
_Static_assert(offsetof(struct cufile_properties, feature_flags) == offsetof(CUfileDrvProps_t, fflags),
               "feature flags");
_Static_assert((int)CUFILE_ERROR_BASE == CUFILEOP_BASE_ERR, "where errors begin");
_Static_assert((int)CUFILE_CUDA_DRIVER_ERROR == (int)CU_FILE_CUDA_DRIVER_ERROR, "an error of CUDA");
_Static_assert((int)CUFILE_DESCRIPTOR == (int)CU_FILE_HANDLE_TYPE_OPAQUE_FD, "a file descriptor");
_Static_assert((int)CUFILE_ALLOWS_COMPATIBILITY == 1 << CU_FILE_ALLOW_COMPAT_MODE, "compatibility mode");
_Static_assert((int)CUFILE_HAS_PCI_P2PDMA == 1 << CU_FILE_P2P_SUPPORTED, "PCI P2PDMA");
#endif

enum { BLOCK = IO_ALIGNMENT, FILES = 3, DEVICE = 2, MEMORY_BASE = 5 * BLOCK, FILE_BASE = 3 * BLOCK };

// A transfer between memory from MEMORY_BASE on and files, two blocks of each in turn, from FILE_BASE on.
struct trial {
    int files[FILES];
    char names[FILES][sizeof storage_folder + 32];
    unsigned char *memory;
    size_t bytes;
    bool write;
};

static void locate(void *context, uint64_t at, struct io_location *out)
{
    const struct trial *trial = context;
    uint64_t pair = at / (2 * BLOCK);
    *out = (struct io_location){.write = trial->write,
                                .file = trial->files[pair % FILES],
                                .path = "the folder",
                                .alignment_bytes = 512,
                                .offset = FILE_BASE + pair / FILES * 2 * BLOCK + at % (2 * BLOCK),
                                .memory = trial->memory + MEMORY_BASE + at,
                                .bytes = 2 * BLOCK - at % (2 * BLOCK)};
}

static void trial_open(struct trial *trial, size_t bytes)
{
    const char *path;
    void *memory;
    *trial = (struct trial){.bytes = bytes};
    standin.device = DEVICE;
    standin.control_flags = CUFILE_ALLOWS_COMPATIBILITY;
    for (int i = 0; i < FILES; i++) {
        snprintf(trial->names[i], sizeof trial->names[i], "%s/cufile-XXXXXX", storage_folder);
        trial->files[i] = mkostemp(trial->names[i], O_DIRECT);
        cr_assert_geq(trial->files[i], 0, "%s: %s", storage_folder, strerror(errno));
    }
    cr_assert_eq(io_cufile_open(&standin_calls, &path), ERR_NONE, "%s", err_message());
    cr_assert_eq(shadow_enter(DEVICE), ERR_NONE);
    cr_assert_eq(shadow_allocate(MEMORY_BASE + bytes + BLOCK, &memory), ERR_NONE, "%s", err_message());
    cr_assert_eq(accelerator_claim(&shadow_accelerator, memory, MEMORY_BASE + bytes + BLOCK), ERR_NONE);
    trial->memory = memory;
    cr_assert_eq(io_cufile_register(memory, MEMORY_BASE + bytes + BLOCK, DEVICE), ERR_NONE, "%s", err_message());
    cr_assert_eq(shadow_enter(-1), ERR_NONE);  // a thread that has not entered finds the device by the memory
}

static void trial_close(struct trial *trial)
{
    io_cufile_deregister(trial->memory);
    io_cufile_close();
    accelerator_disclaim(trial->memory);
    cr_assert_eq(shadow_release(trial->memory), ERR_NONE);
    for (int i = 0; i < FILES; i++) {
        close(trial->files[i]);
        unlink(trial->names[i]);
    }
    cr_expect_eq(standin.file_count, 0, "files are left registered");
    cr_expect_eq(standin.buffer_count, 0, "memory is left registered");
    cr_expect_eq(standin.driver_opens, standin.driver_closes);
    cr_expect_eq(shadow.block_count, 0);
}

static struct io_pool *open_pool(int thread_count, int depth, size_t block_bytes)
{
    struct io_pool *pool;
    const struct nvme_aio aio = {.block_bytes = block_bytes,
                                 .queue_depth = depth,
                                 .overlap_events = depth % 2,
                                 .intra_op_parallelism = thread_count};
    cr_assert_eq(io_pool_open(&io_engine_cufile, &aio, NULL, &pool), ERR_NONE, "%s", err_message());
    return pool;
}

static int transfer(struct io_pool *pool, struct trial *trial, bool write)
{
    trial->write = write;
    return io_pool_transfer(pool, &(struct io_transfer){trial->bytes, locate, NULL, trial, NULL});
}

// Expects each block of the files where `place` locates it, read through the host.
static void expect_files(const struct trial *trial, const unsigned char *source)
{
    unsigned char *read = storage_memory(2 * BLOCK);
    for (size_t at = 0; at < trial->bytes; at += 2 * BLOCK) {
        struct io_location where;
        size_t bytes = trial->bytes - at < 2 * BLOCK ? trial->bytes - at : 2 * BLOCK;
        locate((void *)(uintptr_t)trial, at, &where);
        cr_assert_eq(pread(where.file, read, bytes, (off_t)where.offset), (ssize_t)bytes);
        cr_assert(memcmp(read, source + at, bytes) == 0, "byte %zu on was not written as it is", at);
    }
    free(read);
}

static void there_and_back(struct io_pool *pool, struct trial *trial, uint64_t seed)
{
    size_t whole = MEMORY_BASE + trial->bytes + BLOCK;
    unsigned char *source = storage_memory(trial->bytes), *there = shadow_find(trial->memory);
    storage_fill(source, trial->bytes, seed);
    memset(there, 0x5a, whole);
    memcpy(there + MEMORY_BASE, source, trial->bytes);
    cr_assert_eq(io_cufile_explain(transfer(pool, trial, true)), ERR_NONE, "%s", err_message());
    expect_files(trial, source);
    memset(there, 0x5a, whole);
    cr_assert_eq(io_cufile_explain(transfer(pool, trial, false)), ERR_NONE, "%s", err_message());
    cr_assert(memcmp(there + MEMORY_BASE, source, trial->bytes) == 0, "%zu bytes were not read as they are",
              trial->bytes);
    for (size_t i = 0; i < MEMORY_BASE; i++)
        cr_assert_eq(there[i], 0x5a, "written before the memory");
    for (size_t i = MEMORY_BASE + trial->bytes; i < whole; i++)
        cr_assert_eq(there[i], 0x5a, "written beyond the end");
    free(source);
}

Test(io_cufile, concurrent_threads_move_every_byte_to_its_place_in_memory_and_files)
{
    static const size_t sizes[] = {0, 1, 2, 5, 13, 31};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct trial trial;
        trial_open(&trial, sizes[i] * BLOCK);
        for (int threads = 1; threads <= 7; threads += 3) {
            struct io_pool *pool = open_pool(threads, threads == 4 ? 3 : 1, (threads == 7 ? 2 : 1) * BLOCK);
            there_and_back(pool, &trial, 100 * i + (size_t)threads);
            io_pool_close(pool);
        }
        trial_close(&trial);
    }
}

Test(io_cufile, memory_and_file_have_offsets_of_their_own)
{
    struct trial trial;
    trial_open(&trial, BLOCK);
    struct io_pool *pool = open_pool(1, 1, BLOCK);
    for (int write = 1; write >= 0; write--) {
        cr_assert_eq(transfer(pool, &trial, write), ERR_NONE, "%s", err_message());
        cr_expect_eq(standin.last_memory, trial.memory);
        cr_expect_eq(standin.last_memory_offset, MEMORY_BASE);
        cr_expect_eq(standin.last_file_offset, FILE_BASE);
    }
    // Memory that is not registered has no base but itself.
    io_cufile_deregister(trial.memory);
    standin.device = 0;
    cr_assert_eq(shadow_enter(0), ERR_NONE);
    cr_assert_eq(transfer(pool, &trial, false), ERR_NONE, "%s", err_message());
    cr_expect_eq(standin.last_memory, trial.memory + MEMORY_BASE);
    cr_expect_eq(standin.last_memory_offset, 0);
    io_pool_close(pool);
    trial_close(&trial);
}

Test(io_cufile, what_was_cut_short_is_asked_for_again)
{
    struct trial trial;
    trial_open(&trial, 17 * BLOCK);
    standin.piece_bytes = 1536;
    struct io_pool *pool = open_pool(2, 2, 2 * BLOCK);
    there_and_back(pool, &trial, 7);
    cr_expect_eq(standin.move_count, 2 * (8 * 6 + 3));
    // The file ends before the transfer does.
    for (int i = 0; i < FILES; i++)
        cr_assert_eq(ftruncate(trial.files[i], FILE_BASE), 0);
    cr_expect_eq(transfer(pool, &trial, false), ERR_IO);
    cr_expect(strstr(err_message(), "the file ends there"), "%s", err_message());
    io_pool_close(pool);
    trial_close(&trial);
}

Test(io_cufile, a_file_is_registered_once_however_many_queues_use_it)
{
    struct trial trial;
    trial_open(&trial, 60 * BLOCK);
    struct io_pool *one = open_pool(4, 1, BLOCK), *other = open_pool(3, 2, BLOCK);
    for (int round = 0; round < 2; round++) {
        there_and_back(one, &trial, 1);
        there_and_back(other, &trial, 2);
    }
    cr_expect_eq(standin.file_total, FILES);
    io_pool_close(one);
    cr_expect_eq(standin.file_count, FILES, "the other pool's queues have them");
    there_and_back(other, &trial, 3);
    io_pool_close(other);
    cr_expect_eq(standin.file_count, 0);
    one = open_pool(1, 1, BLOCK);
    there_and_back(one, &trial, 4);
    cr_expect_eq(standin.file_total, 2 * FILES);
    io_pool_close(one);
    trial_close(&trial);
}

Test(io_cufile, a_file_that_is_kept_stays_registered_without_its_name)
{
    struct trial trial;
    trial_open(&trial, 5 * BLOCK);
    for (int i = 0; i < FILES; i++) {
        cr_assert_eq(io_cufile_keep(trial.files[i], "the folder"), ERR_NONE, "%s", err_message());
        unlink(trial.names[i]);
    }
    for (int round = 0; round < 2; round++) {
        struct io_pool *pool = open_pool(2, 1, BLOCK);
        there_and_back(pool, &trial, 5);
        io_pool_close(pool);
        cr_expect_eq(standin.file_count, FILES);
    }
    for (int i = 0; i < FILES; i++)
        io_cufile_give(trial.files[i]);
    io_cufile_give(trial.files[0]);  // nobody's
    cr_expect_eq(standin.file_total, FILES);
    cr_expect_eq(standin.file_count, 0);
    cr_expect_eq(io_cufile_keep(trial.files[0], "the folder"), ERR_IO);
    cr_expect_str_eq(err_message(), "the folder: the file there: No such file or directory: cuFileHandleRegister: "
                                    "cuFile error 5031: the file cannot be reopened by its name");
    trial_close(&trial);
}

// The fourth of five blocks, which are in the first file, the first, the second, the second and the third.
static void expect_failure(ssize_t result, int number, bool write, const char *expected)
{
    struct trial trial;
    trial_open(&trial, 5 * BLOCK);
    struct io_pool *pool = open_pool(1, 1, BLOCK);
    cr_assert_eq(transfer(pool, &trial, true), ERR_NONE, "%s", err_message());
    standin.fail_at = standin.move_count + 4;
    standin.fail_result = result;
    standin.fail_errno = number;
    cr_expect_eq(io_cufile_explain(transfer(pool, &trial, write)), ERR_IO);
    cr_expect_str_eq(err_message(), expected);
    // A failure is reported only once.
    standin.fail_at = 0;
    cr_expect_eq(err_set(ERR_CHECK, "another"), io_cufile_explain(ERR_CHECK));
    cr_expect_str_eq(err_message(), "another");
    cr_expect_eq(transfer(pool, &trial, write), ERR_NONE, "%s", err_message());
    io_pool_close(pool);
    trial_close(&trial);
}

Test(io_cufile, an_error_names_path_and_offset_and_cufiles_number)
{
    expect_failure(-1, ENOSPC, true,
                   "the folder: writing 4096 bytes at offset 16384 of the file there: No space left on device");
    expect_failure(-1, 0, false,
                   "the folder: reading 4096 bytes at offset 16384 of the file there: Input/output error");
    expect_failure(-5008, 0, true,
                   "the folder: writing 4096 bytes at offset 16384 of the file there: Operation not supported: "
                   "cuFileWrite: cuFile error 5008: the file system is not supported");
    expect_failure(-5030, 0, false,
                   "the folder: reading 4096 bytes at offset 16384 of the file there: Input/output error: "
                   "cuFileRead: cuFile error 5030: see cufile.log");
    expect_failure(-1, 5017, false,
                   "the folder: reading 4096 bytes at offset 16384 of the file there: Bad address: "
                   "cuFileRead: cuFile error 5017: the request exceeds the memory");
    expect_failure(-ENODATA, 0, false,
                   "the folder: reading 4096 bytes at offset 16384 of the file there: No data available");
}

Test(io_cufile, what_passes_is_asked_for_again)
{
    struct trial trial;
    trial_open(&trial, 5 * BLOCK);
    struct io_pool *pool = open_pool(1, 1, BLOCK);
    standin.fail_at = 2;
    standin.fail_result = -1;
    standin.fail_errno = EAGAIN;
    there_and_back(pool, &trial, 9);
    cr_expect_eq(standin.move_count, 11);
    io_pool_close(pool);
    trial_close(&trial);
}

Test(io_cufile, a_file_or_memory_that_is_refused_is_an_error)
{
    struct trial trial;
    trial_open(&trial, 5 * BLOCK);
    struct io_pool *pool = open_pool(1, 1, BLOCK);
    standin.file_status = (struct cufile_status){5020, 0};
    cr_expect_eq(io_cufile_explain(transfer(pool, &trial, false)), ERR_IO);
    cr_expect_str_eq(err_message(), "the folder: reading 4096 bytes at offset 12288 of the file there: Invalid "
                                    "argument: cuFileHandleRegister: cuFile error 5020: the file was not opened "
                                    "with O_DIRECT");
    standin.file_status = (struct cufile_status){0};
    there_and_back(pool, &trial, 3);
    io_pool_close(pool);
    standin.buffer_status = (struct cufile_status){CUFILE_CUDA_DRIVER_ERROR, 201};
    cr_expect_eq(io_cufile_register(trial.memory, BLOCK, DEVICE), ERR_IO);
    cr_expect_str_eq(err_message(), "4096 bytes of memory: cuFileBufRegister: cuFile error 5011, CUDA error 201: "
                                    "CUDA's driver failed");
    trial_close(&trial);
}

Test(io_cufile, it_is_open_once_and_where_it_is_not_there_is_no_queue)
{
    struct io_queue *queue;
    const char *path = NULL;
    cr_expect_eq(io_queue_open(&io_engine_cufile, 1, &queue), ERR_INTERNAL);
    io_cufile_close();
    io_cufile_deregister(NULL);
    standin.driver_status = (struct cufile_status){5001, 0};
    cr_expect_eq(io_cufile_open(&standin_calls, &path), ERR_IO);
    cr_expect_str_eq(err_message(), "cuFileDriverOpen: cuFile error 5001: nvidia-fs is not loaded, and cufile.json "
                                    "does not allow compatibility mode");
    standin.driver_status = (struct cufile_status){0};
    cr_expect_eq(io_cufile_open(&standin_calls, &path), ERR_NONE);
    cr_expect_str_eq(path, io_cufile_has_nvidia_fs() ? "nvidia-fs" : "compatibility mode");
    cr_expect_eq(io_cufile_open(&standin_calls, &path), ERR_INTERNAL);
    io_cufile_close();
    cr_expect_eq(standin.driver_opens, 1);
    cr_expect_eq(standin.driver_closes, 1);
}

Test(io_cufile, the_path_is_what_can_be_known_of_it)
{
    const struct cufile_properties strict = {0}, may_choose = {.control_flags = CUFILE_ALLOWS_COMPATIBILITY},
                                   p2p = {.feature_flags = CUFILE_HAS_PCI_P2PDMA},
                                   p2p_may_choose = {.control_flags = CUFILE_ALLOWS_COMPATIBILITY,
                                                     .feature_flags = CUFILE_HAS_PCI_P2PDMA};
    cr_expect_str_eq(io_cufile_path(true, &strict), "nvidia-fs");
    cr_expect_str_eq(io_cufile_path(true, &p2p_may_choose), "nvidia-fs or compatibility mode");
    cr_expect_str_eq(io_cufile_path(false, &p2p), "PCI P2PDMA");
    cr_expect_str_eq(io_cufile_path(false, &p2p_may_choose), "PCI P2PDMA or compatibility mode");
    cr_expect_str_eq(io_cufile_path(false, &may_choose), "compatibility mode");
}
