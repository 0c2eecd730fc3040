// SPDX-License-Identifier: Apache-2.0
// The digest of a run has every bit of every state, whatever the order in which they are collected, and takes no room
// for the model.
#include "base/digest.h"
#include "base/process/launch_watch.h"
#include "ref/model/names/model_find.h"
#include "ref/train/mesh_test.h"
#include "ref/stage/stage_shard.h"
#include "ref/train/offload_test.h"

#include <unistd.h>

// All states of the last step, collected by rank 0 in one array.
struct whole {
    uint64_t last_step, elements;
    float *values;  // [STATE_COUNT x elements]
    uint64_t resident_bytes;
};

static int observe(void *context, const struct train_moment *moment)
{
    struct whole *whole = context;
    struct stage *stage = (struct stage *)(uintptr_t)moment->stage;
    const struct model *model = stage->setting.model;
    if (moment->step != whole->last_step)
        return ERR_NONE;
    for (int i = 0; i < stage->layout.bucket_count && whole->values; i++) {
        const struct bucket *b = &stage->layout.buckets[i];
        float *full = malloc(b->padded_count * sizeof *full);
        for (int state = 0; state < STATE_COUNT; state++) {
            TRY(stage_collect(stage, i, (enum state)state, full));
            for (int k = 0; moment->rank == 0 && k < b->param_count; k++) {
                int param = b->params[k];
                uint64_t begin = (uint64_t)state * whole->elements;
                for (int before = 0; before < param; before++)
                    begin += model->params[before].count;
                memcpy(whole->values + begin, full + stage->layout.offset_of[param],
                       model->params[param].count * sizeof *full);
            }
        }
        free(full);
    }
    if (moment->rank == 0 && process_peak_restart() == ERR_NONE)
        whole->resident_bytes = process_peak(getpid());
    return ERR_NONE;
}

static struct train_result run(const struct offload_trial *t, struct whole *whole)
{
    whole->last_step = t->steps;
    const struct train_setting setting = {.swap_checksum = true, .observe = observe, .observe_context = whole};
    return offload_succeed(t, setting);
}

static void demand(const struct offload_trial *t)
{
    const struct model *model;
    char digest[FILE_DIGEST_BYTES];
    cr_assert_eq(model_find(t->model, &model), ERR_NONE);
    struct whole whole = {.elements = model_param_elements(model, false)};
    size_t count = STATE_COUNT * whole.elements;
    whole.values = calloc(count, sizeof *whole.values);
    struct train_result result = run(t, &whole);
    digest_text(XXH3_128bits(whole.values, count * sizeof *whole.values), digest);
    cr_expect_str_eq(result.digest, digest, "%s", offload_name(t));
    free(whole.values);
}

Test(digest, has_every_bit_of_all_parameters_then_of_each_moment)
{
    demand(&OFFLOAD_TRIAL(.model = "gpt-nano", .world = 1, .stage = 0));
    demand(&OFFLOAD_TRIAL(.model = "gpt-nano", .stage = 3));
    demand(&OFFLOAD_TRIAL(.model = "gpt-nano", .stage = 1, .world = 3));
}

// One state has 26 MB, the largest layer of it 3.2 MB.
Test(digest, takes_room_for_two_layers)
{
    enum { TAKEN_BYTES_MAX = 16 << 20 };
    struct whole whole = {0};
    if (SANITIZED || process_peak_restart() != ERR_NONE) {
        printf("TEST SKIPPED: %s\n", SANITIZED ? "a sanitizer keeps freed memory" : err_message());
        return;
    }
    run(&OFFLOAD_TRIAL(.model = "gpt:layers=8,width=256,heads=4,length=16", .world = 1, .stage = 0, .steps = 1),
        &whole);
    uint64_t peak_bytes = process_peak(getpid());
    cr_expect_leq(peak_bytes, whole.resident_bytes + TAKEN_BYTES_MAX, "%llu bytes at most, %llu before",
                  (unsigned long long)peak_bytes, (unsigned long long)whole.resident_bytes);
}
