# SPDX-License-Identifier: Apache-2.0
"""One trial: a family of runs, the definition's run of it, runs in random placements, and chains of killed ones."""
import copy
import fcntl
import os
import pty
import random
import re
import struct
import termios
import threading

from case import Case, References, Step
from command import arguments
from placement import draw_placement, reference_keys
from process import Kill
from space import OWN, chance, divisors, draw_family

RUNS, KILLED_MOST = 7, 4
FAILED_NORM = 1.0


def draw_trial(seed, index):
    """Everything drawn for a trial but the clipping, which needs a pilot."""
    rng = random.Random(f"{seed}:{index}")
    family = draw_family(rng)
    plain = [draw_placement(rng, family) for _ in range(RUNS)]
    other = other_ranks(rng, family) if chance(rng, 0.3) else family
    chain = [(draw_placement(rng, family), rng.random() * 1.1, rng.random(), rng.choice((1, 1, 1, 2, 3)),
              chance(rng, 0.25)) for _ in range(rng.randrange(1, KILLED_MOST + 1))]
    return family, plain, chain, other, draw_placement(rng, other), chance(rng, 0.3)


def other_ranks(rng, family):
    """The same batch and moments on another number of ranks of data parallelism; the family where that is not possible.
    Stages may change, too: they only order sums of later steps in another way."""
    keys = family.keys
    sequences = (family.ranks() * keys["train_micro_batch_size_per_gpu"] * keys["gradient_accumulation_steps"])
    counts = [n for n in divisors(sequences) if n <= 8 and n != family.ranks()]
    if not counts or family.quantized or OWN + "reduction_group" in keys or 0 in family.stages:
        return family
    other = copy.deepcopy(family)
    other.replicate, other.shard, other.expert = 1, rng.choice(counts), 1
    each = sequences // other.shard
    other.keys["train_micro_batch_size_per_gpu"] = rng.choice(divisors(each))
    other.keys["gradient_accumulation_steps"] = each // other.keys["train_micro_batch_size_per_gpu"]
    if other.keys["gradient_accumulation_steps"] > 1:
        other.stages = (rng.choice((1, 3)),)
    return other


def pilot_norms(runner, run):
    """The norms of an unclipped run, which it shows on a terminal. Skipped steps have none."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 240, 0, 0))
    pieces = []

    def read():
        try:
            while piece := os.read(ours, 65536):
                pieces.append(piece)
        except OSError:
            pass
    reader = threading.Thread(target=read)
    reader.start()
    ended = runner.run(arguments(run, References.place(runner)), err_fd=theirs)
    os.close(theirs)
    reader.join()
    os.close(ours)
    found = re.findall(r"norm ([\d.e+-]+)  scale \S+(?!\S*  skipped)", b"".join(pieces).decode("utf-8", "replace"))
    return ended, [float(norm) for norm in found]


def set_clipping(runner, family):
    """The norm that the wanted share of the pilot's steps exceed. Null, or what is wrong with the pilot."""
    if family.clip is None:
        return None
    pilot = {**reference_keys(family), "gradient_clipping": 0}
    pilot.pop("--verify")
    ended, norms = pilot_norms(runner, pilot)
    norms = sorted(norm for norm in norms if 0 < norm < 1e30) or [FAILED_NORM]
    family.keys["gradient_clipping"] = norms[min(int((1 - family.clip) * len(norms)), len(norms) - 1)]
    return ended if ended.status else None


class Durations:
    """How long runs of a kind take at present, for kills that hit them."""

    def __init__(self):
        self.known = {}

    @staticmethod
    def kind(run, placement):
        return placement.on_nvme(), bool(run.get("mpirun")), "--emulate" in run, run["--model"].split(":")[0]

    def note(self, kind, seconds):
        self.known[kind] = 0.8 * self.known.get(kind, seconds) + 0.2 * seconds

    def of(self, kind):
        return self.known.get(kind, 0.3)


def merge(family, placement):
    return {**family.keys, **placement.keys}


def make_chain(trial, durations):
    """Killed runs and a last one, which continue each other."""
    family, _, chain, other, last, on_disk = trial
    other.keys["gradient_clipping"] = family.keys.get("gradient_clipping", 1)
    steps = []
    for placement, share, victim, every, interrupts in chain:
        run = merge(family, placement)
        after = share * durations.of(Durations.kind(run, placement))
        # mpirun ends its processes by SIGTERM instead, and may kill them.
        steps.append(Step(run, Kill(after, victim, interrupts and "mpirun" not in run), every))
    steps.append(Step(merge(other, last)))
    for step in steps:
        step.run.pop("--verify", None)  # what other ranks have made is not repeated
    references = [reference_keys(family)] + ([reference_keys(other)] if other is not family else [])
    return Case(references, steps, on_disk)
