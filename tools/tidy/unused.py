#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What nobody uses: headers that no file includes, sources outside the rooms and scripts that no other file names, and
external functions and variables of C that no other source uses, which should be static or go.

Works on the text, so it needs no build and sees what this machine cannot compile. A use is the name as a word in the
code of another source, not behind `.` or `->`; in a header, also in a macro or an indented line, for a prototype begins
its line; or what follows `PREFIX_##` in a macro. A row `PATTERN REASON` of unused.txt excepts files or symbols, with
`*` and `?` as in a shell."""
import fnmatch
import os
import re
from collections import defaultdict

from common import code_of, is_script, is_test, line_of, tree_of_arguments

WORD = re.compile(r"(?<!\.)(?<!->)(?<!struct )(?<!enum )(?<!union )\b[A-Za-z_]\w*")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]*)"', re.M)
# A definition begins its line; its brace, or its `=`, follows before any `;`.
FUNCTION = re.compile(r"^(?!static\b|typedef\b|else\b|extern\b|return\b)[A-Za-z_][\w \t*]*?"
                      r"\b(\w+)\((?:[^;{}()]|\([^()]*\))*\)\s*\{", re.M)
VARIABLE = re.compile(r"^(?!static\b|typedef\b|extern\b|_Static|#)[A-Za-z_][\w \t*]*?"
                      r"\b(\w+)(?:\[[^\]\n]*\])*\s*=(?!=)", re.M)
NOT_NAMES = {"main", "Test", "TestSuite", "ParameterizedTest", "ParameterizedTestParameters"}


def read_exceptions(tree):
    exceptions = {}
    for number, row in tree.rows("unused.txt"):
        fields = row.split(None, 1)
        if len(fields) < 2:
            tree.offence("tools/tidy/unused.txt", number, "is not PATTERN REASON")
        exceptions[fields[0]] = number
    return exceptions


def uses_of(name, code):
    """The words of a source that count as uses."""
    if not name.endswith((".h", ".cuh")):
        return set(WORD.findall(code))
    words, macro = set(), False
    for line in code.splitlines():
        if macro or line[:1] in (" ", "\t", "#"):
            words.update(WORD.findall(line))
        macro = line.endswith("\\")
    return words


def check_files(tree, used):
    included = set()
    for name in tree.c_files():
        included.update(target for target in INCLUDE.findall(tree.text(name)))
    rooms = {room for _, row in tree.rows("floors.txt") for room in row.split()}
    named = {name: tree.text(name) for name in tree.files
             if not name.startswith("datasets/") and not re.match(r"tools/tidy/.*\.txt$", name)}
    for name in tree.files:
        if name.endswith((".h", ".cuh")):
            bare = os.path.basename(name)
            if name not in included and bare not in included and not used(name):
                tree.offence(name, 1, "no file includes this header")
        elif (name.endswith((".c", ".cu")) and os.path.dirname(name) not in rooms) or is_script(tree, name):
            stem = os.path.splitext(os.path.basename(name))[0]
            word = re.compile(r"(?<![\w.])" + re.escape(stem) + r"\b")
            # The search for a plain string is many times as fast.
            if not any(stem in text and other != name and word.search(text) for other, text in named.items()) and \
                    not used(name):
                tree.offence(name, 1, "no other file names this one")


def is_static(text, head):
    """Whether the words before a name make it private to its file: `static`, or a macro that holds it."""
    return any(word == "static" or re.search(r"^[ \t]*#[ \t]*define[ \t]+%s\b.*\bstatic\b" % word, text, re.M)
               for word in re.findall(r"\w+", head))


def check_symbols(tree, used):
    users = defaultdict(set)
    codes = {name: code_of(tree.text(name)) for name in tree.c_files()}
    for name, code in codes.items():
        for word in uses_of(name, code):
            users[word].add(name)
    pasted = set(re.findall(r"\b(\w+)[ \t]*##", "".join(codes.values())))
    for symbol in list(users) if pasted else ():
        for prefix in pasted:
            users[prefix + symbol] |= users[symbol]
    for name, code in codes.items():
        if not name.endswith(".c") or is_test(name) or name.startswith("conformance/adapters/"):
            continue
        for pattern in (FUNCTION, VARIABLE):
            for match in pattern.finditer(code):
                symbol, head = match.group(1), match.group()[:match.start(1) - match.start()]
                if is_static(tree.text(name), head) or symbol in NOT_NAMES or users[symbol] - {name} or used(symbol):
                    continue
                own = len(re.findall(r"\b%s\b" % symbol, code)) > 1
                what = "no other source uses it: make it static" if own else "nobody uses it"
                tree.offence(name, line_of(code, match.start(1)), f"{symbol}: {what}")


def main():
    tree = tree_of_arguments()
    exceptions = read_exceptions(tree)
    needed = set()

    def used(name):
        fitting = [pattern for pattern in exceptions if fnmatch.fnmatchcase(name, pattern)]
        needed.update(fitting)
        return bool(fitting)

    check_files(tree, used)
    check_symbols(tree, used)
    for name in sorted(set(exceptions) - needed):
        tree.offence("tools/tidy/unused.txt", exceptions[name], f"{name} needs no exception")
    tree.end("unused")


main()
