# SPDX-License-Identifier: Apache-2.0
# pip install paddlepaddle==3.3.1
"""group_sharded_parallel does not reduce a bucket with a parameter that a step does not use."""
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
model = paddle.nn.LayerList([paddle.nn.Linear(1, 1, bias_attr=False) for _ in range(4)])  # 0 and 2 are rank 0's
model.forward = lambda x: sum(model[at](x) for at in (0, 1, 3))
weight, sgd = model[0].weight, paddle.optimizer.SGD(1.0, parameters=model.parameters())
before, group = weight.item(), paddle.distributed.get_group(0)
sharded, sgd, _ = sharding.group_sharded_parallel(model, sgd, "os_g", group=group, segment_size=0)
sharded(paddle.full([1, 1], 1.0 + 2 * rank)).sum().backward()  # the gradients are 1 and 3, their mean 2, and lr is 1
sgd.step()
rank == 0 or os._exit(0)
expected, actual = 2.0, round(before - weight.item(), 4)
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
