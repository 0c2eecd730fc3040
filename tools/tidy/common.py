# SPDX-License-Identifier: Apache-2.0
"""Shared by the checks of tools/tidy: the files of a tree, the lists next to the checks, and C cut into prose and code.

Every check runs alone as `tools/tidy/NAME.py [ROOT]`, prints offences as `FILE:LINE: text`, then their number, and ends
with status 1 if there is one. The lists are those under ROOT/tools/tidy, so that a test can bring its own."""
import os
import re
import subprocess
import sys

C_SUFFIXES = (".c", ".h", ".cu", ".cuh")
TEST_FILE = re.compile(r"(_test\.c|_test\.h|_program\.c|_stand_in\.c|_broken\.c)$")
# Folders without a floor: no C in them is part of the program.
OUTSIDE = ("ci/", "conformance/adapters/", "packaging/", "ref/one_file/", "tools/")
C_TOKEN = re.compile(r"""//(?:\\\n|[^\n])*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)


class Tree:
    """The files that git tracks or would track under a root, with their text."""

    def __init__(self, root):
        self.root = root
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                                check=True, capture_output=True).stdout.decode()
        self.files = sorted({name for name in listed.split("\0") if os.path.isfile(os.path.join(root, name))})
        self.texts = {}
        self.offences = 0

    def text(self, name):
        if name not in self.texts:
            with open(os.path.join(self.root, name), encoding="utf-8", errors="replace") as stream:
                self.texts[name] = stream.read()
        return self.texts[name]

    def c_files(self):
        return [name for name in self.files if name.endswith(C_SUFFIXES)]

    def rows(self, name):
        """(line number, text) of the rows of a list under tools/tidy: neither empty nor a comment."""
        path = "tools/tidy/" + name
        if path not in self.files:
            return []
        rows = enumerate(self.text(path).splitlines(), 1)
        return [(number, row.strip()) for number, row in rows if row.strip() and not row.startswith("#")]

    def offence(self, name, line, text):
        print(f"{name}:{line}: {text}")
        self.offences += 1

    def end(self, check):
        print(f"{check}: {self.offences} offences in {len(self.files)} files")
        sys.exit(1 if self.offences else 0)


def tree_of_arguments():
    here = os.path.dirname(os.path.abspath(__file__))
    return Tree(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(here)))


def is_test(name):
    return bool(TEST_FILE.search(os.path.basename(name)))


def is_script(tree, name):
    """Shell and Python, by suffix or by first line."""
    if name.endswith((".sh", ".bash", ".py")):
        return True
    return "." not in os.path.basename(name) and re.match(r"#!.*(sh|python3?)\b", tree.text(name)) is not None


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def code_of(text):
    """C without comments and the insides of strings; every line keeps its number and every column its place."""
    def blank(match):
        token = match.group()
        if token[0] in "\"'":
            return token[0] + " " * (len(token) - 2) + token[0]
        return re.sub(r"[^\n]", " ", token)
    return C_TOKEN.sub(blank, text)


def unit_of(name):
    """X.c, X.h and X_internal.h are one unit."""
    return re.sub(r"_internal$", "", os.path.splitext(name)[0])


def circles(graph):
    """The strongly connected components of more than one unit, by Tarjan's algorithm without recursion."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for start in graph:
        work = [] if start in index else [(start, iter(sorted(graph[start])))]
        if work:
            index[start] = low[start] = len(index)
            stack.append(start)
            on_stack.add(start)
        while work:
            unit, others = work[-1]
            other = next(others, None)
            if other is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[unit])
                if low[unit] == index[unit]:
                    begin = stack.index(unit)
                    if len(stack) - begin > 1:
                        found.append(sorted(stack[begin:]))
                    on_stack.difference_update(stack[begin:])
                    del stack[begin:]
            elif other not in index:
                index[other] = low[other] = len(index)
                stack.append(other)
                on_stack.add(other)
                work.append((other, iter(sorted(graph[other]))))
            elif other in on_stack:
                low[unit] = min(low[unit], index[other])
    return sorted(found)
