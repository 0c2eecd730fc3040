#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lines of a file: at most FILE_LINES, of a test TEST_LINES, in C, CUDA, shell and Python.

An exception is a row `PATH LINES REASON` of length.txt. One that its file does not need is an offence, too."""
from common import C_SUFFIXES, is_script, is_test, tree_of_arguments

FILE_LINES = 300
TEST_LINES = 500


def read_exceptions(tree):
    exceptions = {}
    for number, row in tree.rows("length.txt"):
        fields = row.split(None, 2)
        if len(fields) < 3 or not fields[1].isdigit():
            tree.offence("tools/tidy/length.txt", number, "is not PATH LINES REASON")
        else:
            exceptions[fields[0]] = (number, int(fields[1]))
    return exceptions


def main():
    tree = tree_of_arguments()
    exceptions = read_exceptions(tree)
    for name in tree.files:
        if not name.endswith(C_SUFFIXES) and not is_script(tree, name):
            continue
        count = len(tree.text(name).splitlines())
        ordinary = TEST_LINES if is_test(name) else FILE_LINES
        number, limit = exceptions.pop(name, (0, ordinary))
        if count > limit:
            tree.offence(name, limit + 1, f"{count} lines, more than {limit}")
        elif number and count <= ordinary:
            tree.offence("tools/tidy/length.txt", number, f"{name} has {count} lines and needs no exception")
    for name, (number, _) in exceptions.items():
        tree.offence("tools/tidy/length.txt", number, f"{name} is no source file")
    tree.end("length")


main()
