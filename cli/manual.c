// SPDX-License-Identifier: Apache-2.0

#include "base/help.h"
#include "bench/table/benchmarks.h"
#include "cli/commands.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_BYTES = 78 };

// The groups of options that a section prints: only the section of `bench` has those that benchmarks share.
static enum { ALL_GROUPS, OWN_GROUP, SHARED_GROUPS } groups;
static const char OWN_TITLE[] = "Options of this benchmark:";

static size_t print_character(char c, bool dashes)
{
    if (c == '\\')
        return (size_t)printf("\\e");
    if (c == '"')
        return (size_t)printf("\\(dq");
    return (size_t)printf(dashes ? "\\%c" : "%c", c);
}

// Prints words escaped for roff, which would interpret punctuation at a word's beginning. Returns the characters
// written.
static size_t print_word(const char *word, size_t bytes)
{
    size_t column = 0;
    for (size_t i = 0; i < bytes; i++) {
        bool begins = i == 0 || word[i - 1] == ' ';
        bool dashes = word[i] == '-' && (word[i + 1] == '-' || (!begins && word[i - 1] == '-'));
        column += (size_t)printf("%s", begins && strchr(".'|,;:()[]?!", word[i]) ? "\\&" : "");
        column += print_character(word[i], dashes);
    }
    return column;
}

// Prints text in lines; each sentence begins a line, and "\n" a paragraph.
static void print_text(const char *text)
{
    for (size_t column = 0; *text;) {
        size_t bytes = strcspn(text, " \n");
        if (column > 0 && column + 1 + bytes + 8 > LINE_BYTES)
            column = (size_t)(putchar('\n'), 0);
        if (column > 0)
            column += (size_t)printf(" ");
        column += print_word(text, bytes);
        bool ends = bytes > 0 && strchr(".?!", text[bytes - 1]);
        text += bytes;
        if (*text == '\n')
            printf("\n.Pp");
        if (*text == '\n' || (*text && ends))
            column = (size_t)(putchar('\n'), 0);
        text += *text != '\0';
    }
    putchar('\n');
}

// Prints "cpu|FILE" with literal words marked as commands and placeholders as arguments.
static void print_argument(const char *text)
{
    for (const char *word = text; *word;) {
        size_t bytes = strcspn(word, "|");
        printf("%s %s ", word == text ? "" : " |", islower((unsigned char)*word) ? "Cm" : "Ar");
        print_word(word, bytes);
        word += bytes + (word[bytes] == '|');
    }
}

static void print_default(const struct poptOption *option)
{
    if (!(option->argInfo & POPT_ARGFLAG_SHOW_DEFAULT))
        return;
    switch (option->argInfo & POPT_ARG_MASK) {
    case POPT_ARG_INT:
        printf("(default: %d)\n", *(const int *)option->arg);
        break;
    case POPT_ARG_LONGLONG:
        printf("(default: %lld)\n", *(const long long *)option->arg);
        break;
    case POPT_ARG_DOUBLE:
        printf("(default: %g)\n", *(const double *)option->arg);
        break;
    }
}

static void print_option(void *context, const char *group, const struct poptOption *option)
{
    const char **before = context;
    if (strcmp(option->longName, "help") == 0 || (groups != ALL_GROUPS && !group) ||
        (groups == OWN_GROUP && strcmp(group, OWN_TITLE) != 0) ||
        (groups == SHARED_GROUPS && strcmp(group, OWN_TITLE) == 0))
        return;
    if (!*before || (group && strcmp(group, *before) != 0)) {
        printf("%s", *before ? ".El\n" : "");
        if (group && groups != OWN_GROUP)
            printf(".Pp\n%s\n", group);
        printf(".Bl -tag -width Ds\n");
        *before = group ? group : "";
    }
    printf(".It Fl ");
    if (option->shortName)
        printf("%c , ", option->shortName);
    printf("-%s", option->longName);
    if (option->argDescrip && option->argInfo & POPT_ARGFLAG_OPTIONAL)
        printf(" Ns Op = Ns");
    if (option->argDescrip)
        print_argument(option->argDescrip);
    putchar('\n');
    print_text(option->descrip);
    print_default(option);
}

// Prints the section of a command; a help_writer.
static void print_section(const char *command, const struct poptOption *options, const struct help *help)
{
    const char *group = NULL, *name = strchr(command, ' ') + 1;
    if (groups != SHARED_GROUPS) {
        printf(".Ss %s\n.Nm\n.Cm %s\n", name, name);
        print_text(help->usage);
        printf(".Pp\n");
        print_text(help->text);
    }
    help_visit_options(options, print_option, &group);
    printf("%s", group ? ".El\n" : "");
    for (const char *const *line = help->examples; *line && groups != SHARED_GROUPS; line++) {
        printf("%s.Dl ", line == help->examples ? ".Pp\nExamples:\n.Pp\n" : "");
        print_word(*line, strlen(*line));
        putchar('\n');
    }
}

// Help ends the process, so a child process prints each section.
static int section(const struct command *command, const char *benchmark)
{
    fflush(stdout);
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        help_write = print_section;
        exit(command_help(command, benchmark));
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 2;
}

static int bench_sections(const struct command *command)
{
    size_t with_all_groups = 0;
    int status = 0;
    while (bench_at(with_all_groups)->uses != BENCH_USES_STATES)
        with_all_groups++;
    printf(".Ss %s\n.Nm\n.Cm %s\n.Ar NAME\n.Op Ar option ...\n.Pp\n", command->name, command->name);
    print_text(
        "Measures one part of training against a baseline of this machine. Every benchmark accepts the common options "
        "and its own, which its section below lists; some also accept those of storage, and of states on storage, as "
        "their --help says. The benchmark all runs each of the others in turn.");
    groups = SHARED_GROUPS;
    status |= section(command, bench_at(with_all_groups)->name);
    groups = OWN_GROUP;
    for (size_t i = 0; bench_at(i); i++)
        status |= section(command, bench_at(i)->name);
    groups = ALL_GROUPS;
    return status;
}

int manual_fill(FILE *frame)
{
    static const char MARK[] = "\n@COMMANDS@\n";
    char *text = NULL;
    size_t size = 0;
    // Reads the whole frame first: an exiting child would reset the shared file offset.
    char *mark = getdelim(&text, &size, '\0', frame) > 0 ? strstr(text, MARK) : NULL;
    if (!mark) {
        free(text);
        fprintf(stderr, "zerogauge help --manual: the frame on standard input has no line @COMMANDS@\n");
        return 2;
    }
    int status = 0;
    printf("%.*s\n", (int)(mark - text), text);
    for (const struct command *command = commands; command->name; command++)
        status |= command_has_benchmarks(command) ? bench_sections(command) : section(command, NULL);
    printf("%s", mark + strlen(MARK));
    free(text);
    return fflush(stdout) == 0 ? status : 2;
}
