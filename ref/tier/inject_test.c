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

static int bits_that_differ(const struct scene *scene)
{
    int count = 0;
    for (size_t i = 0; i < BLOCKS * BLOCK; i++)
        count += __builtin_popcount(scene->source[i] ^ scene->memory[i]);
    return count;
}

enum action { END, WRITE, READ, ALLOCATE };
enum { ALL_EQUAL, ONE_BIT, SOME_BITS };

// Faults, and what is then done in turn with its result.
struct trial {
    const char *faults;
    bool checksum;
    struct step {
        enum action action;
        int code;
        const char *says[4];     // in its error message, in addition to the folder
        int differing;           // bits of what is read
        uint64_t request_count;  // from the beginning on; 0: any
    } steps[6];
};

static void take_step(struct scene *scene, const struct step *step)
{
    void *more;
    int code = step->action == WRITE  ? scene_write(scene)
               : step->action == READ ? scene_read(scene)
                                      : tier_nvme_allocate(scene->tier, KIND_MASTER, "master", BLOCK, 0, &more);
    cr_expect_eq(code, step->code, "%d: %s", code, code == ERR_NONE ? "no error" : err_message());
    if (code == ERR_IO)
        expect_message(storage_folder);
    for (int i = 0; i < 4 && step->says[i]; i++)
        expect_message(step->says[i]);
    if (step->request_count > 0)
        cr_expect_eq(scene->inject.request_count, step->request_count);
    if (step->action == READ && code == ERR_NONE) {
        int bits = bits_that_differ(scene);
        cr_expect(step->differing == SOME_BITS ? bits > 0 : bits == step->differing, "%d bits differ", bits);
    }
}

// Runs a trial with each engine that can be used here, with one thread a transfer and with three.
static void everywhere(const struct trial *trial)
{
    for (int engine = 0; engine < NVME_ENGINE_COUNT; engine++)
        for (int threads = 1; threads <= 3 && storage_has((enum nvme_engine)engine); threads += 2) {
            struct scene scene;
            scene_begin(&scene, trial->faults, (enum nvme_engine)engine, trial->checksum, threads);
            for (const struct step *step = trial->steps; step->action != END; step++)
                take_step(&scene, step);
            scene_end(&scene);
        }
}

Test(inject, concurrent_an_input_output_error_names_path_offset_and_allocation)
{
    static const char writing[] = ": writing 24576 bytes at offset ", remedy[] = "Input/output error; check that disk";
    everywhere(
        &(struct trial){"nvme:eio@3",
                        true,
                        {{.action = WRITE, .code = ERR_IO, .says = {"NVMe of rank 0, \"exp_avg\": ", writing, remedy}},
                         {.action = READ, .code = ERR_INTERNAL},  // a failed write leaves nothing to read
                         {.action = WRITE},
                         {.action = READ}}});
    everywhere(&(struct trial){"nvme:eio@6",
                               true,
                               {{.action = WRITE},
                                {.action = READ, .code = ERR_IO, .says = {"reading 24576 bytes at offset "}},
                                {.action = READ}}});
}

Test(inject, concurrent_a_short_request_is_resumed_with_the_right_bytes)
{
    everywhere(&(struct trial){"nvme:short@2,nvme:short@4,nvme:short@7",
                               true,
                               {{.action = WRITE, .request_count = 6}, {.action = READ, .request_count = 11}}});
}

Test(inject, concurrent_a_torn_write_is_found_by_the_checksum_alone)
{
    static const char *const says[] = {": the 4 KiB at offset ", "checksum ", "resume from the last checkpoint"};
    everywhere(&(struct trial){
        "nvme:torn@2",
        true,
        {{.action = WRITE},
         {.action = READ, .code = ERR_IO, .says = {"NVMe of rank 0, \"exp_avg\": ", says[0], says[1], says[2]}}}});
    everywhere(&(struct trial){"nvme:torn@2", false, {{.action = WRITE}, {.action = READ, .differing = SOME_BITS}}});
}

// A bit that changes as a request is written (3) or before one is read (5) stays where it is until the next write.
Test(inject, concurrent_a_flipped_bit_is_found_by_the_checksum_alone)
{
    static const char *const faults[] = {"nvme:flip@3", "nvme:flip@5"};
    for (int i = 0; i < 2; i++) {
        everywhere(&(struct trial){faults[i],
                                   true,
                                   {{.action = WRITE},
                                    {.action = READ, .code = ERR_IO, .says = {"differ from what was written"}},
                                    {.action = READ, .code = ERR_IO},
                                    {.action = WRITE},
                                    {.action = READ}}});
        everywhere(&(struct trial){faults[i], false, {{.action = WRITE}, {.action = READ, .differing = ONE_BIT}}});
    }
}

// Only writes take space.
Test(inject, concurrent_a_full_disk_fails_a_write_or_an_allocation_and_loses_nothing)
{
    static const char write_says[] = "No space left on device; check that disk and its free space";
    static const char allocate_says[] = "no space for 4 KiB of \"master\" (No space left on device, ";
    everywhere(&(struct trial){
        "nvme:enospc@2", true, {{.action = WRITE, .code = ERR_IO, .says = {write_says}}, {.action = WRITE}}});
    everywhere(&(struct trial){"nvme:enospc@7",
                               true,
                               {{.action = WRITE},
                                {.action = READ},
                                {.action = ALLOCATE, .code = ERR_IO, .says = {allocate_says}},
                                {.action = READ},
                                {.action = ALLOCATE}}});
}

Test(inject, a_delayed_request_is_late_and_right)
{
    struct scene scene;
    scene_begin(&scene, "nvme:delay@2", NVME_LIBAIO, true, 1);
    double start = clock_now_s();
    cr_expect_eq(scene_write(&scene), ERR_NONE, "%s", err_message());
    cr_expect_geq(clock_now_s() - start, 1.0);
    take_step(&scene, &(struct step){.action = READ});
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
    char list[] = "|nvme|nvme:eio|nvme:eio@|nvme:eio@0|nvme:eio@x|nvme:eoi@3|eio@3|nvme:eio@3,|nvme:eio@3 |nvme:die@3|"
                  "rank:die@3|rank:1:die|rank:1:eio@3|rank:-1:die@3|,nvme:eio@3|nvme:eio@-1|rank:9999999:die@1|die@3|"
                  "nvme:eio@3x|nvme:eio@18446744073709551616";
    for (char *rest = list, *bad; (bad = strsep(&rest, "|")) != NULL;) {
        struct inject_plan plan = {0};
        cr_expect_eq(inject_parse(bad, &plan), ERR_USAGE, "'%s'", bad);
        expect_message("expected nvme:FAULT@K");
        expect_message(bad);
    }
    struct inject_plan plan = {0};
    for (int i = 0; i < INJECT_FAULT_MAX; i++)
        cr_assert_eq(inject_parse("nvme:eio@1", &plan), ERR_NONE);
    cr_expect_eq(inject_parse("nvme:eio@1", &plan), ERR_USAGE);
    expect_message("more than 16");
}
