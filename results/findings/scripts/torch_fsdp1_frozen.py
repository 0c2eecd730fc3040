# SPDX-License-Identifier: Apache-2.0
"""FullyShardedDataParallel on two ranks: the second backward pass fails if a unit between others has frozen parameters
alone and returns its input, as a layer does that is skipped. PyTorch 2.15.0."""
import multiprocessing
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy


class Unit(torch.nn.Module):
    def __init__(self, is_frozen, is_read):
        super().__init__()
        self.is_read = is_read
        self.p = torch.nn.Parameter(torch.ones(4), requires_grad=not is_frozen)

    def forward(self, loss):
        return loss + self.p.sum() if self.p.requires_grad or self.is_read else loss


def run(rank, folder, strategy, frozen, is_read):
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    options = {"use_orig_params": True, "device_id": "cpu", "sharding_strategy": ShardingStrategy[strategy]}
    units = [FSDP(Unit(number in frozen, is_read), **options) for number in range(3)]
    model, failed = FSDP(torch.nn.Sequential(*units), **options), False
    try:
        for _ in range(2):
            model(torch.zeros(())).backward()
        text = "two backward passes"
    except ValueError as error:
        failed, text = True, f"ValueError: {error}"
    if rank == 0:
        print(f"{strategy}, frozen units {frozen} of 3, read: {is_read}: {text}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    failed = 0
    for strategy in "FULL_SHARD", "SHARD_GRAD_OP":
        for frozen, is_read in ([1], True), ([1], False), ([0], False), ([2], False):
            with tempfile.TemporaryDirectory() as folder:
                case = folder, strategy, frozen, is_read
                ranks = [multiprocessing.Process(target=run, args=(rank, *case)) for rank in range(2)]
                [rank.start() for rank in ranks]
                [rank.join() for rank in ranks]
                failed += ranks[0].exitcode
    sys.exit(failed > 0)
