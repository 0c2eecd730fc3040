// SPDX-License-Identifier: Apache-2.0
// The verdicts of a script's steps as a result file, so that a statement about a machine follows from a file.
#pragma once

// Reads a file of lines "NAME<tab>BEGIN<tab>END<tab>STATUS<tab>COMMAND", where BEGIN and END are seconds since the
// epoch and STATUS is an exit status: 0 passed, 77 skipped, else failed. Writes the result file `out`: this program's
// build and machine now, a part for each line, in their order, and no verdict. argv: the command line that asks for it.
// ERR_USAGE: a line is none, which the message names, or `out` exists; it is then removed.
int parts_record(const char *path, const char *out, int argc, const char *const *argv);
