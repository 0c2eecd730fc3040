# SPDX-License-Identifier: Apache-2.0
"""Judges releases that shipped a known bug, and a release without it, by the same adapter and cases:

    python time_machine.py ZEROGAUGE OUT [--times N] [NAME...]

The table is releases.txt. A verdict stays in OUT, and is not asked for again until its row changes; an interrupted run
goes on there. OUT/table.md is the table that is printed. The last line is `N passed, N failed, N skipped`; a bug is
skipped whose releases cannot be installed, or answer nothing, with the reason."""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ADAPTERS = HERE / "zerogauge" / "adapters"
CLAIMS = json.loads((ADAPTERS / "claims.json").read_text())
NEEDS = "numpy setuptools wheel ninja hjson msgpack psutil py-cpuinfo pydantic tqdm einops packaging".split()
START_LIMIT_S = 1200  # of importing a release, and of compiling its operators
SERVERS = {}  # processes, by release and tier of offload
STARTING = threading.Lock()
RUNNING = set()  # runs of zerogauge, to end if this process is interrupted


def read_table():
    """Returns the bugs by name."""
    bugs, torch, package = {}, None, None
    for line in (HERE / "releases.txt").read_text().splitlines():
        kind, *words = line.split() or ["#"]
        if kind == "torch" and words:
            torch = words
        elif kind == "package" and words:
            package = words
        elif kind == "bug" and len(words) > 4:
            name, broken, control, requirement, *what = words
            bugs[name] = {"name": name, "torch": torch, "package": package, "broken": broken, "control": control,
                          "requirement": requirement, "what": " ".join(what)}
        elif kind == "run" and len(words) > 4 and words[0] in bugs:
            bugs[words[0]] |= {"claims": words[1], "cases": words[2].split(","), "text": words[3],
                               "adapter": words[4], "options": words[5:]}
        elif not kind.startswith("#"):
            sys.exit(f"ci/time-machine: releases.txt: cannot read {line!r}")
    without = [name for name, bug in bugs.items() if "cases" not in bug]
    if without:
        sys.exit(f"ci/time-machine: releases.txt: no `run` for {', '.join(without)}")
    return bugs


def run(command, log, **options):
    """Raises RuntimeError with the log's name unless the command succeeds."""
    with log.open("w") as file:
        if subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, **options).returncode:
            raise RuntimeError(f"cannot install, see {log}")


def python_of(out, torch):
    """An environment with PyTorch and what releases need, made once. torch: its version, then other packages."""
    folder = out / f"torch-{torch[0]}"
    python, log = folder / "bin" / "python", out / f"torch-{torch[0]}.log"
    if not (folder / "finished").exists():
        run([sys.executable, "-m", "venv", folder], log)
        run([*pip(python), f"torch=={torch[0]}", *NEEDS, *torch[1:]], log)
        (folder / "finished").touch()
    return python


def pip(python):
    return [python, "-m", "pip", "install", "--no-cache-dir", "--no-compile"]


def installed(out, python, package, release):
    """The release's folder, which has the package alone; PyTorch's has nothing. package: its name, then modules that
    are empty in it."""
    folder, log = out / f"{package[0]}-{release}", out / f"{package[0]}-{release}.log"
    if not (folder / "finished").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in package[1:]:
            (folder / f"{name}.py").touch()
        environment = {**os.environ, "DS_BUILD_OPS": "0", "DS_ACCELERATOR": "cpu", "PYTHONPATH": str(folder)}
        if package[0] != "torch":
            options = ["--no-deps", "--no-build-isolation", "--target", folder]
            run([*pip(python), *options, f"{package[0]}=={release}"], log, env=environment)
        (folder / "finished").touch()
    return folder


def environment_of(out, python, folder):
    """A lock among the operators is an interrupted build's, and for ever."""
    extensions = out / f"extensions-{folder.name}"
    for lock in extensions.glob("*/lock"):
        lock.unlink()
    return {**os.environ, "PYTHONPATH": f"{folder}:{HERE}", "TORCH_EXTENSIONS_DIR": str(extensions),
            "PATH": f"{python.parent}:{os.environ['PATH']}", "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1",
            "DS_IGNORE_CUDA_DETECTION": "1", "CCACHE_DISABLE": "1", "CXX": str(HERE / "operators_cxx")}


def started(out, bug, release):
    """Starts one process that imports the release, from which all launches are forked. Returns its name, and the
    environment of launches. Operators are loaded for the tier that --offload names."""
    options = bug["options"]
    tier = options[options.index("--offload"):][:2] if "--offload" in options else []
    python = python_of(out, [release, *bug["torch"][1:]] if bug["package"][0] == "torch" else bug["torch"])
    folder = installed(out, python, bug["package"], release)
    environment = environment_of(out, python, folder)
    name = "-".join([folder.name, f"torch{bug['torch'][0]}", Path(bug["adapter"]).stem, *tier[1:]])
    if name not in SERVERS:
        socket = out / f"{name}.socket"
        socket.unlink(missing_ok=True)
        with (out / f"{name}.log").open("w") as file:
            SERVERS[name] = subprocess.Popen([python, "-m", "zerogauge.warm", "serve", socket, ADAPTERS / bug["adapter"],
                                              *tier], env=environment, stdout=file, stderr=subprocess.STDOUT,
                                             start_new_session=True)
    return name, environment


def launcher(out, name, options):
    """Waits until the server listens. Returns the command that launches."""
    socket, end = out / f"{name}.socket", time.monotonic() + START_LIMIT_S
    while not socket.exists() and SERVERS[name].poll() is None and time.monotonic() < end:
        time.sleep(0.2)
    if not socket.exists():
        raise RuntimeError(f"{name} cannot be imported, see {out / name}.log")
    return [sys.executable, "-S", HERE / "zerogauge/warm.py", "launch", socket, *options]


def stop():
    for process in [*RUNNING, *SERVERS.values()]:
        process.terminate()  # zerogauge then ends its ranks


def check(zerogauge, out, bug, release, report):
    """Runs the bug's cases. Returns the failing checks of its requirement whose text matches."""
    with STARTING:
        name, environment = started(out, bug, release)
    command = launcher(out, name, bug["options"])
    shutil.rmtree(report, ignore_errors=True)
    report.parent.mkdir(exist_ok=True)
    cases = [word for case in bug["cases"] for word in ("--case", case)]
    claims = Path(f"{report}.claims.json")
    claims.write_text(json.dumps(CLAIMS[bug["claims"]]))
    line = [zerogauge, "check", "--level", "full", "--time-limit", "300", "--claims", claims, *cases, "--out", report, "--", *command,
            "{cases}", "{answers}", "{world}", "{state}"]
    with (Path(f"{report}.txt").open("w") as file,
          subprocess.Popen(line, stdout=file, stderr=subprocess.STDOUT, env=environment) as process):
        RUNNING.add(process)
        status = process.wait()
        RUNNING.discard(process)
    if status < 0 or status > 127:
        raise RuntimeError("interrupted")
    path = report / "report.jsonl"
    records = [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []
    if not records or records[-1]["record"] != "end" or not records[-1]["case_counts"]["answered"]:
        raise RuntimeError(f"{name} answers nothing: {records[-1]['command_text'] if records else report}")
    late = [record["text"] for record in records if "timed out" in str(record.get("text"))]
    if late:
        raise RuntimeError(f"{name}: {late[0]}")
    return [record for record in records if record["record"] == "check" and record["verdict"] in ("FAIL", "BROKEN") and
            bug["requirement"] in record["requirements"] and re.search(bug["text"], record["text"].replace(" ", "_"))]


def judged(zerogauge, out, bug, release, number):
    """Returns what check() returns, from an earlier run if the row is the same; or a line that says why there is
    nothing."""
    report = out / "results" / f"{bug['name']}-{release}-{number}"
    path, row = Path(f"{report}.json"), {key: bug[key] for key in bug if key != "what"}
    if path.exists():
        kept = json.loads(path.read_text())
        if kept["row"] == row:
            return kept["found"]
    try:
        found = check(zerogauge, out, bug, release, report)
    except RuntimeError as error:
        return str(error)
    path.write_text(json.dumps({"row": row, "found": found}))
    return found


def shortened(text):
    """The first wrong quantity of a check, with its error in roundings and the limit; or the text's beginning."""
    wrong = re.search(r"(\w+) (\S+) (\(\d+\)) at ", text)
    text = re.sub(r"^the command exited with status \d+: ", "BROKEN: ", re.sub(r"/\S*/", "", text).replace("|", " "))
    return f"{wrong[1]} is off by {wrong[2]} roundings {wrong[3]}" if wrong else textwrap.shorten(text, 120)


def row_of(bug, with_bug, without):
    """A row of the table; with_bug, without: what each of the repeated runs found."""
    first = with_bug[0][0] if with_bug[0] and isinstance(with_bug[0], list) else None
    cases = sorted({check["case"] for check in with_bug[0]}) if first else []
    seen = f"`{cases[0]}`" + f" and {len(cases) - 1} more" * (len(cases) > 1) if first else "not found"
    control = "not run" if isinstance(without[0], str) else "reported, too" if any(without) else "right"
    return (f"| {bug['what']} | {bug['package'][0]} {bug['broken']} | {bug['requirement']}, {seen} | "
            f"{shortened(first['text']) if first else ''} | {first['hint'] or '' if first else ''} | "
            f"{bug['control']}: {control} |")


def judge_all(zerogauge, out, bugs, times):
    """Judges the bugs, as many at a time as there are processors, and prints the results in the order of the table.
    Returns rows of the table, and how many bugs were found in their release alone, how many not, and how many have no
    verdict."""
    rows, counts = [], [0, 0, 0]
    with ThreadPoolExecutor(os.cpu_count() + 1) as pool:
        try:
            futures = [[pool.submit(judged, zerogauge, out, bug, bug[which], number)
                        for which in ("broken", "control") for number in range(times)] for bug in bugs]
            for bug, results in zip(bugs, ([future.result() for future in each] for each in futures)):
                with_bug, without = results[:times], results[times:]
                reason = next((found for found in results if isinstance(found, str)), None)
                right = all(with_bug) and not any(without)
                counts[2 if reason else 0 if right else 1] += 1
                rows.append(row_of(bug, with_bug, without))
                print("SKIP" if reason else "PASS" if right else "FAIL", bug["name"], reason or rows[-1], flush=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
    return rows, counts


def main():
    parser = argparse.ArgumentParser(prog="ci/time-machine")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("zerogauge")
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*")
    arguments, bugs = parser.parse_args(), read_table()
    unknown = set(arguments.names) - set(bugs)
    if unknown:
        sys.exit(f"ci/time-machine: no such bug: {', '.join(sorted(unknown))}; there are {', '.join(bugs)}")
    out = arguments.out.resolve()
    rows, counts = judge_all(arguments.zerogauge, out, [bugs[name] for name in arguments.names or bugs],
                             arguments.times)
    table = "\n".join(["| bug | release | requirement and case | what the suite says | hint | without it |",
                       "| --- | --- | --- | --- | --- | --- |", *rows])
    (out / "table.md").write_text(table + "\n")
    print(table, "{} passed, {} failed, {} skipped".format(*counts), sep="\n")
    return 77 if counts[2] == sum(counts) else counts[1] > 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
