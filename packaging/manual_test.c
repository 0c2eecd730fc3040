// SPDX-License-Identifier: Apache-2.0
// The manual page that the build generates from the commands' option tables: it has every command with its options,
// escaped for roff, and passes the checkers of manuals.
#include "base/command_test.h"
#include "base/folder_test.h"
#include "base/help_test.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

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
    char output[4096];
    cr_expect_eq(command_run("echo .Dd | '" ZG_BINARY_DIR "/zerogauge' help --manual 2>&1", output, sizeof output), 2);
    cr_expect(strstr(output, "the frame on standard input has no line @COMMANDS@"), "%s", output);
}

// Expects no output of a checker, except about manuals that are not installed.
static void expect_no_complaint(const char *program, const char *checker)
{
    char command[512], output[8192];
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
