# SPDX-License-Identifier: Apache-2.0
"""Judges releases of DeepSpeed that shipped a known bug, and a release without it, by the same adapter, three times:
python time_machine.py ZEROGAUGE OUT [NAME...]. The table is releases.txt. The last line is `N passed, N failed, N
skipped`; a bug is skipped whose releases cannot be installed or imported, with the reason."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIMES = 3
NEEDS = "numpy setuptools ninja hjson msgpack psutil py-cpuinfo pydantic tqdm einops packaging".split()


def read_table():
    keys = "name", "broken", "control", "torch", "adapter", "claims", "cases", "requirement", "text"
    lines = [line.split() for line in (HERE / "releases.txt").read_text().splitlines() if line and line[0] != "#"]
    if any(len(line) != len(keys) + 1 or line[0] != "bug" for line in lines):
        sys.exit(f"ci/time-machine: releases.txt: a line is not `bug {' '.join(keys).upper()}`")
    return [dict(zip(keys, line[1:])) for line in lines]


def run(command, log, **options):
    """Returns whether the command succeeds; its output is in `log`."""
    with log.open("w") as file:
        return subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, **options).returncode == 0


def installed(out, torch, release):
    """Returns the Python that imports the release, and its folder; or None, and why not. A PyTorch has an environment,
    in which each release of DeepSpeed is a folder of its own."""
    home, folder = out / f"torch-{torch}", out / f"deepspeed-{release}"
    python, log = home / "bin" / "python", out / f"deepspeed-{release}.log"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--no-cache-dir", "--no-compile"]
    if not (home / "finished").exists():
        if not (run([sys.executable, "-m", "venv", home], log) and run([*pip, f"torch=={torch}", *NEEDS], log)):
            return None, f"PyTorch {torch} cannot be installed: {log}"
        (home / "finished").touch()
    if not (folder / "deepspeed").exists() and not run(
            [*pip, "--no-deps", "--no-build-isolation", "--target", folder, f"deepspeed=={release}"], log,
            env={**os.environ, "DS_BUILD_OPS": "0", "DS_ACCELERATOR": "cpu"}):
        return None, f"DeepSpeed {release} cannot be installed: {log}"
    return python, folder


def judge(zerogauge, out, bug, release):
    """Returns the failing checks of the bug's requirement whose text matches, or a line that says why there are none to
    be had."""
    python, folder = installed(out, bug["torch"], release)
    if python is None:
        return folder
    report, home = out / f"{bug['name']}-{release}", HERE / "zerogauge" / "adapters"
    line = [zerogauge, "check", "--level", "quick", "--claims", home / "claims" / f"{bug['claims']}.json",
            "--case", bug["cases"], "--out", report, "--", python, home / bug["adapter"],
            "{cases}", "{answers}", "{world}", "{state}"]
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{HERE}", "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1",
                   "TORCH_EXTENSIONS_DIR": str(out / f"extensions-{release}")}
    subprocess.run(["rm", "-rf", report], check=True)
    run(line, Path(f"{report}.txt"), env=environment)
    path = report / "report.jsonl"
    records = [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []
    end = [record for record in records if record["record"] == "end"]
    if not end or end[0]["command_failed"] or not end[0]["case_counts"]["answered"]:
        return f"DeepSpeed {release} answers nothing: {end[0]['command_text'] if end else f'{report}.txt'}"
    return [record for record in records if record["record"] == "check" and record["verdict"] == "FAIL" and
            bug["requirement"] in record["requirements"] and re.search(bug["text"], record["text"].replace(" ", "_"))]


def main(zerogauge, out, *names):
    out, counts, bugs = Path(out).resolve(), [0, 0, 0], read_table()
    unknown = set(names) - {bug["name"] for bug in bugs}
    if unknown:
        sys.exit(f"ci/time-machine: no such bug: {', '.join(sorted(unknown))}")
    for bug in (bug for bug in bugs if not names or bug["name"] in names):
        for release, buggy in (bug["broken"], True), (bug["control"], False):
            found = [judge(zerogauge, out, bug, release) for _ in range(TIMES)]
            reason = next((checks for checks in found if isinstance(checks, str)), None)
            right = reason is None and all(bool(checks) == buggy for checks in found)
            counts[2 if reason else 0 if right else 1] += 1
            seen = reason or (f"{bug['requirement']} fails in {', '.join(sorted({c['case'] for c in found[0]}))}"
                              if found[0] else f"{bug['requirement']}: not found")
            print(f"{'SKIP' if reason else 'PASS' if right else 'FAIL'} {bug['name']}: DeepSpeed {release}, "
                  f"{'with' if buggy else 'without'} the bug: {seen}", flush=True)
            if reason is None and found[0]:
                print(f"     {found[0][0]['text']}", flush=True)
    print("{} passed, {} failed, {} skipped".format(*counts))
    return 77 if counts[2] == sum(counts) else counts[1] > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
