# SPDX-License-Identifier: Apache-2.0
"""Judges the configurations of peers.txt by `zerogauge check --level quick`, and holds the verdicts against what is
expected there: python peers.py ZEROGAUGE OUT [NAME...]. As many run at a time as there are processors, from processes
that have their packages imported (warm.py). The last line is `N passed, N failed, N skipped`."""
import fnmatch
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERDICTS = "PASS", "EQUIVALENT", "BOUNDED", "FAIL", "BROKEN", "UNSUPPORTED"
RUNNING = set()  # processes, to be ended where this one is interrupted
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


def parts_of(command):
    """Options of `zerogauge check`, the adapter, and its options."""
    words = command.split()
    at = next(i for i, word in enumerate(words) if word.endswith(".py"))
    return words[:at], words[at], words[at + 1:]


def judge(zerogauge, out, claims, command, sockets):
    """The records of the report by kind; the report itself and what was printed stay in `out`."""
    shutil.rmtree(out, ignore_errors=True)
    check_options, adapter, options = parts_of(command)
    line = [zerogauge, "check", "--level", "quick", "--claims", HERE / "claims" / f"{claims}.json", *check_options,
            "--out", out, "--", sys.executable, "-S", HERE / "warm.py", "launch", f"{sockets}/{adapter}", *options,
            "{cases}", "{answers}", "{world}", "{state}"]
    printed = out.with_suffix(".txt")
    with printed.open("w") as file, subprocess.Popen(line, stdout=file, stderr=subprocess.STDOUT) as process:
        RUNNING.add(process)
        process.wait()
        RUNNING.discard(process)
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


def judged(zerogauge, out, sockets, expected, cases, name, claims, command):
    """Runs a configuration; whether it is as it should be, and what is to be printed of it."""
    begin, again = time.monotonic(), []
    records, printed = judge(zerogauge, out / name, claims, command, sockets)
    if "end" in records and records["end"][0]["command_failed"]:  # once more: a crash need not be one of every run
        again = [f"    AGAIN    {records['end'][0]['command_text']}"]
        records, printed = judge(zerogauge, out / name, claims, command, sockets)
    if "end" not in records:
        return False, [f"{name}: no whole report; see {printed}"]
    end = records["end"][0]
    lines = [ROW.format(name, end["verdict"], *(str(end["requirement_counts"][verdict]) for verdict in VERDICTS),
                        f"{time.monotonic() - begin:.0f}"), *again]
    wrong, known = surprises(name, records, expected, cases)
    for mark, texts in ("recipe  ", sorted(records["run"][0]["rules"])), ("expected", known), ("WRONG   ", wrong):
        lines += [f"    {mark} {text}" for text in texts]
    return not wrong, lines + ([f"    see      {printed}"] if wrong else [])


def asked(zerogauge, out, name, command):
    """Runs a program that judges by itself; the same."""
    line = [sys.executable, HERE / command.split()[0], *command.split()[1:], zerogauge, out / name]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        RUNNING.add(process)
        text = process.communicate()[0]
        RUNNING.discard(process)
    (out / name).with_suffix(".txt").write_text(text)
    return process.returncode == 0, [f"{name:24} {'FAIL' if process.returncode else 'PASS'}",
                                     *(f"    {line}" for line in text.splitlines())]


def serve(sockets, runs):
    """Starts a process for each adapter that its launches are forked from."""
    options = {}
    for _, _, command in runs:
        _, adapter, words = parts_of(command)
        options.setdefault(adapter, []).extend(words)
    for adapter, words in options.items():
        RUNNING.add(subprocess.Popen([sys.executable, HERE / "warm.py", "serve", f"{sockets}/{adapter}",
                                      HERE / adapter, *words]))
    servers = list(RUNNING)
    while not all(os.path.exists(f"{sockets}/{adapter}") for adapter in options):
        if any(server.poll() is not None for server in servers):
            sys.exit("ci/peers: an adapter cannot be imported")
        time.sleep(0.1)


def judge_all(zerogauge, out, runs, programs, rules):
    """Prints what came out, in the order of the table; how many were as they should be, and how many not."""
    passed = failed = 0
    with tempfile.TemporaryDirectory() as sockets, ThreadPoolExecutor(os.cpu_count() + 1) as pool:
        try:
            serve(sockets, runs)
            results = [pool.submit(judged, zerogauge, out, sockets, *rules, *run) for run in runs]
            results += [pool.submit(asked, zerogauge, out, *program) for program in programs]
            for result in results:
                right, lines = result.result()
                print("\n".join(lines), flush=True)
                passed, failed = passed + right, failed + (not right)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(RUNNING):
                process.terminate()  # a run ends its ranks, and then itself
    return passed, failed


def main(zerogauge, out, *names):
    runs, expected, cases, programs = read_table()
    known_names = [name for name, *_ in runs + programs]
    unknown = set(names) - set(known_names)
    if unknown:
        sys.exit(f"ci/peers: no such configuration: {', '.join(sorted(unknown))}; there are {', '.join(known_names)}")
    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, signal.default_int_handler)
    if names:
        runs, programs = ([row for row in rows if row[0] in names] for rows in (runs, programs))
    print(ROW.format("configuration", "verdict", *VERDICTS, "s"), flush=True)
    passed, failed = judge_all(zerogauge, Path(out).resolve(), runs, programs, (expected, cases))
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
