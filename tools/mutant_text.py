# SPDX-License-Identifier: Apache-2.0
"""Mutants as conformance/mutants keeps them: lines "KEY: value" from "Mutant: NAME" on, a sentence, and changes. A
change is a line "FILE:", and below it lines that begin with a space (stay), - (go) or + (come). What stays and goes is
once in the file, whatever is around it, so that a mutant needs no other lines of the file than these."""
import difflib
import fnmatch
import glob
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(ROOT, "conformance/mutants")
FOLDERS = ("", "one_file", "stage")
FILE_LINE = re.compile(r"([\w./]+/[\w.]+):")


class Mutant:
    """name: as `ci/mutant` takes it, FOLDER/NAME below conformance/mutants. head: the lines before the changes.
    changes: (file, lines) each."""

    def __init__(self, name, lines):
        self.name, self.head, self.changes = name, [], []
        for line in lines:
            file = FILE_LINE.fullmatch(line)
            if file:
                self.changes.append((file[1], []))
            elif self.changes:
                self.changes[-1][1].append(line)
            else:
                self.head.append(line)

    def text(self):
        return "\n".join(self.head + [line for file, lines in self.changes for line in [file + ":", *lines]]) + "\n"


def read(path):
    """The mutants of a file, in its order."""
    folder = os.path.relpath(os.path.dirname(path), FOLDER)
    with open(path, encoding="utf-8") as stream:
        blocks = re.split(r"^(?=Mutant: )", stream.read(), flags=re.M)
    mutants = []
    for block in blocks[1:]:
        lines = block.rstrip("\n").split("\n")
        mutants.append(Mutant(os.path.normpath(os.path.join(folder, lines[0].removeprefix("Mutant: "))), lines))
    return mutants


def read_file(file):
    """A file of the working tree."""
    try:
        with open(os.path.join(ROOT, file), encoding="utf-8") as stream:
            return stream.read()
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}") from error


def write(path, mutants):
    with open(path, "w", encoding="utf-8") as stream:
        stream.write("\n".join(mutant.text() for mutant in mutants))


def paths(folder):
    return sorted(glob.glob(os.path.join(FOLDER, folder, "*.mutants")))


def of_folder(folder):
    return [mutant for path in paths(folder) for mutant in read(path)]


def replace(text, lines, file):
    """A file's text with one change. ValueError: what stays and goes is not there once."""
    old = "".join(line[1:] + "\n" for line in lines if line[:1] in " -")
    new = "".join(line[1:] + "\n" for line in lines if line[:1] in " +")
    found = ("\n" + text).count("\n" + old)
    if not old or found != 1:
        raise ValueError(f"{file} has {found} times: {old.strip() or 'a change without old lines'}")
    return ("\n" + text).replace("\n" + old, "\n" + new)[1:]


def apply(mutant, text_of=read_file):
    """Old and mutated text by file; text_of(FILE) is the old one's."""
    texts = {}
    for file, lines in mutant.changes:
        old, new = texts.setdefault(file, [text_of(file)] * 2)
        texts[file] = [old, replace(new, lines, file)]
    return texts


def unified(file, old, new):
    """A difference as git writes it."""
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{file}", f"b/{file}")
    return f"diff --git a/{file} b/{file}\n" + "".join(lines)


def changes_of(file, old, new):
    """The changes that make the one text of the other, each with the fewest lines around it that make it the only
    place."""
    a, b, text, changes = old.splitlines(), new.splitlines(), old, []
    blocks = [op for op in difflib.SequenceMatcher(None, a, b, False).get_opcodes() if op[0] != "equal"]
    for tag, begin, end, new_begin, new_end in blocks:
        changed = ["-" + line for line in a[begin:end]] + ["+" + line for line in b[new_begin:new_end]]
        for before, after in sorted(((i, j) for i in range(12) for j in range(12)), key=lambda r: (sum(r), r[1])):
            if before > begin or after > len(a) - end:
                continue
            lines = [" " + line for line in a[begin - before:begin]] + changed
            lines += [" " + line for line in a[end:end + after]]
            try:
                text = replace(text, lines, file)
            except ValueError:
                continue
            changes.append((file, lines))
            break
        else:
            raise ValueError(f"{file}: no lines near {begin + 1} make it the only place")
    return changes


def offences():
    """What is wrong with each mutant whose lines, or whose test, are not in the working tree."""
    found = []
    for mutant in [mutant for folder in FOLDERS for mutant in of_folder(folder)]:
        try:
            apply(mutant)
        except ValueError as error:
            found.append(f"{mutant.name}: {error}")
    for mutant in of_folder("stage"):
        suite, pattern = mutant.head[1].removeprefix("Test: ").split("/")
        paths_of_suite = glob.glob(os.path.join(ROOT, f"ref/**/{suite}_test.c"), recursive=True)
        text = "".join(read_file(path) for path in paths_of_suite)
        if not fnmatch.filter(re.findall(rf"^Test\({suite}, *(\w+)", text, re.M), pattern):
            found.append(f"{mutant.name}: there is no test {suite}/{pattern}")
    return found


def patch(name):
    """A mutant's head, and its changes as a patch. ValueError: there is none, or its lines are not there."""
    for mutant in of_folder(os.path.dirname(name)):
        if mutant.name == name:
            differences = [unified(file, *sides) for file, sides in apply(mutant).items()]
            return "\n".join(mutant.head[1:]) + "\n\n" + "".join(differences)
    raise ValueError("there is no such mutant")
