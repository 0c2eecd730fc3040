// SPDX-License-Identifier: Apache-2.0
// The program under a process's limits: lost output and low limits are errors that name their cause.
#include "base/command_test.h"
#include "base/folder_test.h"

#include <string.h>

static char output[1 << 16];

TestSuite(zerogauge, .init = folder_enter, .fini = folder_leave, .timeout = 500);

// Runs `BEFORE zerogauge ARGUMENTS` in an empty folder; output receives what it prints, also to stderr.
static int zerogauge(const char *before, const char *arguments)
{
    char line[1024];
    snprintf(line, sizeof line, "exec 2>&1; %s '%s/zerogauge' %s", before, ZG_BINARY_DIR, arguments);
    return command_run(line, output, sizeof output);
}

Test(zerogauge, output_that_gets_lost_is_an_error)
{
    static const char *const commands[] = {
        "train --preset zero2 --model linear --steps 1",
        "plan --preset zero3",
        "plan --preset zero3 --json",
        "info",
        "check --list",
        "help",
        "help presets",
        "help models",
        "help train",
        "bench --help",
        "report --help",
        "version",
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char words[256];
        snprintf(words, sizeof words, "%s >/dev/full", commands[i]);
        cr_expect_eq(zerogauge("", words), 2, "%s: %s", words, output);
        cr_expect_not_null(strstr(output, "zerogauge: the output could not be written completely"), "%s: %s", words,
                           output);
        cr_expect_eq(zerogauge("", commands[i]), 0, "%s: %s", commands[i], output);
    }
}

Test(zerogauge, an_export_whose_report_gets_lost_is_an_error)
{
    cr_assert_eq(zerogauge("", "train --preset zero2 --model linear-few --steps 1 --save saved"), 0, "%s", output);
    cr_expect_eq(zerogauge("", "export saved out.safetensors >/dev/full"), 2, "%s", output);
    cr_expect_not_null(strstr(output, "the output could not be written completely"), "%s", output);
}

Test(zerogauge, a_closed_standard_output_is_no_place_for_files)
{
    const char *save = "train --preset zero2 --model linear-few --steps 1 --save saved >&-";
    cr_expect_eq(zerogauge("", save), 2, "%s", output);
    cr_expect_eq(zerogauge("", "export saved out.safetensors"), 0, "%s", output);
}

Test(zerogauge, a_command_of_the_python_package_is_said_to_be_one)
{
    cr_expect_eq(zerogauge("", "adapters list"), 2, "%s", output);
    cr_expect_not_null(strstr(output, "the Python package has it: python -m zerogauge adapters\n"), "%s", output);
    // Which ends as silently as this program where its reader is gone.
    cr_assert_eq(command_run("{ sleep 0.3; PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='" ZG_SOURCE_DIR
                             "/conformance/adapters' "
                             "python3 -m zerogauge adapters list; } 2>errors | true; cat errors",
                             output, sizeof output),
                 0);
    cr_expect_str_empty(output);
}

// Without a writer, opening a pipe to read waits for ever.
Test(zerogauge, a_pipe_is_refused_wherever_a_file_is_expected)
{
    static const char *const commands[] = {
        "train -c pipe",
        "train --preset zero2 --model linear --load-weights pipe",
        "train --preset zero2 --text pipe",
        "train --preset zero2 --model linear --trace pipe",
        "train --preset zero2 --model linear --steps 1 --resume saved",
        "export saved out.safetensors",
        "export sound pipe",
        "convert pipe out",
        "plan --config pipe",
        "plan --preset zero2 --model ./pipe",
        "plan --preset zero2 --machine ./pipe",
        "plan --against pipe",
        "report pipe",
        "report --verify pipe",
        "report --compare pipe pipe",
        "report --leaderboard board",
        "validate --ranges pipe",
        "check --claims pipe",
        "check --plugin pipe --requirement R-OPT-05",
    };
    cr_assert_eq(mkfifo("pipe", 0600), 0);
    cr_assert_eq(mkdir("board", 0777), 0);
    cr_assert_eq(mkfifo("board/a.jsonl", 0600), 0);
    cr_assert_eq(zerogauge("", "train --preset zero2 --model linear-few --steps 1 --save sound"), 0, "%s", output);
    cr_assert_eq(zerogauge("cp -r sound saved && rm saved/*/rank-1* && mkfifo saved/step-00000001/rank-1.safetensors;",
                           "version"),
                 0);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        int status = zerogauge("timeout 300", commands[i]);
        cr_expect_eq(status, 2, "%s: %d: %s", commands[i], status, output);
        cr_expect_not_null(strstr(output, "is not a regular file"), "%s: %s", commands[i], output);
    }
}

Test(zerogauge, a_limit_on_the_size_of_files_is_an_error_and_no_signal)
{
    const char *save = "train --preset zero2 --model linear --steps 1 --save saved";
    cr_expect_eq(zerogauge("ulimit -f 4;", save), 2, "%s", output);
    cr_expect_not_null(strstr(output, "File too large"), "%s", output);
}

Test(zerogauge, too_low_limits_are_raised_or_named)
{
    const char *infinity =
        "train --preset zero_infinity --model linear --nvme-path . --buffered --steps 2 --world 2 --verify";
    cr_expect_eq(zerogauge("ulimit -n 8;", infinity), 2, "%s", output);
    cr_expect_not_null(strstr(output, "the limit of open files is 8; at least 64 are needed"), "%s", output);
    cr_expect_eq(zerogauge("ulimit -Sn 8;", infinity), 0, "%s", output);
    cr_expect_eq(zerogauge("ulimit -s 64;", infinity), 2, "%s", output);
    cr_expect_not_null(strstr(output, "the limit of the stack is 64 KiB; at least 1024 KiB are needed"), "%s", output);
    cr_expect_eq(zerogauge("ulimit -Ss 64;", infinity), 0, "%s", output);
    cr_expect_eq(zerogauge("ulimit -s 1024;", infinity), 0, "%s", output);
}
