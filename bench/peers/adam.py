# SPDX-License-Identifier: Apache-2.0
"""AdamW of PyTorch or DeepSpeed: python adam.py --adam foreach|fused|deepspeed|offload. `offload` is DeepSpeed's whole
ZeRO-Offload step on one rank, from the bf16 gradient of autograd to bf16 parameters: gradient to fp32, norm, clip, Adam,
copy back."""
import argparse
import time

from peer import main, timed


def hyper(setting):
    return {key: setting[key] for key in ("lr", "betas", "eps", "weight_decay")}


def make_optimizer(kind, param, setting):
    import torch
    if kind == "deepspeed":
        import deepspeed
        from deepspeed.ops.adam import DeepSpeedCPUAdam
        return DeepSpeedCPUAdam([param], **hyper(setting)), f"DeepSpeed {deepspeed.__version__} CPUAdam"
    return (torch.optim.AdamW([param], **hyper(setting), **{kind: True}),
            f"PyTorch {torch.__version__.split('+')[0]} AdamW({kind}=True)")


def update(peer, kind, tensors):
    import torch
    param = torch.nn.Parameter(tensors[0])
    param.grad = tensors[3]
    optimizer, name = make_optimizer(kind, param, peer.setting)
    before = peer.setting["t"] - 1
    step = before if kind == "deepspeed" else torch.tensor(float(before))
    state = optimizer.state[param]
    state.update(step=step, exp_avg=tensors[1], exp_avg_sq=tensors[2])

    def work():
        if kind == "deepspeed":
            state["step"] = before
        else:
            state["step"].fill_(before)
        optimizer.step()
    return name, work, lambda: [param, state["exp_avg"], state["exp_avg_sq"]]


def offload(peer, tensors):
    import os

    import torch
    import deepspeed
    deepspeed.utils.logger.setLevel("ERROR")
    clock = [0]

    class Given(torch.autograd.Function):
        """A loss with a given gradient; the clock starts when autograd returns it."""

        @staticmethod
        def forward(ctx, param):
            return torch.zeros((), requires_grad=True)

        @staticmethod
        def backward(ctx, _):
            clock[0] = time.perf_counter_ns()
            return tensors[3].detach()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(tensors[0].clone())

        def forward(self):
            return Given.apply(self.weight)

    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    setting = peer.setting
    engine, optimizer, _, _ = deepspeed.initialize(model=Model(), config={
        "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1e9, "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": hyper(setting)},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})
    torch.set_num_threads(setting["threads"])
    master = optimizer.single_partition_of_fp32_groups[0]
    state = optimizer.optimizer.state[master]
    master.data.copy_(tensors[0])
    state.update(step=0, exp_avg=tensors[1], exp_avg_sq=tensors[2])
    spent = [0]

    def work():
        state["step"] = setting["t"] - 1
        engine.backward(engine())
        engine.step()
        spent[0] += time.perf_counter_ns() - clock[0]

    def run(request):
        spent[0] = 0
        timed(work, request["calls"])
        return {"ns": spent[0]}
    name = f"DeepSpeed {deepspeed.__version__} ZeRO-Offload step"
    return name, run, lambda: [master, state["exp_avg"], state["exp_avg_sq"], engine.module.weight]


def body(peer):
    parser = argparse.ArgumentParser()
    parser.add_argument("--adam", choices=["foreach", "fused", "deepspeed", "offload"], required=True)
    kind, setting = parser.parse_args().adam, peer.setting
    import torch
    torch.set_num_threads(setting["threads"])
    whole = setting["step"] == "whole"
    if whole != (kind == "offload"):
        raise ValueError(f"--adam {kind} does not support --step {setting['step']}")
    tensors = [peer.read(torch.float32, setting["params"]) for _ in range(3)]
    tensors.append(peer.read(torch.bfloat16 if whole else torch.float32, setting["params"]))
    if whole:
        name, run, state = offload(peer, tensors)
    else:
        name, work, state = update(peer, kind, tensors)

        def run(request):
            return timed(work, request["calls"])

    def send_state(_):
        peer.say(state="follows")
        for tensor in state():
            peer.write(tensor)
    peer.say(name=name)
    peer.serve(run=run, state=send_state)


if __name__ == "__main__":
    main(body)
