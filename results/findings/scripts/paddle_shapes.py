# SPDX-License-Identifier: Apache-2.0
"""PaddlePaddle 3.3.1, group sharding on two ranks: parameters without elements and scalars are refused.
zerogauge.adapters.paddle_sharding declares the CPU to be one of Paddle's custom devices."""
import multiprocessing
import os
import socket
import sys

import paddle
from paddle.distributed.sharding import group_sharded_parallel
from zerogauge.adapters.paddle_sharding import take_cpu


class Holds(paddle.nn.Layer):
    def __init__(self, shape):
        super().__init__()
        self.p = self.create_parameter(shape)
        self.q = self.create_parameter([3])

    def forward(self):
        return self.p.sum() + self.q.sum()


def run(rank, port, level, shape):
    ends = [f"127.0.0.1:{port + at}" for at in range(2)]
    os.environ.update(PADDLE_TRAINER_ID=str(rank), PADDLE_TRAINERS_NUM="2", PADDLE_CURRENT_ENDPOINT=ends[rank],
                      PADDLE_TRAINER_ENDPOINTS=",".join(ends), PADDLE_DISTRI_BACKEND="gloo")
    paddle.distributed.init_parallel_env()
    take_cpu()
    model, failed = Holds(shape), False
    sgd = paddle.optimizer.SGD(1.0, parameters=model.parameters())
    try:
        group = paddle.distributed.get_group(0)
        sharded, sgd, _ = group_sharded_parallel(model, sgd, level, group=group, segment_size=0)
        sharded().backward()
        sgd.step()
        text = "a step is made"
    except Exception as error:
        reason = str(error).strip().splitlines()[-1].partition(" (at")[0].strip()
        failed, text = True, f"{type(error).__name__}: {reason}"
    print(f"{level}, shape {shape}: {text}\n" if rank == 0 else "", end="", flush=True)
    os._exit(failed)


if __name__ == "__main__":
    refused = 0
    for level, shape in ((level, shape) for shape in ([2], [], [0]) for level in ("os", "os_g", "p_g_os")):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        ranks = [multiprocessing.Process(target=run, args=(rank, port, level, shape)) for rank in range(2)]
        [rank.start() for rank in ranks]
        [rank.join() for rank in ranks]
        refused += ranks[0].exitcode
    sys.exit(refused > 0)
