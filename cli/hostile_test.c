// SPDX-License-Identifier: Apache-2.0
// Command lines and files of people who mean no good, or of those who err: each is refused in a message that acts on no
// terminal, nothing is overwritten, and an interrupt has one exit status.
#include "base/command_test.h"
#include "base/folder_test.h"

#include <string.h>

static char output[1 << 16];

TestSuite(hostile, .init = folder_enter, .fini = folder_leave, .timeout = 300);

// Runs a line of bash in which `zg` is the program and $E an escape sequence; its output has standard error, too.
static int shell(const char *line)
{
    char command[2048];
    snprintf(command, sizeof command,
             "exec bash -c 'exec 2>&1; zg() { \"%s/zerogauge\" \"$@\"; }; E=$(printf \"\\33[31mX\"); %s'",
             ZG_BINARY_DIR, line);
    return command_run(command, output, sizeof output);
}

static void expect_plain(const char *line, int status)
{
    int ended = shell(line);
    cr_expect_eq(ended, status, "%s: status %d: %s", line, ended, output);
    cr_expect_null(strchr(output, '\33'), "%s: an escape sequence is printed", line);
    cr_expect_not_null(strstr(output, "\\x1b[31mX"), "%s: %s", line, output);
}

Test(hostile, a_message_quotes_no_escape_sequence)
{
    static const char *const lines[] = {
        "zg $E",
        "zg help $E",
        "zg train --$E",
        "zg train --preset $E",
        "zg train --config $E",
        "zg train --preset zero1 --inject $E",
        "zg train --preset zero1 --model $E",
        "zg train --preset zero1 --set $E",
        "zg train --preset zero1 --steps $E",
        "zg train --preset zero1 --resume $E",
        "zg train --preset zero1 --trace /none/$E",
        "zg plan --preset zero1 --model $E",
        "zg plan --preset zero1 --machine $E",
        "zg plan --preset zero1 --search --goal $E",
        "zg plan --preset zero1 --device-memory $E",
        "zg plan --paper=$E",
        "zg plan --throughput=$E",
        "zg check $E",
        "zg check --case $E",
        "zg check --requirement $E",
        "zg check --claims $E",
        "zg check --plugin $E",
        "zg bench $E",
        "zg report $E",
        "zg report --verify $E",
        "zg export $E y",
        "zg convert $E y",
        "zg info $E",
        "zg preflight --seconds 0 --save /none/$E",
        "zg soak --state /none/$E",
        "zg validate -o /none/$E",
        "zg validate --ranges $E",
        "zg answer $E y 1",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        expect_plain(lines[i], 2);
}

Test(hostile, what_a_file_says_is_printed_without_its_escape_sequences)
{
    static const char model[] = "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "
                                "\"num_attention_heads\": 4, \"intermediate_size\": 128, \"vocab_size\": 100, "
                                "\"max_position_embeddings\": 64, \"\\u001b[31mX\": 1}",
                      trainer[] = "base_model: m\nmicro_batch_size: 2\n\"a\\e[31mX\": 1\n";
    folder_write("model.json", model, strlen(model));
    folder_write("trainer.yaml", trainer, strlen(trainer));
    expect_plain("zg plan --preset zero1 --model ./model.json", 0);
    expect_plain("zg plan --config trainer.yaml --model llama-8b", 0);
}

Test(hostile, an_output_that_cannot_be_is_refused_before_the_run)
{
    static const char *const outputs[][2] = {
        {"/dev/full", "is not a regular file, which is never written to"},
        {"folder", "is a folder, which is never written to"},
        {"link", "is a symbolic link, which is never written to"},
        {"/none/x", "cannot be created: No such file or directory"},
        {"$(printf %0300d 1)", "File name too long"},
        {"\"\"", "expected the name of a file"},
        {"mine", "exists, and is never overwritten"},
    };
    // The last of these replace a file of theirs. None prints what a run prints.
    static const char *const commands[] = {
        "train --preset zero1 --steps 1 --trace",
        "bench overlap --quick --trace",
        "plan --preset zero1 --write",
        "report --trend . --output",
        "export saved",
        "convert saved",
        "preflight --seconds 0 --save",
        "soak --hours 1 --state",
        "check --update --expect",
    };
    enum { COMMANDS = sizeof commands / sizeof commands[0], REPLACING = 3 };
    cr_assert_eq(
        shell("mkdir folder && ln -s mine link && zg train --preset zero1 --model linear --steps 1 --save saved"), 0,
        "%s", output);
    folder_write("mine", "mine", 4);
    for (size_t i = 0; i < COMMANDS; i++)
        for (size_t k = 0; k < sizeof outputs / sizeof outputs[0] - (i >= COMMANDS - REPLACING); k++) {
            char line[512];
            snprintf(line, sizeof line, "zg %s %s", commands[i], outputs[k][0]);
            cr_expect_eq(shell(line), 2, "%s: %s", line, output);
            cr_expect_not_null(strstr(output, outputs[k][1]), "%s: %s", line, output);
            cr_expect_null(strstr(output, "same bits"), "%s: %s", line, output);
        }
    folder_expect_text("mine", "mine");
    cr_expect_eq(shell("! ls -A . folder | grep partial"), 0, "%s", output);
}

Test(hostile, nothing_given_is_ignored)
{
    cr_expect_eq(shell("touch a && zg report --verify --output x a"), 2);
    cr_expect_not_null(strstr(output, "--verify and --save-ranges write no page"), "%s", output);
    cr_expect_eq(shell("zg report --trend . --html x"), 2);
    cr_expect_not_null(strstr(output, "--html shows one result file"), "%s", output);
    folder_write("expected", "suite 3\n\0\nexpect", 16);
    cr_expect_eq(shell("zg check --expect expected"), 2);
    cr_expect_not_null(strstr(output, "expected: holds a NUL byte"), "%s", output);
    cr_expect_eq(shell("printf 1 >a; printf 2 >b; zg report --verify a b"), 2);
    cr_expect_str_eq(output, "zerogauge report: a:1: the last line is cut off: its writer did not finish\n"
                             "zerogauge report: b:1: the last line is cut off: its writer did not finish\n");
}

Test(hostile, an_interrupt_ends_with_status_130)
{
    static const char *const commands[] = {
        "train --preset zero1 --model linear --steps 100000000",
        "check --out out",
        "check --hunt 10 --out hunt",
        "preflight --seconds 600",
        "soak --hours 1",
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char line[256];
        snprintf(line, sizeof line, "set -m; zg %s & sleep 2; kill -INT -- -$!; wait $!", commands[i]);
        cr_expect_eq(shell(line), 130, "%s: %s", commands[i], output);
    }
}
