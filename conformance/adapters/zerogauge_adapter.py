# SPDX-License-Identifier: Apache-2.0
"""The common part of all PyTorch adapters: starts the ranks, and has a Trainer run the steps of each case."""
import argparse
import gc
import json
import os
import tempfile
from pathlib import Path

import torch
import torch._dynamo  # noqa: F401  imported here, before the fork, because every rank's first optimizer needs it
import torch.distributed as dist

from zerogauge_case import DTYPES, MOMENTS, Case, Unsupported  # noqa: F401
from zerogauge_model import Model  # noqa: F401


def train(case, trainer):
    """Runs the steps of this launch. The adapter provides `trainer`: see skeleton.py."""
    if case.resume:
        trainer.load(case.resume, case.checkpoint["weights_only"])
    for step in case.own_steps:
        for group in trainer.optimizer.param_groups:
            group["lr"] = case.lr(group["index"], step)
        seen = []
        for micro, gradients in enumerate(case.gradients(step)):
            trainer.backward(gradients, last=micro == case.accumulation - 1)
            seen.append(trainer.model.seen)
        skipped, scale, norm = trainer.step()
        tensors, t = trainer.state()
        case.write_seen(step, seen)
        case.write_step(step, tensors, t, skipped, scale, norm)
    if case.save:
        case.save.mkdir(parents=True, exist_ok=True)
        trainer.save(case.save)


def serve(rank, args, rendezvous, Trainer):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(args.world), LOCAL_SIZE=str(args.world))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=args.world)
    for name in json.loads((args.cases / "order.json").read_text()):
        case, trainer = Case(args.cases / name, args.answers / name, args.state, rank), None
        try:
            trainer = Trainer(case, args)
            train(case, trainer)
        except Unsupported as reason:
            (case.answer / "unsupported.txt").write_text(f"{reason}\n")
        except Exception as error:
            if case.expect != "refusal":
                raise
            (case.answer / "refused.txt").write_text(f"{type(error).__name__}: {error}\n")
        if hasattr(trainer, "close"):
            trainer.close()
        dist.barrier()
    dist.destroy_process_group()


def main(Trainer, **options):
    """Starts the ranks. COMMAND is: python ADAPTER.py [--OPTION CHOICE ...] {cases} {answers} {world} [{state}]"""
    parser = argparse.ArgumentParser()
    for option, choices in options.items():
        parser.add_argument(f"--{option}", choices=choices, default=choices[0])
    for name, kind, count in ("cases", Path, None), ("answers", Path, None), ("world", int, None), ("state", Path, "?"):
        parser.add_argument(name, type=kind, nargs=count)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        args.scratch, rendezvous = Path(folder), f"file://{folder}/rendezvous"
        gc.freeze()  # DeepSpeed's stage 3 collects garbage in every case, and need not search the imports
        torch.multiprocessing.start_processes(serve, (args, rendezvous, Trainer), args.world, start_method="fork")
