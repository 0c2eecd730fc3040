# SPDX-License-Identifier: Apache-2.0
"""Training steps of PyTorch or DeepSpeed: python step.py --as eager|compiled|ddp|fsdp2|deepspeed [--stage N] [--offload cpu|nvme].
Buckets and all other settings that users rarely change keep their defaults."""
import argparse
import functools
import tempfile
import time

from peer import main, ranks, serve_ranks


class Torch:
    def __init__(self, options, setting, model):
        import torch
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        from torch.nn.parallel import DistributedDataParallel
        hybrid = setting["replicate"] > 1
        trainer = "FSDP2, HSDP" if hybrid else {"ddp": "DDP", "fsdp2": "FSDP2"}.get(options.trainer, options.trainer)
        bf16 = setting["dtype"] == "bf16"
        self.name = f"PyTorch {torch.__version__.split('+')[0]} {trainer}" + (", bf16 autocast" if bf16 else "")
        self.cast = torch.autocast("cpu", torch.bfloat16, enabled=bf16)
        if options.trainer == "compiled":
            model = torch.compile(model)
        elif options.trainer == "ddp":
            model = DistributedDataParallel(model)
        elif options.trainer == "fsdp2":
            shape, names = (setting["replicate"], setting["shard"]), ("replicate", "shard")
            mesh = init_device_mesh("cpu", shape, mesh_dim_names=names) if hybrid else None
            for module in [*model.h, model]:
                fully_shard(module, mesh=mesh)
        self.model, self.clip = model, setting["clip"]
        self.optimizer = torch.optim.AdamW(model.parameters(), fused=True, **hyper(setting))

    def step(self, tokens):
        import torch
        with self.cast:
            loss = self.model(tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()


class DeepSpeed:
    def __init__(self, options, setting, model):
        import deepspeed
        where = f", optimizer on {options.offload}" if options.offload else ""
        self.name = f"DeepSpeed {deepspeed.__version__} ZeRO-{options.stage}{where}"
        zero, adam = {"stage": options.stage}, hyper(setting)
        if options.offload:
            zero["offload_optimizer"] = {"device": options.offload, "nvme_path": setting["nvme_path"],
                                         "pin_memory": True}
        else:
            adam["torch_adam"] = True  # DeepSpeed's default, its own fused Adam, needs CUDA
        self.engine = deepspeed.initialize(model=model, config={
            "train_micro_batch_size_per_gpu": setting["sequences"], "gradient_clipping": setting["clip"],
            "optimizer": {"type": "AdamW", "params": adam}, "zero_optimization": zero})[0]

    def step(self, tokens):
        loss = self.engine(tokens)
        self.engine.backward(loss)
        self.engine.step()
        return loss.item()


def hyper(setting):
    return {key: setting[key] for key in ("lr", "betas", "eps", "weight_decay")}


def prepare(options):
    """Imports once what all ranks need, before they are forked."""
    import torch  # noqa: F401
    if options.trainer == "deepspeed":
        import cpuinfo
        cpuinfo.get_cpu_info = functools.cache(cpuinfo.get_cpu_info)
        import deepspeed
        deepspeed.utils.logger.setLevel("ERROR")


def train(rank, peer, options, weights, tokens):
    import torch
    import torch.distributed as dist
    from gpt import GPT
    setting = peer.setting
    model = GPT(setting["layers"], setting["heads"], setting["length"], weights)
    if options.trainer == "deepspeed":
        import deepspeed
        deepspeed.init_distributed(dist_backend="gloo")
    trainer = (DeepSpeed if options.trainer == "deepspeed" else Torch)(options, setting, model)
    batches = iter(tokens[:, rank].long())

    def run(request):
        step_ns, losses = [], []
        dist.barrier()
        for _ in range(request["calls"]):
            batch = next(batches)
            begin = time.perf_counter_ns()
            losses.append(trainer.step(batch))
            step_ns.append(time.perf_counter_ns() - begin)
        losses = torch.tensor(losses, dtype=torch.float64)
        dist.all_reduce(losses)
        return {"step_ns": step_ns, "losses": (losses / setting["world"]).tolist()}
    torch.set_num_threads(setting["threads"])
    serve_ranks(rank, peer, trainer.name, run)


def body(peer):
    parser = argparse.ArgumentParser()
    parser.add_argument("--as", dest="trainer", choices=["eager", "compiled", "ddp", "fsdp2", "deepspeed"], required=True)
    parser.add_argument("--stage", type=int, default=0)
    parser.add_argument("--offload", choices=["cpu", "nvme"])
    options, setting = parser.parse_args(), peer.setting
    prepare(options)
    import torch
    weights = {p["name"]: peer.read(torch.float32, *p["shape"]) for p in setting["params"]}
    tokens = peer.read(torch.uint16, setting["turns"] * setting["steps"], setting["world"], setting["sequences"],
                       setting["length"] + 1)
    with tempfile.TemporaryDirectory(dir=setting["nvme_path"]) as folder:  # DeepSpeed leaves its files there
        setting["nvme_path"] = folder
        ranks(peer, setting["world"], functools.partial(train, options=options, weights=weights, tokens=tokens))


if __name__ == "__main__":
    main(body)
