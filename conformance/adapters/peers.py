# SPDX-License-Identifier: Apache-2.0
"""Judges the configurations of peers.txt with `zerogauge check --level quick`, and compares the verdicts with those
expected there: python peers.py ZEROGAUGE OUT [NAME...|--sample|--publish NAME...]. Runs one configuration per processor
at a time, from processes that have already imported their packages (warm.py). The last line is `N passed, N failed, N
skipped`. --publish: writes the verdicts to PUBLISHED, too."""
import fnmatch
import importlib.util
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
ADAPTERS = HERE / "zerogauge" / "adapters"
CLAIMS = json.loads((ADAPTERS / "claims.json").read_text())
# The version whose deviations peers.txt explains; ZG_PEERS_SUITE_VERSION=2 judges by the newest cases.
SUITE_VERSION = os.environ.get("ZG_PEERS_SUITE_VERSION", "1")
VERDICTS = "PASS", "EQUIVALENT", "BOUNDED", "PARTLY", "FAIL", "BROKEN", "UNSUPPORTED"
EXPECTED = set()  # configurations whose verdicts are as expected
RUNNING = set()  # processes to end if this one is interrupted
PUBLISHED = HERE.parents[1] / "results/implementations.json"
ROW = "{:24} {:18}" + "".join(f" {{:>{len(verdict)}}}" for verdict in VERDICTS) + " {:>5}"


def read_table():
    lines = [line for line in (HERE / "peers.txt").read_text().splitlines() if line and line[0] != "#"]
    runs = [line.split(None, 3)[1:] for line in lines if line.startswith("run ")]
    expected = [line.split(None, 4)[1:] for line in lines if line.startswith("expect ")]
    cases = [line.split(None, 3)[1:] for line in lines if line.startswith("cases ")]
    programs = [line.split(None, 2)[1:] for line in lines if line.startswith("program ")]
    needs = [line.split(None, 3)[1:] for line in lines if line.startswith("needs ")]
    if len(runs) + len(expected) + len(cases) + len(programs) + len(needs) != len(lines):
        sys.exit("ci/peers: peers.txt: a line is neither `run` nor `expect` nor `cases` nor `program` nor `needs`")
    return runs, expected, cases, programs, needs


def parts_of(command):
    """Splits a command into the options of `zerogauge check`, the adapter, and the adapter's options."""
    words = command.split()
    at = next(i for i, word in enumerate(words) if word.endswith(".py"))
    return words[:at], words[at], words[at + 1:]


def expectations_of(name, suite_version, expected, cases):
    """The file of `check --expect` for a configuration: the table's lines for it, without its name."""
    of_requirement = {id: f"expect {id} {verdict} {why}" for pattern, id, verdict, why in expected
                      if fnmatch.fnmatch(name, pattern)}
    of_cases = [f"cases {pattern} {why}" for of, pattern, why in cases if fnmatch.fnmatch(name, of)]
    return "\n".join([f"suite {suite_version}", *of_requirement.values(), *of_cases, ""])


def judge(zerogauge, out, claims, command, sockets, rules):
    """Returns the report's records by kind, the file with the output, and whether all is as expected. The report stays
    in `out`."""
    shutil.rmtree(out, ignore_errors=True)
    check_options, adapter, options = parts_of(command)
    launch = [sys.executable, "-S", HERE / "zerogauge/warm.py", "launch", f"{sockets}/{adapter}", *options]
    path, expected = out.with_suffix(".claims.json"), out.with_suffix(".expected")
    path.write_bytes(subprocess.run([*launch, "--claims"], stdout=subprocess.PIPE, check=True).stdout if claims == "-"
                     else json.dumps(CLAIMS[claims]).encode())
    of_options = "--suite-version" in check_options
    suite_version = check_options[check_options.index("--suite-version") + 1] if of_options else SUITE_VERSION
    expected.write_text(expectations_of(out.name, suite_version, *rules))
    line = [zerogauge, "check", "--level", "quick", "--claims", path, "--time-limit", "300", *check_options, "--out", out,
            "--expect", expected, "--", *launch, "{cases}", "{answers}", "{world}", "{state}"]
    printed = out.with_suffix(".txt")
    with printed.open("w") as file, subprocess.Popen(line, stdout=file, stderr=subprocess.STDOUT) as process:
        RUNNING.add(process)
        status = process.wait()
        RUNNING.discard(process)
    records = {}
    report = out / "report.jsonl"
    for text in report.read_text().splitlines() if report.exists() else []:
        record = json.loads(text)
        records.setdefault(record["record"], []).append(record)
    return records, printed, status == 0


def judged(zerogauge, out, sockets, expected, cases, name, claims, command):
    """Runs a configuration. Returns whether it is as expected, and the lines to print."""
    begin, again = time.monotonic(), []
    setting = zerogauge, out / name, claims, command, sockets, (expected, cases)
    records, printed, right = judge(*setting)
    if "end" in records and records["end"][0]["command_failed"]:  # once more: some crashes are not reproducible
        again = [f"    AGAIN    {records['end'][0]['command_text']}"]
        records, printed, right = judge(*setting)
    if "end" not in records:
        return False, [f"{name}: the report is incomplete; see {printed}"]
    end = records["end"][0]
    if right:
        EXPECTED.add(name)
    verdict = end["verdict"] + (", as expected" if end["verdict"] == "FAILS" and right else "")
    lines = [ROW.format(name, verdict, *(str(end["requirement_counts"][verdict]) for verdict in VERDICTS),
                        f"{time.monotonic() - begin:.0f}"), *again]
    lines += [f"    recipe   {rule}" for rule in sorted(records["run"][0]["rules"])]
    lines += ["  " + line for line in printed.read_text().partition("\nCompared with ")[2].splitlines()[1:-1]]
    return right, lines + ([] if right else [f"    see      {printed}"])


def asked(zerogauge, out, name, command):
    """Runs a program that judges itself. Returns as judged()."""
    line = [sys.executable, ADAPTERS / command.split()[0], *command.split()[1:], zerogauge, out / name]
    found = {**os.environ, "PYTHONPATH": str(ADAPTERS.parents[1])}
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=found) as process:
        RUNNING.add(process)
        text = process.communicate()[0]
        RUNNING.discard(process)
    (out / name).with_suffix(".txt").write_text(text)
    return process.returncode == 0, [f"{name:24} {'FAIL' if process.returncode else 'PASS'}",
                                     *(f"    {line}" for line in text.splitlines())]


def serve(sockets, runs):
    """Starts one process per adapter; all launches of the adapter are forked from it."""
    options = {}
    for _, _, command in runs:
        _, adapter, words = parts_of(command)
        options.setdefault(adapter, []).extend(words)
    for adapter, words in options.items():
        RUNNING.add(subprocess.Popen([sys.executable, "-m", "zerogauge.warm", "serve", f"{sockets}/{adapter}",
                                      ADAPTERS / adapter, *words], cwd=HERE))
    servers = list(RUNNING)
    while not all(os.path.exists(f"{sockets}/{adapter}") for adapter in options):
        if any(server.poll() is not None for server in servers):
            sys.exit("ci/peers: an adapter cannot be imported")
        time.sleep(0.1)


def judge_all(zerogauge, out, runs, programs, rules):
    """Prints the results in the order of the table. Returns how many configurations are as expected, and how many are
    not."""
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
                process.terminate()  # a run then ends its ranks
    return passed, failed


def publish(out, names):
    """Puts the verdicts of these configurations into PUBLISHED, in place of earlier ones. Returns how many have asked
    all cases of their level."""
    rows = json.loads(PUBLISHED.read_text()) if PUBLISHED.exists() else []
    known = {row["release"].partition(":")[0]: row for row in rows}
    whole = 0
    for name in names:
        report = out / name / "report.jsonl"
        records = [json.loads(line) for line in report.read_text().splitlines()]
        if records[0]["part"]:
            print(f"{name}: not published: it is asked only {records[0]['part']}")
            continue
        run, whole = records[0], whole + 1
        version = run["suite"]["build"]["edition"]
        known[name] = {"release": f"{name}: {run['implementation']}, {run['version']}, suite version {version}",
                       "started": time.strftime("%FT%TZ", time.gmtime(report.stat().st_mtime)), "suite_version": version,
                       "verdicts": {r["id"]: r["verdict"] for r in records if r["record"] == "requirement"}}
    lines = ",\n".join(json.dumps(known[name], separators=(",", ":")) for name in sorted(known))
    PUBLISHED.write_text(f"[{lines}]\n")
    return whole


def main(zerogauge, out, *names):
    runs, expected, cases, programs, needs = read_table()
    publishes = names[:1] == ("--publish",)
    if publishes:
        names, programs = names[1:], []
    known_names = [name for name, *_ in runs + programs]
    if names == ("--sample",):
        names = known_names[int(subprocess.check_output([HERE.parents[1] / "ci/sample", "8"]))::8]
    unknown = set(names) - set(known_names)
    if unknown:
        sys.exit(f"ci/peers: no such configuration: {', '.join(sorted(unknown))}; there are {', '.join(known_names)}")
    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, signal.default_int_handler)
    if names:
        runs, programs = ([row for row in rows if row[0] in names] for rows in (runs, programs))
    print(ROW.format("configuration", "verdict", *VERDICTS, "s"), flush=True)
    missing = {name: how for name, module, how in needs if not importlib.util.find_spec(module)}
    skipped = [name for name, *_ in runs if name in missing]
    for name in skipped:
        print(f"{name:24} SKIP: {missing[name]}", flush=True)
    runs = [row for row in runs if row[0] not in missing]
    passed, failed = judge_all(zerogauge, Path(out).resolve(), runs, programs, (expected, cases))
    if publishes:
        whole = publish(Path(out).resolve(), [name for name, *_ in runs if name in EXPECTED])
        passed, failed = whole, passed + failed - whole
    print(f"{passed} passed, {failed} failed, {len(skipped)} skipped")
    return 77 if skipped and not passed + failed else failed > 0 or passed == 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
