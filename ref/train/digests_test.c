// SPDX-License-Identifier: Apache-2.0
// The final states of datasets/digests.txt, by every build of the kernels and under every preset.
#include "ref/arithmetic/isa.h"
#include "ref/train/mesh_test.h"

static const char *const presets[] = {"zero0",         "zero1",         "zero2",        "zero3",
                                      "zero2_offload", "zero3_offload", "zero_infinity"};
enum { PRESETS = sizeof presets / sizeof *presets };

// One preset and one build after the other, with 1 to 3 threads; of few steps each.
static void expect_digest(const char *model, const char *dtype, int steps, const char *digest, int number,
                          bool is_large, const char *folder)
{
    char words[2 * PATH_MAX], found[33];
    // Without vectors a large model takes an hour.
    enum isa isa = is_large ? isa_best() : (enum isa)(number % ISA_COUNT);
    snprintf(words, sizeof words,
             "--preset %s --model %s --steps %d --world 2 --text @times --set train_micro_batch_size_per_gpu=1 "
             "--threads %d --nvme-path %s --buffered --isa %s%s",
             presets[number % PRESETS], model, steps, number % 3 + 1, folder,
             isa_name(isa_kernels_of(isa) ? isa : isa_best()),
             strcmp(dtype, "fp32") == 0 ? " --set bf16.enabled=false --set bf16.check_grad_overflow=false" : "");
    train_digest(words, found);
    cr_expect_str_eq(found, digest, "%s %s %d: %s", model, dtype, steps, words);
}

// Rows of the file, those of large models or the others.
static void expect_digests(bool large)
{
    char line[256], model[128], dtype[8], digest[40], size[8], folder[PATH_MAX];
    int steps, number = 0;
    FILE *file = fopen(ZG_SOURCE_DIR "/datasets/digests.txt", "re");
    cr_assert_not_null(file);
    folder_make(folder);
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#' || line[0] == '\n')
            continue;
        int count = sscanf(line, "%127s %7s %d %39s %7s", model, dtype, &steps, digest, size);
        cr_assert(count >= 4 && (count == 4 || strcmp(size, "large") == 0), "%s", line);
        for (int i = 0; i < (large ? 1 : 3) && large == (count == 5); i++)
            expect_digest(model, dtype, steps, digest, number++, large, folder);
    }
    fclose(file);
    cr_expect_geq(number, 2);
    folder_remove(folder);
}

Test(digests, of_small_models_are_the_same_in_every_build_and_preset)
{
    expect_digests(false);
}

Test(digests, of_large_models_are_the_same_in_every_build_and_preset_long)
{
    expect_digests(true);
}
