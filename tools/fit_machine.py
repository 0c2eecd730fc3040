#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits a machine's figures to published runs.

    tools/fit_machine.py MACHINE [MACHINE...]

Changes those figures of MACHINE in datasets/machines.json whose source begins with "fitted", the same in all machines
named, so that `zerogauge plan --throughput` predicts the runs on them best: least mean |log(predicted / published)|
over the sources that are not held out. Coordinate descent, deterministic.
"""
import json, math, pathlib, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "zerogauge"
FITTED = "fitted"


def predicted(rows, machines, values, folder):
    """The mean error of the rows, with these figures."""
    for name, machine in machines.items():
        for figure, value in values.items():
            machine["figures"][figure]["value"] = value
        (folder / f"{name}.json").write_text(json.dumps(machine))
    (folder / "rows.json").write_text(json.dumps(rows))
    out = subprocess.run([PROGRAM, "plan", "--throughput", folder / "rows.json", "--json"], capture_output=True,
                         text=True, check=True).stdout
    errors = [abs(math.log(row["predicted"] / row["published"])) for row in map(json.loads, out.splitlines())
              if "beyond" not in row]
    return sum(errors) / len(errors)


def held_out():
    """The names of the sources that are held out."""
    out = subprocess.run([PROGRAM, "plan", "--throughput", "--json"], capture_output=True, text=True, check=True).stdout
    return {row["file"] for row in map(json.loads, out.splitlines()) if row["held_out"]}


def rows_on(names, folder):
    """All rows on these machines as one file, each with the changes of its own file."""
    rows, others = [], held_out()
    for name, file in json.loads((ROOT / "datasets" / "throughput.json").read_text()).items():
        for row in [] if name in others else file["rows"]:
            if row["machine"] in names and "beyond" not in row:
                row["set"] = file["set"] + row.get("set", [])
                row["machine"] = str(folder / f"{row['machine']}.json")
                rows.append(row)
    return {"source": "", "set": [], "rows": rows}


def main(names):
    known = json.loads((ROOT / "datasets" / "machines.json").read_text())
    machines = {name: known[name] for name in names}
    first = machines[names[0]]["figures"]
    values = {key: figure["value"] for key, figure in first.items() if figure.get("source", "").startswith(FITTED)}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        rows = rows_on(names, folder)
        best = predicted(rows, machines, values, folder)
        for factor in (1.3, 1.3, 1.15, 1.15, 1.07, 1.07, 1.03, 1.03):
            for key in values:
                for by in (factor, 1 / factor):
                    trial = dict(values, **{key: float(f"{values[key] * by:.3g}")})
                    if key.endswith("_share") and trial[key] > 1:
                        continue
                    error = predicted(rows, machines, trial, folder)
                    if error < best:
                        best, values = error, trial
            print(f"{factor} {best:.4f} {values}", flush=True)
    print(json.dumps(values, indent=2))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
