// SPDX-License-Identifier: Apache-2.0
// Shell completion: calls the functions as a shell does and compares the candidates with the program's commands,
// options and names.
#include "base/command_test.h"

#include <criterion/criterion.h>

#include <string.h>

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
