// SPDX-License-Identifier: Apache-2.0
// `cmake --install`: the installed program works, and judges a plug-in built against the installed contract, found by
// pkg-config and by CMake.
#include "base/command_test.h"
#include "base/folder_test.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static char folder[PATH_MAX], output[1 << 16];

// Runs a command line in the folder that contains the installation `prefix`.
static void run(const char *line)
{
    char whole[8192];
    snprintf(whole, sizeof whole, "cd '%s' && export ASAN_OPTIONS=detect_leaks=0 && (%s) 2>&1", folder, line);
    cr_assert_eq(command_run(whole, output, sizeof output), 0, "%s: %s", line, output);
}

static void install(void)
{
    folder_make(folder);
    run("cmake --install '" ZG_BINARY_DIR "' --prefix \"$PWD/prefix\"");
    run("cp '" ZG_SOURCE_DIR "/conformance/adapters/contract_example.c' mine.c");
}

static void remove_installed(void)
{
    folder_remove(folder);
}

TestSuite(install, .init = install, .fini = remove_installed);

static void expect_installed(const char *path)
{
    char whole[2 * PATH_MAX];
    struct stat status;
    snprintf(whole, sizeof whole, "%s/prefix/%s", folder, path);
    cr_expect_eq(stat(whole, &status), 0, "%s is not installed", path);
    cr_expect_gt(status.st_size, 0, "%s is empty", path);
}

Test(install, files_are_at_their_standard_places)
{
    static const char *const paths[] = {"bin/zerogauge",
                                        "include/zerogauge/contract.h",
                                        "share/bash-completion/completions/zerogauge",
                                        "share/cmake/zerogauge/zerogaugeConfig.cmake",
                                        "share/doc/zerogauge/CONTRACT.md",
                                        "share/man/man1/zerogauge.1.gz",
                                        "share/pkgconfig/zerogauge.pc",
                                        "share/zerogauge/configs/zero3.json",
                                        "share/zerogauge/kubernetes/preflight.yaml",
                                        "share/zerogauge/slurm/prolog",
                                        "share/zsh/vendor-completions/_zerogauge"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        expect_installed(paths[i]);
    run("prefix/bin/zerogauge version");
    cr_expect_str_eq(output, "zerogauge " ZG_VERSION "\n");
    run("gzip -dc prefix/share/man/man1/zerogauge.1.gz | cmp - '" ZG_BINARY_DIR "/zerogauge.1'");
    run("! grep -rlI -e '" ZG_SOURCE_DIR "' -e '" ZG_BINARY_DIR "' prefix");
}

// A verdict by the installed program on a family of cases, of which the example answers some and declines others.
static void expect_judged(const char *plugin)
{
    char line[512];
    snprintf(line, sizeof line, "prefix/bin/zerogauge check --requirement R-OPT-01 --plugin %s", plugin);
    run(line);
    cr_expect_not_null(strstr(output, "PARTLY       R-OPT-01"), "%s", output);
}

Test(install, a_plugin_found_by_pkg_config_is_judged)
{
    run("export PKG_CONFIG_PATH=$PWD/prefix/share/pkgconfig; "
        "cc -shared -fPIC -ffp-contract=off $(pkg-config --cflags zerogauge) mine.c -o mine.so -lm");
    expect_judged("./mine.so");
    run("$(PKG_CONFIG_PATH=$PWD/prefix/share/pkgconfig pkg-config --variable=program zerogauge) version");
    cr_expect_str_eq(output, "zerogauge " ZG_VERSION "\n");
    run("PKG_CONFIG_PATH=$PWD/prefix/share/pkgconfig pkg-config --modversion zerogauge");
    cr_expect_str_eq(output, ZG_VERSION "\n");
}

Test(install, a_plugin_found_by_find_package_is_judged)
{
    static const char project[] = "cmake_minimum_required(VERSION 3.22)\n"
                                  "project(mine LANGUAGES C)\n"
                                  "find_package(zerogauge 0.1 REQUIRED)\n"
                                  "if(NOT zerogauge_CONTRACT EQUAL 1)\n"
                                  "  message(FATAL_ERROR \"contract ${zerogauge_CONTRACT}\")\n"
                                  "endif()\n"
                                  "add_library(mine MODULE mine.c)\n"
                                  "target_compile_options(mine PRIVATE -ffp-contract=off)\n"
                                  "target_link_libraries(mine PRIVATE zerogauge::contract m)\n"
                                  "enable_testing()\n"
                                  "add_test(NAME contract COMMAND zerogauge::zerogauge check --requirement R-OPT-01 "
                                  "--plugin $<TARGET_FILE:mine>)\n";
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/CMakeLists.txt", folder);
    folder_write(path, project, strlen(project));
    run("cmake -B build -DCMAKE_PREFIX_PATH=\"$PWD/prefix\" . && cmake --build build");
    expect_judged("build/libmine.so");
    run("ctest --test-dir build");
    cr_expect_not_null(strstr(output, "100% tests passed"), "%s", output);
}
