// SPDX-License-Identifier: Apache-2.0
// Answers that are malformed, by mistake or on purpose: each is refused with the file, the tensor and the reason.
#include "conformance/contract/answer_check.h"
#include "conformance/contract/answer_test.h"
#include "ref/checkpoint/safetensors.h"
#include "conformance/cases/schema_test.h"

#include <math.h>
#include <sys/socket.h>
#include <sys/un.h>

static char folder[PATH_MAX], path[PATH_MAX + 64];
static struct check_case c;
static struct answer answer;

static void setup(void)
{
    folder_make(folder);
    fixture_case(&c);
    fixture_answer(&c, folder);
}

static void teardown(void)
{
    folder_remove(folder);
}

TestSuite(answer_bad, .init = setup, .fini = teardown);

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

// The answer is refused, and the message holds both texts.
static void expect_refused(const char *where, const char *why)
{
    int rc = answer_open(&c, folder, &answer);
    cr_assert_eq(rc, ERR_USAGE, "%s, %s: %d %s", where, why, rc, err_message());
    cr_expect_not_null(strstr(err_message(), where), "\"%s\" is not in: %s", where, err_message());
    cr_expect_not_null(strstr(err_message(), why), "\"%s\" is not in: %s", why, err_message());
    cr_expect_null(answer.folder);
}

static void expect_good(void)
{
    cr_assert_eq(answer_open(&c, folder, &answer), ERR_NONE, "%s", err_message());
    answer_close(&answer);
}

// A file's tensors in memory, to be changed and written again.
struct tensors {
    struct safetensors_tensor list[64];
    char names[64][200];
    double scalars[64];  // eight bytes for a new value
    void *data[64];
    size_t count;
};
static struct tensors tensors;

static void load(const char *name)
{
    struct safetensors file;
    cr_assert_eq(safetensors_open(in_folder(name), &file), ERR_NONE, "%s", err_message());
    tensors.count = file.tensor_count;
    for (size_t i = 0; i < file.tensor_count; i++) {
        tensors.list[i] = file.tensors[i];
        snprintf(tensors.names[i], sizeof tensors.names[i], "%s", file.tensors[i].name);
        tensors.list[i].name = tensors.names[i];
        tensors.data[i] = calloc(1, file.tensors[i].count * 8 + 8);
        cr_assert_eq(safetensors_read(&file, &file.tensors[i], 0, file.tensors[i].count, tensors.data[i]), ERR_NONE);
    }
    safetensors_close(&file);
}

static size_t find(const char *name)
{
    size_t i = 0;
    while (i < tensors.count && strcmp(tensors.list[i].name, name) != 0)
        i++;
    cr_assert_lt(i, tensors.count, "there is no tensor %s", name);
    return i;
}

static void save(const char *name)
{
    struct safetensors_writer *writer;
    cr_assert_eq(remove(in_folder(name)), 0);
    cr_assert_eq(safetensors_create(path, tensors.list, tensors.count, NULL, &writer), ERR_NONE, "%s", err_message());
    for (size_t i = 0; i < tensors.count; i++) {
        size_t bytes = tensors.list[i].count * safetensors_type_bytes(tensors.list[i].type);
        cr_assert_eq(safetensors_write(writer, tensors.data[i], bytes), ERR_NONE);
        free(tensors.data[i]);
    }
    cr_assert_eq(safetensors_finish(writer, NULL, NULL), ERR_NONE);
}

static void drop(size_t i)
{
    free(tensors.data[i]);
    for (size_t k = i; k + 1 < tensors.count; k++) {
        tensors.list[k] = tensors.list[k + 1];
        tensors.data[k] = tensors.data[k + 1];
    }
    tensors.count--;
}

static void set_whole(const char *name, int64_t value)
{
    memcpy(tensors.data[find(name)], &value, sizeof value);
}

static void set_real(const char *name, double value)
{
    memcpy(tensors.data[find(name)], &value, sizeof value);
}

Test(answer_bad, no_folder_an_empty_one_a_file_or_a_link_is_no_answer)
{
    char elsewhere[PATH_MAX + 8];
    snprintf(elsewhere, sizeof elsewhere, "%s~real", folder);
    cr_assert_eq(rename(folder, elsewhere), 0);
    expect_refused(folder, "there is no answer");
    cr_assert_eq(symlink(elsewhere, folder), 0);
    expect_refused(folder, "is a link or a file");
    cr_assert_eq(unlink(folder), 0);
    folder_write(folder, "x", 1);
    expect_refused(folder, "is a link or a file");
    cr_assert_eq(unlink(folder), 0);
    cr_assert_eq(mkdir(folder, 0777), 0);
    expect_refused("step-1.safetensors", "is missing");
    cr_assert_eq(rmdir(folder), 0);
    cr_assert_eq(rename(elsewhere, folder), 0);
    expect_good();
}

Test(answer_bad, files_that_do_not_belong_are_named)
{
    static const char *const names[] = {"step-0.safetensors",
                                        "step-4.safetensors",
                                        "step-01.safetensors",
                                        "step-+1.safetensors",
                                        "step-1.safetensors~",
                                        "rank-2",
                                        "rank-00",
                                        "rank--1",
                                        "usage.json.bak",
                                        ".hidden",
                                        "step- 1.safetensors",
                                        "core",
                                        "step-1",
                                        "step-99999999999999999999.safetensors",
                                        "\xff\xfe"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        folder_write(in_folder(names[i]), "x", 1);
        expect_refused(i + 1 < sizeof names / sizeof names[0] ? names[i] : "\\xff\\xfe", "does not belong there");
        cr_assert_eq(unlink(path), 0);
    }
    folder_write(in_folder("rank-1/usage.json"), "{}", 2);
    expect_refused("rank-1/usage.json", "does not belong there");
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkdir(in_folder("rank-0/rank-0"), 0777), 0);
    expect_refused("rank-0/rank-0", "does not belong there");
    cr_assert_eq(rmdir(path), 0);
    expect_good();
}

Test(answer_bad, missing_files_and_ranks_are_named)
{
    cr_assert_eq(unlink(in_folder("rank-1/step-2.safetensors")), 0);
    expect_refused("rank-1/step-2.safetensors", "is missing");
    folder_remove(in_folder("rank-1"));
    expect_refused("rank-1", "folders of all ranks, or of none");
    folder_remove(in_folder("rank-0"));
    expect_good();
    cr_assert_eq(unlink(in_folder("step-3.safetensors")), 0);
    expect_refused("step-3.safetensors", "is missing");
}

// In place of a file, and of one that is read later.
static void expect_no_special(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char target[PATH_MAX + 64];
    int lasting;
    snprintf(target, sizeof target, "%s~kept", folder);
    cr_assert_eq(rename(in_folder(name), target), 0);
    cr_assert_eq(symlink(target, in_folder(name)), 0);
    expect_refused(name, "is a symbolic link; expected a file");
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(symlink("/dev/zero", path), 0);
    expect_refused(name, "is a symbolic link; expected a file");
    cr_assert_eq(unlink(in_folder(name)), 0);
    cr_assert_eq(mkfifo(path, 0666), 0);
    expect_refused(name, "is a pipe; expected a file");
    cr_assert_eq(unlink(in_folder(name)), 0);
    cr_assert_eq(mkdir(path, 0777), 0);
    expect_refused(name, "is a folder; expected a file");
    cr_assert_eq(rmdir(in_folder(name)), 0);
    lasting = socket(AF_UNIX, SOCK_STREAM, 0);
    if (strlen(path) < sizeof address.sun_path) {
        strcpy(address.sun_path, path);
        cr_assert_eq(bind(lasting, (struct sockaddr *)&address, sizeof address), 0);
        expect_refused(name, "is a socket; expected a file");
        cr_assert_eq(unlink(in_folder(name)), 0);
    }
    close(lasting);
    if (mknod(path, S_IFCHR | 0666, (dev_t)0x105) == 0) {  // as /dev/zero; only root may
        expect_refused(name, "is a device; expected a file");
        cr_assert_eq(unlink(in_folder(name)), 0);
    }
    cr_assert_eq(rename(target, in_folder(name)), 0);
    expect_good();
}

Test(answer_bad, links_pipes_sockets_devices_and_folders_are_no_files)
{
    expect_no_special("step-2.safetensors");
    expect_no_special("rank-1/step-1.safetensors");
    expect_no_special("usage.json");
    char elsewhere[PATH_MAX + 8];
    snprintf(elsewhere, sizeof elsewhere, "%s~rank", folder);
    cr_assert_eq(rename(in_folder("rank-1"), elsewhere), 0);
    cr_assert_eq(symlink(elsewhere, path), 0);
    expect_refused("rank-1", "is a symbolic link; expected a folder");
    cr_assert_eq(unlink(in_folder("rank-1")), 0);
    folder_write(path, "x", 1);
    expect_refused("rank-1", "is a file; expected a folder");
    folder_remove(elsewhere);
}

Test(answer_bad, a_link_that_is_swapped_in_later_is_not_followed)
{
    struct answer_step state;
    float values[FIXTURE_COUNT_MAX];
    char elsewhere[PATH_MAX + 8];
    cr_assert_eq(answer_open(&c, folder, &answer), ERR_NONE);
    snprintf(elsewhere, sizeof elsewhere, "%s~step", folder);
    cr_assert_eq(rename(in_folder("step-1.safetensors"), elsewhere), 0);
    cr_assert_eq(symlink(elsewhere, path), 0);
    cr_expect_eq(answer_read_step(&answer, 1, &state), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "step-1.safetensors"));
    cr_assert_eq(unlink(elsewhere), 0);
    snprintf(elsewhere, sizeof elsewhere, "%s~rank", folder);
    cr_assert_eq(rename(in_folder("rank-1"), elsewhere), 0);
    cr_assert_eq(symlink(elsewhere, path), 0);
    cr_expect_eq(answer_read_seen(&answer, 1, 1, 0, FIXTURE_MATRIX, values), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "rank-1"));
    cr_expect_eq(answer_read_seen(&answer, 1, 0, 0, FIXTURE_MATRIX, values), ERR_NONE);
    folder_remove(elsewhere);
    answer_close(&answer);
}

Test(answer_bad, gigabytes_are_refused_before_they_are_read)
{
    static const char *const names[] = {"step-1.safetensors", "rank-0/step-3.safetensors", "usage.json"};
    for (size_t i = 0; i < 3; i++) {
        struct stat status;
        cr_assert_eq(stat(in_folder(names[i]), &status), 0);
        cr_assert_eq(truncate(path, (off_t)1 << 40), 0);  // a hole
        expect_refused(names[i], "1099511627776 bytes; at most");
        cr_assert_eq(truncate(in_folder(names[i]), status.st_size), 0);
    }
    expect_good();
}

Test(answer_bad, a_header_that_is_far_too_long_is_refused_before_it_is_read)
{
    enum { BYTES = 1 << 16 };
    char *text = calloc(1, BYTES + 8);
    uint64_t length = 80000000;
    memcpy(text, &length, sizeof length);
    folder_write(in_folder("step-1.safetensors"), text, BYTES);
    expect_refused("step-1.safetensors", "a header of 80000000 bytes is too long");
    // Objects in objects, as deep as fits.
    length = BYTES / 2;
    memcpy(text, &length, sizeof length);
    memset(text + 8, ' ', length);
    for (size_t i = 0; i + 5 <= length; i += 5)
        memcpy(text + 8 + i, "{\"a\":", 5);
    folder_write(in_folder("step-1.safetensors"), text, 8 + length);
    expect_refused("step-1.safetensors", "is not JSON");
    free(text);
}

Test(answer_bad, duplicated_names_are_refused)
{
    static const char header[] = "{\"t\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
                                 "\"t\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[8,16]}}";
    char text[8 + sizeof header - 1 + 16] = {0};
    uint64_t length = sizeof header - 1;
    memcpy(text, &length, sizeof length);
    memcpy(text + 8, header, sizeof header - 1);
    folder_write(in_folder("step-1.safetensors"), text, sizeof text);
    expect_refused("step-1.safetensors", "t: given twice");
}

Test(answer_bad, a_file_that_is_cut_off_is_refused)
{
    struct stat status;
    cr_assert_eq(stat(in_folder("step-2.safetensors"), &status), 0);
    cr_assert_eq(truncate(path, status.st_size - 1), 0);
    expect_refused("step-2.safetensors", "ends beyond the end of the file");
    cr_assert_eq(truncate(in_folder("step-2.safetensors"), 0), 0);
    expect_refused("step-2.safetensors", "it has 0 bytes");
}

Test(answer_bad, every_missing_tensor_is_named)
{
    static const char *const names[] = {"param/layer.0.weight",
                                        "param/scalar",
                                        "param/empty",
                                        "param/frozen",
                                        "param/unused",
                                        "exp_avg/layer.0.weight",
                                        "exp_avg_sq/scalar",
                                        "exp_avg/empty",
                                        "t",
                                        "skipped",
                                        "loss_scale",
                                        "grad/scalar"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        cr_assert_eq(unlink(in_folder("step-1.safetensors")), 0);
        static struct fixture_arrays arrays;
        struct answer_step state;
        fixture_step(&c, 1, &arrays, &state);
        cr_assert_eq(answer_write_step(&c, folder, 1, &state), ERR_NONE);
        load("step-1.safetensors");
        drop(find(names[i]));
        save("step-1.safetensors");
        expect_refused("step-1.safetensors", names[i]);
        expect_refused("step-1.safetensors", "is missing");
    }
    load("rank-1/step-2.safetensors");
    drop(find("m1/head"));
    save("rank-1/step-2.safetensors");
    cr_assert_eq(unlink(in_folder("step-1.safetensors")), 0);
    static struct fixture_arrays arrays;
    struct answer_step state;
    fixture_step(&c, 1, &arrays, &state);
    cr_assert_eq(answer_write_step(&c, folder, 1, &state), ERR_NONE);
    expect_refused("rank-1/step-2.safetensors", "m1/head");
}

Test(answer_bad, of_the_moments_of_an_unused_parameter_both_are_there_or_neither)
{
    load("step-3.safetensors");
    drop(find("exp_avg_sq/unused"));
    save("step-3.safetensors");
    expect_refused("step-3.safetensors", "\"exp_avg/unused\" and \"exp_avg_sq/unused\" one is missing");
}

Test(answer_bad, surplus_tensors_are_named)
{
    static const char *const names[] = {"param/head", "exp_avg/frozen", "grad/head", "param/../x",
                                        "x",          "param/",         "loss",      "exp_avg/layer.0.weight ",
                                        "m0/scalar"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        load("step-3.safetensors");
        size_t at = tensors.count++;
        tensors.list[at] = (struct safetensors_tensor){.name = names[i], .type = TENSOR_FP32, .count = 1};
        tensors.data[at] = calloc(1, 8);
        save("step-3.safetensors");
        char quoted[64];
        snprintf(quoted, sizeof quoted, "\"%s\"", names[i]);
        expect_refused("step-3.safetensors", quoted);
        expect_refused("step-3.safetensors", "does not belong there");
        load("step-3.safetensors");
        drop(find(names[i]));
        save("step-3.safetensors");
    }
    expect_good();
    load("rank-0/step-1.safetensors");
    snprintf(tensors.names[find("m1/scalar")], 200, "m2/scalar");
    save("rank-0/step-1.safetensors");
    expect_refused("rank-0/step-1.safetensors", "\"m2/scalar\" does not belong there");
}

Test(answer_bad, wrong_dtypes_are_named)
{
    static const struct {
        const char *file, *tensor;
        enum safetensors_type type;
        const char *why;
    } rows[] = {
        {"step-1.safetensors", "param/layer.0.weight", TENSOR_BF16, "is of dtype BF16; expected F32"},
        {"step-1.safetensors", "exp_avg/scalar", TENSOR_FP64, "is of dtype F64; expected F32"},
        {"step-1.safetensors", "t", TENSOR_FP32, "is of dtype F32; expected I64"},
        {"step-1.safetensors", "skipped", TENSOR_BOOL, "is of dtype BOOL; expected I64"},
        {"step-1.safetensors", "loss_scale", TENSOR_I64, "is of dtype I64; expected F32 or F64"},
        {"step-1.safetensors", "norm", TENSOR_FP16, "is of dtype F16; expected F32 or F64"},
        {"step-1.safetensors", "param/empty", TENSOR_U8, "is of dtype U8; expected F32"},
        {"rank-1/step-3.safetensors", "m0/head", TENSOR_BF16, "is of dtype BF16; expected F16"},
        {"rank-1/step-3.safetensors", "m1/scalar", TENSOR_FP32, "is of dtype F32; expected F16"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        load(rows[i].file);
        size_t at = find(rows[i].tensor);
        enum safetensors_type good = tensors.list[at].type;
        tensors.list[at].type = rows[i].type;
        save(rows[i].file);
        expect_refused(rows[i].file, rows[i].tensor);
        expect_refused(rows[i].file, rows[i].why);
        load(rows[i].file);
        tensors.list[find(rows[i].tensor)].type = good;
        save(rows[i].file);
    }
    expect_good();
}

Test(answer_bad, wrong_shapes_are_named)
{
    static const struct {
        const char *tensor;
        int shape_rank;
        uint64_t shape[3];
        const char *why;
    } rows[] = {
        {"param/layer.0.weight", 2, {7, 5}, "is of shape [7, 5]; expected [5, 7]"},
        {"param/layer.0.weight", 1, {35}, "is of shape [35]; expected [5, 7]"},
        {"exp_avg/layer.0.weight", 2, {5, 6}, "is of shape [5, 6]; expected [5, 7]"},
        {"exp_avg_sq/scalar", 1, {1}, "is of shape [1]; expected []"},
        {"param/empty", 2, {3, 0}, "is of shape [3, 0]; expected [0, 3]"},
        {"param/empty", 3, {0, 3, 1}, "is of shape [0, 3, 1]; expected [0, 3]"},
        {"t", 1, {1}, "is of shape [1]; expected []"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        load("step-1.safetensors");
        struct safetensors_tensor *tensor = &tensors.list[find(rows[i].tensor)], good = *tensor;
        tensor->shape_rank = rows[i].shape_rank;
        memcpy(tensor->shape, rows[i].shape, sizeof rows[i].shape);
        save("step-1.safetensors");
        expect_refused("step-1.safetensors", rows[i].tensor);
        expect_refused("step-1.safetensors", rows[i].why);
        load("step-1.safetensors");
        tensor = &tensors.list[find(rows[i].tensor)];
        tensor->shape_rank = good.shape_rank;
        memcpy(tensor->shape, good.shape, sizeof good.shape);
        save("step-1.safetensors");
    }
    expect_good();
}

Test(answer_bad, scalars_out_of_range_are_refused)
{
    static const char *const name = "step-3.safetensors";
    load(name), set_whole("t", -1), save(name);
    expect_refused(name, "\"t\" is -1");
    load(name), set_whole("t", INT64_MAX), save(name);
    expect_refused(name, "\"t\" is 9223372036854775807");
    load(name), set_whole("t", 4), set_whole("skipped", 2), save(name);
    expect_refused(name, "\"skipped\" is 2; expected 0 or 1");
    load(name), set_whole("skipped", 0), set_real("loss_scale", INFINITY), save(name);
    expect_refused(name, "\"loss_scale\" is not finite");
    load(name), set_real("loss_scale", NAN), save(name);
    expect_refused(name, "\"loss_scale\" is not finite");
    load(name), set_real("loss_scale", 0.5), set_real("norm", NAN), save(name);
    expect_good();
    load(name), set_whole("skipped", 1), save(name);
    expect_refused(name, "gradients of a skipped step");
    load(name);
    for (size_t i = tensors.count; i-- > 0;)
        if (strncmp(tensors.list[i].name, "grad/", 5) == 0)
            drop(i);
    save(name);
    expect_refused(name, "the norm of a skipped step");
}

Test(answer_bad, a_text_beside_anything_else_is_refused)
{
    cr_assert_eq(answer_write_text(folder, ANSWER_REFUSED, "no"), ERR_NONE);
    expect_refused("refused.txt", "other files, too");
    cr_assert_eq(answer_write_text(folder, ANSWER_UNSUPPORTED, "no"), ERR_NONE);
    expect_refused("unsupported.txt", "other files, too");
}

Test(answer_bad, a_text_that_says_nothing_or_far_too_much_is_refused)
{
    char elsewhere[PATH_MAX + 8];
    snprintf(elsewhere, sizeof elsewhere, "%s~rest", folder);
    cr_assert_eq(rename(folder, elsewhere), 0);
    cr_assert_eq(mkdir(folder, 0777), 0);
    cr_assert_eq(answer_write_text(folder, ANSWER_REFUSED, " \n\t"), ERR_NONE);
    expect_refused("refused.txt", "is empty");
    cr_assert_eq(truncate(in_folder("refused.txt"), 1 << 17), 0);
    expect_refused("refused.txt", "131072 bytes; at most 65536");
    cr_assert_eq(unlink(in_folder("refused.txt")), 0);
    cr_assert_eq(symlink("/etc/hostname", path), 0);
    expect_refused("refused.txt", "is a symbolic link");
    folder_remove(elsewhere);
}

Test(answer_bad, usage_that_says_something_else_is_refused_with_its_line)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "is empty"},
        {"[]", "expected a JSON object"},
        {"{}", "usage.json:1: ranks: missing"},
        {"{\"ranks\": []}", "ranks: has 0 elements, expected an array of 2 to 2 elements"},
        {"{\"ranks\": [{}, {}, {}]}", "ranks: has 3 elements, expected an array of 2 to 2 elements"},
        {"{\"ranks\": [{}, 1]}", "ranks: element 1 is 1, expected an object"},
        {"{\"ranks\": [{}, {}],\n \"rank\": 1}", "usage.json:2: rank: unknown key"},
        {"{\"ranks\": [{},\n {\"held\": 1}]}", "usage.json:2: ranks.1.held: unknown key"},
        {"{\"ranks\": [{}, {\"calls\": 1}]}", "ranks.1.calls: is 1, expected an object"},
        {"{\"ranks\": [{\n\"calls\":\n {\"send\": 1}}, {}]}", "usage.json:3: ranks.0.calls.send: unknown key"},
        {"{\"ranks\": [{\"calls\": {\"param\": 1}}, {}]}", "ranks.0.calls.param: unknown key"},
        {"{\"ranks\": [{\"held_bytes\": {\"param\": -1}}, {}]}", "held_bytes.param: is -1, expected a whole number"},
        {"{\"ranks\": [{\"held_bytes\": {\"param\": 1.5}}, {}]}", "is 1.5, expected a whole number from 0"},
        {"{\"ranks\": [{\"held_bytes\": {\"param\": \"1\"}}, {}]}", "is \"1\", expected a whole number from 0"},
        {"{\"ranks\": [{\"held_bytes\": {\"param\": 99999999999999999999}}, {}]}", "is not JSON"},
        {"{\"ranks\": [{\"calls\": {}, \"calls\": {}}, {}]}", "given twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        folder_write(in_folder("usage.json"), rows[i].text, strlen(rows[i].text));
        expect_refused("usage.json", rows[i].why);
    }
}

static int read_usage(const char *text, size_t bytes)
{
    struct answer_usage usage[1];
    return answer_usage_parse("usage.json", text, bytes, 1, usage);
}

Test(answer_bad, the_schema_of_usage_says_what_the_reader_takes)
{
    int changes = schema_check("conformance/schema/usage.schema.json", NULL,
                               "{\"ranks\": [{\"held_bytes\": {\"param\": 1, \"grad\": 2, \"optimizer\": 3, "
                               "\"master\": 4, \"padding\": 5}, \"sent_bytes\": {\"reduce\": 6, \"gather\": 7}, "
                               "\"calls\": {\"reduce\": 8, \"gather\": 9}}]}",
                               read_usage);
    cr_expect_gt(changes, 50, "%d", changes);
}
