#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trials in many processes together, until the time is over or a run is wrong. ci/soak_bits says more."""
import argparse
import collections
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tally  # noqa: E402
from case import Case, References, Step, paste, run_case  # noqa: E402
from judge import message_kind  # noqa: E402
from placement import ROOT, reference_keys  # noqa: E402
from process import Runner  # noqa: E402
from shrink import shrink  # noqa: E402
from trial import Durations, draw_trial, make_chain, merge, set_clipping  # noqa: E402

PROGRESS_S = 10
SHRINK_S = 900
REFUSED_MOST = 0.2


class Soak:
    """What the workers share."""

    def __init__(self, options, folders):
        self.options, self.tally, self.durations = options, tally.Tally(), Durations()
        self.lock, self.next, self.found = threading.Lock(), options.first, []
        self.ending, self.interrupted = threading.Event(), threading.Event()
        self.runners = [Runner(folders.program, str(ROOT / "LICENSE"), f"{folders.memory}/{i}", f"{folders.disk}/{i}")
                        for i in range(options.jobs)]

    def take(self):
        """The next trial's number; null at the end."""
        with self.lock:
            if self.ending.is_set() or self.found:
                return None
            self.next += self.options.only is None
            return self.next - 1 if self.options.only is None else self.options.only

    def report(self, case, finding, index):
        with self.lock:
            self.found.append((case, finding, index))

    def stop(self):
        self.ending.set()
        self.interrupted.set()
        for runner in self.runners:
            runner.stop()


def try_case(soak, runner, case, references, index):
    """True if the case is as it must be."""
    finding, result = run_case(runner, case, references, soak.tally)
    if runner.stopped:
        return False
    if finding and finding.kind == "refused":
        soak.tally.refuse(message_kind(finding.text), case.steps[-1].run if soak.options.verbose else None)
    elif finding:
        soak.report(case, finding, index)
    else:
        soak.tally.pass_run(result)
    if soak.options.verbose:
        print("\n".join(paste(case)), f"\n  {finding or 'equal'}", flush=True)
    return not finding


def do_trial(soak, runner, index):
    trial = draw_trial(soak.options.seed, index)
    family, plain = trial[:2]
    references = References()
    soak.tally.count("draws")
    pilot = set_clipping(runner, family)
    wanted, wrong = references.record(runner, [reference_keys(family)], 0)
    if runner.stopped:
        return
    if wrong:
        case = Case([reference_keys(family)], [Step(reference_keys(family))])
        try_case(soak, runner, case, references, index)
        return
    soak.tally.family(family, wanted, pilot is None)
    for placement in plain:
        if soak.ending.is_set() or soak.found:
            return
        run = merge(family, placement)
        soak.tally.placement(family, placement, run)
        begin = time.monotonic()
        if try_case(soak, runner, Case([reference_keys(family)], [Step(run)]), references, index):
            soak.durations.note(Durations.kind(run, placement), time.monotonic() - begin)
    soak.tally.count("draws")
    chain = make_chain(trial, soak.durations)
    soak.tally.meet("chains that end on other ranks", len(chain.references) > 1)
    soak.tally.meet("chains that save on a disk", chain.on_disk)
    try_case(soak, runner, chain, references, index)


def work(soak, runner):
    while (index := soak.take()) is not None:
        do_trial(soak, runner, index)
        if soak.options.only is not None:
            return


def in_all(soak, function):
    """Calls function(runner) in a thread of each runner; the main thread waits and takes signals."""
    threads = [threading.Thread(target=function, args=(runner,), daemon=True) for runner in soak.runners]
    for thread in threads:
        thread.start()
    return threads


def repeat(soak, case, times, enough, until):
    """The findings of some repeats: (kind, what it ended in), until there are enough of them. All runners repeat
    together, as loaded as the soak is."""
    left, ends, lock = [times], [], threading.Lock()
    references = References()

    def work_on(runner):
        while True:
            with lock:
                if enough(ends) or left[0] <= 0 or runner.stopped or time.monotonic() > until:
                    return
                left[0] -= 1
            finding, result = run_case(runner, case, references, tally.Tally())
            shown = result.get("state_digest") or str(finding and finding.text)
            ends.append((finding.kind if finding else None, shown))
    for thread in in_all(soak, work_on):
        thread.join()
    return ends


def failures(ends, kind):
    return sum(one == kind for one, _ in ends)


def explain(soak, case, finding, index):
    """Shrinks a finding and prints it. A smaller case fails at least a third as often, so that it can be shown."""
    print(f"FOUND in --run {soak.options.seed}:{index}: {finding.kind}: {finding.text}")
    print("\n".join(f"    {line}" for line in paste(case)), flush=True)
    kind, times, until = finding.kind, soak.options.repeats, time.monotonic() + SHRINK_S
    often = failures(repeat(soak, case, times, lambda ends: False, until), kind)
    if not often:
        print(f"  not again in {times} repeats, so it is not shrunk", flush=True)
        return
    wanted = max(1, often // 3)

    def still_fails(smaller):
        def decided(ends):
            return failures(ends, kind) >= wanted or any(one not in (None, kind) for one, _ in ends)
        return failures(repeat(soak, smaller, times, decided, until), kind) >= wanted
    case = shrink(case, still_fails)
    print(f"SHRUNK to {len(case.steps[-1].run)} settings{' until interrupted' if soak.interrupted.is_set() else ''}:")
    print("\n".join(f"    {line}" for line in paste(case)))
    show_ends(soak, case, 4 * times)


def show_ends(soak, case, times):
    """What the smallest case ends in, and what it should."""
    wanted, wrong = References().record(soak.runners[0], case.references, 0)
    print(f"  in serial order: {wrong.text if wrong else wanted.get('state_digest')}, equal to unsharded Adam: "
          f"{wanted.get('equal')}")
    seen = collections.Counter(text for _, text in repeat(soak, case, times, lambda ends: False, float("inf")))
    for text, count in seen.most_common():
        print(f"  {count} of {times}: {text}", flush=True)


class Folders:
    """Where runs live: in memory, and NVMe and some checkpoints on a disk with direct I/O. The program is a copy, which
    a build during the soak does not change."""

    def __init__(self, program):
        in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        disk = os.environ.get("ZG_TEST_STORAGE") or ROOT / "build"
        self.memory = tempfile.mkdtemp(prefix="zerogauge-soak-", dir=in_memory)
        self.disk = tempfile.mkdtemp(prefix="soak-", dir=disk)
        self.program = shutil.copy(program, self.memory)

    def remove(self):
        for folder in self.memory, self.disk:
            shutil.rmtree(folder, ignore_errors=True)


def run_soak(soak, minutes):
    """Until the end, a finding or a signal."""
    begin = time.monotonic()
    threads = in_all(soak, lambda runner: work(soak, runner))
    shown = begin
    while any(thread.is_alive() for thread in threads):
        now = time.monotonic()
        if minutes is not None and now - begin > 60 * minutes:
            soak.ending.set()
        if now - shown >= PROGRESS_S:
            shown = now
            print(soak.tally.line(now - begin, len(soak.found)), flush=True)
        for thread in threads:
            thread.join(0.2 / len(threads))
    return time.monotonic() - begin


def end(soak, seconds):
    """The counts; the exit status."""
    print(soak.tally.line(seconds, len(soak.found)))
    print(soak.tally.summary())
    failed = len(soak.found)
    if soak.tally.refused_share() > REFUSED_MOST and soak.options.only is None:
        print(f"FAIL: {soak.tally.refused_share():.0%} of the draws are refused, more than {REFUSED_MOST:.0%}")
        failed += 1
    passed, skipped = soak.tally.counts["passed"], int(not shutil.which("mpirun"))
    if skipped:
        print("SKIP: ranks that are processes: there is no mpirun")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    if soak.interrupted.is_set():
        return 130
    return 1 if failed or not passed else 0


def parse():
    parser = argparse.ArgumentParser(prog="ci/soak_bits", description=__doc__)
    parser.add_argument("minutes", nargs="?", type=float)
    parser.add_argument("seed", nargs="?")
    parser.add_argument("--run", metavar="SEED:INDEX")
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--jobs", type=int, default=3 * (os.cpu_count() or 1), help="runs at the same time")
    parser.add_argument("--repeats", type=int, default=12, help="of a case, before it counts as one that does not fail")
    parser.add_argument("--program", default=str(ROOT / "build/zerogauge"))
    parser.add_argument("--verbose", action="store_true", help="print every command")
    options = parser.parse_args()
    options.only = None
    if options.run:
        options.seed, _, only = options.run.rpartition(":")
        options.only, options.verbose = int(only), True
    elif options.minutes is None:
        parser.error("expected MINUTES, or --run SEED:INDEX")
    options.seed = options.seed or "1"
    return options


def main():
    options = parse()
    folders = Folders(options.program)
    try:
        soak = Soak(options, folders)

        def on_signal(number, frame):
            del number, frame
            soak.stop()
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            signal.signal(number, on_signal)
        print(f"seed {options.seed}, {options.jobs} runs at the same time, in {folders.memory} and {folders.disk}",
              flush=True)
        seconds = run_soak(soak, options.minutes)
        for case, finding, index in [] if soak.interrupted.is_set() else soak.found:
            explain(soak, case, finding, index)
        return end(soak, seconds)
    finally:
        folders.remove()


if __name__ == "__main__":
    sys.exit(main())
