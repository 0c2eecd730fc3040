// SPDX-License-Identifier: Apache-2.0
// The output to terminals, dumb terminals and files. Each test has its own terminal as standard error.
#include "base/command_test.h"
#include "base/terminal.h"

#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int master, kept_error;

static void open_terminal(void)
{
    const struct winsize size = {.ws_row = 24, .ws_col = 20};
    master = posix_openpt(O_RDWR | O_NOCTTY);
    cr_assert_geq(master, 0);
    cr_assert_eq(grantpt(master) | unlockpt(master), 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    cr_assert_geq(slave, 0);
    cr_assert_eq(ioctl(slave, TIOCSWINSZ, &size), 0);
    kept_error = dup(STDERR_FILENO);
    dup2(slave, STDERR_FILENO);
    close(slave);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
}

static void close_terminal(void)
{
    dup2(kept_error, STDERR_FILENO);
    close(kept_error);
    close(master);
}

// Writes "END" and reads the terminal's output up to it.
static const char *seen(void)
{
    static char text[4096];
    size_t used = 0;
    text[0] = '\0';
    fputs("END", stderr);
    fflush(stderr);
    while (!strstr(text, "END")) {
        ssize_t bytes = read(master, text + used, sizeof text - 1 - used);
        cr_assert_gt(bytes, 0);
        used += (size_t)bytes;
        text[used] = '\0';
    }
    *strstr(text, "END") = '\0';
    return text;
}

TestSuite(terminal, .init = open_terminal, .fini = close_terminal);

Test(terminal, progress_overwrites_itself_within_one_line)
{
    cr_expect(terminal_shows_progress());
    terminal_progress("%d of %d", 1, 3);
    terminal_progress("%s", "0123456789abcdefghijklmnopqrstuvw");
    terminal_progress("%s", "");
    cr_expect_str_eq(seen(), "\r\033[K1 of 3\r\033[K0123456789abcdefghi\r\033[K");
}

Test(terminal, a_dumb_terminal_gets_no_progress_and_no_colours)
{
    setenv("TERM", "dumb", 1);
    cr_expect(!terminal_shows_progress());
    cr_expect(!terminal_has_colours(stderr));
    terminal_progress("%s", "half");
    cr_expect_str_eq(seen(), "");
}

Test(terminal, no_color_disables_colours_but_not_progress)
{
    cr_expect(terminal_has_colours(stderr));
    setenv("NO_COLOR", "1", 1);
    cr_expect(!terminal_has_colours(stderr));
    cr_expect(terminal_shows_progress());
    setenv("NO_COLOR", "", 1);
    cr_expect(terminal_has_colours(stderr), "empty is as if it was not there");
}

Test(terminal, a_file_gets_neither)
{
    FILE *file = tmpfile();
    cr_expect(!terminal_has_colours(file));
    dup2(fileno(file), STDERR_FILENO);
    cr_expect(!terminal_shows_progress());
    terminal_progress("%s", "half");
    cr_expect_eq(fseek(file, 0, SEEK_END), 0);
    cr_expect_eq(ftell(file), 0);
    fclose(file);
}

// Every command, with a terminal as standard error, leaves only complete lines there.
Test(terminal, commands_remove_their_progress)
{
    static const char *const commands[] = {"train --preset zero1 --model linear --steps 3",
                                           "check --case adam-basic.w2.s0.fp32",
                                           "bench adam --quick --sizes 64K --repeat 1",
                                           "train --preset zero1 --model linear --steps 3 --inject rank:1:die@2"};
    char command[1024], output[1 << 14];
    for (int i = 0; i < 4; i++) {
        snprintf(command, sizeof command, "ASAN_OPTIONS=detect_leaks=0 '%s/zerogauge' %s >/dev/null", ZG_BINARY_DIR,
                 commands[i]);
        command_run(command, output, sizeof output);
        const char *text = seen(), *last = text;
        for (const char *at = text; (at = strstr(at, "\033[K")) != NULL; at += 3)
            last = at + 3;
        cr_expect_neq(last, text, "%s: no progress: \"%s\"", commands[i], text);
        cr_expect(*last == '\0' || last[strlen(last) - 1] == '\n', "%s leaves \"%s\"", commands[i], last);
        cr_expect(*last == '\0' || strncmp(last, "zerogauge ", 10) == 0, "%s leaves \"%s\"", commands[i], last);
    }
}
