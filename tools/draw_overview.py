#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/overview.svg: the three questions that the commands answer, on top of the reference, with the
memory of a rank at each stage.

  tools/draw_overview.py           writes the picture
  tools/draw_overview.py --check   exits 1 if the committed picture differs

All text lies on filled boxes, so that the picture reads on white and on dark pages.
"""
import pathlib
import sys
from xml.sax.saxutils import escape

OUT = pathlib.Path(__file__).resolve().parent.parent / "docs/images/overview.svg"
WIDTH, HEIGHT = 1000, 636
INK, MUTED, BOX, EDGE, WIRE = "#1f2328", "#57606a", "#f6f8fa", "#8c959f", "#8c959f"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
MONO = "ui-monospace, 'SFMono-Regular', 'DejaVu Sans Mono', Menlo, Consolas, monospace"

# command, colour, question, what goes in, what happens, what is the result
DOORS = [
    ("zerogauge validate", "#0f766e", "Is this machine healthy?",
     ["processors, memory, disks,", "GPUs, links between hosts"],
     ["each part against a baseline", "measured in the same run"],
     "VALID / INVALID", "with the part, lane or rank at fault"),
    ("zerogauge check", "#4338ca", "Is this implementation right?",
     ["any program: PyTorch, DeepSpeed,", "yours, in any language"],
     ["81 requirements, judged bit by bit", "from exact and rounding cases"],
     "PASS / EQUIVALENT / FAIL", "with the first difference and a hint"),
    ("zerogauge train, plan", "#b45309", "What does ZeRO hold and move?",
     ["a DeepSpeed JSON, a model,", "any number of ranks"],
     ["bytes counted = the papers' formulas,", "steps run for real, or without data"],
     "bytes, seconds, digests", "and where a configuration fits"),
]

# Bytes a parameter in mixed precision (ZeRO, section 3.1): parameters 2, gradients 2, optimizer states 12; four ranks.
KINDS = [("parameters", "#2563eb", 2.0), ("gradients", "#ea580c", 2.0), ("optimizer states", "#16a34a", 12.0)]
TIERS = ["device", "host", "NVMe"]
RANKS = 4
# name, per kind: tier, whether it is cut over the ranks
STAGES = [
    ("data parallel", [("device", False), ("device", False), ("device", False)]),
    ("ZeRO-1", [("device", False), ("device", False), ("device", True)]),
    ("ZeRO-2", [("device", False), ("device", True), ("device", True)]),
    ("ZeRO-3 = FSDP", [("device", True), ("device", True), ("device", True)]),
    ("ZeRO-Offload", [("device", False), ("host", True), ("host", True)]),
    ("ZeRO-Infinity", [("NVMe", True), ("NVMe", True), ("NVMe", True)]),
]


def text(x, y, content, size=14, fill=INK, anchor="middle", weight=400, family=FONT):
    return (f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
            f'font-weight="{weight}" font-family="{family}">{escape(content)}</text>')


def box(x, y, width, height, fill=BOX, stroke=EDGE, radius=8):
    return (f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}" fill="{fill}" '
            f'stroke="{stroke}"/>')


def arrow(x, y0, y1):
    return (f'<line x1="{x:g}" y1="{y0:g}" x2="{x:g}" y2="{y1:g}" stroke="{WIRE}" stroke-width="2" '
            'marker-end="url(#tip)"/>')


def door(x, width, row):
    command, colour, question, inputs, middle, verdict, detail = row
    centre = x + width / 2
    out = [box(x, 10, width, 62)]
    out += [text(centre, 36 + 20 * i, line, 14, MUTED) for i, line in enumerate(inputs)]
    out.append(arrow(centre, 72, 96))
    out.append(box(x, 100, width, 134, stroke=colour))
    out.append(f'<path d="M{x:g} 142 v-34 a8 8 0 0 1 8 -8 h{width - 16:g} a8 8 0 0 1 8 8 v34 z" fill="{colour}"/>')
    out.append(text(centre, 127, command, 17, "#ffffff", weight=600, family=MONO))
    out.append(text(centre, 168, question, 15, INK, weight=600))
    out += [text(centre, 194 + 20 * i, line, 13.5, MUTED) for i, line in enumerate(middle)]
    out.append(arrow(centre, 234, 258))
    out.append(box(x, 262, width, 62))
    out.append(text(centre, 288, verdict, 15, colour, weight=700))
    out.append(text(centre, 309, detail, 13.5, MUTED))
    return out


def memory(x, y, width):
    """One column a stage, one row a tier, one bar a rank's bytes for each parameter."""
    out = []
    label, column = 64, (width - 64) / len(STAGES)
    scale = (column - 16) / 16.0
    for row, tier in enumerate(TIERS):
        out.append(text(x + label - 10, y + 44 + row * 40, tier, 13, MUTED, "end"))
    for i, (name, kinds) in enumerate(STAGES):
        left = x + label + i * column
        out.append(text(left + (column - 16) / 2, y + 12, name, 14, INK, weight=600))
        filled = dict.fromkeys(TIERS, 0.0)
        for row in range(len(TIERS)):
            out.append(box(left, y + 28 + row * 40, column - 16, 24, "#e7ebef", "none", 3))
        for (_, colour, size), (tier, cut) in zip(KINDS, kinds):
            size = size / RANKS if cut else size
            out.append(f'<rect x="{left + filled[tier] * scale:.2f}" y="{y + 28 + TIERS.index(tier) * 40:g}" '
                       f'width="{size * scale:.2f}" height="24" fill="{colour}"/>')
            filled[tier] += size
        for row, tier in enumerate(TIERS):
            if filled[tier]:
                end = left + filled[tier] * scale
                inside = filled[tier] > 12
                out.append(text(end - 6 if inside else end + 5, y + 45 + row * 40, f"{filled[tier]:g} B", 12.5,
                                "#ffffff" if inside else INK, "end" if inside else "start", 600))
    return out


def draw():
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
           f'role="img" aria-label="zerogauge: three commands on top of one reference">',
           f'<defs><marker id="tip" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="6" markerHeight="6" '
           f'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="{WIRE}"/></marker></defs>']
    width, gap = 315, 26
    for i, row in enumerate(DOORS):
        x = 1 + i * (width + gap)
        out += door(x, width, row)
        out.append(arrow(x + width / 2, 372, 330))
    out.append(box(1, 376, WIDTH - 2, 254))
    out.append(text(WIDTH / 2, 404, "The reference: every stage on every tier, equal to unsharded Adam in every bit",
                    17, INK, weight=700))
    left = 196
    for name, colour, size in KINDS:
        out.append(f'<rect x="{left}" y="422" width="12" height="12" rx="2" fill="{colour}"/>')
        caption = f"{name}, {size:g} B"
        out.append(text(left + 18, 433, caption, 13, MUTED, "start"))
        left += 34 + 7 * len(caption)
    out.append(text(left + 6, 433, f"a parameter, on one of {RANKS} ranks", 13, MUTED, "start"))
    out += memory(16, 456, WIDTH - 24)
    out.append(text(WIDTH / 2, 614,
                    "It answers the suite's cases, is what the benchmarks time, and is what the planner "
                    "runs without data.", 13.5, MUTED))
    out.append("</svg>\n")
    return "\n".join(out)


def main():
    picture = draw()
    if sys.argv[1:] == ["--check"]:
        if not OUT.exists() or OUT.read_text(encoding="utf-8") != picture:
            sys.exit(f"{OUT.name} is stale: run tools/draw_overview.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        OUT.parent.mkdir(parents=True, exist_ok=True)
        OUT.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
