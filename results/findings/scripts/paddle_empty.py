# SPDX-License-Identifier: Apache-2.0
# pip install paddlepaddle==3.3.1
"""group_sharded_parallel fails on a parameter without elements."""
import os, sys
try:
    import paddle, paddle.distributed.sharding as sharding
    from paddle.framework import core
except ImportError as missing:
    sys.exit(print(missing) or 77)

rank, ends = int(os.fork() == 0), ["127.0.0.1:29571", "127.0.0.1:29572"]  # this process and its child
os.environ |= {"PADDLE_TRAINER_ID": str(rank), "PADDLE_TRAINERS_NUM": "2", "PADDLE_CURRENT_ENDPOINT": ends[rank],
               "PADDLE_TRAINER_ENDPOINTS": ",".join(ends), "PADDLE_DISTRI_BACKEND": "gloo"}
paddle.distributed.init_parallel_env()
core.get_all_custom_device_type = paddle.device.get_all_custom_device_type = lambda: ["cpu"]  # it asks for a device
core.libpaddle._get_device_min_chunk_size, paddle.CustomPlace = lambda _: 256, lambda *_: core.CPUPlace()
paddle.get_device, paddle.set_device, paddle.Tensor.cpu = lambda: "cpu:0", lambda _: None, lambda x: x.detach().clone()
model = paddle.nn.Linear(1, 0)
sgd, expected, actual = paddle.optimizer.SGD(1.0, parameters=model.parameters()), "a step", "a step"
try:
    group = paddle.distributed.get_group(0)
    sharded, sgd, _ = sharding.group_sharded_parallel(model, sgd, "os_g", group=group, segment_size=0)
    sharded(paddle.ones([1, 1])).sum().backward()
    sgd.step()
except ValueError as error:
    actual = str(error).strip().splitlines()[-1].partition(" (at")[0].strip()
rank == 0 or os._exit(0)
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
