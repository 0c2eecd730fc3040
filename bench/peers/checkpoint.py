# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of PyTorch (torch.distributed.checkpoint, tensors sharded over the ranks as FSDP2's are) or of DeepSpeed
(ZeRO-2, whose checkpoints have the gathered parameters as well):

    python checkpoint.py --with torch|deepspeed

A save ends when its files and folders are durable; a load begins when none of their pages is in memory."""
import argparse
import os
import shutil
import time

from peer import main, ranks, serve_ranks

STATES = ("param", "exp_avg", "exp_avg_sq")


def expected(count, state, shard):
    """Values that depend on state, shard and element, exact in fp32."""
    import torch
    return torch.arange(count, dtype=torch.float32).remainder_(8191).add_(8192 * (1 + state + len(STATES) * (shard % 97)))


class Torch:
    def __init__(self, rank, setting):
        import torch
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import DTensor, Shard
        self.name = f"PyTorch {torch.__version__.split('+')[0]} torch.distributed.checkpoint"
        world, self.tensors, self.states = setting["world"], [], {}
        mesh = init_device_mesh("cpu", (world,))
        for index, count in enumerate(setting["params"]):
            chunk = -(-count // world)
            own = min(count, chunk * (rank + 1)) - min(count, chunk * rank)
            for state, name in enumerate(STATES):
                tensor = torch.empty(own)
                self.tensors.append((tensor, state, world * index + rank))
                self.states[f"{index}.{name}"] = DTensor.from_local(tensor, mesh, [Shard(0)], run_check=False,
                                                                    shape=torch.Size([count]), stride=(1,))

    def save(self, folder):
        import torch.distributed.checkpoint
        torch.distributed.checkpoint.save(self.states, checkpoint_id=folder)

    def load(self, folder):
        import torch.distributed.checkpoint
        torch.distributed.checkpoint.load(self.states, checkpoint_id=folder)


class DeepSpeed:
    def __init__(self, rank, setting):
        import deepspeed
        import torch
        deepspeed.init_distributed(dist_backend="gloo")
        self.name = f"DeepSpeed {deepspeed.__version__} ZeRO-2"

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.params = torch.nn.ParameterList(torch.zeros(count) for count in setting["params"])

            def forward(self, factor):
                return sum(param.sum() for param in self.params) * factor

        config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2},
                  "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}}
        self.engine = deepspeed.initialize(model=Model(), config=config)[0]
        self.first_shard, self.world = rank, setting["world"]
        self.engine.backward(self.engine(torch.ones(())))  # moments are made by the first step
        self.engine.step()

    @property
    def tensors(self):
        """A load may bring others."""
        optimizer = self.engine.optimizer
        for group, param in enumerate(optimizer.single_partition_of_fp32_groups):
            kept = optimizer.optimizer.state[param]
            for state, tensor in enumerate((param.data, kept["exp_avg"], kept["exp_avg_sq"])):
                yield tensor, state, self.world * group + self.first_shard

    def save(self, folder):
        self.engine.save_checkpoint(folder, tag="states")

    def load(self, folder):
        if not self.engine.load_checkpoint(folder, tag="states")[0]:
            raise OSError(f"{folder}: DeepSpeed found no checkpoint")


def durable(folder, forget=False):
    """Syncs all that is in a folder, and the folder; forget: also removes its pages from memory."""
    for path, _, files in os.walk(folder):
        for name in [*files, "."]:
            file = os.open(os.path.join(path, name), os.O_RDONLY)
            os.fsync(file)
            if forget and name != ".":
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def serve(rank, peer, options):
    import torch.distributed as dist
    setting, step = peer.setting, 0
    trainer = (Torch if options.library == "torch" else DeepSpeed)(rank, setting)

    def at(number):
        return os.path.join(setting["folder"], f"step-{number}")

    def timed(work):
        dist.barrier()
        begin = time.perf_counter_ns()
        work()
        dist.barrier()
        return {"ns": time.perf_counter_ns() - begin}

    def save_durably():
        trainer.save(at(step))
        dist.barrier()
        if rank == 0:
            durable(setting["folder"])

    def save():
        nonlocal step
        step += 1
        answer = timed(save_durably)
        load()
        if rank == 0:
            shutil.rmtree(at(step - 1), ignore_errors=True)
        return answer

    def load():
        for tensor, *_ in trainer.tensors:
            tensor.zero_()
        dist.barrier()
        if rank == 0:
            durable(setting["folder"], forget=True)
        answer = timed(lambda: trainer.load(at(step)))
        for tensor, state, shard in trainer.tensors:
            wrong = int((tensor != expected(tensor.numel(), state, shard)).sum())
            if wrong:
                raise ValueError(f"rank {rank}: {wrong} of {tensor.numel()} elements of {STATES[state]} are wrong")
        return answer

    for tensor, state, shard in trainer.tensors:
        tensor.copy_(expected(tensor.numel(), state, shard))
    save()
    serve_ranks(rank, peer, trainer.name, lambda _: load() if setting["operation"] == "load" else save())


def body(peer):
    parser = argparse.ArgumentParser()
    parser.add_argument("--with", dest="library", required=True, choices=["torch", "deepspeed"])
    options = parser.parse_args()
    os.makedirs(peer.setting["folder"])
    ranks(peer, peer.setting["world"], lambda rank, of: serve(rank, of, options))


if __name__ == "__main__":
    main(body)
