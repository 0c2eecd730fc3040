// SPDX-License-Identifier: Apache-2.0
// The digests of blocks are right, a load finds every changed byte and names the block, and checkpoints without such
// digests load as well.
#include "ref/checkpoint/blocks.h"
#include "ref/checkpoint/checkpoint_test.h"

TestSuite(checkpoint_blocks, .init = folder_setup, .fini = folder_teardown);

static char path[PATH_MAX + 64];

static const char *rank_file(const char *checkpoint, size_t rank)
{
    char name[RANK_NAME_BYTES];
    snprintf(path, sizeof path, "%s/%s", checkpoint, checkpoint_rank_name(rank, name));
    return path;
}

static void expect_entry(const unsigned char *table, size_t entry, const void *bytes, size_t count)
{
    XXH128_canonical_t expected;
    XXH128_canonicalFromHash(&expected, XXH3_128bits(bytes, count));
    cr_expect_arr_eq(table + entry * BLOCK_DIGEST_BYTES, &expected, sizeof expected, "entry %zu", entry);
}

Test(checkpoint_blocks, the_last_tensor_has_the_digests_of_the_header_and_of_each_block)
{
    static const size_t sizes[] = {0, 4, BLOCK_BYTES - 4, BLOCK_BYTES, BLOCK_BYTES + 4, 5 * BLOCK_BYTES / 2};
    static const size_t pieces[] = {4 << 20, 100012, 65536};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes * 3; i++) {
        size_t size = sizes[i / 3], piece = pieces[i % 3], bytes, blocks = (size + BLOCK_BYTES - 1) / BLOCK_BYTES;
        char *data = malloc(size + 1), digest[FILE_DIGEST_BYTES], of_table[FILE_DIGEST_BYTES];
        for (size_t k = 0; k < size; k++)
            data[k] = (char)(k + k / 256 * 7);
        struct safetensors_tensor tensors[2] = {
            {.name = "t", .type = TENSOR_FP32, .shape_rank = 1, .shape = {size / 4}}};
        struct safetensors_writer *writer;
        rank_file(folder, i);
        cr_assert_eq(safetensors_create_in_blocks(path, tensors, 1, &writer), ERR_NONE, "%s", err_message());
        for (size_t k = 0; k < size; k += piece)
            cr_assert_eq(safetensors_write(writer, data + k, size - k < piece ? size - k : piece), ERR_NONE);
        cr_assert_eq(safetensors_write_blocks(writer, digest), ERR_NONE, "%s", err_message());
        cr_assert_eq(safetensors_finish(writer, NULL, NULL), ERR_NONE, "%s", err_message());
        struct safetensors file;
        cr_assert_eq(safetensors_open(path, &file), ERR_NONE, "%s", err_message());
        cr_assert_eq(blocks_check(&file), ERR_NONE, "%s", err_message());
        cr_assert_eq(blocks_covered_bytes(&file), size);
        cr_assert_eq(file.data_bytes, size + (1 + blocks) * BLOCK_DIGEST_BYTES);
        char *text = folder_read(path, &bytes);
        cr_expect_eq(memcmp(text + file.data_begin, data, size), 0);
        const unsigned char *table = (const unsigned char *)text + file.data_begin + size;
        expect_entry(table, 0, text, file.data_begin);
        for (size_t k = 0; k < blocks; k++)
            expect_entry(table, 1 + k, data + k * BLOCK_BYTES, k + 1 < blocks ? BLOCK_BYTES : size - k * BLOCK_BYTES);
        digest_text(XXH3_128bits(table, (1 + blocks) * BLOCK_DIGEST_BYTES), of_table);
        cr_expect_str_eq(digest, of_table);
        safetensors_close(&file);
        free(text), free(data);
    }
}

// A checkpoint of two ranks, each of whose files has several blocks.
static const struct trial large = {.model = "gpt-tiny", .stage = 2, .world = 2, .steps = 1};

static const char *save_large(void)
{
    static char checkpoint[PATH_MAX + 16];
    struct trial trial = large;
    trial.save = folder;
    trial_pass(&trial);
    snprintf(checkpoint, sizeof checkpoint, "%s/step-00000001", folder);
    return checkpoint;
}

// Changes bits of a byte of a rank's file while worlds of 1 to 3 ranks load it.
static void expect_found(const char *checkpoint, size_t rank, size_t at, char bits, const char *what)
{
    struct train_result result;
    struct trial then = large;
    size_t bytes;
    char *data = folder_read(rank_file(checkpoint, rank), &bytes), name[RANK_NAME_BYTES];
    data[at] ^= bits;
    folder_write(path, data, bytes);
    then.resume = folder;
    then.steps = 2;
    for (then.world = 1; then.world <= 3; then.world++) {
        then.stage = then.world;
        cr_expect_eq(trial_run(&then, &result, NULL), ERR_USAGE, "byte %zu of rank %zu, %d ranks", at, rank,
                     then.world);
        cr_expect_not_null(strstr(err_message(), checkpoint_rank_name(rank, name)), "%s", err_message());
        cr_expect_not_null(strstr(err_message(), what), "byte %zu, %d ranks: %s", at, then.world, err_message());
    }
    data[at] ^= bits;
    folder_write(path, data, bytes);
    free(data);
}

Test(checkpoint_blocks, a_byte_changed_in_any_block_is_found_with_its_place)
{
    const char *checkpoint = save_large();
    int padded = 0;
    for (size_t rank = 0; rank < 2; rank++) {
        struct safetensors file;
        char what[128];
        cr_assert_eq(safetensors_open(rank_file(checkpoint, rank), &file), ERR_NONE);
        uint64_t covered = blocks_covered_bytes(&file), begin = file.data_begin;
        safetensors_close(&file);
        cr_assert_gt(covered, 4 * BLOCK_BYTES);
        for (uint64_t at = 0; at < covered; at += BLOCK_BYTES) {
            uint64_t end = covered - at < BLOCK_BYTES ? covered : at + BLOCK_BYTES, places[] = {at, end - 1};
            snprintf(what, sizeof what, "is damaged in its bytes %d to %d: ", (int)(begin + at),
                     (int)(begin + end - 1));
            expect_found(checkpoint, rank, begin + places[at / BLOCK_BYTES % 2], 4, what);
        }
        size_t bytes;
        char *data = folder_read(rank_file(checkpoint, rank), &bytes);
        snprintf(what, sizeof what, "is damaged in its bytes 0 to %d: ", (int)begin - 1);
        // A tab for a blank changes nothing of what the header says.
        if (data[begin - 1] == ' ') {
            expect_found(checkpoint, rank, begin - 1, ' ' ^ '\t', what);
            padded++;
        }
        expect_found(checkpoint, rank, bytes - 1, 4, "is damaged in its tensor \"blocks\"");
        expect_found(checkpoint, rank, begin + covered, 4, "is damaged in its tensor \"blocks\"");
        free(data);
    }
    cr_assert_gt(padded, 0);
}

// Every byte of small files, loaded by 1, 2 and 3 ranks in turn.
Test(checkpoint_blocks, a_byte_changed_anywhere_is_found_by_a_load)
{
    char checkpoint[PATH_MAX + 16];
    struct trial then = {.model = "linear-few", .precision = DTYPE_FP16, .steps = 4, .recipe = "deepspeed-cpu-scalar"};
    struct train_result result;
    snprintf(checkpoint, sizeof checkpoint, "%s", trial_save_small());
    then.resume = checkpoint;
    for (size_t rank = 0; rank < 2; rank++) {
        size_t bytes;
        char *data = folder_read(rank_file(checkpoint, rank), &bytes), name[RANK_NAME_BYTES];
        for (size_t i = 0; i < bytes; i++) {
            data[i] ^= 1;
            folder_write(path, data, bytes);
            then.world = then.stage = 1 + (int)(i % 3);
            cr_expect_neq(trial_run(&then, &result, NULL), ERR_NONE, "byte %zu of rank %zu", i, rank);
            cr_expect_not_null(strstr(err_message(), checkpoint_rank_name(rank, name)), "byte %zu: %s", i,
                               err_message());
            data[i] ^= 1;
        }
        folder_write(path, data, bytes);
        free(data);
    }
    trial_pass(&then);
}

// Rewrites a checkpoint as version 1 of the manifest has it: without the digests of blocks.
static void make_version_1(const char *checkpoint)
{
    char name[PATH_MAX + 64];
    size_t bytes;
    snprintf(name, sizeof name, "%s/manifest.json", checkpoint);
    char *text = folder_read(name, &bytes);
    json_t *manifest = json_loadb(text, bytes, 0, NULL), *files = json_object_get(manifest, "files");
    free(text);
    json_object_set_new(manifest, "version", json_integer(1));
    for (size_t i = 0; i < json_array_size(files); i++) {
        struct safetensors file;
        struct safetensors_writer *writer;
        uint64_t size;
        char digest[FILE_DIGEST_BYTES];
        cr_assert_eq(safetensors_open(rank_file(checkpoint, i), &file), ERR_NONE);
        uint64_t covered = blocks_covered_bytes(&file);
        char *data = malloc(covered + 1);
        cr_assert_eq(file_read_at(file.fd, path, file.data_begin, data, covered), ERR_NONE);
        unlink(path);
        cr_assert_eq(safetensors_create(path, file.tensors, file.tensor_count - 1, NULL, &writer), ERR_NONE);
        cr_assert_eq(safetensors_write(writer, data, covered), ERR_NONE);
        cr_assert_eq(safetensors_finish(writer, &size, digest), ERR_NONE);
        safetensors_close(&file);
        free(data);
        json_t *entry = json_array_get(files, i);
        json_object_set_new(entry, "bytes", json_integer((json_int_t)size));
        json_object_set_new(entry, "xxh3_128", json_string(digest));
        cr_assert_eq(json_object_del(entry, "blocks_xxh3_128"), 0);
    }
    cr_assert_eq(manifest_seal(manifest), ERR_NONE);
    cr_assert_eq(json_dump_file(manifest, name, 0), 0);
    json_decref(manifest);
}

Test(checkpoint_blocks, checkpoints_of_version_1_continue_and_their_damage_is_found)
{
    const char *checkpoint = save_large();
    make_version_1(checkpoint);
    struct trial then = large;
    then.steps = 3;
    struct train_result whole = trial_pass(&then);
    then.resume = folder;
    for (then.world = 1; then.world <= 3; then.world++) {
        then.stage = then.world;
        struct train_result result = trial_pass(&then);
        cr_expect_eq(result.resumed_step, 1);
        if (then.world == 2)
            cr_expect_str_eq(result.digest, whole.digest);
    }
    expect_found(checkpoint, 0, 9, 4, "rank-0");
    expect_found(checkpoint, 0, 1 << 19, 4, "is damaged: its digest is ");
    expect_found(checkpoint, 1, 1 << 19, 4, "is damaged: its digest is ");
}
