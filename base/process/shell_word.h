// SPDX-License-Identifier: Apache-2.0
// Words that a user can paste into a shell.
#ifndef ZG_SHELL_WORD_H
#define ZG_SHELL_WORD_H

#include <stdio.h>

// Writes a word in quotation marks where a shell would read it as something else. One with control characters comes as
// $'...', which bash, zsh and POSIX 2024 know.
void shell_word(FILE *out, const char *word);

#endif
