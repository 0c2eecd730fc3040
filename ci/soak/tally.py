# SPDX-License-Identifier: Apache-2.0
"""Counts of a soak: what was run, what it met, what was refused."""
import collections
import threading

from space import OWN


class Tally:
    """Workers count at the same time."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts, self.refusals, self.features = (collections.Counter() for _ in range(3))
        self.examples = {}

    def count(self, name):
        with self.lock:
            self.counts[name] += 1

    def meet(self, feature, has=True):
        with self.lock:
            self.features[feature] += has

    def refuse(self, kind, run):
        with self.lock:
            self.counts["refused"] += 1
            self.refusals[kind] += 1
            self.examples.setdefault(kind, run)

    def pass_run(self, result):
        with self.lock:
            self.counts["passed"] += 1
            self.features["runs that redo clipped updates"] += bool(result.get("redone_steps"))
            self.features["runs that continue after a kill"] += bool(result.get("resumed_step"))

    def family(self, family, record, piloted):
        """record: of the family's reference."""
        with self.lock:
            self.counts["families"] += 1
            self.features["families with skipped steps"] += record.get("skipped_steps", 0) > 0
            self.features["families clipped in part"] += family.clip is not None and piloted
            for name, has in (("experts", family.expert > 1), ("replicas", family.replicate > 1),
                              ("adapters", "--lora" in family.keys), ("quantized", family.quantized),
                              ("delayed", family.delayed), ("Muon", family.uses_muon()),
                              ("states of 16 bits", OWN + "moment_dtype" in family.keys)):
                self.features["families " + name] += has

    def placement(self, family, placement, run):
        with self.lock:
            self.counts["draws"] += 1
            for name, has in (("gradients on nvme", placement.gradient == "nvme"),
                              ("optimizer on nvme", placement.optimizer == "nvme"),
                              ("parameters on nvme", placement.param == "nvme"),
                              ("on host", "cpu" in (placement.optimizer, placement.param)),
                              ("processes", "mpirun" in run), ("speculative", placement.speculative),
                              ("chaos", str(run.get("--schedule")).startswith("chaos")),
                              ("throttled", "--emulate" in run), ("verified", "--verify" in run),
                              ("tensor", placement.tensor > 1),
                              ("Muon on tensor ranks", family.uses_muon() and placement.tensor > 1),
                              ("pipeline", placement.pipeline > 1),
                              (f"stage {placement.stage}", True), (family.precision, True)):
                self.features[name] += has

    def refused_share(self):
        return self.counts["refused"] / max(1, self.counts["draws"])

    def line(self, seconds, differences):
        c = self.counts
        return (f"{seconds:6.0f} s: {c['runs']} runs, {c['kills']} kills, {c['refused']} of {c['draws']} draws "
                f"refused, {differences} differences; {60 * (c['runs'] + c['kills']) / max(seconds, 1):.0f} a minute")

    def summary(self):
        lines = [f"  refused {times} times: {kind}" for kind, times in self.refusals.most_common()]
        lines += [f"    {run}" for run in self.examples.values() if run]
        if self.counts["stuck"]:
            lines.append(f"  mpirun alone stayed after {self.counts['stuck']} kills, and was ended")
        lines.append("  " + ", ".join(f"{name} {times}" for name, times in sorted(self.features.items())))
        return "\n".join(lines)
