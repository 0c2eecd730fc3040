// SPDX-License-Identifier: Apache-2.0
// Safetensors: written files read back, whole and in pieces, and follow the format; other files are refused with the
// tensor's name.
#include "base/err.h"
#include "base/folder_test.h"
#include "ref/checkpoint/safetensors.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

static char folder[PATH_MAX], path[PATH_MAX + 32];

static void setup(void)
{
    folder_make(folder);
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
}

static void teardown(void)
{
    folder_remove(folder);
}

TestSuite(safetensors, .init = setup, .fini = teardown);

// Writes the file with these tensors and their data.
static void write_file(struct safetensors_tensor tensors[], size_t count, const void *data, size_t bytes)
{
    struct safetensors_writer *writer;
    cr_assert_eq(safetensors_create(path, tensors, count, NULL, &writer), 0, "%s", err_message());
    cr_assert_eq(safetensors_write(writer, data, bytes), 0, "%s", err_message());
    cr_assert_eq(safetensors_finish(writer, NULL, NULL), 0, "%s", err_message());
}

static unsigned char pattern(size_t tensor, size_t i)
{
    return (unsigned char)(17 * tensor + 251 * i + i / 256);
}

// Every type in turn, with counts around the size of the writer's buffer.
static void write_all_types(const char *const *metadata, size_t piece_bytes)
{
    static const uint64_t shapes[][3] = {{3, 0, 0}, {0, 5, 2}, {7, 13, 1}, {1 << 10, 257, 1}, {1, 1, 1}};
    struct safetensors_tensor tensors[TENSOR_TYPE_COUNT + 1] = {{0}};
    char names[TENSOR_TYPE_COUNT + 1][16];
    for (int i = 0; i <= TENSOR_TYPE_COUNT; i++) {
        snprintf(names[i], sizeof names[i], "t%d.\xc3\xa4\"", i);
        tensors[i] = (struct safetensors_tensor){.name = names[i], .type = (enum safetensors_type)i};
        tensors[i].shape_rank = i == TENSOR_TYPE_COUNT ? 0 : 1 + (i % 3);
        if (i == TENSOR_TYPE_COUNT)
            tensors[i].type = TENSOR_U64;
        memcpy(tensors[i].shape, shapes[i % 5], sizeof shapes[0]);
    }
    struct safetensors_writer *writer;
    cr_assert_eq(safetensors_create(path, tensors, TENSOR_TYPE_COUNT + 1, metadata, &writer), ERR_NONE, "%s",
                 err_message());
    for (size_t i = 0; i <= TENSOR_TYPE_COUNT; i++) {
        size_t bytes = tensors[i].count * safetensors_type_bytes(tensors[i].type);
        unsigned char *data = malloc(bytes + 1);
        for (size_t k = 0; k < bytes; k++)
            data[k] = pattern(i, k);
        for (size_t k = 0; k < bytes; k += piece_bytes)
            cr_assert_eq(safetensors_write(writer, data + k, bytes - k < piece_bytes ? bytes - k : piece_bytes), 0);
        free(data);
    }
    uint64_t size, counted;
    char digest[FILE_DIGEST_BYTES], again[FILE_DIGEST_BYTES];
    cr_assert_eq(safetensors_finish(writer, &size, digest), ERR_NONE, "%s", err_message());
    struct safetensors file;
    cr_assert_eq(safetensors_open(path, &file), ERR_NONE, "%s", err_message());
    cr_assert_eq(file_bytes(file.fd, path, &counted), 0);
    cr_assert_eq(size, counted);
    cr_assert_eq(file_digest(file.fd, path, again), 0);
    cr_assert_str_eq(digest, again);
    safetensors_close(&file);
}

Test(safetensors, written_tensors_read_back_whole_and_in_pieces)
{
    static const char *const metadata[] = {"format", "pt", "made", "here", NULL};
    static const size_t pieces[] = {4099, 1 << 20, 3 << 20};
    for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
        write_all_types(metadata, pieces[p]);
        struct safetensors file;
        cr_assert_eq(safetensors_open(path, &file), ERR_NONE, "%s", err_message());
        cr_assert_eq(file.data_begin % 8, 0);
        cr_assert_eq(file.tensor_count, TENSOR_TYPE_COUNT + 1);
        cr_assert_str_eq(safetensors_metadata(&file, "made"), "here");
        cr_assert_null(safetensors_metadata(&file, "nothing"));
        cr_assert_null(safetensors_find(&file, "t"));
        for (size_t i = 0; i <= TENSOR_TYPE_COUNT; i++) {
            char name[16];
            snprintf(name, sizeof name, "t%zu.\xc3\xa4\"", i);
            const struct safetensors_tensor *tensor = safetensors_find(&file, name);
            cr_assert_not_null(tensor);
            size_t element = safetensors_type_bytes(tensor->type);
            uint64_t cuts[] = {0, tensor->count / 3, tensor->count / 3, tensor->count};
            for (int cut = 0; cut < 3; cut++) {
                size_t count = cuts[cut + 1] - cuts[cut];
                unsigned char *data = malloc(count * element + 1);
                cr_assert_eq(safetensors_read(&file, tensor, cuts[cut], count, data), 0, "%s", err_message());
                for (size_t k = 0; k < count * element; k++)
                    cr_assert_eq(data[k], pattern(i, cuts[cut] * element + k), "tensor %zu byte %zu", i, k);
                free(data);
            }
            unsigned char byte[8];
            cr_assert_eq(safetensors_read(&file, tensor, tensor->count, 1, byte), ERR_INTERNAL);
            cr_assert_eq(safetensors_read(&file, tensor, UINT64_MAX, 2, byte), ERR_INTERNAL);
        }
        safetensors_close(&file);
        unlink(path);
    }
}

Test(safetensors, sixteen_bit_tensors_are_read_as_fp32)
{
    enum { COUNT = 10001 };
    float *values = malloc(COUNT * sizeof *values), *back = malloc(COUNT * sizeof *back);
    uint16_t *half = malloc(COUNT * sizeof *half);
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(i - 5000) / 64;
    static const enum dtype dtypes[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};
    for (int d = 0; d < 3; d++) {
        static const char *const names[] = {"x", "xx", "xxxx"};
        struct safetensors_tensor tensor = {
            .name = names[d], .type = safetensors_type_of(dtypes[d]), .shape_rank = 1, .shape = {COUNT}};
        if (d > 0)
            dtype_narrow(dtypes[d], values, half, COUNT);
        write_file(&tensor, 1, d > 0 ? (void *)half : values, COUNT * dtype_bytes(dtypes[d]));
        struct safetensors file;
        cr_assert_eq(safetensors_open(path, &file), 0);
        cr_assert_eq(file.data_begin % 8, 0);
        cr_assert_eq(safetensors_read_fp32(&file, file.tensors, 3, COUNT - 3, back), 0);
        for (int i = 3; i < COUNT; i++) {
            float expected = values[i];
            if (d > 0)
                dtype_widen(dtypes[d], half + i, &expected, 1);
            cr_assert_eq(f32_bits(back[i - 3]), f32_bits(expected));
        }
        // The file shrinks while it is open.
        cr_assert_eq(truncate(path, 5000), 0);
        cr_assert_eq(safetensors_read_fp32(&file, file.tensors, 0, COUNT, back), ERR_IO);
        cr_assert_not_null(strstr(err_message(), names[d]));
        cr_assert_not_null(strstr(err_message(), path));
        safetensors_close(&file);
        unlink(path);
    }
    free(values), free(back), free(half);
}

static int parse(const char *header, uint64_t data_bytes)
{
    struct safetensors file;
    int rc = safetensors_parse("FILE", header, strlen(header), data_bytes, &file);
    if (rc == ERR_NONE)
        safetensors_close(&file);
    return rc;
}

Test(safetensors, headers_of_other_programs_are_accepted)
{
    static const struct {
        const char *header;
        uint64_t data_bytes;
    } cases[] = {
        {"{}", 0},
        {"{}      ", 0},
        {"{\"__metadata__\":{\"format\":\"pt\"}}", 0},
        {"{\"b\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
         "\"a\":{\"data_offsets\":[0,4],\"shape\":[],\"dtype\":\"F32\"}}",
         16},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
         "\"none\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[3,3]},"
         "\"zero\":{\"dtype\":\"F32\",\"shape\":[9,0],\"data_offsets\":[0,0]}}",
         3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_assert_eq(parse(cases[i].header, cases[i].data_bytes), ERR_NONE, "%s: %s", cases[i].header, err_message());
}

#define TENSOR(name, type, shape, offsets)                                                                             \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

Test(safetensors, a_hostile_header_is_refused_with_file_and_tensor)
{
    static const struct {
        const char *header;
        uint64_t data_bytes;
        const char *message;
    } cases[] = {
        {"", 0, "does not begin"},
        {" {}", 0, "does not begin"},
        {"[]", 0, "does not begin"},
        {"{", 0, "not JSON"},
        {"{}x", 0, "not JSON"},
        {"{\"a\":1}", 0, "\"a\""},
        {"{\"__metadata__\":3}", 0, "__metadata__"},
        {"{\"__metadata__\":{\"a\":3}}", 0, "__metadata__"},
        {"{" TENSOR("a", "U8", "[1]", "[0,1]") "," TENSOR("a", "U8", "[1]", "[1,2]") "}", 2, "given twice"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "exactly"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"more\":1}}", 1, "exactly"},
        {"{" TENSOR("a", "F33", "[1]", "[0,4]") "}", 4, "F33"},
        {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "dtype"},
        {"{" TENSOR("a", "U8", "1", "[0,1]") "}", 1, "shape"},
        {"{" TENSOR("a", "U8", "[-1]", "[0,1]") "}", 1, "shape"},
        {"{" TENSOR("a", "U8", "[1.0]", "[0,1]") "}", 1, "shape"},
        {"{" TENSOR("a", "U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, "dimensions"},
        {"{" TENSOR("a", "U8", "[4294967296,4294967296]", "[0,0]") "}", 0, "more bytes"},
        {"{" TENSOR("a", "U64", "[4611686018427387904]", "[0,0]") "}", 0, "more bytes"},
        {"{" TENSOR("a", "U8", "[4294967296,4294967296,0]", "[0,0]") "}", 0, "more bytes"},
        {"{" TENSOR("a", "U8", "[9223372036854775808]", "[0,0]") "}", 0, "not JSON"},
        {"{" TENSOR("a", "U8", "[1]", "[0]") "}", 1, "data_offsets"},
        {"{" TENSOR("a", "U8", "[1]", "[0,1,2]") "}", 1, "data_offsets"},
        {"{" TENSOR("a", "U8", "[1]", "[-1,0]") "}", 1, "data_offsets"},
        {"{" TENSOR("a", "U8", "[1]", "[1,0]") "}", 1, "before it begins"},
        {"{" TENSOR("a", "U8", "[2]", "[0,2]") "}", 1, "beyond the end"},
        {"{" TENSOR("a", "F32", "[1]", "[0,3]") "}", 3, "different sizes"},
        {"{" TENSOR("a", "U8", "[1]", "[1,2]") "}", 2, "gap"},
        {"{" TENSOR("a", "U8", "[2]", "[0,2]") "," TENSOR("b", "U8", "[2]", "[1,3]") "}", 3, "overlaps"},
        {"{" TENSOR("a", "U8", "[2]", "[0,2]") "," TENSOR("b", "U8", "[2]", "[0,2]") "}", 2, "overlaps"},
        {"{" TENSOR("a", "U8", "[1]", "[0,1]") "}", 2, "no tensor"},
        {"{}", 1, "no tensor"},
        {"{" TENSOR("a\\u0007b", "U8", "[0]", "[0,0]") "}", 0, "control"},
        {"{" TENSOR("a\\u0000b", "U8", "[0]", "[0,0]") "}", 0, "not JSON"},
        {"{" TENSOR("a\xff", "U8", "[0]", "[0,0]") "}", 0, "not JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_assert_eq(parse(cases[i].header, cases[i].data_bytes), ERR_USAGE, "%s", cases[i].header);
        cr_assert_not_null(strstr(err_message(), cases[i].message), "%s: %s", cases[i].header, err_message());
        cr_assert_eq(strncmp(err_message(), "FILE: ", 6), 0, "%s", err_message());
        for (const char *c = err_message(); *c; c++)
            cr_assert((unsigned char)*c >= 0x20 && (unsigned char)*c < 0x7f, "%s", err_message());
    }
}

Test(safetensors, nesting_has_a_bound)
{
    enum { DEPTH = 200000 };
    char *header = malloc(2 * DEPTH + 16);
    memcpy(header, "{\"a\":", 5);
    memset(header + 5, '[', DEPTH);
    memset(header + 5 + DEPTH, ']', DEPTH);
    strcpy(header + 5 + 2 * DEPTH, "}");
    cr_assert_eq(parse(header, 0), ERR_USAGE);
    free(header);
}

Test(safetensors, a_truncated_or_extended_file_is_refused)
{
    struct safetensors_tensor tensors[] = {
        {.name = "a", .type = TENSOR_FP32, .shape_rank = 1, .shape = {3}},
        {.name = "b", .type = TENSOR_U8, .shape_rank = 2, .shape = {1, 5}},
    };
    write_file(tensors, 2, "0123456789abcdefg", 17);
    size_t bytes;
    char *data = folder_read(path, &bytes);
    struct safetensors file;
    for (size_t length = 0; length < bytes; length++) {
        folder_write(path, data, length);
        cr_assert_eq(safetensors_open(path, &file), ERR_USAGE, "%zu bytes of %zu", length, bytes);
        cr_assert_not_null(strstr(err_message(), path));
    }
    data[bytes] = 'x';
    folder_write(path, data, bytes + 1);
    cr_assert_eq(safetensors_open(path, &file), ERR_USAGE);
    memset(data, 0xff, 8);
    folder_write(path, data, bytes);
    cr_assert_eq(safetensors_open(path, &file), ERR_USAGE);
    cr_assert_not_null(strstr(err_message(), "too long"));
    free(data);
    cr_assert_eq(safetensors_open(folder, &file), ERR_USAGE);
    cr_assert_eq(safetensors_open("/nonexistent/x", &file), ERR_USAGE);
}

Test(safetensors, a_writer_that_fails_leaves_no_file_and_names_it)
{
    struct safetensors_tensor tensors[] = {
        {.name = "a", .type = TENSOR_FP32, .shape_rank = 1, .shape = {1 << 20}},
        {.name = "a", .type = TENSOR_U8, .shape_rank = 1, .shape = {1}},
    };
    struct safetensors_writer *writer;
    cr_assert_eq(safetensors_create(path, tensors, 2, NULL, &writer), ERR_USAGE);
    cr_assert_neq(access(path, F_OK), 0);
    // Less data than the header describes, and more.
    cr_assert_eq(safetensors_create(path, tensors, 1, NULL, &writer), 0);
    cr_assert_eq(safetensors_write(writer, "0123", 4), 0);
    cr_assert_eq(safetensors_finish(writer, NULL, NULL), ERR_INTERNAL);
    cr_assert_neq(access(path, F_OK), 0);
    char *data = calloc(4 << 20, 1);
    cr_assert_eq(safetensors_create(path, tensors, 1, NULL, &writer), 0);
    cr_assert_eq(safetensors_write(writer, data, 4 << 20), 0);
    cr_assert_eq(safetensors_write(writer, data, 1), ERR_INTERNAL);
    safetensors_abandon(writer);
    cr_assert_neq(access(path, F_OK), 0);
    // The disk is full.
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    struct rlimit full = {3 << 20, limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &full);
    cr_assert_eq(safetensors_create(path, tensors, 1, NULL, &writer), 0);
    int rc = safetensors_write(writer, data, 4 << 20);
    setrlimit(RLIMIT_FSIZE, &limit);
    cr_assert_eq(rc, ERR_IO);
    cr_assert_not_null(strstr(err_message(), path));
    safetensors_abandon(writer);
    cr_assert_neq(access(path, F_OK), 0);
    free(data);
    // An existing file is never overwritten.
    folder_write(path, "x", 1);
    cr_assert_eq(safetensors_create(path, tensors, 1, NULL, &writer), ERR_IO);
    size_t bytes;
    free(folder_read(path, &bytes));
    cr_assert_eq(bytes, 1);
}

Test(safetensors, a_file_in_a_folder_is_opened_without_following_links_or_waiting)
{
    struct safetensors_tensor tensor = {.name = "x", .type = TENSOR_U8, .shape_rank = 1, .shape = {3}};
    struct safetensors file;
    char link_path[PATH_MAX + 32], pipe_path[PATH_MAX + 32];
    write_file(&tensor, 1, "abc", 3);
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    cr_assert_eq(safetensors_open_at(fd, "x.safetensors", "shown", 1000, &file), ERR_NONE, "%s", err_message());
    char data[3];
    cr_assert_eq(safetensors_read(&file, file.tensors, 0, 3, data), 0);
    cr_expect_eq(memcmp(data, "abc", 3), 0);
    uint64_t header_bytes = file.data_begin - 8;
    safetensors_close(&file);
    cr_expect_eq(safetensors_open_at(fd, "x.safetensors", "shown", header_bytes, &file), ERR_NONE);
    safetensors_close(&file);
    cr_expect_eq(safetensors_open_at(fd, "x.safetensors", "shown", header_bytes - 1, &file), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "shown: is not a safetensors file that is expected here"));
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    cr_assert_eq(symlink(path, link_path), 0);
    cr_expect_eq(safetensors_open_at(fd, "link", "shown", 1000, &file), ERR_USAGE);
    snprintf(pipe_path, sizeof pipe_path, "%s/pipe", folder);
    cr_assert_eq(mkfifo(pipe_path, 0666), 0);
    cr_expect_eq(safetensors_open_at(fd, "pipe", "shown", 1000, &file), ERR_USAGE);
    cr_expect_str_eq(err_message(), "shown: is not a regular file");
    close(fd);
}
