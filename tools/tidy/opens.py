#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files are opened and created by base/file.h, which follows no link for an output, waits for no pipe and overwrites
nothing unasked; the message of an error is printed by text_error, which escapes what acts on a terminal. Other calls
are offences, but for those of tests and those that name a file of /dev, /proc or /sys.

A row `FILE: REASON` of opens.txt excepts a file's calls. One whose file has none is an offence, too."""
import re

from common import OUTSIDE, code_of, is_test, tree_of_arguments

OPENERS = ("base/file.c", "base/file_open.c", "base/file_output.c")
OPENS = re.compile(r"(?<![\w.>])(fopen|freopen|open|openat|creat|mkstemp|mkostemp|json_dump_file|json_load_file)\(")
SYSTEM = re.compile(r'"/(dev|proc|sys)/')
PRINTS = re.compile(r"\b(f?printf|fputs|puts)\([^;]*\berr_message\(\)")


def main():
    tree = tree_of_arguments()
    exceptions = {}
    for number, row in tree.rows("opens.txt"):
        match = re.fullmatch(r"(\S+): \S.*", row)
        if match:
            exceptions[match[1]] = number
        else:
            tree.offence("tools/tidy/opens.txt", number, "is not FILE: REASON")
    needed = set()
    for name in tree.c_files():
        if is_test(name) or name.startswith(OUTSIDE) or name in OPENERS:
            continue
        raw = tree.text(name).splitlines()
        for number, line in enumerate(code_of(tree.text(name)).splitlines(), 1):
            opens = OPENS.search(line) if not SYSTEM.search(raw[number - 1]) else None
            if opens and name in exceptions:
                needed.add(name)
            elif opens:
                tree.offence(name, number, f"{opens[1]}: base/file.h has the ways to open and to create a file")
            if PRINTS.search(line):
                tree.offence(name, number, "err_message: text_error prints it")
    for name, number in exceptions.items():
        if name not in needed:
            tree.offence("tools/tidy/opens.txt", number, f"{name} needs no exception")
    tree.end("opens")


main()
