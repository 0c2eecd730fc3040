# SPDX-License-Identifier: Apache-2.0
"""Training steps of PyTorch, torchao or DeepSpeed:

    python step.py --as eager|compiled|adam8bit|ddp|fsdp2|deepspeed [--stage N] [--offload cpu|nvme] [--offload-params]

--offload: where the optimizer's states are; FSDP2 has parameters and gradients there, too, and so has ZeRO-3 its
parameters with --offload-params. adam8bit: eager with torchao's AdamW, whose moments have 8 bits. Buckets and all other
settings that users rarely change keep their defaults."""
import argparse
import functools
import tempfile
import time

from peer import main, ranks, serve_ranks


class Torch:
    def __init__(self, options, setting, model):
        import torch
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard
        from torch.nn.parallel import DistributedDataParallel
        hybrid = setting["replicate"] > 1
        names = {"ddp": "DDP", "fsdp2": "FSDP2, HSDP" if hybrid else "FSDP2"}
        bf16 = setting["dtype"] == "bf16"
        self.name = (f"PyTorch {torch.__version__.split('+')[0]} {names.get(options.trainer, options.trainer)}" +
                     (", bf16 autocast" if bf16 else "") + (", offloaded to the CPU" if options.offload else ""))
        self.cast = torch.autocast("cpu", torch.bfloat16, enabled=bf16)
        if options.trainer == "compiled":
            model = torch.compile(model)
        elif options.trainer == "ddp":
            model = DistributedDataParallel(model)
        elif options.trainer == "fsdp2":
            shape, names = (setting["replicate"], setting["shard"]), ("replicate", "shard")
            mesh = init_device_mesh("cpu", shape, mesh_dim_names=names) if hybrid else None
            # Locked memory needs a device that copies from it.
            offload = CPUOffloadPolicy(pin_memory=False) if options.offload else OffloadPolicy()
            for module in [*model.h, model]:
                fully_shard(module, mesh=mesh, offload_policy=offload)
        self.model, self.clip = model, setting["clip"]
        if options.trainer == "adam8bit":
            import torchao.optim
            self.name = f"torchao {torchao.__version__} AdamW8bit"
            self.optimizer = torchao.optim.AdamW8bit(model.parameters(), **hyper(setting))
        else:
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
        what = "optimizer and parameters" if options.offload_params else "optimizer"
        where = f", {what} on {options.offload}" if options.offload else ""
        self.name = f"DeepSpeed {deepspeed.__version__} ZeRO-{options.stage}{where}"
        zero, adam = {"stage": options.stage}, hyper(setting)
        if options.offload:
            zero["offload_optimizer"] = {"device": options.offload, "nvme_path": setting["nvme_path"],
                                         "pin_memory": True}
            if options.offload_params:
                zero["offload_param"] = zero["offload_optimizer"]
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


def restart_resident_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def resident_peak_bytes():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))


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
    from llama import Llama
    setting = peer.setting
    model = (Llama if "lm_head.weight" in weights else GPT)(setting["layers"], setting["heads"], setting["length"], weights)
    weights.clear()
    if options.trainer == "deepspeed":
        import deepspeed
        deepspeed.init_distributed(dist_backend="gloo")
    trainer = (DeepSpeed if options.trainer == "deepspeed" else Torch)(options, setting, model)
    batches = iter(tokens[:, rank].long())

    def run(request):
        step_ns, losses = [], []
        restart_resident_peak()
        dist.barrier()
        for _ in range(request["calls"]):
            batch = next(batches)
            begin = time.perf_counter_ns()
            losses.append(trainer.step(batch))
            step_ns.append(time.perf_counter_ns() - begin)
        sums = torch.tensor([*losses, resident_peak_bytes()], dtype=torch.float64)
        dist.all_reduce(sums)
        *losses, peak_bytes = sums.tolist()
        return {"step_ns": step_ns, "losses": [loss / setting["world"] for loss in losses],
                "resident_peak_bytes": peak_bytes}
    torch.set_num_threads(setting["threads"])
    serve_ranks(rank, peer, trainer.name, run)


def body(peer):
    parser = argparse.ArgumentParser()
    parser.add_argument("--as", dest="trainer", required=True,
                        choices=["eager", "compiled", "adam8bit", "ddp", "fsdp2", "deepspeed"])
    parser.add_argument("--stage", type=int, default=0)
    parser.add_argument("--offload", choices=["cpu", "nvme"])
    parser.add_argument("--offload-params", action="store_true")
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
