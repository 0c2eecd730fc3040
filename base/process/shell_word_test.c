// SPDX-License-Identifier: Apache-2.0
// A shell reads back the word that was written.
#include "base/process/shell_word.h"

#include "base/command_test.h"

#include <stdlib.h>

static char *written(const char *word)
{
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    shell_word(out, word);
    fclose(out);
    return text;
}

Test(shell_word, plain_words_and_placeholders_are_not_quoted)
{
    static const char *const words[] = {"torchrun", "--nproc-per-node", "{world}", "./a_b.py", "1e-8", "a@b:c%d+e"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char *text = written(words[i]);
        cr_assert_str_eq(text, words[i]);
        free(text);
    }
}

Test(shell_word, a_shell_reads_every_word_back)
{
    static const char *const words[] = {
        "",
        " ",
        "two words",
        "it's",
        "'",
        "''",
        "\"quoted\" $HOME `id` \\ !",
        "*",
        "~",
        "#x",
        "{a,b}",
        "{1..3}",
        "{}",
        "--in={cases}/x",
        "a;b|c&d>(e)",
        "line\nline",
        "\ttab's \\ and \x01\x7f end",
        "1\n1",
        "\xc3\xa4",
        "a=b",
    };
    char command[512], output[512];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char *text = written(words[i]);
        snprintf(command, sizeof command, "bash -c \"$(cat <<'END'\nprintf '<%%s>' %s\nEND\n)\"", text);
        cr_assert_eq(command_run(command, output, sizeof output), 0, "%s", output);
        snprintf(command, sizeof command, "<%s>", words[i]);
        cr_assert_str_eq(output, command, "%s", text);
        free(text);
    }
}
