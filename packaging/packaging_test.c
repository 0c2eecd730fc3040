// SPDX-License-Identifier: Apache-2.0
// `cmake --install`: the installed program works, and judges a plug-in built against the installed contract, found by
// pkg-config and by CMake.
#include "base/command_test.h"
#include "base/folder_test.h"
#include "base/help_test.h"

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

#define MANUAL ZG_BINARY_DIR "/zerogauge.1"

static char *manual;

static void read_manual(void)
{
    size_t bytes;
    manual = folder_read(MANUAL, &bytes);
    manual[bytes] = '\0';
}

static void free_manual(void)
{
    free(manual);
}

TestSuite(manual, .init = read_manual, .fini = free_manual);

static void find_section(const char *command)
{
    char section[300];
    snprintf(section, sizeof section, "\n.Ss %s\n.Nm\n.Cm %s\n", command, command);
    cr_expect(strstr(manual, section), "no section \".Ss %s\"", command);
}

Test(manual, every_command_has_a_section)
{
    for_each_command(find_section);
}

// Expects the lines between a command's heading and the next heading.
static void expect_in_section(const char *command, const char *lines)
{
    char heading[300];
    snprintf(heading, sizeof heading, "\n.Ss %s\n", command);
    const char *begin = strstr(manual, heading);
    cr_assert(begin, "%s", command);
    const char *end = strstr(begin + 1, "\n.S"), *found = strstr(begin, lines);
    cr_expect(found && found < end, "%s lacks: %s", command, lines);
}

Test(manual, options_have_short_names_arguments_choices_defaults_and_groups)
{
    expect_in_section("train", "\nCheckpoints:\n.Bl -tag -width Ds\n.It Fl -save Ar DIR\n");
    expect_in_section("train", "\n.It Fl s , -steps Ar N\noptimizer steps, including skipped ones\n(default: 100)\n");
    expect_in_section("train", "\n.It Fl -verify Ns Op = Ns Cm each\n");
    expect_in_section("train", "\n.It Fl -buffered\n");
    expect_in_section("train", "\n.It Fl -device Cm cpu | Cm cuda\n");
    expect_in_section("plan", "\n.It Fl -throughput Ns Op = Ns Ar NAME | Ar FILE\n");
    expect_in_section("check", "\n.Dl zerogauge check \\-\\-requirement R-OPT-01 \\-\\-plugin \\&./example.so\n");
    expect_in_section("train", " \\-\\-nvme-path \\&. \\-\\-checkpoint ");
}

Test(manual, only_the_section_of_bench_has_the_shared_options)
{
    expect_in_section("bench", "\n.It Fl -repeat Ar N\n");
    expect_in_section("bench", "\n.It Fl -inject Ar FAULT,...\n");
    expect_in_section("bench swap", "\n.It Fl -io-threads Ar N\n");
    const char *repeat = strstr(manual, "\n.It Fl -repeat Ar N\n");
    cr_expect_null(strstr(repeat + 1, "\n.It Fl -repeat Ar N\n"));
}

Test(manual, the_frame_surrounds_the_commands_once)
{
    static const char *const sections[] = {"NAME",  "SYNOPSIS",    "DESCRIPTION", "ENVIRONMENT",
                                           "FILES", "EXIT STATUS", "EXAMPLES",    "SEE ALSO"};
    const char *at = manual;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const char *heading = strstr(at, "\n.Sh ");
        cr_assert(heading && strncmp(heading + 5, sections[i], strlen(sections[i])) == 0, "%s", sections[i]);
        at = heading + 1;
    }
    cr_expect_null(strstr(at, "\n.Sh "));
}

Test(manual, a_frame_without_the_mark_is_refused)
{
    cr_expect_eq(command_run("echo .Dd | '" ZG_BINARY_DIR "/zerogauge' help --manual 2>&1", output, sizeof output), 2);
    cr_expect(strstr(output, "the frame on standard input has no line @COMMANDS@"), "%s", output);
}

// Expects no output of a checker, except about manuals that are not installed.
static void expect_no_complaint(const char *program, const char *checker)
{
    char command[512];
    snprintf(command, sizeof command, "command -v %s", program);
    if (command_run(command, output, sizeof output) != 0) {
        printf("SKIP: no %s here (apt-get install man-db mandoc)\n", program);
        return;
    }
    snprintf(command, sizeof command, "(%s) | grep -vE 'referenced manual not found|mandoc.db' || true", checker);
    cr_assert_eq(command_run(command, output, sizeof output), 0);
    cr_expect_str_eq(output, "");
}

Test(manual, mandoc_has_no_complaint)
{
    expect_no_complaint("mandoc", "mandoc -T lint " MANUAL " 2>&1");
}

Test(manual, groff_has_no_warning)
{
    expect_no_complaint("man", "LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l " MANUAL " 2>&1 >/dev/null");
}

static char output[1 << 16];

// Completes the last of the words; output gets one candidate per line.
static void complete_bash(const char *words)
{
    char command[4096];
    snprintf(command, sizeof command,
             "PATH='%s':\"$PATH\" bash -c 'set -u; . %s/packaging/zerogauge.bash; COMP_WORDS=(%s); "
             "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _zerogauge; printf \"%%s\\n\" \"${COMPREPLY[@]}\"' 2>&1",
             ZG_BINARY_DIR, ZG_SOURCE_DIR, words);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s: %s", words, output);
}

// Replaces zsh's completion functions, which exist only at a prompt, by ones that print their arguments.
static void complete_zsh(const char *words)
{
    char command[4096];
    snprintf(command, sizeof command,
             "PATH='%s':\"$PATH\" zsh -f -c 'compadd() { shift; print -l -- $@ }; _files() { print files }; "
             "offer() { . %s/packaging/_zerogauge }; words=(%s); CURRENT=${#words}; offer' 2>&1",
             ZG_BINARY_DIR, ZG_SOURCE_DIR, words);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s: %s", words, output);
}

static bool offered(const char *word)
{
    size_t length = strlen(word);
    for (const char *at = output; (at = strstr(at, word)) != NULL; at++)
        if ((at == output || at[-1] == '\n') && at[length] == '\n')
            return true;
    return false;
}

static void expect(bool there, const char *words, const char *const *expected)
{
    for (; *expected; expected++)
        cr_expect_eq(offered(*expected), there, "%s: %s%s: %s", words, *expected, there ? "" : ", wrongly", output);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct {
    const char *words;
    const char *const *offered, *const *not_offered;
} cases[] = {
    {"zerogauge \"\"", WORDS("train", "check", "bench", "help", "version"), WORDS("zerogauge", "usage")},
    {"zerogauge help \"\"", WORDS("train", "presets", "models"), WORDS("zero1")},
    {"zerogauge bench \"\"", WORDS("adam", "all", "swap"), WORDS("train", "zerogauge")},
    {"zerogauge train --preset \"\"", WORDS("zero0", "zero2_offload", "zero_infinity"), WORDS("gpt-tiny")},
    {"zerogauge train --model \"\"", WORDS("gpt-tiny", "gpt2-124m", "linear"), WORDS("zero1", "--model", "llama-8b")},
    {"zerogauge train -p \"\"", WORDS("zero0", "zero_infinity"), WORDS("gpt-tiny")},
    {"zerogauge train --device \"\"", WORDS("cpu", "cuda"), WORDS("overlap")},
    {"zerogauge plan --model \"\"", WORDS("gpt-tiny", "llama-8b"), WORDS("FILE", "MODEL")},
    {"zerogauge plan --machine \"\"", WORDS("dgx-h100"), WORDS("llama-8b")},
    {"zerogauge bench step --preset \"\"", WORDS("zero3"), WORDS("PRESET,...")},
    {"zerogauge answer --recipe \"\"", WORDS("torch-cpu"), WORDS("RECIPE")},
    {"zerogauge help bench \"\"", WORDS("adam", "swap"), WORDS("--help")},
    {"zerogauge train --", WORDS("--preset", "--nvme-path", "--verify", "--help"), WORDS("--explain", "zerogauge")},
    {"zerogauge bench swap --", WORDS("--buffers", "--engine", "--repeat"), WORDS("--recipe")},
    {"zerogauge check --case \"\"", WORDS("adam-basic.w2.s0.fp32"), WORDS("R-OPT-01")},
    {"zerogauge check --explain \"\"", WORDS("R-OPT-01", "R-RED-04"), WORDS("R-")},
};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

Test(completion, bash_offers_the_candidates_of_the_program)
{
    for (int i = 0; i < CASE_COUNT; i++) {
        complete_bash(cases[i].words);
        expect(true, cases[i].words, cases[i].offered);
        expect(false, cases[i].words, cases[i].not_offered);
    }
}

Test(completion, bash_offers_only_matching_candidates)
{
    complete_bash("zerogauge tr");
    cr_expect_str_eq(output, "train\n");
    complete_bash("zerogauge train --preset zero2");
    cr_expect_str_eq(output, "zero2\nzero2_offload\n");
    complete_bash("zerogauge train --preset = zero_");
    cr_expect_str_eq(output, "zero_infinity\n", "%s", output);
    complete_bash("zerogauge train --preset=zero_");
    cr_expect_str_eq(output, "--preset=zero_infinity\n", "%s", output);
    complete_bash("zerogauge check -- mine --");
    cr_expect_str_eq(output, "\n", "another program follows --: %s", output);
    complete_bash("zerogauge train --text READ");
    cr_expect_str_eq(output, "\n", "the shell completes files: %s", output);
}

Test(completion, zsh_offers_the_candidates_of_the_program)
{
    if (command_run("command -v zsh", output, sizeof output) != 0) {
        puts("SKIP: no zsh here (apt-get install zsh)");
        return;
    }
    for (int i = 0; i < CASE_COUNT; i++) {
        complete_zsh(cases[i].words);
        expect(true, cases[i].words, cases[i].offered);
        expect(false, cases[i].words, cases[i].not_offered);
    }
    complete_zsh("zerogauge check -- \"\"");
    cr_expect_str_eq(output, "files\n");
}
