# SPDX-License-Identifier: Apache-2.0
"""The base class of adapters in PyTorch, and the model of a case: a linear loss whose gradients are the case's."""
import os

import numpy as np
import torch
import torch._dynamo  # noqa: F401  imported here, before the fork, because every rank's first optimizer needs it
import torch.distributed as dist

from zerogauge.adapter import Adapter
from zerogauge.case import MOMENTS, Unsupported  # noqa: F401  for the adapters
from zerogauge.tensors import BF16

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# PyTorch then asks NVML whether there are GPUs: a process that has asked CUDA cannot fork ranks that use it.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")


def device_type():
    """Where trainers run: the accelerator of torch.accelerator, which PyTorch has since 2.6, or "cpu"."""
    has_one = hasattr(torch, "accelerator") and torch.accelerator.is_available()
    return torch.accelerator.current_accelerator().type if has_one else "cpu"


def tensor_of(array):
    """A copy of a numpy array on the rank's device, in its dtype and in memory as PyTorch aligns it."""
    if array.dtype == BF16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(TorchAdapter.device, copy=True)
    return torch.from_numpy(array).to(TorchAdapter.device, copy=True)


class TorchAdapter(Adapter):
    """A trainer whose build makes self.model, a Model, and self.optimizer, with param_groups by optimizer_groups. The
    ranks are joined by torch.distributed: gloo for the CPU, and what PyTorch has for the accelerator, NCCL for CUDA."""

    # A part of the claims of trainers in fp32, on one device.
    plain = {"contract": 1, "precisions": ["fp32"], "offload_optimizer": ["none"], "offload_param": ["none"],
             "communication_dtypes": ["precision"]}
    device = torch.device("cpu")  # of this rank, which `join` sets: where everything is made, read and trained

    @classmethod
    def join(cls, rank, arguments, folder):
        torch.set_num_threads(1)
        os.environ.setdefault("MASTER_ADDR", "localhost")  # trainers ask for it, though the ranks have met
        kind, back_end = device_type(), "gloo"
        if kind != "cpu":
            count = torch.accelerator.device_count()
            TorchAdapter.device = torch.device(kind, rank % count)
            torch.accelerator.set_device_index(rank % count)
            os.environ["LOCAL_RANK"] = str(rank % count)  # by which frameworks choose their device
            if arguments.world > count:
                os.environ.setdefault("NCCL_MULTI_RANK_GPU_ENABLE", "1")  # else NCCL refuses ranks that share a GPU
            back_end = f"cpu:gloo,{kind}:{dist.get_default_backend_for_device(kind)}"
        dist.init_process_group(back_end, init_method=f"file://{folder}/rendezvous", rank=rank,
                                world_size=arguments.world)

    @classmethod
    def meet(cls):
        dist.barrier()

    @classmethod
    def leave(cls):
        dist.destroy_process_group()

    def optimizer_groups(self, by_name, decoupled):
        """Parameter groups for torch.optim. `index` is the group's index in the case; the key called `decoupled` is
        true for AdamW."""
        case = self.case
        trained = [p for p in case.params if p["name"] in case.trained and p["name"] in by_name]
        members = [[by_name[p["name"]] for p in trained if p["group"] == index]
                   for index in range(len(case.groups))]
        return [{"params": m, "index": i, decoupled: case.groups[i]["optimizer"] == "AdamW", **hyper_parameters(case, i)}
                for i, m in enumerate(members) if m]

    def named(self, module):
        """The parameters of a wrapped or sharded self.model by their names in the case."""
        return dict(zip(self.model.order, module.parameters()))

    def set_lr(self, step):
        super().set_lr(step)
        for i, group in enumerate(getattr(self.optimizer, "param_groups", [])):
            group["lr"] = self.lr[group.get("index", i)]

    def backward(self, loss):
        if self.case.tokens:
            (loss * self.case.loss_weight(self.now)).backward()
        else:
            (loss * self.case.mesh.sequence / self.case.accumulation).backward()

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

    def state(self):
        """What torch.optim holds for the parameters of self.model, which may be sharded as DTensors or belong to one
        rank each."""
        tensors, t = {}, 0
        for name, p in self.named(self.model).items():
            state = self.optimizer.state.get(p, {})
            t = max(t, int(state.get("step", 0)))
            tensors |= {f"{kind}/{name}": tensor for kind, tensor in
                        {"param": p, **{kind: state[kind] for kind in MOMENTS if kind in state}}.items()}
        return self.gathered({name: getattr(tensor, "full_tensor", lambda t=tensor: t)()
                              for name, tensor in tensors.items()}), t

    def forward(self, gradients):
        """Calls the model, or self.wrapped where `build` has wrapped it."""
        return getattr(self, "wrapped", self.model)(gradients)

    def seen(self):
        return self.model.seen

    def finish_step(self, skipped=False, scale=None, norm=None):
        skipped, scale, norm, self.loss = (value.item() if isinstance(value, torch.Tensor) else value
                                           for value in (skipped, scale, norm, self.loss))
        super().finish_step(skipped, scale, norm)

    def array(self, tensor):
        if isinstance(tensor, np.ndarray):  # from gathered
            return tensor
        tensor = tensor.detach().cpu().contiguous()
        if tensor.dtype == torch.bfloat16:
            return tensor.view(torch.int16).numpy().view(BF16).reshape(tensor.shape).copy()
        return tensor.numpy().copy()


def hyper_parameters(case, index):
    group = case.groups[index]
    keys = ("betas", "eps", "weight_decay")
    if group["optimizer"] == "Muon":
        keys = ("momentum", "nesterov", "ns_steps", "adjust_lr_fn", "weight_decay")
    return {"lr": case.lr(index, 1), **{key: group[key] for key in keys}}


class Uses(torch.nn.Module):
    """A module with some of the parameters. It adds sum(parameter x gradient) to the loss, and records the parameters
    that it used. A subclass may hold them elsewhere: `held` says where, by name."""

    def __init__(self, model, named):
        super().__init__()
        self.model, self.names = [model], [name for name, _ in named]  # in a list, the model is not a submodule
        for i, (_, parameter) in enumerate(named):
            self.register_parameter(f"p{i}", parameter)

    def held(self):
        return {name: getattr(self, f"p{i}") for i, name in enumerate(self.names)}

    def forward(self, loss):
        model = self.model[0]
        for name, parameter in self.held().items():
            used = model.local(name, parameter).to(model.dtype)
            if name in model.used:
                model.seen[name] = used.detach().clone()
            if name in model.gradients:  # in fp32, so that only S x gradient is rounded to `precision`
                loss = loss + (used.float() * model.gradients[name].float()).sum()
        return loss


class Model(torch.nn.Module):
    """Units of about a bucket each, in model order. Tied parameters belong to the root, as FSDP requires. On a mesh, what
    this rank holds."""

    input_requires_grad = False

    def __init__(self, case, dtype, apart=()):
        """apart: names of parameters that a subclass puts into modules of its own."""
        super().__init__()
        tied = {p["tied_to"] for p in case.params}
        self.dtype = DTYPES[case.precision]
        initial = {name: tensor_of(array) for name, array in case.initial_parts().items()}
        self.used = {p["name"] for p in case.params if p["used"]}
        self.by_name, own, units, size = {}, [], [[]], 0
        for p in case.params:
            name, owner = p["name"], p["tied_to"] or p["name"]
            if owner not in initial:
                continue
            if owner == name:
                self.by_name[name] = torch.nn.Parameter(initial[name].to(dtype), requires_grad=not p["frozen"])
            if owner in tied:
                own.append((name, self.by_name[owner]))
            if owner in tied or name in apart:
                continue
            if units[-1] and size + initial[name].numel() > case.buckets["reduce"]:
                units, size = units + [[]], 0
            units[-1].append((name, self.by_name[name]))
            size += initial[name].numel()
        self.units = torch.nn.ModuleList(Uses(self, unit) for unit in units if unit)
        self.own = Uses(self, own)
        self.number()

    def number(self):
        """Follows parameters that have changed in self.by_name."""
        self.name_of = {parameter: name for name, parameter in self.by_name.items()}
        self.order = [self.name_of[parameter] for parameter in self.parameters() if parameter in self.name_of]

    def local(self, name, parameter):
        """What of a parameter its unit computes with."""
        return parameter

    def forward(self, gradients):
        self.gradients, self.seen = {name: tensor_of(array) for name, array in gradients.items()}, {}
        loss = self.own(torch.zeros((), device=TorchAdapter.device, requires_grad=self.input_requires_grad))
        for unit in self.units:
            loss = unit(loss)
        return loss
