# SPDX-License-Identifier: Apache-2.0
"""PyTorch: unsharded (this file averages the gradients), ddp, zero1 (ZeroRedundancyOptimizer), fsdp1, fsdp2. Parameters
are fp32, and in 16-bit cases the forward pass narrows them; with --parameters model they have the model's dtype, and so
have the optimizer's moments."""
import contextlib

import torch
import torch.distributed as dist
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.optim import ZeroRedundancyOptimizer

from zerogauge.adapters import torch_state
from zerogauge.adapters.torch_tensor import model_of
from zerogauge.adapters.torch_wrap import refuse, wrap
from zerogauge.pytorch import DTYPES, TorchAdapter, hyper_parameters


class Torch(TorchAdapter):
    options = {"mode": ["unsharded", "ddp", "zero1", "fsdp1", "fsdp2"], "adam": ["single", "foreach", "fused"],
               "parameters": ["fp32", "model"]}

    def model_of(self, case):
        return model_of(case, DTYPES[case.precision if self.arguments.parameters == "model" else "fp32"])

    def build(self, case):
        self.mode, self.applied, scale, adam = self.arguments.mode, 0, case.loss_scale, self.arguments.adam
        refuse(case, self.mode, self.arguments.parameters)
        self.model = self.model_of(case)
        self.paths = {self.model.name_of[p]: path for path, p in self.model.named_parameters()}
        self.wrapped = wrap(case, self.mode, self.model)
        groups = self.optimizer_groups(dict(zip(self.paths, self.wrapped.parameters())), "decoupled_weight_decay")
        defaults = {**hyper_parameters(case, 0), "foreach": adam == "foreach", "fused": adam == "fused"}
        if self.mode == "zero1":
            self.optimizer = ZeroRedundancyOptimizer(groups, torch.optim.Adam, **defaults)
        else:
            self.optimizer = torch.optim.Adam(groups, **defaults)
        self.optimizer.register_step_post_hook(self.count)
        Scaler = ShardedGradScaler if self.mode == "fsdp1" else torch.amp.GradScaler
        self.scaler = Scaler(self.device.type, scale.get("initial_scale", scale.get("scale", 1.0)), enabled=case.overflow_check,
                             growth_interval=scale.get("window", 1))

    def count(self, optimizer, *_):
        self.applied += not getattr(optimizer, "found_inf", False)  # a fused optimizer skips within its step

    def micro_step(self, gradients):
        is_local = self.mode in ("ddp", "zero1") and not self.is_last
        with self.wrapped.no_sync() if is_local else contextlib.nullcontext():
            super().micro_step(gradients)

    def backward(self, loss):
        self.scaler.scale(loss * self.case.mesh.sequence / self.case.accumulation).backward()

    def step(self):
        before, norm, limit = self.applied, None, self.case.gradient_clipping
        if self.mode == "unsharded" and self.case.world > 1:
            for parameter in (p for p in self.wrapped.parameters() if p.grad is not None):
                sent = parameter.grad.to(DTYPES[self.case.communication_dtype])
                dist.all_reduce(sent)
                parameter.grad.copy_(sent).div_(self.case.world)
        self.scaler.unscale_(self.optimizer)
        if limit:
            norm = (self.wrapped.clip_grad_norm_(limit) if self.mode == "fsdp1" else
                    torch.nn.utils.clip_grad_norm_(self.wrapped.parameters(), limit))
        self.scaler.step(self.optimizer)
        self.scaler.update(None if self.case.loss_scale["kind"] == "dynamic" else self.scaler.get_scale())
        self.optimizer.zero_grad()
        return self.applied == before, self.scaler.get_scale(), getattr(norm, "full_tensor", lambda: norm)()

    def state(self):
        self.whole = torch_state.whole(self.wrapped, self.optimizer, self.scaler, self.applied)
        return torch_state.answer_of(self.whole, self.paths, self.case.trained)

    def save(self, path):
        torch.save(self.whole, path / f"rank-{self.case.rank}.pt")

    def load(self, path, weights_only):
        saved = torch.load(path / "rank-0.pt", map_location=self.device)  # only rank 0's is complete
        parts = self.paths, self.wrapped, self.optimizer, self.scaler
        self.applied = int(torch_state.restore(saved, *parts, weights_only))


if __name__ == "__main__":
    Torch.main()
