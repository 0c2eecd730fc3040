// SPDX-License-Identifier: Apache-2.0
// Answers whose files are malformed, by mistake or on purpose: each is refused with the file and the reason.
#include "conformance/contract/answer_check.h"
#include "conformance/contract/answer_bad_test.h"
#include "conformance/cases/schema_test.h"

#include <sys/socket.h>
#include <sys/un.h>

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
        cr_assert_eq(unlink(file_path), 0);
    }
    folder_write(in_folder("rank-1/usage.json"), "{}", 2);
    expect_refused("rank-1/usage.json", "does not belong there");
    cr_assert_eq(unlink(file_path), 0);
    cr_assert_eq(mkdir(in_folder("rank-0/rank-0"), 0777), 0);
    expect_refused("rank-0/rank-0", "does not belong there");
    cr_assert_eq(rmdir(file_path), 0);
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
    cr_assert_eq(unlink(file_path), 0);
    cr_assert_eq(symlink("/dev/zero", file_path), 0);
    expect_refused(name, "is a symbolic link; expected a file");
    cr_assert_eq(unlink(in_folder(name)), 0);
    cr_assert_eq(mkfifo(file_path, 0666), 0);
    expect_refused(name, "is a pipe; expected a file");
    cr_assert_eq(unlink(in_folder(name)), 0);
    cr_assert_eq(mkdir(file_path, 0777), 0);
    expect_refused(name, "is a folder; expected a file");
    cr_assert_eq(rmdir(in_folder(name)), 0);
    lasting = socket(AF_UNIX, SOCK_STREAM, 0);
    if (strlen(file_path) < sizeof address.sun_path) {
        strcpy(address.sun_path, file_path);
        cr_assert_eq(bind(lasting, (struct sockaddr *)&address, sizeof address), 0);
        expect_refused(name, "is a socket; expected a file");
        cr_assert_eq(unlink(in_folder(name)), 0);
    }
    close(lasting);
    if (mknod(file_path, S_IFCHR | 0666, (dev_t)0x105) == 0) {  // as /dev/zero; only root may
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
    cr_assert_eq(symlink(elsewhere, file_path), 0);
    expect_refused("rank-1", "is a symbolic link; expected a folder");
    cr_assert_eq(unlink(in_folder("rank-1")), 0);
    folder_write(file_path, "x", 1);
    expect_refused("rank-1", "is a file; expected a folder");
    folder_remove(elsewhere);
}

// Moves FOLDER/NAME to FOLDER~moved, and has a link to it in its place.
static void swap_for_link(const char *in, const char *name, char elsewhere[PATH_MAX + 8])
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", in, name);
    snprintf(elsewhere, PATH_MAX + 8, "%s~moved", folder);
    cr_assert_eq(rename(path, elsewhere), 0);
    cr_assert_eq(symlink(elsewhere, path), 0);
}

// Of an answer that is too large to stay in memory, whose files are opened again.
Test(answer_bad, a_link_that_is_swapped_in_later_is_not_followed)
{
    enum { COUNT = 3 << 20 };
    struct check_case large = {.name = "large", .world = 2, .steps = 1, .accumulation = 1, .param_count = 1};
    float *values = calloc(COUNT, sizeof *values);
    const void *const params[] = {values}, *const *const seen[CASE_ACCUMULATION_MAX] = {params};
    struct answer_step state = {.param = {values}, .exp_avg = {values}, .exp_avg_sq = {values}};
    char elsewhere[PATH_MAX + 8], own[PATH_MAX + 8];
    large.params[0] = (struct case_param){
        .name = "a", .shape = {COUNT}, .shape_rank = 1, .count = COUNT, .used = true, .tied_to = -1};
    large.group_count = 1;
    snprintf(own, sizeof own, "%s~large", folder);
    cr_assert_eq(mkdir(own, 0777), 0);
    cr_assert_eq(answer_write_step(&large, own, 1, &state), ERR_NONE, "%s", err_message());
    for (int rank = 0; rank < 2; rank++)
        cr_assert_eq(answer_write_seen(&large, own, 1, rank, seen), ERR_NONE, "%s", err_message());
    cr_assert_eq(answer_open(&large, own, &answer), ERR_NONE, "%s", err_message());
    swap_for_link(own, "step-1.safetensors", elsewhere);
    cr_expect_eq(answer_read_step(&answer, 1, &state), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "step-1.safetensors"));
    cr_assert_eq(unlink(elsewhere), 0);
    swap_for_link(own, "rank-1", elsewhere);
    cr_expect_eq(answer_read_seen(&answer, 1, 1, 0, 0, values), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "rank-1"));
    cr_expect_eq(answer_read_seen(&answer, 1, 0, 0, 0, values), ERR_NONE, "%s", err_message());
    folder_remove(elsewhere);
    folder_remove(own);
    answer_close(&answer);
    free(values);
}

Test(answer_bad, gigabytes_are_refused_before_they_are_read)
{
    static const char *const names[] = {"step-1.safetensors", "rank-0/step-3.safetensors", "usage.json"};
    for (size_t i = 0; i < 3; i++) {
        struct stat status;
        cr_assert_eq(stat(in_folder(names[i]), &status), 0);
        cr_assert_eq(truncate(file_path, (off_t)1 << 40), 0);  // a hole
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
    cr_assert_eq(truncate(file_path, status.st_size - 1), 0);
    expect_refused("step-2.safetensors", "ends beyond the end of the file");
    cr_assert_eq(truncate(in_folder("step-2.safetensors"), 0), 0);
    expect_refused("step-2.safetensors", "it has 0 bytes");
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
    cr_assert_eq(symlink("/etc/hostname", file_path), 0);
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
