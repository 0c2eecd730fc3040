# SPDX-License-Identifier: Apache-2.0
"""Judges the configurations of peers.txt by `zerogauge check --level quick`, and holds the verdicts against what is
expected there: python peers.py ZEROGAUGE OUT [NAME...]. The last line is `N passed, N failed, N skipped`."""
import fnmatch
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERDICTS = "PASS", "EQUIVALENT", "BOUNDED", "FAIL", "BROKEN", "UNSUPPORTED"
ROW = "{:24} {:16}" + "".join(f" {{:>{len(verdict)}}}" for verdict in VERDICTS) + " {:>5}"


def read_table():
    lines = [line for line in (HERE / "peers.txt").read_text().splitlines() if line and line[0] != "#"]
    runs = [line.split(None, 3)[1:] for line in lines if line.startswith("run ")]
    expected = [line.split(None, 4)[1:] for line in lines if line.startswith("expect ")]
    cases = [line.split(None, 3)[1:] for line in lines if line.startswith("cases ")]
    programs = [line.split(None, 2)[1:] for line in lines if line.startswith("program ")]
    if len(runs) + len(expected) + len(cases) + len(programs) != len(lines):
        sys.exit("ci/peers: peers.txt: a line is neither `run` nor `expect` nor `cases` nor `program`")
    return runs, expected, cases, programs


def judge(zerogauge, out, claims, command):
    """The records of the report by kind; the report itself and what was printed stay in `out`."""
    shutil.rmtree(out, ignore_errors=True)
    words = command.split()
    at = next(i for i, word in enumerate(words) if word.endswith(".py"))
    line = [zerogauge, "check", "--level", "quick", "--claims", HERE / "claims" / f"{claims}.json", *words[:at],
            "--out", out, "--", sys.executable, HERE / words[at], *words[at + 1:],
            "{cases}", "{answers}", "{world}", "{state}"]
    printed = out.with_suffix(".txt")
    with printed.open("w") as file, subprocess.Popen(line, stdout=file, stderr=subprocess.STDOUT) as process:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            process.terminate()  # it ends the ranks, and then itself
            process.wait()
            raise
    if status in (-signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGINT, 128 + signal.SIGTERM):
        raise KeyboardInterrupt
    records = {}
    report = out / "report.jsonl"
    for text in report.read_text().splitlines() if report.exists() else []:
        record = json.loads(text)
        records.setdefault(record["record"], []).append(record)
    return records, printed


def failures_of(name, records, cases):
    """The requirements that fail only in cases of which a line says so; in lines, patterns that no failure matches; and
    in lines, those that some match."""
    failed = [record for record in records["check"] if record["verdict"] in ("FAIL", "BROKEN") and record["case"]]
    known = [(pattern, why, {record["case"] for record in failed if fnmatch.fnmatch(record["case"], pattern)})
             for of, pattern, why in cases if fnmatch.fnmatch(name, of)]
    told = set().union(*(hits for _, _, hits in known))
    untold = {id for record in failed if record["case"] not in told for id in record["requirements"]}
    explained = {id for record in failed if record["case"] in told for id in record["requirements"]} - untold
    return (explained, [f"no case {pattern} fails: {why}" for pattern, why, hits in known if not hits],
            [f"{pattern} FAIL, {len(hits)} cases: {why}" for pattern, why, hits in known if hits])


def surprises(name, records, expected, cases):
    """What is otherwise than expected, in lines; and in lines what is as expected."""
    end = records["end"][0]
    explained, stale, told = failures_of(name, records, cases)
    verdicts = {record["id"]: record["verdict"] for record in records["requirement"]}
    known = {id: (verdict, why) for pattern, id, verdict, why in expected
             if fnmatch.fnmatch(name, pattern) and id in verdicts}  # a run of some cases has not all
    wrong = [f"{id} is {verdicts[id]}, expected {verdict}: {why}" for id, (verdict, why) in known.items()
             if verdicts[id] != verdict]
    wrong += [f"{id} is {verdict}" for id, verdict in verdicts.items() if verdict in ("FAIL", "BROKEN") and
              id not in known and id not in explained]
    wrong += stale
    wrong += [f"the command: {end['command_text']}"] if end["command_failed"] else []
    wrong += ["nothing was judged"] if end["verdict"] == "NOTHING-JUDGED" else []
    return wrong, told + [f"{id} {verdict}: {why}" for id, (verdict, why) in known.items()
                          if verdicts[id] == verdict]


def ask(zerogauge, out, name, command):
    """Runs a program that judges by itself; whether it is as it should be. What it prints is shown."""
    line = [sys.executable, HERE / command.split()[0], *command.split()[1:], zerogauge, out / name]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        text = process.stdout.read()
    (out / name).with_suffix(".txt").write_text(text)
    print(f"{name:24} {'FAIL' if process.returncode else 'PASS'}")
    print("".join(f"    {line}\n" for line in text.splitlines()), end="", flush=True)
    return process.returncode == 0


def main(zerogauge, out, *names):
    runs, expected, cases, programs = read_table()
    known_names = [name for name, *_ in runs + programs]
    unknown = set(names) - set(known_names)
    if unknown:
        sys.exit(f"ci/peers: no such configuration: {', '.join(sorted(unknown))}; there are {', '.join(known_names)}")
    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, signal.default_int_handler)
    passed = failed = 0
    print(ROW.format("configuration", "verdict", *VERDICTS, "s"), flush=True)
    for name, claims, command in runs:
        if names and name not in names:
            continue
        begin = time.monotonic()
        records, printed = judge(zerogauge, Path(out).resolve() / name, claims, command)
        seconds = f"{time.monotonic() - begin:.0f}"
        if "end" not in records:
            print(f"{name}: no whole report; see {printed}", flush=True)
            failed += 1
            continue
        end = records["end"][0]
        print(ROW.format(name, end["verdict"], *(str(end["requirement_counts"][verdict]) for verdict in VERDICTS),
                         seconds))
        wrong, known = surprises(name, records, expected, cases)
        for mark, lines in ("recipe  ", sorted(records["run"][0]["rules"])), ("expected", known), ("WRONG   ", wrong):
            for line in lines:
                print(f"    {mark} {line}")
        if wrong:
            print(f"    see      {printed}")
        sys.stdout.flush()
        passed, failed = passed + (not wrong), failed + bool(wrong)
    for name, command in programs:
        if not names or name in names:
            right = ask(zerogauge, Path(out).resolve(), name, command)
            passed, failed = passed + right, failed + (not right)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
