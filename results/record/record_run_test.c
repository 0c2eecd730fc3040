// SPDX-License-Identifier: Apache-2.0
#include "results/record/record.h"

#include "results/record/record_test.h"

TestSuite(record_run, .init = sample_folder_make, .fini = sample_folder_remove);

static const char *const argv[] = {"zerogauge", "validate", "--nvme-path", "\xff<b>\n", NULL};

Test(record_run, readers_accept_the_record_of_this_machine)
{
    const char *const folders[] = {sample_folder, "/proc", NULL};
    struct record_writer *writer;
    struct result_file file;
    const char *path = sample_path("a");
    cr_assert_eq(record_create(path, &writer), ERR_NONE);
    cr_assert_eq(record_append(writer, record_run("validate", "quick", 4, argv, folders)), ERR_NONE, "%s",
                 err_message());
    record_close(writer);
    cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
    const json_t *command = json_object_get(file.run, "command");
    const json_t *machine = json_object_get(file.run, "machine");
    cr_expect_eq(json_array_size(command), 4);
    cr_expect_str_eq(json_string_value(json_array_get(command, 3)), "\\xff<b>\n");
    cr_expect_str_eq(json_string_value(json_object_get(file.run, "level")), "quick");
    cr_expect_eq(json_array_size(json_object_get(machine, "disks")), 2);
    result_close(&file);
}

Test(record_run, it_contains_nothing_of_the_environment)
{
    char host[256] = "";
    setenv("ZG_SECRET", "a-secret-of-mine", 1);
    gethostname(host, sizeof host - 1);
    json_t *run = record_run("bench", NULL, 1, argv, NULL);
    char *text = json_dumps(run, 0);
    cr_expect(json_is_null(json_object_get(run, "level")));
    cr_expect_null(strstr(text, "a-secret-of-mine"));
    cr_expect(strlen(host) < 4 || !strstr(text, host), "%s", host);
    free(text);
    json_decref(run);
}
