# SPDX-License-Identifier: Apache-2.0
"""Rewrites the names of mutants in equivalent.txt and GENERIC.md after files moved or identifiers changed.

A mutant's name holds its file and its line of source. A mechanical change of the sources (a move, a formatter, renamed
identifiers) leaves the mutants of a file as many, in the same order and of the same kinds, so the n-th of the old file
is the n-th of the new one."""
import os
import re
import subprocess

import mutate_source

PATH = re.compile(r"(?<![\w/])ref/[\w/]+\.(?:c|h)\b")


def git(root, *words):
    return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout


def renames(root, revision):
    """New paths by old path."""
    rows = git(root, "diff", "--find-renames=40%", "-l0", "--diff-filter=R", "--name-status", revision).splitlines()
    return {old: new for _, old, new in (row.split("\t") for row in rows)}


def new_names(root, revision, old, new):
    """The names of a file's mutants in the working tree, by their names at the revision; {} if they do not match."""
    before = mutate_source.Source(old, git(root, "show", f"{revision}:{old}")).mutants()
    after = mutate_source.mutants_of(root, new)
    if [m.kind for m in before] != [m.kind for m in after]:
        there = {m.key for m in after}
        kept = {m.key: new + m.key[len(old):] for m in before}
        return {key: name for key, name in kept.items() if name in there}
    return {b.key: a.key for b, a in zip(before, after)}


def rewrite(root, path, revision, moved):
    """Returns the names in the file at `path` that could not be followed."""
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    files = {file for file in PATH.findall(text) if os.path.exists(f"{root}/{moved.get(file, file)}")
             and git(root, "ls-tree", "--name-only", revision, file)}
    known, lost, lines = {}, [], []
    for file in files:
        known.update(new_names(root, revision, file, moved.get(file, file)))
    for line in text.splitlines():
        name = re.fullmatch(r"(- `)?(ref/\S+: .*?)(`(?:: `\w+`)?)?", line)
        if name and name[2] in known:
            line = (name[1] or "") + known[name[2]] + (name[3] or "")
        elif name:
            lost.append(name[2])
        lines.append(line if name and name[2] in known else PATH.sub(lambda m: moved.get(m[0], m[0]), line))
    with open(path, "w", encoding="utf-8") as stream:
        stream.write("\n".join(lines) + "\n")
    return lost


def follow(root, revision, pairs):
    """Returns the exit status: 1 if names are left for a reader to correct. `pairs`: OLD=NEW, besides git's renames."""
    moved, lost = renames(root, revision) | dict(pair.split("=") for pair in pairs), []
    for file in ("equivalent.txt", "GENERIC.md"):
        lost += [f"{file}: {name}" for name in rewrite(root, f"{root}/conformance/mutants/{file}", revision, moved)]
    for name in lost:
        print(f"not found at {revision}, or changed since: {name}")
    return 1 if lost else 0
