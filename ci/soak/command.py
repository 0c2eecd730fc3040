# SPDX-License-Identifier: Apache-2.0
"""A run's dictionary as a command: one that is executed, and one that can be pasted."""
import dataclasses
import json
import shlex

FLAGS = ("--verify", "--sequence-parallel", "--buffered", "--no-swap-checksum")
FIRST = ("--preset", "--model", "--world", "--mesh", "--steps")


@dataclasses.dataclass
class Place:
    """What a command reads and where it writes. checkpoint: a folder, or empty; how: the option that takes it."""
    program: str
    text: str
    nvme: tuple
    checkpoint: str = ""
    how: str = "--checkpoint"
    every: int = 1


PASTED = Place("build/zerogauge", "LICENSE", ("build", "."), "saved")


def shown(value):
    return value if isinstance(value, str) else json.dumps(value)


def processes(run):
    """The ranks of a run that are processes; 0: all are threads of one."""
    if not run.get("mpirun"):
        return 0
    count = int(run.get("--world", 1 if "--mesh" in run else 2))
    for degree in run.get("--mesh", "").split(","):
        name, _, value = degree.partition("=")
        count *= int(value) if name not in ("expert", "") else 1
    return count


def arguments(run, place):
    words, count = [place.program], processes(run)
    if count:
        words = ["mpirun", "--oversubscribe", "-n", str(count)] + words
    words.append("train")
    options = sorted((k for k in run if k.startswith("--") and k != "--nvme-path" and run[k] is not False),
                     key=lambda k: (FIRST.index(k) if k in FIRST else len(FIRST), k))
    for name in options:
        if name == "--world" and count:
            continue
        words += [name] if name in FLAGS else [name, shown(run[name])]
    words += ["--text", place.text, "--json"]
    for folder in place.nvme[:run.get("--nvme-path", 1)]:
        words += ["--nvme-path", folder]
    if place.checkpoint:
        words += [place.how, place.checkpoint]
        words += ["--every", str(place.every)] if place.how == "--checkpoint" else []
    for name in sorted(k for k in run if not k.startswith("--") and k != "mpirun"):
        words += ["--set", f"{name}={shown(run[name])}"]
    return words


def pasted(run, checkpoint=False, every=1):
    place = dataclasses.replace(PASTED, every=every, checkpoint=PASTED.checkpoint if checkpoint else "")
    return shlex.join(arguments(run, place))
