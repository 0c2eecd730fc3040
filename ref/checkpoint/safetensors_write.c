// SPDX-License-Identifier: Apache-2.0
// Writing safetensors: the header, then data in the order of calls.
#include "ref/checkpoint/blocks.h"

#include "base/digest.h"
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Each time this many bytes are written, the system begins to move them to the disk, so that the sync at the end waits
// for the last of them alone.
enum { BUFFER_BYTES = 1 << 20, AHEAD_BYTES = 8 << 20 };

struct safetensors_writer {
    char *path;
    int fd;
    bool volatile_file;  // not synced
    XXH3_state_t *hash;
    struct blocks blocks;  // no table: a file without them
    uint64_t bytes;        // of the file so far
    uint64_t begun;        // of these, those that are on their way to the disk
    uint64_t data_left;    // bytes of data still to write
    size_t used, room;     // bytes of the buffer; as much as a small file needs
    char buffer[];
};

static int flush(struct safetensors_writer *writer)
{
    size_t used = writer->used;
    writer->used = 0;
    return file_write(writer->fd, writer->path, writer->buffer, used);
}

static void begin_sync(struct safetensors_writer *writer)
{
    uint64_t written = writer->bytes - writer->used;
    if (writer->volatile_file || written - writer->begun < AHEAD_BYTES)
        return;
    // Where this fails, the sync at the end does all, and has the error.
    (void)sync_file_range(writer->fd, (off_t)writer->begun, (off_t)(written - writer->begun), SYNC_FILE_RANGE_WRITE);
    writer->begun = written;
}

static int put_piece(struct safetensors_writer *writer, const void *data, size_t bytes)
{
    XXH3_128bits_update(writer->hash, data, bytes);
    if (writer->blocks.table)
        blocks_add(&writer->blocks, data, bytes);
    if (writer->used + bytes > writer->room)
        TRY(flush(writer));
    writer->bytes += bytes;
    if (bytes >= writer->room) {
        TRY(file_write(writer->fd, writer->path, data, bytes));
    } else {
        memcpy(writer->buffer + writer->used, data, bytes);
        writer->used += bytes;
    }
    begin_sync(writer);
    return ERR_NONE;
}

// In pieces that are still in the processor's cache when they are written, after their digest.
static int put(struct safetensors_writer *writer, const void *data, size_t bytes)
{
    for (const char *at = data; bytes > 0;) {
        size_t now = bytes < BUFFER_BYTES ? bytes : BUFFER_BYTES;
        TRY(put_piece(writer, at, now));
        at += now;
        bytes -= now;
    }
    return ERR_NONE;
}

// Fills in counts and offsets of all tensors; *total: bytes of data.
static int lay_out(const char *path, struct safetensors_tensor *tensors, size_t tensor_count, uint64_t *total)
{
    *total = 0;
    for (size_t i = 0; i < tensor_count; i++) {
        struct safetensors_tensor *tensor = &tensors[i];
        bool overflow = false;
        uint64_t bytes;
        assert(tensor->name && tensor->shape_rank >= 0 && tensor->shape_rank <= SAFETENSORS_RANK_MAX);
        tensor->count = 1;
        for (int k = 0; k < tensor->shape_rank; k++)
            overflow |= __builtin_mul_overflow(tensor->count, tensor->shape[k], &tensor->count);
        tensor->begin = *total;
        overflow |= __builtin_mul_overflow(tensor->count, safetensors_type_bytes(tensor->type), &bytes);
        if (overflow || __builtin_add_overflow(*total, bytes, total) || *total > INT64_MAX)
            return err_set(ERR_USAGE, "%s: tensor \"%s\" is too large", path, tensor->name);
    }
    return ERR_NONE;
}

// A text in quotes.
static void print_text(FILE *out, const char *text)
{
    json_t *value = json_string(text);
    json_dumpf(value, out, JSON_ENCODE_ANY);
    json_decref(value);
}

static void print_tensor(FILE *out, const struct safetensors_tensor *tensor)
{
    uint64_t end = tensor->begin + tensor->count * safetensors_type_bytes(tensor->type);
    print_text(out, tensor->name);
    fprintf(out, ":{\"dtype\":\"%s\",\"shape\":[", safetensors_type_name(tensor->type));
    for (int k = 0; k < tensor->shape_rank; k++)
        fprintf(out, k > 0 ? ",%" PRIu64 : "%" PRIu64, tensor->shape[k]);
    fprintf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", tensor->begin, end);
}

static int print_header(FILE *out, const char *path, const struct safetensors_tensor *tensors, size_t tensor_count,
                        const char *const *metadata, json_t *names)
{
    const char *comma = "";
    fputc('{', out);
    if (metadata && metadata[0]) {
        json_t *pairs = json_object();
        for (size_t i = 0; metadata[i]; i += 2)
            json_object_set_new(pairs, metadata[i], json_string(metadata[i + 1]));
        fputs("\"__metadata__\":", out);
        json_dumpf(pairs, out, JSON_COMPACT);
        json_decref(pairs);
        comma = ",";
    }
    for (size_t i = 0; i < tensor_count; i++) {
        const char *name = tensors[i].name;
        if (json_object_get(names, name) || strcmp(name, "__metadata__") == 0)
            return err_set(ERR_USAGE, "%s: two tensors are called \"%s\"", path, name);
        if (json_object_set_new(names, name, json_null()) != 0)
            return err_set(ERR_USAGE, "%s: a tensor cannot be called \"%s\"", path, name);
        fputs(comma, out);
        print_tensor(out, &tensors[i]);
        comma = ",";
    }
    fputc('}', out);
    return ERR_NONE;
}

static int make_header(const char *path, const struct safetensors_tensor *tensors, size_t tensor_count,
                       const char *const *metadata, char **header)
{
    size_t bytes;
    json_t *names = json_object();
    FILE *out = open_memstream(header, &bytes);
    int rc = names && out ? print_header(out, path, tensors, tensor_count, metadata, names) : ERR_NONE;
    bool is_whole = names && out && !ferror(out);
    is_whole &= out && fclose(out) == 0;
    json_decref(names);
    return rc != ERR_NONE || is_whole ? rc : err_set(ERR_MEMORY, "no memory for the header of %s", path);
}

static int put_header(struct safetensors_writer *writer, const char *header)
{
    static const char blanks[] = "        ";
    size_t length = strlen(header);
    uint64_t padded = (length + 7) / 8 * 8;
    if (padded > SAFETENSORS_HEADER_BYTES_MAX)
        return err_set(ERR_USAGE, "%s: a header of %" PRIu64 " bytes is too long", writer->path, padded);
    TRY(put(writer, &padded, sizeof padded));
    TRY(put(writer, header, length));
    return put(writer, blanks, padded - length);
}

static int open_writer(const char *path, size_t header_bytes, uint64_t data_bytes, struct safetensors_writer **out)
{
    size_t room = data_bytes < BUFFER_BYTES ? header_bytes + data_bytes + 2 * sizeof(uint64_t) : BUFFER_BYTES;
    struct safetensors_writer *writer = *out = malloc(sizeof *writer + room);
    if (!writer)
        return err_set(ERR_MEMORY, "no memory to write %s", path);
    *writer = (struct safetensors_writer){
        .path = strdup(path), .fd = -1, .hash = XXH3_createState(), .data_left = data_bytes, .room = room};
    if (!writer->hash || !writer->path)
        return err_set(ERR_MEMORY, "no memory to write %s", path);
    XXH3_128bits_reset(writer->hash);
    return file_create(path, &writer->fd);
}

int safetensors_create(const char *path, struct safetensors_tensor *tensors, size_t tensor_count,
                       const char *const *metadata, struct safetensors_writer **out)
{
    uint64_t data_bytes;
    char *header = NULL;
    *out = NULL;
    TRY(lay_out(path, tensors, tensor_count, &data_bytes));
    int rc = make_header(path, tensors, tensor_count, metadata, &header);
    if (rc == ERR_NONE)
        rc = open_writer(path, strlen(header), data_bytes, out);
    if (rc == ERR_NONE)
        rc = put_header(*out, header);
    free(header);
    if (rc != ERR_NONE) {
        safetensors_abandon(*out);
        *out = NULL;
    }
    return rc;
}

int safetensors_create_in_blocks(const char *path, struct safetensors_tensor *tensors, size_t tensor_count,
                                 struct safetensors_writer **out)
{
    uint64_t data_bytes;
    TRY(lay_out(path, tensors, tensor_count, &data_bytes));
    tensors[tensor_count] = blocks_tensor(data_bytes);
    TRY(safetensors_create(path, tensors, tensor_count + 1, NULL, out));
    int rc = blocks_open(data_bytes, XXH3_128bits_digest((*out)->hash), &(*out)->blocks);
    if (rc != ERR_NONE) {
        safetensors_abandon(*out);
        *out = NULL;
    }
    return rc;
}

int safetensors_write_blocks(struct safetensors_writer *writer, char digest[FILE_DIGEST_BYTES])
{
    struct blocks blocks = writer->blocks;
    assert(blocks.table);
    writer->blocks = (struct blocks){0};
    blocks_finish(&blocks);
    digest_text(XXH3_128bits(blocks.table, blocks.table_bytes), digest);
    int rc = safetensors_write(writer, blocks.table, blocks.table_bytes);
    blocks_close(&blocks);
    return rc;
}

int safetensors_write(struct safetensors_writer *writer, const void *data, size_t bytes)
{
    if (bytes > writer->data_left)
        return err_set(ERR_INTERNAL, "%s: %zu more bytes exceed the %" PRIu64 " that are left", writer->path, bytes,
                       writer->data_left);
    writer->data_left -= bytes;
    return put(writer, data, bytes);
}

void safetensors_leave_volatile(struct safetensors_writer *writer)
{
    writer->volatile_file = true;
}

static int complete(struct safetensors_writer *writer)
{
    if (writer->data_left > 0)
        return err_set(ERR_INTERNAL, "%s: %" PRIu64 " bytes have not been written", writer->path, writer->data_left);
    TRY(flush(writer));
    if (!writer->volatile_file)
        TRY(file_sync(writer->fd, writer->path));
    int fd = writer->fd;
    writer->fd = -1;
    if (close(fd) != 0) {
        int rc = err_set(ERR_IO, "%s: cannot be closed: %s", writer->path, strerror(errno));
        unlink(writer->path);
        return rc;
    }
    return ERR_NONE;
}

int safetensors_finish(struct safetensors_writer *writer, uint64_t *bytes, char digest[FILE_DIGEST_BYTES])
{
    int rc = complete(writer);
    if (digest)
        digest_text(XXH3_128bits_digest(writer->hash), digest);
    if (bytes)
        *bytes = writer->bytes;
    safetensors_abandon(writer);  // keeps a closed file
    return rc;
}

void safetensors_abandon(struct safetensors_writer *writer)
{
    if (!writer)
        return;
    if (writer->fd >= 0) {
        close(writer->fd);
        unlink(writer->path);
    }
    XXH3_freeState(writer->hash);
    blocks_close(&writer->blocks);
    free(writer->path);
    free(writer);
}
