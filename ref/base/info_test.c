// SPDX-License-Identifier: Apache-2.0
// Tests of what is said about the machine, against what the C library says of it.
#include "adam.h"
#include "build.h"
#include "err.h"
#include "folder_test.h"
#include "info.h"
#include "info_programs.h"
#include "io.h"

#include <criterion/criterion.h>

#include <string.h>
#include <unistd.h>

Test(info, the_machine_is_the_one_the_c_library_sees)
{
    json_t *info = info_collect();
    cr_assert_not_null(info);
    const json_t *machine = json_object_get(info, "machine");
    cr_assert_eq(json_integer_value(json_object_get(machine, "threads")), sysconf(_SC_NPROCESSORS_ONLN));
    cr_assert_geq(json_integer_value(json_object_get(machine, "sockets")), 1);
    cr_assert_geq(json_integer_value(json_object_get(machine, "memory_bytes")), 1 << 20);
    json_decref(info);
}

Test(info, the_instruction_set_in_use_is_among_the_available)
{
    json_t *info = info_collect();
    const json_t *isa = json_object_get(info, "isa"), *name;
    size_t index, found = 0;
    json_array_foreach(json_object_get(isa, "available"), index, name)
        found += strcmp(json_string_value(name), adam_isa_name(adam_isa_now())) == 0;
    cr_assert_eq(found, 1);
    cr_assert_str_eq(json_string_value(json_object_get(isa, "used")), adam_isa_name(adam_isa_now()));
    json_decref(info);
}

Test(info, an_absent_part_says_why)
{
    json_t *info = info_collect();
    size_t index, absent = 0;
    const json_t *backend;
    json_array_foreach(json_object_get(info, "backends"), index, backend)
    {
        cr_assert_str_not_empty(json_string_value(json_object_get(backend, "note")));
        absent += json_is_false(json_object_get(backend, "built_in"));
    }
    cr_assert_lt(absent, index);
    json_decref(info);
}

Test(info, every_io_engine_is_usable_or_says_why_not)
{
    json_t *info = info_collect();
    size_t index, found = 0;
    const json_t *backend;
    json_array_foreach(json_object_get(info, "backends"), index, backend)
    {
        const char *name = json_string_value(json_object_get(backend, "name"));
        const json_t *usable = json_object_get(backend, "usable");
        enum nvme_engine engine;
        if (io_engine_parse(name, &engine) != ERR_NONE)
            continue;
        found++;
        struct io_queue *queue;
        bool opened = io_queue_open(io_engine_of(engine), 1, NULL, &queue) == ERR_NONE;
        if (opened)
            io_queue_close(queue);
        cr_expect(json_is_boolean(usable) && json_is_true(usable) == opened, "%s", name);
        cr_expect_str_not_empty(json_string_value(json_object_get(backend, "note")));
    }
    cr_expect_eq(found, NVME_ENGINE_COUNT);
    json_decref(info);
}

static const json_t *program_of(const json_t *programs, const char *name)
{
    size_t index;
    const json_t *program;
    json_array_foreach(programs, index, program)
        if (strcmp(json_string_value(json_object_get(program, "name")), name) == 0)
            return program;
    return NULL;
}

Test(info, a_program_in_the_path_is_found_with_its_version)
{
    char folder[PATH_MAX], path[PATH_MAX + 8], search[2 * PATH_MAX];
    static const char script[] = "#!/bin/sh\n[ \"$1\" = --version ] && printf 'fio-\\03399\\nmore\\n'\n";
    folder_make(folder);
    snprintf(path, sizeof path, "%s/fio", folder);
    folder_write(path, script, sizeof script - 1);
    cr_assert_eq(chmod(path, 0700), 0);
    snprintf(search, sizeof search, "%s:/usr/bin:/bin", folder);
    setenv("PATH", search, 1);
    json_t *programs = info_programs();
    const json_t *fio = program_of(programs, "fio");
    cr_expect_str_eq(json_string_value(json_object_get(fio, "path")), path);
    // A terminal would obey it.
    cr_expect_str_eq(json_string_value(json_object_get(fio, "version")), "fio-\\x1b99");
    json_decref(programs);
    folder_remove(folder);
}

Test(info, an_absent_program_says_what_brings_it_and_what_for)
{
    char folder[PATH_MAX];
    size_t index;
    const json_t *program;
    setenv("PATH", folder_make(folder), 1);
    json_t *programs = info_programs();
    cr_assert_geq(json_array_size(programs), 7);
    json_array_foreach(programs, index, program)
    {
        cr_expect(json_is_null(json_object_get(program, "path")));
        cr_expect(json_is_null(json_object_get(program, "version")));
        cr_expect_str_not_empty(json_string_value(json_object_get(program, "package")));
        cr_expect_str_not_empty(json_string_value(json_object_get(program, "enables")));
    }
    json_decref(programs);
    folder_remove(folder);
}

Test(info, the_build_has_the_mpi_that_it_was_built_with)
{
    json_t *build = build_facts();
    const json_t *mpi = json_object_get(json_object_get(build, "libraries"), "MPI");
#ifdef ZG_HAVE_MPI
    cr_expect_not_null(strpbrk(json_string_value(mpi), "123456789"));
    cr_expect_null(strpbrk(json_string_value(mpi), ",\n"));
#else
    cr_expect_null(mpi);
#endif
    json_decref(build);
}

Test(info, unknown_options_are_usage_errors)
{
    cr_assert_eq(info_main(2, (const char *[]){"info", "--jsn", NULL}), 2);
    cr_assert_eq(info_main(2, (const char *[]){"info", "now", NULL}), 2);
}
