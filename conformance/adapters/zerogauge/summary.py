# SPDX-License-Identifier: Apache-2.0
"""python -m zerogauge.summary FOLDER: a run's verdicts in Markdown, of the folder of `zerogauge check --out`. A job's
summary shows it."""
import json
import sys
from pathlib import Path


def cell(text):
    """Foreign text as a cell of a table: no markup, no line of its own."""
    escaped = "".join(f"&#{ord(character)};" if character in "\\`*_{}[]<>()#+-!|&~" else character for character in text)
    return " ".join(escaped.split())


def main(folder):
    path = Path(folder) / "report.jsonl"
    if not path.exists():
        print(f"No report: {cell(str(path))} is not there. The job's output says why.")
        return
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    run = next(record for record in records if record["record"] == "run")
    end = next((record for record in records if record["record"] == "end"), None)
    verdict = end["verdict"] if end else "INCOMPLETE: the run did not end"
    print(f"## {cell(run['implementation'])} {cell(run['version'])}: {verdict}\n")
    if end:
        print(", ".join(f"{count} {name}" for name, count in end["requirement_counts"].items() if count), end="\n\n")
    bad = [record for record in records if record["record"] == "requirement" and record["verdict"] in ("FAIL", "BROKEN")]
    if bad:
        print("| requirement | verdict | says |\n| --- | --- | --- |")
    for record in bad:
        print(f"| {record['id']} | {record['verdict']} | {cell(record['title'])} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
