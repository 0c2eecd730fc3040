# SPDX-License-Identifier: Apache-2.0
"""The base class of adapters: starts the ranks, reads the cases, and writes what a trainer does with them. A subclass
has only the lines that are its own: adapters/skeleton.py is one. pytorch.py has the base class of trainers in PyTorch,
one_process.py of those that have all ranks in one process.
"""
import argparse
import gc
import json
import multiprocessing
import os
import pickle
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np

from zerogauge import announce
from zerogauge import tensors as files
from zerogauge.case import Case, Unsupported
from zerogauge.judge import judge
from zerogauge.needs import lack
from zerogauge.ranks import run_all
from zerogauge.shards import Shard, merged


REFUSAL_S = 10  # how long a rank that refuses a case waits for the others to do so


class Loss:
    """The loss of one micro-step, sum(parameter x gradient), for trainers without autograd: its gradients are known."""

    def __init__(self, gradients):
        self.gradients = gradients  # {name: fp32 array}; those of tied parameters are summed


class Adapter:
    """One case on one rank. All ranks call the same methods in the same order, so collectives work."""

    # claims.json (CONTRACT.md): the cases that the trainer supports. `--claims` prints it. A case that needs more is
    # declined, also where a key is left out (needs.py); an adapter without claims of its own answers what it is asked.
    claims = {"contract": 1, "name": "unnamed", "version": "0"}
    # Options of the command line, each with its choices; the first is the default. self.arguments has the values.
    options = {}
    # `build` raises one of these where a configuration is invalid: the answer is a refusal, with the message.
    refusals = (ValueError, AssertionError)

    def __init__(self, case, arguments):
        self.case, self.arguments, self.is_last, self.is_built = case, arguments, False, False
        self.now, self.loss = 0, None

    # Yours.

    def build(self, case):
        """Makes model and optimizer. `case` has every key of case.json as an attribute, and rank. Trainers without
        autograd keep their parameters in self.parameters: {name: fp32 array}. Raise Unsupported, with a reason, for a
        case that you cannot run, unless the claims exclude it. Any other exception refuses an invalid configuration."""
        raise NotImplementedError

    def backward(self, loss):
        """Runs the backward of one micro-step. The gradients of a step are the mean of its micro-steps' and ranks', or
        where case.tokens counts tokens their sum, divided by case.all_tokens(self.now). self.now is the step, and
        self.is_last says whether this micro-step is its last. A trainer that logs the loss puts it into self.loss."""
        raise NotImplementedError

    def step(self):
        """Updates the parameters. Returns None, or whether the step was skipped, the loss scale after it, and the norm
        before clipping; None for a scale or norm that does not exist."""
        raise NotImplementedError

    def state(self):
        """Returns full fp32 tensors, read back from where the implementation keeps them: {"param/NAME": ...,
        "exp_avg/NAME": ..., "exp_avg_sq/NAME": ...}; and t, the number of updates. Called on all ranks; rank 0's is
        written. self.gathered makes full tensors of what each rank holds."""
        raise NotImplementedError

    def save(self, path):
        """Writes your checkpoint into this folder. Without `save` and `load`, do not claim "resume"."""
        raise Unsupported("there are no checkpoints")

    def load(self, path, weights_only):
        raise Unsupported("there are no checkpoints")

    def close(self):
        """Releases what must not survive the case. Called where build has succeeded."""

    # A framework's: TorchAdapter has those of PyTorch.

    @classmethod
    def join(cls, rank, arguments, folder):
        """Makes this process a rank. folder: shared by all ranks of the launch, and removed after it."""

    @classmethod
    def meet(cls):
        """Waits for all ranks; called after each case."""

    @classmethod
    def leave(cls):
        """Called after the last case."""

    def set_lr(self, step):
        """Sets the learning rates of a step, one for each group of the case."""
        self.lr = [self.case.lr(index, step) for index in range(len(self.case.groups))]

    def forward(self, gradients):
        """Returns the loss of a micro-step, whose gradients are the given arrays, by name and in the case's precision."""
        by_owner = {}
        for name, gradient in gradients.items():
            owner, wide = self.case.owner[name], files.widened(gradient)
            by_owner[owner] = by_owner[owner] + wide if owner in by_owner else wide
        return Loss(by_owner)

    def micro_step(self, gradients):
        self.backward(self.forward(gradients))

    def seen(self):
        """Returns the parameters that the last forward used on this rank, in the case's precision: {name: array}."""
        return {p["name"]: files.rounded(self.parameters[self.case.owner[p["name"]]], self.case.precision)
                for p in self.case.params if p["used"]}

    def gather(self, array):
        """Returns the arrays of all ranks, ranks ascending: a collective for trainers that bring none."""
        np.save(self.arguments.scratch / f"{self.case.rank}.npy", array)
        self.arguments.barrier.wait()
        arrays = [np.load(self.arguments.scratch / f"{rank}.npy") for rank in range(self.case.world)]
        self.arguments.barrier.wait()
        return arrays

    def gathered(self, tensors):
        """Returns full arrays of what all ranks hold, on rank 0; a collective. tensors: this rank's part of a state,
        {"param/NAME": a full tensor, a Shard or a list of Shards}."""
        mine = {name: part if isinstance(part, list) else [part] for name, part in tensors.items()}
        path = self.arguments.scratch
        (path / f"{self.case.rank}.pickle").write_bytes(pickle.dumps(
            {name: [(part.offset, self.array(part.values)) if isinstance(part, Shard) else (None, self.array(part))
                    for part in parts] for name, parts in mine.items()}))
        self.arguments.barrier.wait()
        ranks = [path / f"{rank}.pickle" for rank in range(self.case.world if self.case.rank == 0 else 0)]
        whole = merged(self.case, [pickle.loads(path.read_bytes()) for path in ranks])
        self.arguments.barrier.wait()
        return whole

    def array(self, tensor):
        """A copy of one of the trainer's tensors as a numpy array."""
        return np.array(tensor)

    # A trainer that owns its loop overrides `train`: it trains on `batches`, calls begin_step before a step's first
    # forward, saw_forward after each, and finish_step after the update. adapters/hf_trainer.py does, from callbacks.

    def train(self):
        """The loop over the case's steps."""
        case = self.case
        if case.resume:
            self.load(case.resume, case.checkpoint["weights_only"])
        for step in case.own_steps:
            self.begin_step(step)
            for micro, gradients in enumerate(self.micro_steps(step)):
                self.is_last = micro == case.micro_steps(step) - 1
                self.micro_step(gradients)
                self.saw_forward()
            self.finish_step(*(self.step() or ()))
        if case.save:
            case.save.mkdir(parents=True, exist_ok=True)
            self.save(case.save)

    def batches(self):
        """This rank's data: the gradients of each micro-step of each step, which `forward` takes."""
        return [gradients for step in self.case.own_steps for gradients in self.micro_steps(step)]

    def begin_step(self, step):
        """Sets the learning rates of a step, from 1."""
        self.now, self.all_seen = step, []
        self.set_lr(step)

    def saw_forward(self):
        """Keeps what `seen` says of the micro-step's forward."""
        micro = len(self.all_seen)
        self.all_seen.append({name: self.array(tensor) for name, tensor in self.seen().items()
                              if self.case.uses(name, self.now, micro)})

    def finish_step(self, skipped=False, scale=None, norm=None):
        """Writes the answer of a step: `state`, and what `step` returns."""
        tensors, t = self.state()
        self.write_seen(self.now, self.all_seen)
        self.case.write_step(self.now, {name: self.array(tensor) for name, tensor in tensors.items()}, int(t), skipped,
                             scale, norm, self.loss)

    # The launch.

    def micro_steps(self, step):
        return self.case.gradients(step)

    def write_seen(self, step, seen):
        self.case.write_seen(step, seen)

    def begin(self):
        keys = {**vars(self.case), "mesh": vars(self.case.mesh)}  # of case.json
        reason = type(self).claims is not Adapter.claims and lack(keys, type(self).claims)
        if reason:
            raise Unsupported(reason)
        self.build(self.case)
        self.is_built = True

    def agree(self, error):
        """Waits until `build` has ended on all ranks. Raises the error of a rank that is alone with it, which ends the
        launch: the others may wait for that rank in a collective."""
        barrier, marks = getattr(self.arguments, "agreement", None), self.arguments.scratch
        if error:
            (marks / f"{self.case.name}.{self.case.rank}.refused").touch()
        try:
            if barrier:
                barrier.wait(REFUSAL_S if error else None)
        except threading.BrokenBarrierError:
            raise error or SystemExit(1) from None
        refused = [(marks / f"{self.case.name}.{rank}.refused").exists() for rank in range(self.case.world)]
        if barrier and any(refused) and not all(refused):
            if error:
                raise error
            barrier.wait()  # until it is ended

    @classmethod
    def serve(cls, rank, arguments, folder):
        """Answers all cases of the launch on one rank."""
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(arguments.world),
                          LOCAL_SIZE=str(arguments.world))
        cls.join(rank, arguments, folder)
        for name in json.loads((arguments.cases / "order.json").read_text()):
            case = Case(arguments.cases / name, arguments.answers / name, arguments.state, rank)
            adapter, error = cls(case, arguments), None
            try:
                adapter.begin()
            except (Unsupported, *cls.refusals) as raised:
                error = raised
            adapter.agree(error)
            try:
                if not error:
                    adapter.train()
            except Unsupported as raised:
                error = raised
            if isinstance(error, Unsupported):
                (case.answer / "unsupported.txt").write_text(f"{error}\n")
            elif error:
                (case.answer / "refused.txt").write_text(f"{type(error).__name__}: {error}\n")
            if adapter.is_built:
                adapter.close()
            cls.meet()
        cls.leave()

    @classmethod
    def main(cls):
        """The command line: [--OPTION CHOICE...] {cases} {answers} {world} [{state}]; or --claims; or --check
        [OPTION of zerogauge check...], which judges this adapter; or --doctor, which tries it and explains its claims."""
        parser = argparse.ArgumentParser(description=sys.modules[cls.__module__].__doc__)
        if "--claims" in sys.argv:
            print(json.dumps(cls.claims, indent=2))
            return
        for judging in {"--check", "--doctor"} & set(sys.argv):
            sys.exit(cls._judge(sys.argv.index(judging)))
        for option, choices in cls.options.items():
            parser.add_argument(f"--{option}", choices=choices, default=choices[0])
        parser.add_argument("--claims", action="store_true", help="print claims.json, and stop")
        parser.add_argument("--check", action="store_true", help="judge this adapter; options of zerogauge check follow")
        parser.add_argument("--doctor", action="store_true", help="try three cases, and explain what is claimed")
        for name, kind, count in (("cases", Path, None), ("answers", Path, None), ("world", int, None),
                                  ("state", Path, "?")):
            parser.add_argument(name, type=kind, nargs=count)
        arguments = parser.parse_args()
        with tempfile.TemporaryDirectory() as folder:
            arguments.scratch = Path(folder)
            gc.freeze()  # what was imported is not garbage; DeepSpeed's stage 3 runs a collection in every case
            cls.launch(arguments)

    @classmethod
    def _judge(cls, at):
        """Judges this adapter, whose packages are imported once for all launches. at: of --check in sys.argv."""
        def again(arguments):
            sys.argv[at:] = arguments
            cls.main()

        announce.finish(cls.claims)
        gc.freeze()
        adapter = [sys.executable, *sys.orig_argv[1:len(sys.orig_argv) - len(sys.argv) + at]]
        if sys.argv[at] == "--check":
            status = judge(cls.claims, adapter, again, sys.argv[at + 1:])
        else:
            from zerogauge.doctor import examine  # which needs this class
            status = examine(cls, adapter, again, sys.argv[at + 1:])
        gc.unfreeze()
        return status

    @classmethod
    def launch(cls, arguments):
        """Answers all cases of the launch, with a process for each rank."""
        fork = multiprocessing.get_context("fork")
        arguments.barrier, arguments.agreement = (fork.Barrier(arguments.world) for _ in range(2))
        ranks = [fork.Process(target=cls.serve, args=(rank, arguments, arguments.scratch))
                 for rank in range(arguments.world)]
        sys.exit(run_all(ranks))
