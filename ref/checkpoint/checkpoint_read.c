// SPDX-License-Identifier: Apache-2.0
// Reading the elements of a checkpoint, with the digests of whole files or of the blocks that hold them.
#include "ref/checkpoint/blocks.h"
#include "ref/checkpoint/checkpoint.h"

#include "base/err.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define REMEDY "remove the folder of this checkpoint to continue from the one before"

static int check_digest(const struct checkpoint *c, size_t index)
{
    const struct safetensors *file = checkpoint_file(c, index);
    const char *expected = checkpoint_manifest(c)->files[index].digest;
    char digest[FILE_DIGEST_BYTES];
    TRY(file_digest(file->fd, file->path, digest));
    if (strcmp(digest, expected) != 0)
        return err_set(ERR_USAGE, "%s: is damaged: its digest is %s, the manifest has %s; " REMEDY, file->path, digest,
                       expected);
    return ERR_NONE;
}

int checkpoint_check_digests(const struct checkpoint *c)
{
    for (size_t i = 0; i < checkpoint_manifest(c)->file_count; i++)
        TRY(check_digest(c, i));
    return ERR_NONE;
}

int checkpoint_reader_open(const struct checkpoint *c, struct checkpoint_reader *out)
{
    *out = (struct checkpoint_reader){.checkpoint = c};
    out->tables = calloc(checkpoint_manifest(c)->file_count + 1, sizeof *out->tables);
    return out->tables ? ERR_NONE : err_set(ERR_MEMORY, "no memory to read %s", checkpoint_path(c));
}

void checkpoint_reader_close(struct checkpoint_reader *reader)
{
    for (size_t i = 0; reader->tables && i < checkpoint_manifest(reader->checkpoint)->file_count; i++)
        free(reader->tables[i]);
    for (int i = 0; i < READER_BLOCKS; i++)
        free(reader->kept[i].bytes);
    free(reader->tables);
    *reader = (struct checkpoint_reader){0};
}

// Compares bytes of a file, from `at` on, with entry `entry` of its table.
static int check(const struct checkpoint_reader *reader, size_t index, uint64_t entry, const void *bytes, size_t count,
                 uint64_t at)
{
    const struct safetensors *file = checkpoint_file(reader->checkpoint, index);
    const unsigned char *expected = reader->tables[index] + entry * BLOCK_DIGEST_BYTES;
    XXH128_hash_t digest = XXH3_128bits(bytes, count);
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, digest);
    if (memcmp(&canonical, expected, sizeof canonical) == 0)
        return ERR_NONE;
    char found[FILE_DIGEST_BYTES], written[FILE_DIGEST_BYTES];
    digest_text(digest, found);
    digest_text(XXH128_hashFromCanonical((const XXH128_canonical_t *)expected), written);
    return err_set(ERR_USAGE,
                   "%s: is damaged in its bytes %" PRIu64 " to %" PRIu64
                   ": their digest is %s, its tensor \"" BLOCKS_NAME "\" has %s; " REMEDY,
                   file->path, at, at + count - 1, found, written);
}

static int read_table(const struct checkpoint_reader *reader, size_t index, unsigned char *table, size_t bytes)
{
    const struct safetensors *file = checkpoint_file(reader->checkpoint, index);
    const char *expected = checkpoint_manifest(reader->checkpoint)->files[index].blocks_digest;
    char digest[FILE_DIGEST_BYTES];
    TRY(file_read_at(file->fd, file->path, file->data_begin + blocks_covered_bytes(file), table, bytes));
    digest_text(XXH3_128bits(table, bytes), digest);
    if (strcmp(digest, expected) != 0)
        return err_set(ERR_USAGE,
                       "%s: is damaged in its tensor \"" BLOCKS_NAME
                       "\": its digest is %s, the manifest has %s; " REMEDY,
                       file->path, digest, expected);
    return ERR_NONE;
}

// Reads the table of a file, once.
static int need_table(struct checkpoint_reader *reader, size_t index)
{
    const struct safetensors *file = checkpoint_file(reader->checkpoint, index);
    if (reader->tables[index])
        return ERR_NONE;
    size_t bytes = file->data_bytes - blocks_covered_bytes(file);
    unsigned char *table = malloc(bytes);
    int rc = table ? read_table(reader, index, table, bytes) : err_set(ERR_MEMORY, "no memory to read %s", file->path);
    if (rc == ERR_NONE)
        reader->tables[index] = table;
    else
        free(table);
    return rc;
}

static int check_header(const struct checkpoint_reader *reader, size_t index)
{
    const struct safetensors *file = checkpoint_file(reader->checkpoint, index);
    char *header = malloc(file->data_begin);
    int rc = header ? file_read_at(file->fd, file->path, 0, header, file->data_begin)
                    : err_set(ERR_MEMORY, "no memory to read %s", file->path);
    if (rc == ERR_NONE)
        rc = check(reader, index, 0, header, file->data_begin, 0);
    free(header);
    return rc;
}

int checkpoint_reader_begin(struct checkpoint_reader *reader, size_t file)
{
    if (!manifest_has_blocks(checkpoint_manifest(reader->checkpoint)))
        return check_digest(reader->checkpoint, file);
    TRY(need_table(reader, file));
    return check_header(reader, file);
}

static size_t block_bytes(const struct safetensors *file, uint64_t block)
{
    uint64_t left = blocks_covered_bytes(file) - block * BLOCK_BYTES;
    return left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
}

static int read_block(const struct checkpoint_reader *reader, size_t index, uint64_t block, char *out)
{
    const struct safetensors *file = checkpoint_file(reader->checkpoint, index);
    uint64_t at = file->data_begin + block * BLOCK_BYTES;
    size_t bytes = block_bytes(file, block);
    TRY(file_read_at(file->fd, file->path, at, out, bytes));
    return check(reader, index, 1 + block, out, bytes, at);
}

static int keep_block(struct checkpoint_reader *reader, size_t index, uint64_t block, const char **out)
{
    struct reader_block *kept = &reader->kept[index % READER_BLOCKS];
    if (!kept->bytes || kept->file != index || kept->block != block) {
        char *bytes = kept->bytes ? kept->bytes : malloc(BLOCK_BYTES);
        kept->bytes = NULL;
        int rc = bytes ? read_block(reader, index, block, bytes) : err_set(ERR_MEMORY, "no memory for a block");
        if (rc != ERR_NONE) {
            free(bytes);
            return rc;
        }
        *kept = (struct reader_block){index, block, bytes};
    }
    *out = kept->bytes;
    return ERR_NONE;
}

// Whole blocks of a file, of which each thread reads every LANES-th.
enum { LANES = 2, LANE_BLOCKS_MIN = 4 };
struct block_lane {
    pthread_t thread;
    const struct checkpoint_reader *reader;
    size_t file;
    uint64_t next, end;  // blocks
    char *out;           // of block `next`
    int rc;
    char message[ERR_MESSAGE_BYTES];
};

static void *run_block_lane(void *argument)
{
    struct block_lane *lane = argument;
    for (; lane->next < lane->end && lane->rc == ERR_NONE; lane->next += LANES, lane->out += LANES * BLOCK_BYTES)
        lane->rc = read_block(lane->reader, lane->file, lane->next, lane->out);
    err_keep(lane->message);
    return NULL;
}

static int read_blocks(const struct checkpoint_reader *reader, size_t index, uint64_t block, uint64_t count, char *out)
{
    struct block_lane lanes[LANES];
    int started = 1, rc = ERR_NONE;
    for (int i = 0; i < LANES; i++)
        lanes[i] = (struct block_lane){.reader = reader,
                                       .file = index,
                                       .next = block + (uint64_t)i,
                                       .end = block + count,
                                       .out = out + i * BLOCK_BYTES};
    for (; started < LANES && count >= LANE_BLOCKS_MIN; started++)
        if (pthread_create(&lanes[started].thread, NULL, run_block_lane, &lanes[started]) != 0)
            break;
    run_block_lane(&lanes[0]);
    for (int i = 1; i < LANES; i++)
        if (i < started)
            pthread_join(lanes[i].thread, NULL);
        else
            run_block_lane(&lanes[i]);
    for (int i = 0; i < LANES && rc == ERR_NONE; i++)
        if ((rc = lanes[i].rc) != ERR_NONE)
            err_restore(lanes[i].message);
    return rc;
}

// Reads bytes of a file's data. Whole blocks go straight to `out`.
static int read_bytes(struct checkpoint_reader *reader, size_t index, uint64_t at, size_t bytes, char *out)
{
    const struct safetensors *file = checkpoint_file(reader->checkpoint, index);
    TRY(need_table(reader, index));
    while (bytes > 0) {
        uint64_t block = at / BLOCK_BYTES;
        size_t skipped = at % BLOCK_BYTES, left = block_bytes(file, block) - skipped;
        size_t now = left < bytes ? left : bytes;
        if (now == BLOCK_BYTES) {
            now = bytes / BLOCK_BYTES * BLOCK_BYTES;
            TRY(read_blocks(reader, index, block, now / BLOCK_BYTES, out));
        } else {
            const char *kept;
            TRY(keep_block(reader, index, block, &kept));
            memcpy(out, kept + skipped, now);
        }
        at += now;
        bytes -= now;
        out += now;
    }
    return ERR_NONE;
}

// reader: null to compare no digests.
static int read_elements(const struct checkpoint *c, struct checkpoint_reader *reader, int state, size_t param,
                         uint64_t first, size_t count, float *out)
{
    while (count > 0) {
        struct checkpoint_place place = checkpoint_find_place(c, state, param, first);
        const struct safetensors *file = checkpoint_file(c, place.file);
        size_t now = place.count < count ? (size_t)place.count : count;
        if (reader)
            TRY(read_bytes(reader, place.file, place.begin, now * sizeof *out, (char *)out));
        else
            TRY(file_read_at(file->fd, file->path, file->data_begin + place.begin, out, now * sizeof *out));
        first += now;
        count -= now;
        out += now;
    }
    return ERR_NONE;
}

int checkpoint_read(const struct checkpoint *c, int state, size_t param, uint64_t first, size_t count, float *out)
{
    return read_elements(c, NULL, state, param, first, count, out);
}

int checkpoint_reader_read(struct checkpoint_reader *reader, int state, size_t param, uint64_t first, size_t count,
                           float *out)
{
    bool has_blocks = manifest_has_blocks(checkpoint_manifest(reader->checkpoint));
    return read_elements(reader->checkpoint, has_blocks ? reader : NULL, state, param, first, count, out);
}
