// SPDX-License-Identifier: Apache-2.0
// The safetensors format: eight bytes with the header's length (little-endian), the header (a JSON object: a tensor's
// name -> "dtype", "shape", "data_offsets"; "__metadata__" -> strings), and the tensors' data, in sequence
// without gaps, little-endian and in row-major order. The format's own library pads the header with blanks so that the
// data begins at a multiple of 8; so does this.
//
// Input files are untrusted: a file is read as the format specifies or refused with its name, the tensor and the error.
// Tensors are read in pieces; no file is in memory as a whole.
#pragma once

#include "ref/arithmetic/dtype.h"
#include "base/file.h"

#include <jansson.h>

#include <stddef.h>
#include <stdint.h>

// The longest header that the format's own library accepts; and the largest number of dimensions.
enum { SAFETENSORS_HEADER_BYTES_MAX = 100000000, SAFETENSORS_RANK_MAX = 16 };

// The types of the format whose elements are whole bytes.
enum safetensors_type {
    TENSOR_BOOL,
    TENSOR_U8,
    TENSOR_I8,
    TENSOR_F8_E5M2,
    TENSOR_F8_E4M3,
    TENSOR_I16,
    TENSOR_U16,
    TENSOR_FP16,
    TENSOR_BF16,
    TENSOR_I32,
    TENSOR_U32,
    TENSOR_FP32,
    TENSOR_FP64,
    TENSOR_I64,
    TENSOR_U64,
    TENSOR_TYPE_COUNT
};

const char *safetensors_type_name(enum safetensors_type type);  // as in the header: "F32"
size_t safetensors_type_bytes(enum safetensors_type type);
enum safetensors_type safetensors_type_of(enum dtype dtype);  // the type of a training format

struct safetensors_tensor {
    const char *name;
    enum safetensors_type type;
    int shape_rank;  // 0: a scalar
    uint64_t shape[SAFETENSORS_RANK_MAX];
    uint64_t count;  // elements
    uint64_t begin;  // offset in the data, in bytes
};

struct safetensors {
    char *path;
    int fd;
    json_t *header;       // owns the names
    uint64_t data_begin;  // in the file
    uint64_t data_bytes;
    size_t tensor_count;
    struct safetensors_tensor *tensors;  // by where they begin
};

// ERR_USAGE: the file cannot be opened or is not safetensors; ERR_IO: it cannot be read.
int safetensors_open(const char *path, struct safetensors *out);

// The same for a file in an open folder; path is its name in messages. Does not follow links, and refuses a header of
// more than header_bytes_max before reading it.
int safetensors_open_at(int folder_fd, const char *name, const char *path, uint64_t header_bytes_max,
                        struct safetensors *out);
void safetensors_close(struct safetensors *file);

// The same for a header in memory that describes data_bytes of data; path is its name in messages. The result has no
// data to read.
int safetensors_parse(const char *path, const char *header, size_t header_bytes, uint64_t data_bytes,
                      struct safetensors *out);

// Finds a tensor by name; NULL if there is none.
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);

// The value of a key of "__metadata__"; NULL if there is none. Valid until the file is closed.
const char *safetensors_metadata(const struct safetensors *file, const char *key);

// Reads elements [first, first + count) of a tensor in the file's format. Thread-safe.
int safetensors_read(const struct safetensors *file, const struct safetensors_tensor *tensor, uint64_t first,
                     size_t count, void *out);

// The same for a tensor in fp32, bf16 or fp16, widened to fp32. ERR_USAGE for other types.
int safetensors_read_fp32(const struct safetensors *file, const struct safetensors_tensor *tensor, uint64_t first,
                          size_t count, float *out);

// A file under construction.
struct safetensors_writer;

// Creates the file, which must not exist, and writes the header. Reads name, type and shape of each tensor and fills in
// begin and count; the caller then writes the tensors' data in their order. metadata: pairs of key and value, then
// NULL; or NULL. The writer keeps no pointer to the arguments.
int safetensors_create(const char *path, struct safetensors_tensor *tensors, size_t tensor_count,
                       const char *const *metadata, struct safetensors_writer **out);

// The same for a file that ends with digests of its blocks (blocks.h). tensors has room for one more, which this fills
// in.
int safetensors_create_in_blocks(const char *path, struct safetensors_tensor *tensors, size_t tensor_count,
                                 struct safetensors_writer **out);

// Writes the next bytes of the data; calls need not end at a tensor's border.
int safetensors_write(struct safetensors_writer *writer, const void *data, size_t bytes);

// Call after all other data of such a file: writes the digests of its blocks, and returns the digest of them all.
int safetensors_write_blocks(struct safetensors_writer *writer, char digest[FILE_DIGEST_BYTES]);

// Makes safetensors_finish skip the sync, for a file that need not survive a loss of power.
void safetensors_leave_volatile(struct safetensors_writer *writer);

// Call after all data: makes the file durable, closes it and frees the writer. Returns its size and digest; either may
// be NULL. Removes the file after an error.
int safetensors_finish(struct safetensors_writer *writer, uint64_t *bytes, char digest[FILE_DIGEST_BYTES]);

// Gives up: closes and removes the file. Null-safe.
void safetensors_abandon(struct safetensors_writer *writer);
