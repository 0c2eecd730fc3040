# SPDX-License-Identifier: Apache-2.0
"""Measures the peers of peers.txt: python bench.py ZEROGAUGE OUT [--markdown] [--quick] [--self] [--table FILE]
[NAME...]. OUT/bench/NAME.jsonl is the result file of a line, OUT/bench/NAME.txt its other output, NAME-quick.* those of
quick runs. Prints a table, with --markdown a second one of training steps and a third one of the lines with several
sizes, and last `N passed, N failed, N skipped`. A ratio more than 1.5 times away from that of docs/performance.md is
said. --self measures each line with and without --quick, up to three times until their ratios agree within a tenth, and
fails where they always differ in one direction by more; turns that vary too much for either are counted last, `N not
decided`. Lines of a disk are not in quick runs. Needs only Python; peers need more."""
import argparse
import json
import math
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TEXT = "{:25} {:>15} {:>15} {:>16}  {}"
MARKDOWN = "| {} | {} | {} | {} | {} |"
STEPS = ["training step", "compared with", "tokens/s here, there", "of matrix products here, there",
         "peak memory here, there"]
PUBLISHED = HERE.parent.parent / "docs/performance.md"
FAR, SAME, TRIALS = 1.5, 0.1, 3
OF_A_DISK = re.compile(r"--part (nvme|checkpoint)\b")  # its ratios change by a third from minute to minute
UNITS = {"ns": ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns")), "ms_per_step": ((1e3, "s"), (1, "ms")),
         "ns_per_param": ((1, "ns/param"),)}


def read_table(path):
    lines = [line for line in path.read_text().splitlines() if line and line[0] != "#"]
    rows = [[field.strip() for field in line.split("|")] for line in lines]
    wrong = [line for line, row in zip(lines, rows) if len(row) != 3]
    if wrong:
        sys.exit(f"ci/peers bench: {path}: expected NAME | OPTIONS | COMMAND: {wrong[0]}")
    return rows


def filled(text, out):
    flags = Path("/proc/cpuinfo").read_text()
    return text.format(here=shlex.quote(str(HERE)), out=shlex.quote(str(out)),
                       avx="avx512" if "avx512f" in flags else "avx2")


def shown(value, unit):
    for size, name in UNITS.get(unit, ((1, unit),)):
        if value >= size or size == 1:
            return f"{value / size:.3g} {name}"


def ratios_of_turns(record):
    """Of the two sides' turns next to each other, between which the machine changes least."""
    pairs = zip(record["samples"], record["yardstick"]["samples"])
    return [theirs / ours if record["lower_is_better"] else ours / theirs for ours, theirs in pairs]


def ratio_of(record):
    return statistics.median(ratios_of_turns(record))


def spread(record):
    """The 10 % and 90 % quantiles of the turns' ratios, which show the noise of the machine."""
    ratios = ratios_of_turns(record)
    if len(ratios) < 2:
        return ratios[0], ratios[0]
    tenths = statistics.quantiles(ratios, n=10, method="inclusive")
    return tenths[0], tenths[-1]


def size_text(size):
    return next(f"{size // unit} {name}" for unit, name in ((2**20, "MiB"), (2**10, "KiB"), (1, "B")) if size >= unit)


def describe(case):
    """The case in a few words."""
    if case["part"] == "adam":
        return f"AdamW {case['step']}, {case['params'] / 2**20:.0f} M parameters, {case['threads']} threads"
    if case["part"] == "nvme":
        return f"NVMe {case['direction']}, {case['block_bytes'] >> 10} KiB, depth {case['depth']}"
    if case["part"] == "checkpoint":
        return f"checkpoint {case['operation']}, {case['params'] / 1e6:.0f} M parameters, {case['world']} ranks"
    if case["part"] == "comm":
        return f"{case['operation']}, {case['world']} ranks, {size_text(case['asked_bytes'])}"
    threads = f" of {case['threads_a_rank']} threads" if case["threads_a_rank"] > 1 else ""
    ranks = f"{case['world']} rank{'s' if case['world'] > 1 else ''}{threads}"
    return f"step {case['model']}, {ranks}, {case['dtype']}, {case['preset']}" + (
        f", {case['mesh']}" if "mesh" in case else "")


def ratio_text(record):
    """Times the peer's speed, in bold where the peer is faster, and its spread."""
    low, high = spread(record)
    ratio = ratio_of(record)
    bold = "**" if ratio < 1 else ""
    return f"{bold}{ratio:.2f}{bold} ({low:.2f} to {high:.2f})"


def row_key(what, peer):
    """A row of whichever version of the peer."""
    return what, re.sub(r" v?\d[\d.]*", "", peer)


def published():
    """The ratios of docs/performance.md. Of two machines' rows the first counts."""
    found = {}
    for line in PUBLISHED.read_text(encoding="utf-8").splitlines():
        row = re.fullmatch(r"\| (.+) \| (.+) \| .+ \| .+ \| \**([\d.]+)\**( \(.*)? \|", line)
        if row:
            found.setdefault(row_key(row[1], row[2]), float(row[3]))
    return found


def far_text(record, ratios):
    """What to say where the ratio is far from the published one."""
    there = ratios.get(row_key(describe(record["case"]), record["yardstick"]["name"]))
    if not there or 1 / FAR <= ratio_of(record) / there <= FAR:
        return ""
    return f"  FAR from the {there:.2f} of docs/{PUBLISHED.name}"


def copy_text(record):
    """How far both sides of an update of Adam are from a copy of its streams, which is their limit if neither is
    faster."""
    copy = (record.get("detail") or {}).get("copy_ns_per_param")
    if not copy:
        return ""
    ours, theirs = (copy / of["median"] for of in (record, record["yardstick"]))
    return (f" a copy of its streams takes {copy:.3g} ns/param: {ours:.0%} of its speed here, {theirs:.0%} there" +
            (", which is faster than the copy" if theirs > 1 else ""))


def uncertainty(record):
    """How far the median of endless turns may be from this one, as a part of it, with 95 %: of normal noise that is the
    distance of the outer tenths over the root of the number of turns. Infinite for a single turn."""
    turns, (low, high) = len(record["samples"]), spread(record)
    return (high - low) / ratio_of(record) / turns ** 0.5 if turns > 1 else math.inf


def differing(name, whole, quick):
    """Prints a line for each pair and returns for each 0: the ratios agree within a tenth; 1 or -1: the quick one is
    higher or lower by more than a tenth, and than chance; None: the turns vary too much to say either."""
    found = []
    for ours, short in zip(whole, quick):
        part, error = ratio_of(short) / ratio_of(ours) - 1, math.hypot(uncertainty(ours), uncertainty(short))
        found.append(None if error >= max(abs(part), SAME) else int(math.copysign(abs(part) > SAME, part)))
        size = f" {size_text(ours['case']['asked_bytes'])}" if "asked_bytes" in ours["case"] else ""
        print(f"{name + size:40} {ratio_of(ours):8.2f} {ratio_of(short):8.2f} {part:+8.1%} {error:7.1%}"
              f"{'  not decided' if found[-1] is None else '  DIFFERS' if found[-1] else ''}", flush=True)
    return found


def compare_quick(of, name, whole, command):
    """Returns "passed", "failed" or "not decided". What does not agree is measured again: a host that places processors
    otherwise changes a ratio now and then, a quick run that measures something else always, in one direction."""
    trials = []
    while len(trials) < TRIALS:
        whole, reason = measure(*of, False, name, *command) if trials else (whole, None)
        quick, reason = measure(*of, True, name, *command) if whole else (None, reason)
        if not quick or len(quick) != len(whole):
            print(f"FAILED: {name}: {reason or f'{len(quick)} of {len(whole)} cases are quick ones'}", flush=True)
            return "failed"
        trials.append(differing(name, whole, quick))
        pairs = list(zip(*trials))
        if all(0 in pair for pair in pairs):
            return "passed"
    return "failed" if any(pair in ((1,) * TRIALS, (-1,) * TRIALS) for pair in pairs) else "not decided"


def line_of(form, name, record):
    low, high = spread(record)
    ours, theirs = (shown(of["median"], record["unit"]) for of in (record, record["yardstick"]))
    if form == MARKDOWN:
        return form.format(describe(record["case"]), record["yardstick"]["name"], ours, theirs, ratio_text(record))
    if "asked_bytes" in record["case"]:
        name += f" {size_text(record['case']['asked_bytes'])}"
    return form.format(name, ours, theirs, f"{ratio_of(record):.2f}", f"({low:.2f} to {high:.2f})  "
                       f"{record['yardstick']['name']}")


def line_of_step(record):
    """Both sides of a training step: tokens, the share of the machine's square matrix products, and memory."""
    sides = [record["detail"]["figures"][side] for side in ("ours", "peers")]
    ours_gib, peers_gib = (side["resident_peak_bytes"] / 2**30 for side in sides)
    bold = "**" if peers_gib < ours_gib else ""
    return MARKDOWN.format(describe(record["case"]), record["yardstick"]["name"],
                           *(", ".join(text.format(side[key]) for side in sides) for key, text in (
                               ("tokens_per_s", "{:,.0f}"), ("share_of_square", "{:.0%}"))),
                           f"{ours_gib:.2f} GiB, {bold}{peers_gib:.2f} GiB{bold}")


def print_sizes(lines):
    """A table with a row for each line and a column for each size that was asked for."""
    sizes = sorted({record["case"]["asked_bytes"] for records in lines for record in records})
    print(f"\n| collective | compared with | {' | '.join(map(size_text, sizes))} |\n|{' --- |' * (2 + len(sizes))}")
    for records in lines:
        case = records[0]["case"]
        cells = {record["case"]["asked_bytes"]: f"{ratio_text(record)}, {shown(record['median'], record['unit'])}"
                 for record in records}
        print(f"| {case['operation']}, {case['world']} ranks | {records[0]['yardstick']['name']} | "
              f"{' | '.join(cells.get(size, '') for size in sizes)} |")


def kept(out, name, quick, ending):
    return out / "bench" / f"{name}{'-quick' if quick else ''}.{ending}"


def measure(zerogauge, out, quick, name, options, command):
    """Returns the records, one for each size, and None, or None and the reason of a failure."""
    file, printed = (kept(out, name, quick, ending) for ending in ("jsonl", "txt"))
    file.unlink(missing_ok=True)
    line = [zerogauge, "bench", "peer", *shlex.split(filled(options, out)), "--label", name, "--nvme-path", str(out),
            "--beside", filled(command, out), "--out", str(file), *(["--quick"] if quick else [])]
    with printed.open("w") as stream, subprocess.Popen(line, stdout=stream, stderr=subprocess.STDOUT) as process:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
    if status:
        last = (printed.read_text().strip().splitlines() or [f"status {status}"])[-1]
        return None, f"{last} ({printed})"
    records = [json.loads(text) for text in file.read_text().splitlines()]
    return [record for record in records if record["record"] == "bench"], None


def main():
    parser = argparse.ArgumentParser(prog="ci/peers bench")
    parser.add_argument("zerogauge")
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/performance.md")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter turns")
    parser.add_argument("--self", action="store_true", help="compare each line with its quick one")
    parser.add_argument("--table", type=Path, default=HERE / "peers.txt")
    options = parser.parse_intermixed_args()
    if options.self and (options.quick or options.markdown):
        parser.error("--self compares by itself, and prints no Markdown")
    rows = read_table(options.table)
    unknown = set(options.names) - {name for name, *_ in rows}
    if unknown:
        sys.exit(f"ci/peers bench: no such line: {', '.join(sorted(unknown))}; "
                 f"there are {', '.join(name for name, *_ in rows)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    out = options.out.resolve()
    (out / "bench").mkdir(parents=True, exist_ok=True)
    form, begin = MARKDOWN if options.markdown else TEXT, time.monotonic()
    counts = dict.fromkeys(["passed", "failed", "skipped"] + ["not decided"] * options.self, 0)
    steps, of_sizes, ratios = [], [], published()
    if options.self:
        print(f"{'line':40} {'full':>8} {'quick':>8} {'differ':>8} {'chance':>7}")
    else:
        print(form.format(*(["what", "compared with"] if options.markdown else ["line"]), "here", "there",
                          "times its speed", *([] if options.markdown else [""])),
              *(["| --- | --- | --- | --- | --- |"] if options.markdown else []), sep="\n")
    for name, of_bench, command in rows:
        if options.names and name not in options.names:
            continue
        reason = "" if shutil.which(shlex.split(filled(command, out))[0]) else f"{command.split()[0]} is not installed"
        if OF_A_DISK.search(of_bench) and (options.quick or options.self):
            reason = "a disk's line is not in quick runs"
        if reason:
            print(f"SKIP: {name}: {reason}", file=sys.stderr)
            counts["skipped"] += 1
            continue
        records, reason = measure(options.zerogauge, out, options.quick, name, of_bench, command)
        if options.self and records:
            counts[compare_quick((options.zerogauge, out), name, records, (of_bench, command))] += 1
            continue
        if counts["passed"] + counts["failed"] == 0:  # what makes this host's figures too low, once
            printed = kept(out, name, options.quick, "txt").read_text().splitlines()
            print("".join(f"{text}\n" for text in printed if text.startswith("SLOW")), end="", flush=True)
        counts["passed" if records else "failed"] += 1
        if not records:
            print(f"FAILED: {name}: {reason}", flush=True)
        elif options.markdown and len(records) > 1:
            of_sizes.append(records)
        else:
            print("\n".join(line_of(form, name, record) for record in records), flush=True)
        for text in (text for record in records or [] for text in (far_text(record, ratios), copy_text(record))):
            print(f"{name}:{text}\n" if text else "", end="", file=sys.stderr)
        steps += [line_of_step(record) for record in records or [] if record["case"]["part"] == "step"]
    if steps and options.markdown:
        print("", MARKDOWN.format(*STEPS), "| --- | --- | ---: | ---: | ---: |", *steps, "", sep="\n")
    if of_sizes:
        print_sizes(of_sizes)
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    return 1 if counts["failed"] else 0 if counts["passed"] else 77


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
