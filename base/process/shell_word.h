// SPDX-License-Identifier: Apache-2.0
// Words that a user can paste into a shell.
#pragma once

#include <stdio.h>

// Writes a word, quoted if a shell would otherwise change it. A word with control characters becomes $'...', which
// bash, zsh and POSIX 2024 understand.
void shell_word(FILE *out, const char *word);
