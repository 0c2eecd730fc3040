# SPDX-License-Identifier: Apache-2.0
"""fairscale: OSS, with gradients averaged by ShardedDataParallel at stage 2, by DistributedDataParallel at stage 1."""
import contextlib

import torch
from fairscale.nn.data_parallel import ShardedDataParallel
from fairscale.optim import OSS
from torch.nn.parallel import DistributedDataParallel

from zerogauge import MOMENTS, Unsupported
from zerogauge.pytorch import Model, TorchAdapter, hyper_parameters


class Fairscale(TorchAdapter):
    options = {"grads": ["zeroed", "none"]}  # after a step at stage 2; "none" is the default of torch.optim

    def build(self, case):
        if case.communication_dtype != "fp32" or case.accumulation_dtype != "fp32":
            raise Unsupported("gradients are reduced and accumulated in fp32")
        self.model = Model(case, torch.float32)
        groups = self.optimizer_groups(self.model.by_name, "decoupled_weight_decay")
        self.optimizer = OSS(groups, torch.optim.Adam, **hyper_parameters(case, 0))
        self.wrapped = (ShardedDataParallel(self.model, self.optimizer) if case.stage == 2 else DistributedDataParallel(
            self.model, find_unused_parameters=not case.uses_all))

    def micro_step(self, gradients):
        with contextlib.nullcontext() if self.is_last else self.wrapped.no_sync():
            super().micro_step(gradients)

    def step(self):
        limit = self.case.gradient_clipping
        norm = self.optimizer.clip_grad_norm(limit) if limit else None
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=self.case.stage == 1 or self.arguments.grads == "none")
        return False, None, norm

    def state(self):
        held, rank = self.optimizer.optim.state, self.case.rank
        tensors = {f"param/{name}": p for name, p in self.model.by_name.items()} if rank == 0 else {}
        for name, p in self.model.by_name.items():
            tensors |= {f"{kind}/{name}": held[p][kind] for kind in MOMENTS if kind in held.get(p, {})}
        t = torch.tensor(max((int(state["step"]) for state in held.values() if "step" in state), default=0),
                         device=self.device)
        torch.distributed.all_reduce(t, torch.distributed.ReduceOp.MAX)  # a rank may own nothing
        return self.gathered(tensors), t

    def save(self, path):
        self.optimizer.consolidate_state_dict()
        if self.case.rank == 0:
            torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, path / "saved.pt")

    def load(self, path, weights_only):
        saved = torch.load(path / "saved.pt")
        self.model.load_state_dict(saved["model"])
        if not weights_only:
            self.optimizer.load_state_dict(saved["optimizer"])


if __name__ == "__main__":
    Fairscale.main()
