// SPDX-License-Identifier: Apache-2.0
// Libraries made for the test: libneeding.so.7, whose one function calls that of libneeded.so.7.
#include "ref/cuda/cuda_library.h"

#include "base/err.h"
#include "base/folder_test.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

// Not in memory, which often refuses to map programs.
static char root[] = ZG_BINARY_DIR "/library-XXXXXX";

static const char *const wanted[] = {"libneeding.so.7", "libneeding.so", NULL};

static void run(const char *command)
{
    cr_assert_eq(system(command), 0, "%s", command);
}

// Makes the folder of the path below root, and the libraries in it; without the needed one, the other cannot be loaded.
static void install(const char *path, int answer, bool with_needed)
{
    char folder[PATH_MAX], command[4 * PATH_MAX];
    snprintf(folder, sizeof folder, "%s/%s", root, path);
    snprintf(command, sizeof command,
             "mkdir -p %s && cd %s && echo 'int needed(void) { return %d; }' >needed.c && "
             "echo 'int needed(void); int answer(void) { return needed(); }' >needing.c && "
             "cc -shared -fPIC needed.c -Wl,-soname,libneeded.so.7 -o libneeded.so.7 && "
             "cc -shared -fPIC needing.c ./libneeded.so.7 -Wl,-soname,libneeding.so.7 -o libneeding.so.7 %s",
             folder, folder, answer, with_needed ? "" : "&& rm libneeded.so.7");
    run(command);
}

static void set_environment(const char *name, const char *path)
{
    char value[PATH_MAX];
    snprintf(value, sizeof value, "%s/%s", root, path);
    cr_assert_eq(setenv(name, value, 1), 0);
}

static void open_root(void)
{
    cr_assert_not_null(mkdtemp(root));
    unsetenv("ZG_CUDA_LIBRARY_PATH");
    unsetenv("VIRTUAL_ENV");
}

static void close_root(void)
{
    folder_remove(root);
}

TestSuite(cuda_library, .init = open_root, .fini = close_root);

// Opens the library, which must be the one below root, with its function's answer.
static void expect_library(const char *path, int answer)
{
    void *handle = NULL;
    char file[PATH_MAX];
    int (*function)(void) = NULL;
    cr_assert_eq(cuda_library_open(wanted, "libneeded.so.7", &handle), ERR_NONE, "%s", err_message());
    snprintf(file, sizeof file, "%s/%s", root, path);
    cr_expect_str_eq(cuda_library_file(handle), file);
    cr_assert_null(cuda_library_find(handle, (struct cuda_library_function[]){{"answer", &function}}, 1));
    cr_expect_eq(function(), answer);
    cr_expect_str_eq(cuda_library_find(handle, (struct cuda_library_function[]){{"question", &function}}, 1),
                     "question");
}

Test(cuda_library, the_named_folder_goes_before_python_s)
{
    install("first", 1, true);
    install("environment/lib/python3.12/site-packages/nvidia/cublas/lib", 2, true);
    set_environment("VIRTUAL_ENV", "environment");
    char value[3 * PATH_MAX];
    snprintf(value, sizeof value, "%s/none::%s/first", root, root);
    setenv("ZG_CUDA_LIBRARY_PATH", value, 1);
    expect_library("first/libneeding.so.7", 1);
}

Test(cuda_library, a_virtual_environment_s_packages_are_found)
{
    install("environment/lib/python3.12/site-packages/nvidia/cu13/lib", 3, true);
    set_environment("VIRTUAL_ENV", "environment");
    expect_library("environment/lib/python3.12/site-packages/nvidia/cu13/lib/libneeding.so.7", 3);
}

Test(cuda_library, the_packages_of_a_python_in_the_path_are_found)
{
    char command[2 * PATH_MAX];
    install("python/lib/python3.9/dist-packages/nvidia/cublas/lib", 4, true);
    snprintf(command, sizeof command,
             "cd %s && mkdir python/bin && touch python/bin/python3 && chmod +x python/bin/python3", root);
    run(command);
    set_environment("PATH", "python/bin");
    expect_library("python/lib/python3.9/dist-packages/nvidia/cublas/lib/libneeding.so.7", 4);
}

static const char *expect_none(void)
{
    void *handle;
    cr_assert_eq(cuda_library_open(wanted, "libneeded.so.7", &handle), ERR_USAGE);
    return err_message();
}

Test(cuda_library, the_message_lists_where_it_looked)
{
    static const char *const places[] = {
        "libneeding.so.7 is not there (looked in ",
        "/named, ",
        "LD_LIBRARY_PATH and the system's library path, " ZG_CUDA_LIBRARIES ", ",
        "/environment/lib/python3*/{site,dist}-packages/nvidia/*/lib, ",
        "ZG_CUDA_LIBRARY_PATH",
    };
    set_environment("ZG_CUDA_LIBRARY_PATH", "named");
    set_environment("VIRTUAL_ENV", "environment");
    const char *message = expect_none();
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        cr_expect(strstr(message, places[i]), "\"%s\" lacks \"%s\"", message, places[i]);
}

Test(cuda_library, a_library_that_does_not_load_is_named_with_the_reason)
{
    install("broken", 5, false);
    set_environment("ZG_CUDA_LIBRARY_PATH", "broken");
    const char *message = expect_none();
    cr_expect(strstr(message, "libneeding.so.7 does not load (looked in "), "%s", message);
    cr_expect(strstr(message, "/broken/libneeding.so.7: libneeded.so.7: cannot open shared object file"), "%s",
              message);
}
