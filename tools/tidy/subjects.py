#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Subjects of commits have at most SUBJECT characters, so that a line of `git log --oneline` shows each whole: in all
commits since the one that added this check. Without that one, as in an archive or a shallow clone, it is skipped."""
import subprocess
import sys

from common import tree_of_arguments

SUBJECT = 72
OWN = "tools/tidy/subjects.py"


def git(root, *words):
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def main():
    root = tree_of_arguments().root
    # The oldest, if it was ever moved away and back. A shallow clone's first commit seems to add everything.
    added = git(root, "log", "--diff-filter=A", "--format=%H", "--", OWN)
    if not added or git(root, "rev-parse", "--is-shallow-repository") != ["false"]:
        print("SKIP: subjects: there is no history since the commit that added this check")
        return
    commits = [row.split(" ", 1) for row in git(root, "log", "--format=%h %s", f"{added[-1]}..HEAD")]
    offences = [(commit, text) for commit, text in commits if len(text) > SUBJECT]
    for commit, text in offences:
        print(f"a subject of {len(text)} characters, more than {SUBJECT}: {commit} {text}")
    print(f"subjects: {len(offences)} offences in {len(commits)} commits")
    sys.exit(1 if offences else 0)


main()
