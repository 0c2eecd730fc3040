// SPDX-License-Identifier: Apache-2.0
// Reading safetensors: the whole header is checked before any of it is used.
#include "ref/checkpoint/safetensors.h"

#include "base/err.h"
#include "base/json.h"
#include "base/safe_text.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the data of the format is little-endian");

static const struct {
    const char *name;
    size_t bytes;
} types[TENSOR_TYPE_COUNT] = {
    [TENSOR_BOOL] = {"BOOL", 1},       [TENSOR_U8] = {"U8", 1},           [TENSOR_I8] = {"I8", 1},
    [TENSOR_F8_E5M2] = {"F8_E5M2", 1}, [TENSOR_F8_E4M3] = {"F8_E4M3", 1}, [TENSOR_I16] = {"I16", 2},
    [TENSOR_U16] = {"U16", 2},         [TENSOR_FP16] = {"F16", 2},        [TENSOR_BF16] = {"BF16", 2},
    [TENSOR_I32] = {"I32", 4},         [TENSOR_U32] = {"U32", 4},         [TENSOR_FP32] = {"F32", 4},
    [TENSOR_FP64] = {"F64", 8},        [TENSOR_I64] = {"I64", 8},         [TENSOR_U64] = {"U64", 8},
};

const char *safetensors_type_name(enum safetensors_type type)
{
    assert((unsigned)type < TENSOR_TYPE_COUNT);
    return types[type].name;
}

size_t safetensors_type_bytes(enum safetensors_type type)
{
    assert((unsigned)type < TENSOR_TYPE_COUNT);
    return types[type].bytes;
}

enum safetensors_type safetensors_type_of(enum dtype dtype)
{
    static const enum safetensors_type of[] = {
        [DTYPE_FP32] = TENSOR_FP32, [DTYPE_BF16] = TENSOR_BF16, [DTYPE_FP16] = TENSOR_FP16, [DTYPE_BYTE] = TENSOR_U8};
    return of[dtype];
}

// Returns ERR_USAGE with `FILE: tensor NAME: what`, the name escaped.
static int refuse(const char *path, const char *name, const char *what)
{
    char shown[TEXT_MESSAGE_BYTES];
    return err_set(ERR_USAGE, "%s: tensor \"%s\": %s", path, text_message(shown, name, 100), what);
}

static int parse_type(const char *path, const char *name, const json_t *value, enum safetensors_type *out)
{
    const char *text = json_string_value(value);
    if (!text)
        return refuse(path, name, "\"dtype\" is not a string");
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++)
        if (strcmp(text, types[type].name) == 0) {
            *out = (enum safetensors_type)type;
            return ERR_NONE;
        }
    char shown[TEXT_MESSAGE_BYTES], what[TEXT_MESSAGE_BYTES + 64];
    snprintf(what, sizeof what, "its dtype \"%s\" is not supported", text_message(shown, text, 40));
    return refuse(path, name, what);
}

// True if value is an integer of at least 0.
static bool is_count(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static int parse_shape(const char *path, const json_t *shape, struct safetensors_tensor *tensor)
{
    if (!json_is_array(shape))
        return refuse(path, tensor->name, "\"shape\" is not an array");
    if (json_array_size(shape) > SAFETENSORS_RANK_MAX)
        return refuse(path, tensor->name, "has more than 16 dimensions");
    tensor->shape_rank = (int)json_array_size(shape);
    tensor->count = 1;
    bool overflow = false;
    for (int i = 0; i < tensor->shape_rank; i++) {
        if (!is_count(json_array_get(shape, (size_t)i), &tensor->shape[i]))
            return refuse(path, tensor->name, "\"shape\" holds something that is not a size");
        // As in the format's library, a product that overflows is refused even if a later factor is 0.
        overflow |= __builtin_mul_overflow(tensor->count, tensor->shape[i], &tensor->count);
    }
    uint64_t bytes;
    if (overflow || __builtin_mul_overflow(tensor->count, types[tensor->type].bytes, &bytes))
        return refuse(path, tensor->name, "its shape has more bytes than 64 bits can count");
    return ERR_NONE;
}

static int parse_tensor(const char *path, const char *name, const json_t *value, uint64_t data_bytes,
                        struct safetensors_tensor *out)
{
    *out = (struct safetensors_tensor){.name = name};
    if (!json_is_object(value))
        return refuse(path, name, "is not an object");
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        if (*c < 0x20 || *c == 0x7f)
            return refuse(path, name, "its name has a control character");
    const json_t *type = json_object_get(value, "dtype"), *shape = json_object_get(value, "shape");
    const json_t *offsets = json_object_get(value, "data_offsets");
    if (!type || !shape || !offsets || json_object_size(value) != 3)
        return refuse(path, name, "does not have exactly the keys \"dtype\", \"shape\" and \"data_offsets\"");
    TRY(parse_type(path, name, type, &out->type));
    TRY(parse_shape(path, shape, out));
    uint64_t end;
    bool pair = json_is_array(offsets) && json_array_size(offsets) == 2;
    if (!pair || !is_count(json_array_get(offsets, 0), &out->begin) || !is_count(json_array_get(offsets, 1), &end))
        return refuse(path, name, "\"data_offsets\" is not a pair of offsets");
    if (end < out->begin || end > data_bytes)
        return refuse(path, name, end < out->begin ? "ends before it begins" : "ends beyond the end of the file");
    if (end - out->begin != out->count * types[out->type].bytes)
        return refuse(path, name, "its shape and its offsets give different sizes");
    return ERR_NONE;
}

// Orders tensors by begin; empty ones precede the tensor that begins there, in the order of their names.
static int compare_tensors(const void *left, const void *right)
{
    const struct safetensors_tensor *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if ((a->count == 0) != (b->count == 0))
        return a->count == 0 ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int check_metadata(const char *path, json_t *metadata)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return err_set(ERR_USAGE, "%s: \"__metadata__\" is not an object", path);
    json_object_foreach (metadata, key, value)
        if (!json_is_string(value))
            return err_set(ERR_USAGE, "%s: \"__metadata__\" holds something that is not a string", path);
    return ERR_NONE;
}

static int parse_tensors(const char *path, struct safetensors *file)
{
    const char *name;
    json_t *value;
    file->tensors = calloc(json_object_size(file->header) + 1, sizeof *file->tensors);
    if (!file->tensors)
        return err_set(ERR_MEMORY, "no memory for the header of %s", path);
    json_object_foreach (file->header, name, value) {
        if (strcmp(name, "__metadata__") == 0)
            TRY(check_metadata(path, value));
        else
            TRY(parse_tensor(path, name, value, file->data_bytes, &file->tensors[file->tensor_count++]));
    }
    qsort(file->tensors, file->tensor_count, sizeof *file->tensors, compare_tensors);
    uint64_t at = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        const struct safetensors_tensor *tensor = &file->tensors[i];
        if (tensor->begin != at)
            return refuse(path, tensor->name,
                          tensor->begin < at ? "overlaps another tensor" : "there is a gap before it");
        at += tensor->count * types[tensor->type].bytes;
    }
    if (at != file->data_bytes)
        return err_set(ERR_USAGE, "%s: the last %" PRIu64 " bytes belong to no tensor", path, file->data_bytes - at);
    return ERR_NONE;
}

int safetensors_parse(const char *path, const char *header, size_t header_bytes, uint64_t data_bytes,
                      struct safetensors *out)
{
    *out = (struct safetensors){.fd = -1, .data_begin = 8 + header_bytes, .data_bytes = data_bytes};
    char name[PATH_MAX + 32];
    if (header_bytes == 0 || header[0] != '{')
        return err_set(ERR_USAGE, "%s: is not a safetensors file: its header does not begin with '{'", path);
    snprintf(name, sizeof name, "%s: its header", path);
    TRY(json_parse(name, 1, header, header_bytes, &out->header));
    int rc = parse_tensors(path, out);
    if (rc != ERR_NONE)
        safetensors_close(out);
    return rc;
}

static int read_header(const char *path, int fd, uint64_t header_bytes_max, uint64_t *header_bytes, uint64_t *file_size,
                       char **header)
{
    unsigned char length[8];
    TRY(file_bytes(fd, path, file_size));
    if (*file_size < sizeof length)
        return err_set(ERR_USAGE, "%s: is not a safetensors file: it has %" PRIu64 " bytes", path, *file_size);
    TRY(file_read_at(fd, path, 0, length, sizeof length));
    memcpy(header_bytes, length, sizeof length);
    if (*header_bytes > header_bytes_max)
        return err_set(ERR_USAGE, "%s: is not a safetensors file%s: a header of %" PRIu64 " bytes is too long", path,
                       header_bytes_max < SAFETENSORS_HEADER_BYTES_MAX ? " that is expected here" : "", *header_bytes);
    if (*header_bytes > *file_size - sizeof length)
        return err_set(ERR_USAGE, "%s: is truncated: it has %" PRIu64 " bytes, its header alone %" PRIu64, path,
                       *file_size, *header_bytes);
    if (!(*header = malloc(*header_bytes + 1)))
        return err_set(ERR_MEMORY, "no memory for the header of %s", path);
    return file_read_at(fd, path, sizeof length, *header, *header_bytes);
}

// Takes ownership of fd.
static int open_descriptor(const char *path, int fd, uint64_t header_bytes_max, struct safetensors *out)
{
    uint64_t header_bytes = 0, file_size = 0;
    char *header = NULL;
    int rc = read_header(path, fd, header_bytes_max, &header_bytes, &file_size, &header);
    if (rc == ERR_NONE)
        rc = safetensors_parse(path, header, header_bytes, file_size - 8 - header_bytes, out);
    free(header);
    if (rc == ERR_NONE && !(out->path = strdup(path))) {
        safetensors_close(out);
        rc = err_set(ERR_MEMORY, "no memory for the name of %s", path);
    }
    if (rc == ERR_NONE)
        out->fd = fd;
    else
        close(fd);
    return rc;
}

int safetensors_open(const char *path, struct safetensors *out)
{
    int fd;
    *out = (struct safetensors){.fd = -1};
    TRY(file_open(path, &fd));
    return open_descriptor(path, fd, SAFETENSORS_HEADER_BYTES_MAX, out);
}

int safetensors_open_at(int folder_fd, const char *name, const char *path, uint64_t header_bytes_max,
                        struct safetensors *out)
{
    int fd;
    *out = (struct safetensors){.fd = -1};
    TRY(file_open_at(folder_fd, name, path, &fd));
    return open_descriptor(path, fd, header_bytes_max, out);
}

void safetensors_close(struct safetensors *file)
{
    if (file->fd >= 0)
        close(file->fd);
    json_decref(file->header);
    free(file->tensors);
    free(file->path);
    *file = (struct safetensors){.fd = -1};
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->tensor_count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}

const char *safetensors_metadata(const struct safetensors *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}

int safetensors_read(const struct safetensors *file, const struct safetensors_tensor *tensor, uint64_t first,
                     size_t count, void *out)
{
    if (first > tensor->count || count > tensor->count - first)
        return err_set(ERR_INTERNAL, "%s: %zu elements from %" PRIu64 " on are not within the %" PRIu64 " of \"%s\"",
                       file->path, count, first, tensor->count, tensor->name);
    size_t bytes = types[tensor->type].bytes;
    int rc = file_read_at(file->fd, file->path, file->data_begin + tensor->begin + first * bytes, out, count * bytes);
    return rc == ERR_NONE ? rc : err_prefix(rc, "tensor \"%s\"", tensor->name);
}

int safetensors_read_fp32(const struct safetensors *file, const struct safetensors_tensor *tensor, uint64_t first,
                          size_t count, float *out)
{
    if (tensor->type == TENSOR_FP32)
        return safetensors_read(file, tensor, first, count, out);
    if (tensor->type != TENSOR_BF16 && tensor->type != TENSOR_FP16)
        return refuse(file->path, tensor->name, "is not in F32, BF16 or F16");
    enum dtype dtype = tensor->type == TENSOR_BF16 ? DTYPE_BF16 : DTYPE_FP16;
    enum { BLOCK_COUNT = 4096 };
    uint16_t block[BLOCK_COUNT];
    for (size_t done = 0; done < count;) {
        size_t now = count - done < BLOCK_COUNT ? count - done : BLOCK_COUNT;
        TRY(safetensors_read(file, tensor, first + done, now, block));
        dtype_widen(dtype, block, out + done, now);
        done += now;
    }
    return ERR_NONE;
}
