#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who calls whom within a room: files that call each other in a circle are one file cut by length, not by idea.

A call is a name before `(` in the code of a function or of a macro, not behind `.` or `->`; it goes to the file of the
room that defines an external function of this name, or a header's `static inline` one, unless the caller's file has a
static function so named. X.c, X.h and X_internal.h are one file. Calls through pointers and by tests are not seen.

A row `ROOM: FILE FILE...: REASON` of calls.txt, which an indented line continues, excepts the circle of just these
files. One that is not there is an offence, too."""
import os
import re

from common import OUTSIDE, circles, code_of, is_test, tree_of_arguments, unit_of

# A definition begins its line; its brace follows before any `;`.
FUNCTION = re.compile(r"^(?!typedef\b|else\b|extern\b|return\b)(?P<head>[A-Za-z_][\w \t*]*?)\b(?P<name>\w+)"
                      r"\((?:[^;{}()]|\((?:[^()]|\([^()]*\))*\))*\)\s*\{", re.M)
CALL = re.compile(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*\(")


def definitions(codes):
    """The files that define each name for others, and each file's names for itself alone."""
    external, static = {}, {name: set() for name in codes}
    for name, code in codes.items():
        for match in FUNCTION.finditer(code):
            if "static" in match["head"].split() and not name.endswith((".h", ".cuh")):
                static[name].add(match["name"])
            else:
                external.setdefault(match["name"], set()).add(name)
    return external, static


def calls_of(codes):
    """(caller, called) -> (file, line, function), of units of one room."""
    external, static = definitions(codes)
    found = {}
    for name, code in codes.items():
        for number, line in enumerate(code.splitlines(), 1):
            # A prototype begins its line, the code of a function does not.
            for called in CALL.findall(line) if line[:1] in (" ", "\t", "#") else ():
                for other in () if called in static[name] else external.get(called, ()):
                    if os.path.dirname(other) == os.path.dirname(name) and unit_of(other) != unit_of(name):
                        found.setdefault((unit_of(name), unit_of(other)), (name, number, called))
    return found


def read_exceptions(tree):
    text = tree.text("tools/tidy/calls.txt") if "tools/tidy/calls.txt" in tree.files else ""
    exceptions, rows = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("  ") and rows:
            rows[-1] = (rows[-1][0], rows[-1][1] + " " + line.strip())
        elif line and not line.startswith("#"):
            rows.append((number, line))
    for number, row in rows:
        match = re.fullmatch(r"(\S+): ([\w ]+): \S.*", row)
        if match:
            exceptions[tuple(sorted(f"{match[1]}/{name}" for name in match[2].split()))] = number
        else:
            tree.offence("tools/tidy/calls.txt", number, "is not ROOM: FILE FILE...: REASON")
    return exceptions


def main():
    tree = tree_of_arguments()
    exceptions = read_exceptions(tree)
    codes = {name: code_of(tree.text(name)) for name in tree.c_files()
             if not is_test(name) and not name.startswith(OUTSIDE)}
    calls = calls_of(codes)
    graph = {unit: set() for pair in calls for unit in pair}
    for unit, other in calls:
        graph[unit].add(other)
    for circle in circles(graph):
        if exceptions.pop(tuple(circle), None) is None:
            name, line, called = next(calls[circle[0], other] for other in circle if (circle[0], other) in calls)
            tree.offence(name, line, f"{called} closes a circle of calls: " + ", ".join(circle))
    for circle, number in exceptions.items():
        tree.offence("tools/tidy/calls.txt", number, "there is no circle of just these files")
    tree.end("calls")


main()
