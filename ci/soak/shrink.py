# SPDX-License-Identifier: Apache-2.0
"""Makes a failing case smaller for as long as it still fails: fewer runs, fewer keys, simpler values."""

SIMPLER_MODELS = ("linear", "gpt-nano")


def all_keys(case):
    return sorted({key for run in case.runs() for key in run} - {"--preset", "--model", "--steps"})


def without(case, keys):
    """Every run loses these keys; what is left to them is their default."""
    smaller = case.copy()
    for run in smaller.runs():
        for key in keys:
            run.pop(key, None)
    return smaller


def with_value(case, key, value):
    smaller = case.copy()
    for run in smaller.runs():
        run[key] = value
    return smaller


def fewer_runs(case):
    """The last run alone; one killed run less; one set of ranks."""
    for first in [len(case.steps) - 1] + list(range(1, len(case.steps) - 1)):
        smaller = case.copy()
        del smaller.steps[:first]
        if len(smaller.steps) < len(case.steps):
            smaller.references = smaller.references[-1:] if len(smaller.steps) == 1 else smaller.references
            yield smaller
    if len(case.references) > 1:
        smaller = case.copy()
        del smaller.references[0]
        yield smaller


def own_reference(case):
    """The last run itself in serial order as the reference."""
    smaller = case.copy()
    run = {key: value for key, value in smaller.steps[-1].run.items() if key not in ("mpirun", "--emulate", "--inject")}
    smaller.references = [{**run, "--schedule": "serial", "--verify": True}]
    yield smaller


def simpler_values(case):
    if case.on_disk:
        smaller = case.copy()
        smaller.on_disk = False
        yield smaller
    steps = case.steps[-1].run["--steps"]
    for fewer in sorted({2, 3, steps // 2, steps - 1}):
        if 1 <= fewer < steps:
            yield with_value(case, "--steps", fewer)
    for model in SIMPLER_MODELS:
        if case.steps[-1].run["--model"] == model:
            break
        yield with_value(case, "--model", model)
    for world in 1, 2:
        if case.steps[-1].run.get("--world", 2) > world or "--mesh" in case.steps[-1].run:
            yield with_value(without(case, ["--mesh"]), "--world", world)


def drop_keys(case, fails):
    """Halves, quarters, ... and at last single keys; neighbours in the alphabet belong to one section."""
    size = max(1, len(all_keys(case)) // 2)
    while True:
        at = 0
        while at < len(all_keys(case)):
            smaller = without(case, all_keys(case)[at:at + size])
            if fails(smaller):
                case = smaller
            else:
                at += size
        if size == 1:
            return case
        size = max(1, size // 2)


def first_failing(case, candidates, fails):
    """The first candidate that fails, again and again."""
    changed = True
    while changed:
        changed = False
        for smaller in candidates(case):
            if fails(smaller):
                case, changed = smaller, True
                break
    return case


def shrink(case, fails):
    """fails(case): true if it fails in the same way in one of some repeats. The result fails, if `case` does."""
    case = first_failing(case, fewer_runs, fails)
    for smaller in own_reference(case):
        case = smaller if fails(smaller) else case
    before = None
    while before != size_of(case):
        before = size_of(case)
        case = drop_keys(case, fails)
        case = first_failing(case, simpler_values, fails)
    return case


def size_of(case):
    last = case.steps[-1].run
    return (len(case.steps), len(all_keys(case)), last["--steps"], last["--model"], str(last.get("--world")))
