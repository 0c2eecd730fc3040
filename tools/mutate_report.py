# SPDX-License-Identifier: Apache-2.0
"""Reads the results of tools/mutate (results.jsonl, equivalent.txt), and prints them and GENERIC.md."""
import json
import os

# Why no judge rejects a mutant, or only the unit tests can.
CLASSES = {
    "same": "no run can distinguish it from the reference",
    "cost": "the bits are the same; time, or memory that no report counts, differs",
    "beyond": "differs only where the contract cannot see it, or is undefined behaviour that sanitizers detect",
}


def read_json(path, default):
    if not os.path.exists(path):
        return default
    with open(path, encoding="utf-8") as stream:
        return json.load(stream)


def read_results(path):
    """Returns the last row of each mutant."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    return list({row["key"]: row for row in rows}.values())


def forget_survivors(path):
    rows = [row for row in read_results(path) if row["outcome"] not in ("survived", "killed by tests")]
    with open(path, "w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)


def read_equivalents(path):
    """{key: (class, reason)}: lines with keys, and below them an indented line `CLASS: reason` for all of these."""
    known, keys = {}, []
    if not os.path.exists(path):
        return known
    with open(path, encoding="utf-8") as stream:
        for number, line in enumerate(stream, 1):
            if line.startswith("#") or not line.strip():
                continue
            if not line.startswith(" "):
                keys.append(line.rstrip("\n"))
                continue
            name, _, reason = line.strip().partition(": ")
            if name not in CLASSES or not reason or not keys:
                raise SystemExit(f"{path}:{number}: expected a class of {', '.join(CLASSES)}, and a reason, below keys")
            known.update({key: (name, reason) for key in keys})
            keys = []
    return known


def refuse_stale(known, root, mutants_of):
    """Every key is a mutant of today's sources."""
    files = {key.split(":")[0] for key in known}
    there = {m.key for file in files if os.path.exists(f"{root}/{file}") for m in mutants_of(root, file)}
    for key in known:
        if key not in there:
            raise SystemExit(f"equivalent.txt: no such mutant: {key}")


def counts_of(rows, known):
    counts = dict.fromkeys(("made", "no", "suite", "tests", "lives", *CLASSES), 0)
    for row in rows:
        counts["made"] += 1
        if row["outcome"] == "does not compile":
            counts["no"] += 1
        elif row["outcome"] == "killed":
            counts["suite"] += 1
        elif row["key"] in known:
            counts[known[row["key"]][0]] += 1
        elif row["outcome"] == "killed by tests":
            counts["tests"] += 1
        else:
            counts["lives"] += 1
    return counts


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def table_row(name, c):
    judged = c["suite"] + c["tests"] + c["lives"] + c["beyond"]
    return (f"| {name} | {c['made']} | {c['no']} | {c['same'] + c['cost']} | {c['suite']} | {c['tests']} | "
            f"{c['beyond']} | {c['lives']} | {share(c['suite'], judged)} | "
            f"{share(c['suite'] + c['tests'], judged)} |")


HEAD = ("| file | mutants | do not compile | equivalent | killed by the suite | by the unit tests only | beyond | "
        "survive | suite | suite and tests |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")


def write_report(path, arguments, chosen, rows, known):
    files = sorted({row["file"] for row in rows})
    by = {}
    for row in rows:
        if row["outcome"] == "killed":
            by.setdefault(row["judge"], []).append(row)
    listed = [row for row in rows if row["outcome"] in ("survived", "killed by tests")]
    with open(path, "w", encoding="utf-8") as out:
        print("# Generic mutants\n\nWritten by `tools/mutate --report`; do not edit. Each mutant changes one operator, "
              "constant, condition, index or pair of\narguments of `ref/`, or drops a statement. The suite judges it "
              "through the contract; the unit tests judge the\nmutants that survive it.\n", file=out)
        print(f"    tools/mutate --tests --sample {len(chosen)} --seed {arguments.seed}\n\n{HEAD}", file=out)
        for file in files:
            print(table_row(f"`{file}`", counts_of([r for r in rows if r["file"] == file], known)), file=out)
        print(table_row("all", counts_of(rows, known)), file=out)
        print("\nEquivalent mutants (`same`, `cost`) are not counted in the shares. Of those killed by the suite:\n",
              file=out)
        for judge, killed in sorted(by.items(), key=lambda item: -len(item[1])):
            slow = sum(row["by"] == "time" for row in killed)
            print(f"- {len(killed)} by `{judge}`" + (f", {slow} of them because they do not end" if slow else ""),
                  file=out)
        for name, meaning in CLASSES.items():
            these = [row for row in listed if known.get(row["key"], ("",))[0] == name]
            print(f"\n## {name}: {meaning}\n", file=out)
            for row in sorted(these, key=lambda row: row["key"]):
                tests = f" (`{row['by']}` rejects it)" if row["outcome"] == "killed by tests" else ""
                print(f"- `{row['key']}`\n  {known[row['key']][1]}{tests}", file=out)
        print("\n## Killed by the unit tests only\n", file=out)
        for row in sorted(listed, key=lambda row: row["key"]):
            if row["key"] not in known and row["outcome"] == "killed by tests":
                print(f"- `{row['key']}`: `{row['by']}`", file=out)
        print("\n## Survivors without an explanation\n", file=out)
        for row in sorted(listed, key=lambda row: row["key"]):
            if row["key"] not in known and row["outcome"] == "survived":
                print(f"- `{row['key']}`", file=out)


def finish(root, arguments, chosen, results, known):
    """Prints the table; returns the exit status."""
    wanted = {mutant.key for mutant in chosen}
    rows = [row for row in results if row["key"] in wanted]
    have = {row["key"] for row in rows}
    rows += [{"key": m.key, "file": m.file, "outcome": "survived"} for m in chosen
             if m.key in known and m.key not in have]
    if arguments.report:
        write_report(os.path.join(root, "conformance/mutants/GENERIC.md"), arguments, chosen, rows, known)
    print(HEAD)
    for file in sorted({row["file"] for row in rows}):
        print(table_row(file, counts_of([row for row in rows if row["file"] == file], known)))
    counts = counts_of(rows, known)
    print(table_row("all", counts))
    for row in rows:
        if row["outcome"] == "survived" and row["key"] not in known:
            print("survived", "(never run)" if row.get("reached") is False else " ".join(row["changed"]), row["key"])
    passed = counts["suite"] + counts["tests"]
    skipped = counts["made"] - passed - counts["lives"]
    print(f"{passed} passed, {counts['lives']} failed, {skipped} skipped")
    return 1 if counts["lives"] or not passed else 0
