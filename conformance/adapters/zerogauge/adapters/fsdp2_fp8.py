# SPDX-License-Identifier: Apache-2.0
"""FSDP2 with a hand-written extension that gathers parameters in E4M3, as torchao's does for its linear layers."""
import torch
import torch.distributed as dist
import torch.utils._pytree as pytree
from torch.distributed.fsdp import fully_shard

from zerogauge.pytorch import Model, TorchAdapter

aten = torch.ops.aten
KEPT = {aten.empty_like.default, aten.new_zeros.default, aten.slice.Tensor, aten.copy_.default, aten.view.default,
        aten.as_strided.default, aten._to_copy.default, aten.split.Tensor, aten.clone.default, aten.detach.default}
LARGEST = torch.finfo(torch.float8_e4m3fn).max


class Weight(torch.Tensor):
    @staticmethod
    def __new__(cls, tensor):
        return torch.Tensor._make_wrapper_subclass(cls, tensor.size(), strides=tensor.stride(), dtype=tensor.dtype,
                                                   device=tensor.device, requires_grad=tensor.requires_grad)

    def __init__(self, tensor):
        self.tensor = tensor

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        out = func(*pytree.tree_map_only(cls, lambda w: w.tensor, args),
                   **pytree.tree_map_only(cls, lambda w: w.tensor, kwargs or {}))
        return pytree.tree_map_only(torch.Tensor, cls, out) if func in KEPT else out

    def fsdp_pre_all_gather(self, mesh, outer_size, outer_stride, module, mp_policy):
        amax = self.tensor.abs().amax() if self.tensor.numel() else torch.zeros(())
        dist.all_reduce(amax, dist.ReduceOp.MAX, group=mesh.get_group())
        # A number divided by a tensor is a product with its reciprocal in PyTorch: two roundings, in fp32.
        scale = (LARGEST / amax.double().clamp(min=1e-12)).float()
        codes = (self.tensor * scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn).view(torch.uint8)
        rows = -(-outer_size[0] // mesh.size())
        padded = codes.new_zeros((rows, *outer_size[1:]))
        padded[:len(codes)] = codes
        return (padded,), (scale, outer_size)

    def fsdp_post_all_gather(self, outputs, metadata, param_dtype, *, out=None):
        (codes,), (scale, size) = outputs, metadata
        values = codes.view(torch.float8_e4m3fn)[:size[0]].reshape(size).float() / scale
        if out is None:
            return values, (codes,)
        with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(out):
            out.copy_(values)


class FSDP2InFP8(TorchAdapter):
    claims = {"contract": 1, "name": "FSDP2, gathers in E4M3 by an extension", "version": torch.__version__,
              "stages": [3], "worlds": [1, 2, 4], "precisions": ["fp32"], "offload_optimizer": ["none"],
              "offload_param": ["none"], "communication_dtypes": ["precision"], "unused": "untouched",
              "features": ["accumulation"], "optional": ["fp8_gather"]}

    def build(self, case):
        self.model = Model(case, torch.float32)
        if getattr(case, "gather_dtype", None):
            for unit in self.model.units:
                for i, name in enumerate(unit.names):
                    weight = torch.nn.Parameter(Weight(getattr(unit, f"p{i}").detach()))
                    unit.register_parameter(f"p{i}", weight)
                    self.model.by_name[name] = weight
            self.model.number()
        for module in [*self.model.units, self.model]:
            fully_shard(module)
        self.optimizer = torch.optim.Adam(self.optimizer_groups(self.named(self.model), "decoupled_weight_decay"))


if __name__ == "__main__":
    FSDP2InFP8.main()
