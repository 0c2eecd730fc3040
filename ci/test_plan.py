#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""For ci/test: which tests of a configured build run, and what they were.

  ci/test_plan.py choose BUILD LABEL EVERY    every EVERYth program that has tests with the label (-LABEL: without it;
                                              "" any), from one that ci/sample chooses; the tests' numbers go to
                                              BUILD/ctest.numbers, the programs' names to the output
  ci/test_plan.py report BUILD PRESET         what ctest wrote to BUILD/ctest.xml: why tests were skipped; each failed
                                              one's output in build/last-failure/PRESET.NAME.txt; and last
                                              "N passed, N failed, N skipped"
"""
import collections
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

from usage import answer

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAILURES = ROOT / "build/last-failure"


def labels_of(test):
    return next((p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"), [])


def is_wanted(test, label):
    if label.startswith("-"):
        return label[1:] not in labels_of(test)
    return not label or label in labels_of(test)


def choose(build, label, every):
    # ctest numbers tests from 1, in this order. A test's program, which is not built yet, is one of its labels.
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True,
                            text=True).stdout
    programs = collections.defaultdict(list)
    for number, test in enumerate(json.loads(listed)["tests"], 1):
        if is_wanted(test, label):
            programs[next(name for name in labels_of(test) if name.endswith("_test"))].append(number)
    chosen = subprocess.run([ROOT / "ci/sample", every, *sorted(programs)], check=True, capture_output=True,
                            text=True).stdout.split()
    numbers = sorted(number for name in chosen for number in programs[name])
    pathlib.Path(build, "ctest.numbers").write_text(",".join(["0", "0", "0", *map(str, numbers)]) + "\n")
    print("\n".join(chosen))


def said_by(case):
    """ctest keeps what XML cannot have as a character that it can."""
    return case.findtext("system-out") or ""


def report(build, preset):
    FAILURES.mkdir(parents=True, exist_ok=True)
    for old in FAILURES.glob(f"{preset}.*.txt"):
        old.unlink()
    counts, reasons = collections.Counter(), collections.Counter()
    for case in xml.parse(pathlib.Path(build, "ctest.xml")).getroot().iter("testcase"):
        status = {"run": "passed", "notrun": "skipped", "disabled": "skipped"}.get(case.get("status"), "failed")
        reason = re.search("TEST SKIPPED: .*", said_by(case))
        if status == "skipped" and not reason:
            status = "failed"  # a program that is not there is no skipped test
        counts[status] += 1
        if status == "skipped":
            reasons[reason.group()] += 1
        elif status == "failed":
            why = case.find("failure")
            why = why.get("message", "") if why is not None else case.get("status")
            file = FAILURES / f"{preset}.{case.get('name')}.txt"
            seconds = float(case.get('time', 0))
            file.write_text(f"{case.get('name')}: {why or 'failed'}, {seconds:.1f} s\n{said_by(case)}")
            print(f"FAILED: {case.get('name')}: {why or 'failed'}: {file.relative_to(ROOT)}")
    for reason, count in sorted(reasons.items()):
        print(f"{count:7} {reason}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")


if __name__ == "__main__":
    answer(__doc__)
    if len(sys.argv) == 5 and sys.argv[1] == "choose":
        choose(*sys.argv[2:])
    elif len(sys.argv) == 4 and sys.argv[1] == "report":
        report(*sys.argv[2:])
    else:
        sys.exit(__doc__)
