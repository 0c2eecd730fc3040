#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How large a folder may be: rows `FOLDER PRODUCTION TESTS SCRIPTS DOCS FILES` of budget.txt, the first four of them
lines, for each folder at the top and `.` for the files next to them.

Production is C and CUDA that is no test (common.is_test), scripts are shell and Python, docs are Markdown; other files
are only counted. `tools/tidy/budget.py --tighten` lowers each row to what its folder has. Prints the totals, and what
says how much a reader meets: the reading order, the fields of struct stage, ZeRO in one file."""
import os
import re
import sys

from common import C_SUFFIXES, code_of, is_script, is_test, line_of, tree_of_arguments

KINDS = ("production", "tests", "scripts", "docs", "files")
# Budgets of lines are multiples of it, so that only growth that somebody decides on is a change of a row.
STEP = 100
READING, STAGE, ONE_FILE = "docs/reading.md", "ref/stage/stage.h", "ref/one_file/zero.c"


def kind_of(tree, name):
    if name.endswith(C_SUFFIXES):
        return "tests" if is_test(name) else "production"
    return "docs" if name.endswith(".md") else "scripts" if is_script(tree, name) else None


def lines(tree, name):
    return len(tree.text(name).splitlines())


def count(tree):
    """Counts of each kind, by folder."""
    counts = {}
    for name in tree.files:
        folder = name.split("/")[0] if "/" in name else "."
        row = counts.setdefault(folder, dict.fromkeys(KINDS, 0))
        kind = kind_of(tree, name)
        row["files"] += 1
        if kind:
            row[kind] += lines(tree, name)
    return counts


def read_budgets(tree):
    budgets = {}
    for number, row in tree.rows("budget.txt"):
        fields = row.split()
        if len(fields) != 1 + len(KINDS) or not all(field.isdigit() for field in fields[1:]):
            tree.offence("tools/tidy/budget.txt", number, "is not FOLDER " + " ".join(KINDS).upper())
        else:
            budgets[fields[0]] = (number, dict(zip(KINDS, map(int, fields[1:]))))
    return budgets


def check(tree, counts, budgets):
    for folder, row in counts.items():
        number, budget = budgets.get(folder, (1, None))
        if budget is None:
            tree.offence("tools/tidy/budget.txt", number, f"{folder} has no row")
            continue
        for kind in KINDS:
            if row[kind] > budget[kind]:
                what = "files" if kind == "files" else f"lines of {kind}"
                tree.offence("tools/tidy/budget.txt", number,
                             f"{folder} has {row[kind]} {what}, more than {budget[kind]}")
    for folder, (number, _) in budgets.items():
        if folder not in counts:
            tree.offence("tools/tidy/budget.txt", number, f"{folder} is no folder")


def tighten(tree, counts):
    """Rewrites the rows; a folder without one gets none."""
    path = os.path.join(tree.root, "tools/tidy/budget.txt")
    budgets = {number: (folder, budget) for folder, (number, budget) in read_budgets(tree).items()}
    rows = []
    for number, text in enumerate(tree.text("tools/tidy/budget.txt").splitlines(), 1):
        folder, budget = budgets.get(number, (None, None))
        if folder in counts:
            has = {kind: n if kind == "files" else -(-n // STEP) * STEP for kind, n in counts[folder].items()}
            text = f"{folder:<13}" + "".join(f"{min(has[kind], budget[kind]):12}" for kind in KINDS)
        if folder is None or folder in counts:
            rows.append(text)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write("\n".join(rows) + "\n")


def say_totals(tree, counts):
    totals = [f"{sum(row[kind] for row in counts.values())} {kind}" for kind in KINDS]
    print("budget: lines of C, scripts and Markdown, and files: " + ", ".join(totals))
    if {READING, STAGE, ONE_FILE} <= set(tree.files):
        reading = re.findall(r"^\| \d+ \| `([^`]+)` \|", tree.text(READING), re.M)
        fields = re.search(r"^struct stage \{(.*?)^\};", code_of(tree.text(STAGE)), re.M | re.S)
        names = sum(part.count(",") + 1 for part in fields.group(1).split(";")[:-1]) if fields else 0
        stages = re.search(r"^// -+ .*\bstages?\b", tree.text(ONE_FILE), re.M | re.I)
        first = line_of(tree.text(ONE_FILE), stages.start()) if stages else "?"
        total = sum(lines(tree, name) for name in reading if name in tree.files)
        print(f"budget: reading order {total} lines of {len(reading)} files; struct stage {names} fields; {ONE_FILE} "
              f"{lines(tree, ONE_FILE)} lines, its stages from line {first}")


def main():
    tighter = "--tighten" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--tighten"]
    tree = tree_of_arguments()
    counts = count(tree)
    if tighter:
        tighten(tree, counts)
        return
    check(tree, counts, read_budgets(tree))
    say_totals(tree, counts)
    tree.end("budget")


main()
