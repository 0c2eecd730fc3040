# SPDX-License-Identifier: Apache-2.0
"""PaddlePaddle's group_sharded_parallel: stages 1 to 3. It asks for an accelerator, so that the CPU is declared to be one
of Paddle's custom devices."""
import os
import socket

import paddle
from paddle.distributed import sharding
from paddle.framework import core

from zerogauge import Adapter, Shard, Unsupported

LEVELS = {1: "os", 2: "os_g", 3: "p_g_os"}
MOMENTS = {"exp_avg": "moment1", "exp_avg_sq": "moment2"}


def take_cpu():
    """After the ranks' rendezvous, which depends on the devices."""
    core.get_all_custom_device_type = paddle.device.get_all_custom_device_type = lambda: ["cpu"]
    core.libpaddle._get_device_min_chunk_size = lambda device: 256  # bytes, as on a GPU
    paddle.CustomPlace = lambda device, number: core.CPUPlace()
    paddle.get_device, paddle.set_device = lambda: "cpu:0", lambda device: None
    paddle.Tensor.cpu = lambda tensor: tensor.detach().clone()  # what is on another device is copied


class Uses(paddle.nn.Layer):
    """A layer of one parameter."""

    def __init__(self, array, is_frozen):
        super().__init__()
        self.p = self.create_parameter(list(array.shape), default_initializer=paddle.nn.initializer.Assign(array))
        self.p.stop_gradient = is_frozen

    def forward(self, loss, gradient):
        self.seen = self.p.numpy()
        return loss if gradient is None else loss + (self.p * gradient).sum()


class Model(paddle.nn.Layer):
    def __init__(self, case):
        super().__init__()
        frozen = {p["name"] for p in case.params if p["frozen"]}
        self.by_name = {name: Uses(array, name in frozen) for name, array in case.initial().items()}
        self.units = paddle.nn.LayerList(self.by_name.values())

    def forward(self, gradients):
        loss = paddle.zeros([])
        for name, unit in self.by_name.items():
            loss = unit(loss, gradients.get(name))
        return loss


class Paddle(Adapter):
    @classmethod
    def join(cls, rank, arguments, folder):
        if rank == 0:
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", 0))
                (folder / "port").write_text(str(listener.getsockname()[1]))
        arguments.barrier.wait()
        ends = [f"127.0.0.1:{int((folder / 'port').read_text()) + at}" for at in range(arguments.world)]
        os.environ.update(PADDLE_TRAINER_ID=str(rank), PADDLE_TRAINERS_NUM=str(arguments.world),
                          PADDLE_TRAINER_ENDPOINTS=",".join(ends), PADDLE_CURRENT_ENDPOINT=ends[rank],
                          PADDLE_MASTER=ends[0], PADDLE_DISTRI_BACKEND="gloo")
        paddle.set_device("cpu")
        paddle.distributed.init_parallel_env()
        take_cpu()

    def build(self, case):
        if case.communication_dtype != "fp32":
            raise Unsupported("gradients are reduced in fp32")
        if case.stage == 3 and (case.left_out or not all(p["used"] or p["frozen"] for p in case.params)):
            raise Unsupported("stage 3 fails on a parameter that a step does not use")
        group, self.model, self.t = case.groups[0], Model(case), 0
        adam = {"AdamW": paddle.optimizer.AdamW, "Adam": paddle.optimizer.Adam}[group["optimizer"]](
            float(case.lr(0, 1)), *group["betas"], group["eps"],
            parameters=self.model.parameters(), weight_decay=group["weight_decay"],
            grad_clip=paddle.nn.ClipGradByGlobalNorm(case.gradient_clipping) if case.gradient_clipping else None)
        self.wrapped, self.optimizer, _ = sharding.group_sharded_parallel(
            self.model, adam, LEVELS[case.stage], group=paddle.distributed.get_group(0), segment_size=0,
            buffer_max_size=case.buckets["reduce"])

    def forward(self, gradients):
        by_owner = super().forward(gradients).gradients
        return self.wrapped({name: paddle.to_tensor(gradient) for name, gradient in by_owner.items()})

    def backward(self, loss):
        (loss / self.case.accumulation).backward()

    def step(self):
        self.optimizer.set_lr(float(self.lr[0]))
        self.optimizer.step()
        self.optimizer.clear_grad()
        self.t += 1

    def seen(self):
        return {p["name"]: self.model.by_name[self.case.owner[p["name"]]].seen for p in self.case.params if p["used"]}

    def state(self):
        held, tensors, rank = self.optimizer._optim._accumulators, {}, self.case.rank
        for name, unit in self.model.by_name.items():
            shard = getattr(unit.p, "fw_storage", None)
            whole = shard is None
            tensors[f"param/{name}"] = unit.p.numpy() if whole else Shard(shard.numpy(), rank * shard.shape[0])
            for kind, own in MOMENTS.items():
                moment = held[own].get(unit.p.name if whole else f"slice@{unit.p.name}")
                if moment is not None:
                    tensors[f"{kind}/{name}"] = moment.numpy() if whole else Shard(moment.numpy(), rank * moment.shape[0])
        return self.gathered(tensors), self.t


if __name__ == "__main__":
    Paddle.main()
