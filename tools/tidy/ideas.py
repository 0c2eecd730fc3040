#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A wall for ideas, as floors.py is one for includes: words that the files of a path may not contain, in code or prose,
because what they name lives elsewhere.

A row `PATHS: PATTERN -> PLACE` of ideas.txt bans a regular expression, case ignored, from the C files of PATHS (blanks
between them, `*` as in a shell); tests may name all. A row whose paths have no file is an offence, too."""
import fnmatch
import re

from common import is_test, line_of, tree_of_arguments

ROW = re.compile(r"(?P<paths>[^:]+): (?P<pattern>.+) -> (?P<place>.+)")


def check_row(tree, number, row):
    found = ROW.fullmatch(row)
    if not found:
        tree.offence("tools/tidy/ideas.txt", number, "is not PATHS: PATTERN -> PLACE")
        return
    for path in found["paths"].split():
        names = [name for name in tree.c_files() if fnmatch.fnmatch(name, path)]
        if not names:
            tree.offence("tools/tidy/ideas.txt", number, f"{path} is no source file")
        for name in names:
            for match in [] if is_test(name) else re.finditer(found["pattern"], tree.text(name), re.I):
                tree.offence(name, line_of(tree.text(name), match.start()),
                             f'"{match.group()}" is an idea of {found["place"]}')


def main():
    tree = tree_of_arguments()
    for number, row in tree.rows("ideas.txt"):
        check_row(tree, number, row)
    tree.end("ideas")


main()
