# SPDX-License-Identifier: Apache-2.0
"""PaddlePaddle 3.3.1, group sharding on two ranks: a step that does not use one of a rank's two parameters.
zerogauge.adapters.paddle_sharding declares the CPU to be one of Paddle's custom devices."""
import multiprocessing
import os
import socket

import paddle
from paddle.distributed.sharding import group_sharded_parallel
from zerogauge.adapters.paddle_sharding import take_cpu


def run(rank, port, level, used):
    ends = [f"127.0.0.1:{port + at}" for at in range(2)]
    os.environ.update(PADDLE_TRAINER_ID=str(rank), PADDLE_TRAINERS_NUM="2", PADDLE_CURRENT_ENDPOINT=ends[rank],
                      PADDLE_TRAINER_ENDPOINTS=",".join(ends), PADDLE_DISTRI_BACKEND="gloo")
    paddle.distributed.init_parallel_env()
    take_cpu()
    model = paddle.nn.LayerList([paddle.nn.Linear(1, 1, bias_attr=False) for _ in range(4)])  # 0 and 2 are rank 0's
    model.forward = lambda x: sum(model[at](x) for at in used)
    weight, sgd = model[0].weight, paddle.optimizer.SGD(1.0, parameters=model.parameters())
    before = weight.item()
    sharded, sgd, _ = group_sharded_parallel(model, sgd, level, group=paddle.distributed.get_group(0), segment_size=0)
    try:
        sharded(paddle.full([1, 1], 1.0 + 2 * rank)).sum().backward()  # the gradient of each is 1 and 3, mean 2
        sgd.step()
        text = f"weight 0 moved by {before - weight.item():g}, mean of the gradients 2"
    except Exception as error:
        text = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    print(f"{level}, used {used}: {text}\n" if rank == 0 else "", end="", flush=True)
    os._exit(0)


if __name__ == "__main__":
    for level, used in ("os_g", [0, 1, 2, 3]), ("os_g", [0, 1, 3]), ("p_g_os", [0, 1, 3]):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        ranks = [multiprocessing.Process(target=run, args=(rank, port, level, used)) for rank in range(2)]
        [rank.start() for rank in ranks]
        [rank.join() for rank in ranks]
