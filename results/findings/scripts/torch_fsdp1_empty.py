# SPDX-License-Identifier: Apache-2.0
"""FullyShardedDataParallel and a parameter without elements: alone in its unit it cannot be wrapped; first or last
in it, it has no optimizer state, and that of the others cannot be read. PyTorch 2.15.0."""
import multiprocessing
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


class Unit(torch.nn.Module):
    def __init__(self, sizes):
        super().__init__()
        for at, size in enumerate(sizes):
            self.register_parameter(f"p{at}", torch.nn.Parameter(torch.ones(size)))

    def forward(self):
        return sum(p.sum() for p in self.parameters())


def made(sizes):
    model = FSDP(Unit(sizes), use_orig_params=True, device_id="cpu")
    return model, torch.optim.Adam(model.parameters())


def run(rank, world, folder, sizes):
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
    stage, whole = "wrapping", {"options": StateDictOptions(full_state_dict=True, broadcast_from_rank0=False)}
    try:
        model, optimizer = made(sizes)
        model().backward()
        optimizer.step()
        stage = "reading"
        saved = get_optimizer_state_dict(model, optimizer, **whole)
        dist.broadcast_object_list(box := [saved])
        stage, (model, optimizer) = "loading", made(sizes)
        set_optimizer_state_dict(model, optimizer, box[0], **whole)
        text = "saved and loaded"
    except Exception as error:
        text = f"{stage}: {type(error).__name__}: {str(error).split('. ')[0]}"
    if rank == 0:
        print(f"{world} ranks, a unit of parameters of {sizes} elements: {text}", flush=True)
    sys.exit(text != "saved and loaded")


if __name__ == "__main__":
    failed = 0
    for world, sizes in ((world, sizes) for world in (1, 2) for sizes in ([4, 2, 4], [0], [0, 4], [4, 0], [5, 0, 4])):
        with tempfile.TemporaryDirectory() as folder:
            ranks = [multiprocessing.Process(target=run, args=(rank, world, folder, sizes)) for rank in range(world)]
            [rank.start() for rank in ranks]
            [rank.join() for rank in ranks]
            failed += ranks[0].exitcode
    sys.exit(failed > 0)
