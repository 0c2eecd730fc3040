#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/rooms.svg from the source: which room includes headers of which other room. Rooms and their order
come from tools/tidy/floors.txt, a floor a line, from the ground up; a room may include only rooms of floors below it.

  tools/draw_rooms.py           writes the picture
  tools/draw_rooms.py --check   exits 1 if the committed picture differs from what the includes say

A cell is darker the more headers the room of its row includes from the room of its column. An include of the same or a
higher floor, which ci/tidy forbids, is red.
"""
import collections
import pathlib
import re
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLOORS = ROOT / "tools/tidy/floors.txt"
OUT = ROOT / "docs/images/rooms.svg"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
SUFFIXES = {".c", ".h", ".cu", ".cuh"}
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
INK, MUTED, BOX, EDGE, EMPTY, UPWARD = "#1f2328", "#57606a", "#f6f8fa", "#8c959f", "#ebeef1", "#cf222e"
# The colour of a row, by the first part of its room's path.
COLOURS = {"base": "#57606a", "ref": "#2563eb", "results": "#0f766e", "plan": "#b45309", "conformance": "#4338ca",
           "bench": "#15803d", "validate": "#0f766e", "cli": "#1f2328"}
# The purpose of each room.
PURPOSES = {
    "base": "errors, files, JSON, text, clock, statistics",
    "base/process": "programs started and watched",
    "ref/ledger": "bytes held and moved",
    "ref/mesh": "groups of ranks",
    "ref/pipeline": "schedules of pipeline stages",
    "ref/recipe": "each known Adam, operation by operation",
    "ref/arithmetic": "formats, Adam, norm, kernels",
    "ref/tier": "device, host and NVMe memory",
    "ref/cuda": "the same on GPUs",
    "ref/config": "DeepSpeed's JSON",
    "ref/comm": "collectives: threads, MPI, NCCL",
    "ref/executor": "lanes, operations, schedules",
    "ref/model": "GPT, linear models, text",
    "ref/model/lora": "low-rank adapters",
    "ref/model/llama": "Llamas",
    "ref/model/names": "models by name",
    "ref/model/export": "weights for other programs",
    "ref/partition": "buckets and shards",
    "ref/groups": "replicas, experts, ZeRO++",
    "ref/optimizer": "update, clip, loss scale",
    "ref/stage": "data parallelism, ZeRO-1, 2, 3",
    "ref/formula": "the papers' formulas",
    "ref/oracle": "unsharded training",
    "ref/checkpoint": "safetensors, manifests",
    "ref/train": "the training loop",
    "ref/one_file": "ZeRO in one file, alone",
    "cli/info": "what this machine has",
    "results/record": "result files",
    "results/limits": "accepted ranges, outliers",
    "results/page": "tables, HTML, comparisons",
    "plan/device": "what a GPU holds and how long it computes",
    "plan/shape": "models that cannot run",
    "plan/planner": "training without data",
    "plan/papers": "the papers' tables, recomputed",
    "conformance/spec": "requirements, verdicts",
    "conformance/cases": "one case: its files, its numbers",
    "conformance/suite": "the cases of a suite version",
    "conformance/contract": "answers, plug-ins",
    "conformance/claims": "what an implementation says it can do",
    "conformance/run": "launching and collecting",
    "conformance/unsharded": "unsharded Adam, by every known rule",
    "conformance/judge": "which rule explains every bit",
    "conformance/report": "text, HTML, JUnit, JSON",
    "conformance/hunt": "random cases, cut down until nothing can be left out",
    "conformance/reference": "the reference behind the contract",
    "bench/harness": "repetitions, baselines, results",
    "bench/adam": "the optimizer",
    "bench/memory": "memory streams",
    "bench/comm": "collectives",
    "bench/storage": "NVMe, swapping",
    "bench/pcie": "host and device copies",
    "bench/step": "training steps, overlap",
    "bench/checkpoint": "checkpoints",
    "bench/product": "matrix products",
    "bench/ranks": "ranks and links",
    "bench/peers": "PyTorch, DeepSpeed, MPI",
    "bench/table": "the list of benchmarks",
    "validate/health": "preflight and soak: every core votes",
    "validate": "one verdict about a machine",
    "cli": "the command line",
}


def floors():
    """The floor of each room, in the order of the table; what follows # is a remark."""
    rooms = {}
    for floor, line in enumerate(FLOORS.read_text(encoding="utf-8").splitlines()):
        rooms.update((room, floor) for room in line.split("#")[0].split())
    absent = [room for room in rooms if room not in PURPOSES or not (ROOT / room).is_dir()]
    if absent:
        sys.exit(f"tools/draw_rooms.py: no folder, or no entry in PURPOSES, for {', '.join(absent)}")
    return rooms


def room_of(path, rooms):
    """The deepest room that holds the file."""
    inside = [room for room in rooms if path.startswith(room + "/")]
    return max(inside, key=len, default=None)


def includes(rooms):
    """How many #include lines of each room name a file of each other room. Tests may include anything: left out."""
    counts = collections.Counter()
    for top in sorted({room.split("/")[0] for room in rooms}):
        for file in sorted((ROOT / top).rglob("*")):
            path = file.relative_to(ROOT).as_posix()
            if file.suffix not in SUFFIXES or re.search(r"_(test|trial)\.", file.name):
                continue
            source = room_of(path, rooms)
            for name in INCLUDE.findall(file.read_text(encoding="utf-8")):
                target = room_of(name, rooms)
                if source and target and source != target:
                    counts[source, target] += 1
    return counts


def draw(floor_of, counts):
    rooms = list(floor_of)
    top_down = rooms[::-1]
    cell, left, top = 17, 432, 46
    side = cell * len(top_down)
    width, height = left + side + 22, top + side + 52
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           f'font-family="{FONT}" role="img" aria-label="which room of the source includes which">',
           f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="{BOX}" stroke="{EDGE}"/>',
           f'<pattern id="empty" x="{left}" y="{top}" width="{cell}" height="{cell}" patternUnits="userSpaceOnUse">'
           f'<rect x="1" y="1" width="{cell - 2}" height="{cell - 2}" rx="2" fill="{EMPTY}"/></pattern>']

    def text(x, y, content, size, fill, anchor="start", weight=400):
        return (f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
                f'font-weight="{weight}">{escape(content)}</text>')

    def colour_of(room):
        return COLOURS.get(room.split("/")[0], MUTED)

    out.append(text(14, 30, "Each room includes only rooms of lower floors", 15, INK, weight=700))
    for row, room in enumerate(top_down):
        y = top + row * cell
        squares = collections.defaultdict(list)  # the columns of a row's cells, by their look
        for column, other in enumerate(top_down):
            count = counts[room, other]
            opacity = min(1.0, 0.3 + 0.07 * count)
            if row == column:
                squares[colour_of(room), 1.0].append(column)
            elif count:
                squares[colour_of(room) if floor_of[other] < floor_of[room] else UPWARD, opacity].append(column)
            elif column > row:
                squares[EMPTY, 1.0].append(column)
        middle = left + (row + 0.5) * cell
        out.append(text(middle, top - 8, str(len(rooms) - row), 9.5, colour_of(room), "middle", 600)
                   + text(34, y + 12.5, str(len(rooms) - row), 11, MUTED, "end")
                   + text(44, y + 12.5, room, 12.5, colour_of(room), weight=600)
                   + text(left - 12, y + 12.5, PURPOSES[room], 11.5, MUTED, "end"))
        for (fill, opacity), columns in squares.items():
            shape = f" {y + 1}h{cell - 2}v{cell - 2}h{2 - cell}z"
            path = "".join(f"M{left + column * cell + 1}{shape}" for column in columns)
            out[-1] += f'<path fill="{fill}" fill-opacity="{opacity:.2g}" d="{path}"/>'
    upward = sum(count for (source, target), count in counts.items() if floor_of[target] >= floor_of[source])
    out.append(text(14, top + side + 22, "A filled cell: the room of its row includes headers of the room whose number "
                    "heads the column; darker is more.", 11.5, MUTED))
    pairs, floor_count = len(counts), len(set(floor_of.values()))
    out.append(text(14, top + side + 40, f"{len(rooms)} rooms on {floor_count} floors, {pairs} pairs that include, "
                    f"{upward} upward includes.", 11.5, MUTED))
    out.append("</svg>\n")
    return "\n".join(out)


def main():
    if not FLOORS.exists():
        sys.exit("tools/draw_rooms.py: tools/tidy/floors.txt: no such file")
    rooms = floors()
    picture = draw(rooms, includes(rooms))
    if sys.argv[1:] == ["--check"]:
        if not OUT.exists() or OUT.read_text(encoding="utf-8") != picture:
            sys.exit("docs/images/rooms.svg is stale: run tools/draw_rooms.py and commit it")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        OUT.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
