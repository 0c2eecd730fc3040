# SPDX-License-Identifier: Apache-2.0
"""A case: runs that must end in the bits of a reference, all of which can be made again."""
import copy
import dataclasses
import json

from command import PASTED, Place, arguments, pasted
from judge import (Finding, judge_checkpoints, judge_equal, judge_good, judge_killed, judge_newest, judge_reference,
                   message_kind, newest_step, record)
from process import Kill
from space import OWN


@dataclasses.dataclass
class Step:
    """A run of a chain. kill: null where it reaches its end. every: steps between its checkpoints."""
    run: dict
    kill: Kill | None = None
    every: int = 1


@dataclasses.dataclass
class Case:
    """references: the serial run that defines the bits. With two, the first one's ranks make the steps until the last
    killed run's checkpoint, and the second one's those after it; then all but the last of the steps are killed.
    on_disk: so are its checkpoints, and saves take long.
    """
    references: list
    steps: list
    on_disk: bool = False

    def copy(self):
        return copy.deepcopy(self)

    def runs(self):
        return self.references + [step.run for step in self.steps]

    def saves(self):
        return len(self.steps) > 1 or self.steps[0].kill is not None


class References:
    """The records of serial runs; each is made once. Threads may share it."""

    def __init__(self):
        self.known = {}

    @staticmethod
    def place(runner, **checkpoint):
        return Place(runner.program, runner.text, tuple(map(str, runner.nvme)), **checkpoint)

    def record(self, runner, references, resumed):
        """(record, finding): of a chain of which the second part begins after step `resumed`; 0: at the first step."""
        key = json.dumps([references, resumed if len(references) > 1 else 0], sort_keys=True)
        if key not in self.known:
            made = self.make(runner, references, resumed)
            if runner.stopped:
                return made
            self.known[key] = made
        return self.known[key]

    def make(self, runner, references, resumed):
        last = {**references[-1], "--schedule": "serial"}
        if len(references) == 1 or not resumed:
            ended = runner.run(arguments({**last, "--verify": True}, self.place(runner)))
            found = judge_reference(ended)
        else:
            # Steps that other ranks have made cannot be repeated, and so not be verified.
            last.pop("--verify", None)
            first = {**references[0], "--schedule": "serial", "--steps": resumed}
            folder = str(runner.stores[0]) + "-reference"
            ended = runner.run(arguments(first, self.place(runner, checkpoint=folder, how="--save")))
            found = judge_good(ended)
            if not found:
                ended = runner.run(arguments(last, self.place(runner, checkpoint=folder, how="--resume")))
                found = judge_good(ended)
            runner.forget(folder)
        return record(ended), found


def meet_run(tally, step, ended, store):
    """Counts a run of a chain, and what it was doing when it was killed."""
    is_async = bool(step.run.get(OWN + "async_save"))
    tally.meet("runs with asynchronous saves", is_async and ended.status != 2)
    tally.meet("interrupts", ended.killed and step.kill.interrupts)
    tally.meet(f"kills amid {'an asynchronous' if is_async else 'another'} save",
               ended.killed and any(store.glob("*.partial")))


def run_case(runner, case, references, tally):
    """(finding, record): null where all is as it must be."""
    store = runner.stores[case.on_disk]
    runner.forget(store)
    place = References.place(runner, checkpoint=str(store) if case.saves() else "")
    kills, newest = 0, 0
    for step in case.steps:
        place.every = step.every
        ended = runner.run(arguments(step.run, place), step.kill)
        if runner.stopped:
            return None, {}
        tally.count("kills" if ended.killed else "runs")
        kills += ended.killed
        if ended.launcher_stuck:
            tally.count("stuck")
        found = judge_killed(ended, step.kill) if ended.killed else judge_good(ended)
        if case.saves():
            meet_run(tally, step, ended, store)
            found = found or judge_newest(store, newest, ended)
            newest = newest_step(store)
        remains = runner.remains()
        if not found and remains:
            found = Finding("files", f"left behind: {' '.join(remains)}")
        if found and found.kind == "refused":
            return refused(runner, step.run, place, found), {}
        if found:
            return found, {}
    result = record(ended)
    if case.saves():
        found = judge_checkpoints(store, kills if result.get("resumed_step") == result["steps"] else 0)
        if found:
            return found, result
    wanted, found = references.record(runner, case.references, result.get("resumed_step") or 0)
    if runner.stopped:
        return None, {}
    return found or judge_equal(result, wanted), result


def refused(runner, run, place, found):
    """What serial order does not refuse with the same words is a fault of the other order."""
    serial = runner.run(arguments({**run, "--schedule": "serial", "--verify": False, "mpirun": False}, place))
    again = judge_good(serial)
    runner.remains()
    if runner.stopped or (again and again.kind == "refused" and message_kind(again.text) == message_kind(found.text)):
        return found
    return Finding("status", f"refused in one order alone: {found.text}")


def paste(case):
    """The lines that make a case again."""
    lines = []
    if case.saves():
        lines.append(f"rm -rf {PASTED.checkpoint}")
    for step in case.steps:
        lines.append(pasted(step.run, case.saves(), step.every))
        if step.kill:
            lines[-1] += f"  # kill -{'INT' if step.kill.interrupts else 9} after {step.kill.after:.3f} s, "
            lines[-1] += f"a process at {step.kill.victim:.2f} of them"
    return lines
