# SPDX-License-Identifier: Apache-2.0
"""torch.optim.Muon for matrices and AdamW for all else, under DDP or FSDP2, in fp32."""
import itertools

import torch
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from zerogauge.pytorch import Model, TorchAdapter, Unsupported


class Both:
    """Two optimizers as one."""

    def __init__(self, *optimizers):
        self.optimizers = optimizers
        self.param_groups = list(itertools.chain(*(optimizer.param_groups for optimizer in optimizers)))

    @property
    def state(self):
        return {p: state for optimizer in self.optimizers for p, state in optimizer.state.items()}

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()


class TorchMuon(TorchAdapter):
    options = {"mode": ["ddp", "fsdp2"]}
    claims = {"contract": 1, "name": "torch.optim.Muon", "version": torch.__version__, "precisions": ["fp32"],
              "stages": [0, 2, 3],
              "worlds": [1, 2, 3, 4], "offload_optimizer": ["none"], "offload_param": ["none"], "knobs": ["buckets"],
              "optional": ["muon"], "clip_form": "torch", "features": ["accumulation", "clipping", "lr_schedule",
                                                                       "groups"]}

    def build(self, case):
        if case.stage not in {"ddp": (0,), "fsdp2": (2, 3)}[self.arguments.mode]:
            raise Unsupported(f"{self.arguments.mode} is another stage")
        self.model = Model(case, torch.float32)
        if self.arguments.mode == "ddp":
            self.wrapped = DistributedDataParallel(self.model, bucket_cap_mb=case.buckets["reduce"] * 4 / 2**20)
        else:
            for module in [*self.model.units, self.model]:
                fully_shard(module, reshard_after_forward=case.stage == 3)
        matrices, others = [], []
        for group in self.optimizer_groups(self.named(self.model), "decoupled_weight_decay"):
            (others if group["decoupled_weight_decay"] else matrices).append(group)
        self.optimizer = Both(*([torch.optim.Muon(matrices)] if matrices else []),
                              *([torch.optim.Adam(others)] if others else []))

    def step(self):
        norm, limit = None, self.case.gradient_clipping
        if limit:
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        super().step()
        return False, None, getattr(norm, "full_tensor", lambda: norm)()

    def state(self):
        tensors, t = super().state()
        for name, p in self.named(self.model).items():
            momentum = self.optimizer.state.get(p, {}).get("momentum_buffer")
            if momentum is not None:
                tensors[f"momentum/{name}"] = getattr(momentum, "full_tensor", lambda m=momentum: m)()
        return tensors, t


if __name__ == "__main__":
    TorchMuon.main()
