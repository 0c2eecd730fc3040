#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ci/gpu_files.py OUT: publishes in results/published/gpu the result files that `ci/gpu run` left in the folder OUT.

The file of all steps is published whatever they said, a benchmark's if its step passed, and what results/RULES.md
demands of it there is true. What is left out is printed with the reason; so is OUT/size/torch.log, which is no result
file. For ci/docs it says what docs/gpu.md, README.md and datasets/ranges.json must say of the published
ones."""
import json
import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from docs_page import FILES, ROOT, run  # noqa: E402
from usage import answer  # noqa: E402

PUBLISHED = ROOT / "results/published/gpu"
SAMPLES_LEAST = 7


def records_of(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def objection(records):
    """Why results/RULES.md keeps a file from results/published/gpu, if it does."""
    head, end = records[0], records[-1]
    samples = [len(record["samples"]) for record in records if record["record"] == "bench"]
    if head["program"] not in ("bench", "parts"):
        return f"it is of {head['program']}, level {head['level']}"
    if end["record"] != "end" or end["status"] != "complete":
        return "it is not complete"
    if head["suite"]["dirty"] is not False:
        return "it was not built from a clean commit"
    if min(samples, default=SAMPLES_LEAST) < SAMPLES_LEAST:
        return f"a median is of {min(samples)} samples, fewer than {SAMPLES_LEAST}"
    return None


def publish(out):
    steps = records_of(out / "tests.jsonl")
    passed = {record["name"] for record in steps if record["record"] == "part" and record["status"] == 0}
    chosen = {}
    for file in sorted(out.rglob("*.jsonl")):
        part, name = file.parent.name, file.stem
        steps_of_file = {f"{part}/{name}", f"{part}/verify-{name}"}
        reason = objection(records_of(file))
        if not reason and file.parent != out and not steps_of_file <= passed:
            reason = "its step, or its verification, did not pass"
        if reason:
            print(f"not published: {file}: {reason}")
        else:
            chosen[name] = file
    if (out / "size/torch.log").exists():
        print(f"not published: {out / 'size/torch.log'}: PyTorch's figures are no result file")
    gpu = steps[0]["machine"]["gpus"][0]["model"]
    prefix, number = f"{re.sub('[^a-z0-9]+', '-', gpu.lower())}-{steps[0]['started'][:10]}", 1
    # Another run of the day is another file; none is overwritten.
    while any((PUBLISHED / f"{prefix}{'' if number == 1 else f'-{number}'}-{name}.jsonl").exists() for name in chosen):
        number += 1
    for name, file in chosen.items():
        shutil.copy(file, PUBLISHED / f"{prefix}{'' if number == 1 else f'-{number}'}-{name}.jsonl")


def number_of(commit):
    return int(run("git", "rev-list", "--count", commit).stdout)


def origin(head):
    """The last cells of a row of docs/gpu.md: the GPU, the day, the commit and its number."""
    commit = head["suite"]["commit"]
    return f"{head['machine']['gpus'][0]['model']} | {head['started'][:10]}, {commit[:8]}, {number_of(commit)} |"


def rows_of_benchmarks():
    """The rows of docs/gpu.md's table: what each published file has of it."""
    wanted = [("adam", "Adam, 64 Mi fp32 parameters", {"step": "update", "recipe": "torch-cuda-fused",
                                                       "params": 64 << 20})]
    wanted += [("memory", f"GPU memory: {o}, 4 GiB", {"operation": o, "array_bytes": 4 << 30})
               for o in ("copy", "read", "write")]
    wanted += [("pcie", f"pinned copies of 32 MiB, {d}", {"direction": d, "memory": "pinned", "block_bytes": 32 << 20,
                                                          "beside": "nothing"}) for d in ("h2d", "d2h")]
    wanted += [("overlap", "ZeRO-3, every state on NVMe: a step", {"what": "ZeRO-3, every state on NVMe",
                                                                   "lanes": "as they are"})]
    for name, what, case in wanted:
        for file in sorted(PUBLISHED.glob(f"*-{name}.jsonl")):
            head, *records = records_of(file)
            for r in records:
                if r["record"] == "bench" and case.items() <= r["case"].items():
                    unit = r["unit"].replace("_per_", "/")
                    yield (f"| {what} | {r['median']:,.4g} ({r['p10']:,.4g} to {r['p90']:,.4g}) {unit} "
                           f"| {100 * r['ratio']:.1f} % of {r['yardstick']['name']} | {len(r['samples'])} | "
                           f"{origin(head)}")


def rows_of_steps():
    """The rows about what passed on a GPU: a row for each published file of ci/gpu_run's steps."""
    for file in sorted(PUBLISHED.glob("*-tests.jsonl")):
        head, *records = records_of(file)
        parts = [r for r in records if r["record"] == "part"]
        said = [sum(p["status"] in wanted for p in parts) for wanted in ((0,), (77,))]
        yield (f"| steps of `ci/gpu` | {said[0]} passed, {len(parts) - sum(said)} failed, {said[1]} skipped | | "
               f"{len(parts)} | {origin(head)}")


def newer_lines(commit):
    """How much of ref/cuda, without its tests, is newer than a commit: "over 50 %"."""
    files = [file for file in FILES if file.startswith("ref/cuda/") and "_test." not in file]
    added = run("git", "diff", "--numstat", commit, "--", *files).stdout.splitlines()
    lines = sum(len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in files)
    return f"over {10 * (10 * sum(int(row.split()[0]) for row in added) // lines)} %"


def sentence_of_readme(file):
    head, *records = records_of(file)
    r = next(r for r in records if r["record"] == "bench" and
             {"recipe": "torch-cuda-fused", "params": 64 << 20}.items() <= r["case"].items())
    return (f"On an {' '.join(head['machine']['gpus'][0]['model'].split()[:2])} ({head['started'][:10]}, "
            f"{head['suite']['commit'][:8]}) Adam's update took {r['median']:.2g} ns a parameter, "
            f"{100 * r['ratio']:.0f} % of a copy: ")


def ranges_of_gpus(files, verify):
    """Ratios that datasets/ranges.json says of a GPU, "An H100: 0.953 and 1.029.", are the published ones."""
    for band in json.loads((ROOT / "datasets/ranges.json").read_text(encoding="utf-8"))["default"]["bands"]:
        said = re.match(r"An (\w+)[^:]*: ([\d.]+?)(?: (?:to|and) ([\d.]+?))?\. ", band["source"])
        ratios = [r["ratio"] for head, *records in map(records_of, files if said else [])
                  if said.group(1) in head["machine"]["gpus"][0]["model"] for r in records
                  if r.get("name") == band["bench"] and band["case"].items() <= r["case"].items()]
        shown = [f"{ratio:.3f}" for ratio in (min(ratios, default=0), max(ratios, default=0))]
        verify(not said or [said.group(2), said.group(3) or said.group(2)] == shown, "datasets/ranges.json",
               f"{band['id']}: the published ratios are {shown}")


def measured_on_gpus(verify):
    """docs/gpu.md and README.md say what the published files hold, which are such as results/RULES.md permits."""
    files = sorted(PUBLISHED.glob("*.jsonl"))
    for file in files:
        reason = objection(records_of(file))
        verify(not reason, f"results/published/gpu/{file.name}", reason)
    ranges_of_gpus(files, verify)
    if run("git", "rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        return  # nobody can count commits
    page = (ROOT / "docs/gpu.md").read_text(encoding="utf-8")
    for row in [*rows_of_benchmarks(), *rows_of_steps()]:
        verify(f"\n{row}\n" in page, "docs/gpu.md", f"lacks the row {row}")
    parts = re.search('^parts="(.*)"$', (ROOT / "ci/gpu_run").read_text(encoding="utf-8"), re.M).group(1).split()
    closed = re.findall(r"^\|[^|]*\| `(\w+)` \| \d", page, re.M)
    verify(sorted(closed) == sorted(parts), "docs/gpu.md", f"the next run's parts are {closed}, not {parts}")
    commits = {records_of(file)[0]["suite"]["commit"] for file in files}
    newest = max(commits, key=number_of)
    share = f"{newer_lines(newest)} of the lines of `ref/cuda` without its tests are newer than {newest[:8]}"
    verify(share in " ".join(page.split()), "docs/gpu.md", f"does not say that {share}")
    said = [sentence_of_readme(file) for file in files if file.name.endswith("-adam.jsonl")]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    verify(any(sentence in readme for sentence in said), "README.md", f"says none of {said}")


def main():
    answer(__doc__)
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    publish(pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
    main()
