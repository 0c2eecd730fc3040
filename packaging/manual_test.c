// SPDX-License-Identifier: Apache-2.0
// Tests of the manual page: it has every command and every option that --help lists, and no others.
#include "base/command_test.h"
#include "base/folder_test.h"
#include "base/help_test.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#define MANUAL ZG_SOURCE_DIR "/packaging/zerogauge.1"

enum { OPTIONS_MAX = 512 };

// "bench swap", "buffers": what the manual or the program says there is. Those that all benchmarks share, or those of
// storage, belong to "bench".
struct option_list {
    struct {
        char command[64], name[64];
    } rows[OPTIONS_MAX];
    int count;
};

static struct option_list in_manual, in_program;

static bool has(const struct option_list *list, const char *command, const char *name)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->rows[i].command, command) == 0 && strcmp(list->rows[i].name, name) == 0)
            return true;
    return false;
}

static void add(struct option_list *list, const char *command, const char *name, size_t length)
{
    cr_assert_lt(list->count, OPTIONS_MAX);
    cr_assert(length > 0 && length < sizeof list->rows[0].name);
    snprintf(list->rows[list->count].command, sizeof list->rows[0].command, "%s", command);
    snprintf(list->rows[list->count].name, sizeof list->rows[0].name, "%.*s", (int)length, name);
    list->count++;
}

// The lines ".It Fl p , -preset Ar NAME" below ".Ss train".
static void read_manual(void)
{
    char command[64] = "";
    size_t bytes;
    char *text = folder_read(MANUAL, &bytes);
    text[bytes] = '\0';
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;) {
        const char *name = strstr(line, " -");
        if (strncmp(line, ".Ss ", 4) == 0)
            snprintf(command, sizeof command, "%s", line + 4);
        else if (strncmp(line, ".Sh ", 4) == 0)
            command[0] = '\0';
        else if (strncmp(line, ".It Fl ", 7) == 0 && name)
            add(&in_manual, command, name + 2, strcspn(name + 2, " "));
    }
    free(text);
}

// The lines "  -p, --preset=NAME   ..." of a command's --help. Groups of options that are of no benchmark alone are
// "bench"'s.
static void read_help(const char *command)
{
    static struct lines help;
    char asked[300];
    const char *owner = command;
    snprintf(asked, sizeof asked, "%s --help | sed '/^$/d; /^Examples:/,$d'", command);
    lines_below("Usage:", asked, &help);
    for (int i = 0; i < help.count; i++) {
        const char *line = help.line[i], *name = line;
        if (strncmp(line, "Options of ", 11) == 0)
            owner = strcmp(line, "Options of this benchmark:") == 0 ? command : "bench";
        if (line[0] == '-' && line[1] != '-' && strncmp(line + 2, ", --", 4) == 0)
            name += 4;
        if (strncmp(name, "--", 2) == 0 && strncmp(name, "--help", 6) != 0)
            add(&in_program, owner, name + 2, strcspn(name + 2, " =[\n"));
    }
}

static void read_both(void)
{
    in_manual.count = in_program.count = 0;
    read_manual();
    for_each_command(read_help);
    cr_assert_geq(in_program.count, 80);
}

Test(manual, every_option_of_the_program_is_in_the_manual)
{
    read_both();
    for (int i = 0; i < in_program.count; i++)
        cr_expect(has(&in_manual, in_program.rows[i].command, in_program.rows[i].name),
                  "packaging/zerogauge.1 lacks, below \".Ss %s\": \".It Fl -%s\"", in_program.rows[i].command,
                  in_program.rows[i].name);
}

Test(manual, every_option_of_the_manual_is_in_the_program)
{
    read_both();
    for (int i = 0; i < in_manual.count; i++)
        cr_expect(has(&in_program, in_manual.rows[i].command, in_manual.rows[i].name),
                  "packaging/zerogauge.1 has --%s of zerogauge %s, which is not there", in_manual.rows[i].name,
                  in_manual.rows[i].command);
}

static char *manual_text;

static void find_section(const char *command)
{
    char section[300];
    snprintf(section, sizeof section, "\n.Ss %s\n", command);
    cr_expect(strstr(manual_text, section) || strcmp(command, "bench all") == 0,
              "packaging/zerogauge.1 lacks a section \".Ss %s\"", command);
}

Test(manual, every_command_has_a_section)
{
    size_t bytes;
    manual_text = folder_read(MANUAL, &bytes);
    manual_text[bytes] = '\0';
    for_each_command(find_section);
    cr_expect(strstr(manual_text, "\n.Cm help\n"));
    cr_expect(strstr(manual_text, "\n.Cm version\n"));
    free(manual_text);
}

// What a checker prints is a complaint; whether other manuals are installed is of no interest.
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

Test(manual, mandoc_has_nothing_to_say_against_it)
{
    expect_no_complaint("mandoc", "mandoc -T lint " MANUAL " 2>&1");
}

Test(manual, groff_has_no_warning_for_it)
{
    expect_no_complaint("man", "LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l " MANUAL " 2>&1 >/dev/null");
}
