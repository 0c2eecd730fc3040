// SPDX-License-Identifier: Apache-2.0
// Tests that every fault that can be provoked ends as it should: a clear error, or nothing at all, never other bytes.
#include "ref/tier/inject.h"

#include "base/clock.h"
#include "ref/tier/storage_test.h"
#include "ref/tier/tier_nvme.h"

#include <pthread.h>

enum { BLOCK = TIER_NVME_ALIGNMENT, BLOCKS = 24 };

static struct inject_plan plan_of(const char *text)
{
    struct inject_plan plan = {0};
    cr_assert_eq(inject_parse(text, &plan), ERR_NONE, "%s", err_message());
    return plan;
}

// A tier of one rank under faults, with one allocation of BLOCKS blocks; transfers are of four requests each.
struct scene {
    struct inject inject;
    struct tier_nvme *tier;
    unsigned char *at, *source, *memory;
};

static void scene_begin(struct scene *scene, const char *faults, enum nvme_engine engine, bool checksum, int threads)
{
    static const char *const folders[] = {storage_folder, storage_folder};
    struct inject_plan plan = plan_of(faults);
    inject_begin(&scene->inject, &plan);
    struct tier_nvme_setting setting = {.paths = folders,
                                        .path_count = 2,
                                        .aio = {.block_bytes = BLOCKS / 4 * BLOCK,
                                                .queue_depth = 2,
                                                .overlap_events = true,
                                                .intra_op_parallelism = threads,
                                                .engine = engine},
                                        .checksum = checksum,
                                        .inject = &scene->inject};
    cr_assert_eq(tier_nvme_open(&setting, NULL, &scene->tier), ERR_NONE, "%s", err_message());
    void *at;
    cr_assert_eq(tier_nvme_allocate(scene->tier, KIND_OPTIMIZER, "exp_avg", BLOCKS * BLOCK, 0, &at), ERR_NONE, "%s",
                 err_message());
    scene->at = at;
    scene->source = storage_memory(BLOCKS * BLOCK);
    scene->memory = storage_memory(BLOCKS * BLOCK);
    storage_fill(scene->source, BLOCKS * BLOCK, 9);
}

static void scene_end(struct scene *scene)
{
    tier_nvme_close(scene->tier);
    free(scene->source);
    free(scene->memory);
}

static int scene_write(struct scene *scene)
{
    return tier_nvme_write(scene->tier, scene->at, scene->source, BLOCKS * BLOCK);
}

static int scene_read(struct scene *scene)
{
    return tier_nvme_read(scene->tier, scene->at, scene->memory, BLOCKS * BLOCK);
}

static bool scene_is_equal(const struct scene *scene)
{
    return memcmp(scene->source, scene->memory, BLOCKS * BLOCK) == 0;
}

static void scene_expect_equal(struct scene *scene)
{
    cr_expect_eq(scene_read(scene), ERR_NONE, "%s", err_message());
    cr_expect(scene_is_equal(scene));
}

// Runs `body` with each engine that can be used here, with one thread a transfer and with three.
static void everywhere(void (*body)(enum nvme_engine engine, int threads))
{
    for (int engine = 0; engine < NVME_ENGINE_COUNT; engine++)
        if (storage_has((enum nvme_engine)engine))
            for (int threads = 1; threads <= 3; threads += 2)
                body((enum nvme_engine)engine, threads);
}

static void io_error(enum nvme_engine engine, int threads)
{
    struct scene scene;
    scene_begin(&scene, "nvme:eio@3", engine, true, threads);
    cr_expect_eq(scene_write(&scene), ERR_IO);
    expect_message("NVMe of rank 0, \"exp_avg\": ");
    expect_message(storage_folder);
    expect_message(": writing 24576 bytes at offset ");
    expect_message("Input/output error; check that disk");
    cr_expect_eq(scene_read(&scene), ERR_INTERNAL, "what a failed write left is not read");
    cr_expect_eq(scene_write(&scene), ERR_NONE, "%s", err_message());
    scene_expect_equal(&scene);
    scene_end(&scene);
    scene_begin(&scene, "nvme:eio@6", engine, true, threads);
    cr_expect_eq(scene_write(&scene), ERR_NONE, "%s", err_message());
    cr_expect_eq(scene_read(&scene), ERR_IO);
    expect_message("reading 24576 bytes at offset ");
    scene_expect_equal(&scene);
    scene_end(&scene);
}

Test(inject, concurrent_an_input_output_error_names_path_offset_and_allocation)
{
    everywhere(io_error);
}

static void short_request(enum nvme_engine engine, int threads)
{
    struct scene scene;
    scene_begin(&scene, "nvme:short@2,nvme:short@4,nvme:short@7", engine, true, threads);
    cr_expect_eq(scene_write(&scene), ERR_NONE, "%s", err_message());
    cr_expect_eq(scene.inject.request_count, 6, "two requests were asked for again");
    cr_expect_eq(scene_read(&scene), ERR_NONE, "%s", err_message());
    cr_expect_eq(scene.inject.request_count, 11);
    cr_expect(scene_is_equal(&scene));
    scene_end(&scene);
}

Test(inject, concurrent_a_short_request_is_resumed_with_the_right_bytes)
{
    everywhere(short_request);
}

static void torn_write(enum nvme_engine engine, int threads)
{
    struct scene scene;
    scene_begin(&scene, "nvme:torn@2", engine, true, threads);
    cr_expect_eq(scene_write(&scene), ERR_NONE, "the write is said to have succeeded: %s", err_message());
    cr_expect_eq(scene_read(&scene), ERR_IO);
    expect_message("NVMe of rank 0, \"exp_avg\": ");
    expect_message(storage_folder);
    expect_message(": the 4 KiB at offset ");
    expect_message("checksum ");
    expect_message("resume from the last checkpoint");
    scene_end(&scene);
    // The difference is the checksum, and nothing else.
    scene_begin(&scene, "nvme:torn@2", engine, false, threads);
    cr_expect_eq(scene_write(&scene), ERR_NONE, "%s", err_message());
    cr_expect_eq(scene_read(&scene), ERR_NONE, "%s", err_message());
    cr_expect(!scene_is_equal(&scene), "nothing was torn");
    scene_end(&scene);
}

Test(inject, concurrent_a_torn_write_is_found_by_the_checksum_alone)
{
    everywhere(torn_write);
}

static int bits_that_differ(const struct scene *scene)
{
    int count = 0;
    for (size_t i = 0; i < BLOCKS * BLOCK; i++)
        count += __builtin_popcount(scene->source[i] ^ scene->memory[i]);
    return count;
}

// A bit that changes as a request is written (3) or before one is read (5).
static void flipped_bit(enum nvme_engine engine, int threads)
{
    static const char *const faults[] = {"nvme:flip@3", "nvme:flip@5"};
    for (int i = 0; i < 2; i++) {
        struct scene scene;
        scene_begin(&scene, faults[i], engine, true, threads);
        cr_expect_eq(scene_write(&scene), ERR_NONE, "%s", err_message());
        cr_expect_eq(scene_read(&scene), ERR_IO);
        expect_message("differ from what was written");
        cr_expect_eq(scene_read(&scene), ERR_IO, "the bit stays where it is");
        cr_expect_eq(scene_write(&scene), ERR_NONE, "%s", err_message());
        scene_expect_equal(&scene);
        scene_end(&scene);
        scene_begin(&scene, faults[i], engine, false, threads);
        cr_expect_eq(scene_write(&scene), ERR_NONE, "%s", err_message());
        cr_expect_eq(scene_read(&scene), ERR_NONE, "without checksums nobody knows: %s", err_message());
        cr_expect_eq(bits_that_differ(&scene), 1);
        scene_end(&scene);
    }
}

Test(inject, concurrent_a_flipped_bit_is_found_by_the_checksum_alone)
{
    everywhere(flipped_bit);
}

static void full_disk(enum nvme_engine engine, int threads)
{
    struct scene scene;
    scene_begin(&scene, "nvme:enospc@2", engine, true, threads);
    cr_expect_eq(scene_write(&scene), ERR_IO);
    expect_message("No space left on device; check that disk and its free space");
    cr_expect_eq(scene_write(&scene), ERR_NONE, "%s", err_message());
    scene_end(&scene);
    scene_begin(&scene, "nvme:enospc@7", engine, true, threads);
    cr_expect_eq(scene_write(&scene), ERR_NONE, "%s", err_message());
    cr_expect_eq(scene_read(&scene), ERR_NONE, "only writes take space: %s", err_message());
    void *more;
    cr_expect_eq(tier_nvme_allocate(scene.tier, KIND_MASTER, "master", BLOCK, 0, &more), ERR_IO);
    expect_message("no space for 4 KiB of \"master\" (No space left on device, ");
    scene_expect_equal(&scene);
    cr_expect_eq(tier_nvme_allocate(scene.tier, KIND_MASTER, "master", BLOCK, 0, &more), ERR_NONE, "%s", err_message());
    scene_end(&scene);
}

Test(inject, concurrent_a_full_disk_fails_a_write_or_an_allocation_and_loses_nothing)
{
    everywhere(full_disk);
}

Test(inject, a_delayed_request_is_late_and_right)
{
    struct scene scene;
    scene_begin(&scene, "nvme:delay@2", NVME_LIBAIO, true, 1);
    double start = clock_now_s();
    cr_expect_eq(scene_write(&scene), ERR_NONE, "%s", err_message());
    cr_expect_geq(clock_now_s() - start, 1.0);
    scene_expect_equal(&scene);
    scene_end(&scene);
}

// Counts the requests of two threads, each of which has its own queue.
static void *many_reads(void *argument)
{
    struct scene *scene = argument;
    static _Thread_local int code;
    for (int i = 0; i < 20; i++)
        if ((code = scene_read(scene)) != ERR_NONE)
            return &code;
    return NULL;
}

static void *many_writes(void *argument)
{
    struct scene *scene = argument;
    void *other;
    if (tier_nvme_allocate(scene->tier, KIND_MASTER, "other", BLOCKS * BLOCK, 0, &other) != ERR_NONE)
        return argument;
    for (int i = 0; i < 20; i++)
        if (tier_nvme_write(scene->tier, other, scene->source, BLOCKS * BLOCK) != ERR_NONE)
            return argument;
    return NULL;
}

Test(inject, concurrent_a_fault_is_met_once_however_many_threads_there_are)
{
    struct scene scene;
    scene_begin(&scene, "nvme:eio@81", NVME_LIBAIO, true, 3);
    cr_assert_eq(scene_write(&scene), ERR_NONE, "%s", err_message());
    pthread_t reader, writer;
    cr_assert_eq(pthread_create(&reader, NULL, many_reads, &scene), 0);
    cr_assert_eq(pthread_create(&writer, NULL, many_writes, &scene), 0);
    void *read_failed, *write_failed;
    pthread_join(reader, &read_failed);
    pthread_join(writer, &write_failed);
    cr_expect(!read_failed != !write_failed, "one of both, not %s", read_failed ? "both" : "none");
    scene_end(&scene);
}

Test(inject, faults_are_parsed_alone_and_in_lists)
{
    struct inject_plan plan = plan_of("nvme:eio@7,rank:2:die@40,rank:1:kill@2");
    cr_assert_eq(inject_parse("rank:2:die@3", &plan), ERR_NONE);
    cr_assert_eq(inject_parse("nvme:flip@18446744073709551615", &plan), ERR_NONE);
    cr_assert_eq(plan.fault_count, 5);
    cr_expect(plan.faults[0].kind == INJECT_EIO && plan.faults[0].at == 7);
    cr_expect(plan.faults[4].kind == INJECT_FLIP && plan.faults[4].at == UINT64_MAX);
    cr_expect_eq(inject_death_step(&plan, 2, INJECT_DIE), 3);
    cr_expect_eq(inject_death_step(&plan, 0, INJECT_DIE), 0);
    cr_expect_eq(inject_death_step(&plan, 7, INJECT_DIE), 0);
    cr_expect_eq(inject_death_step(&plan, 1, INJECT_DIE), 0);
    cr_expect_eq(inject_death_step(&plan, 1, INJECT_KILL), 2);
    cr_expect_eq(inject_death_step(&plan, 2, INJECT_KILL), 0);
}

Test(inject, anything_else_is_refused_with_what_is_expected)
{
    static const char *const bad[] = {"",
                                      "nvme",
                                      "nvme:eio",
                                      "nvme:eio@",
                                      "nvme:eio@0",
                                      "nvme:eio@x",
                                      "nvme:eoi@3",
                                      "eio@3",
                                      "nvme:eio@3,",
                                      "nvme:eio@3 ",
                                      "nvme:die@3",
                                      "rank:die@3",
                                      "rank:1:die",
                                      "rank:1:eio@3",
                                      "rank:-1:die@3",
                                      ",nvme:eio@3",
                                      "nvme:eio@-1",
                                      "rank:9999999:die@1",
                                      "die@3",
                                      "nvme:eio@3x",
                                      "nvme:eio@18446744073709551616"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct inject_plan plan = {0};
        cr_expect_eq(inject_parse(bad[i], &plan), ERR_USAGE, "'%s'", bad[i]);
        expect_message("expected nvme:FAULT@K");
        expect_message(bad[i]);
    }
    struct inject_plan plan = {0};
    for (int i = 0; i < INJECT_FAULT_MAX; i++)
        cr_assert_eq(inject_parse("nvme:eio@1", &plan), ERR_NONE);
    cr_expect_eq(inject_parse("nvme:eio@1", &plan), ERR_USAGE);
    expect_message("more than 16");
}
