# SPDX-License-Identifier: Apache-2.0
"""llm-parallelism-pytorch (github.com/dudeperf3ct/llm-parallelism-pytorch, in PYTHONPATH): stages 1 to 3, in which a rank
owns whole parameters."""
import torch
from ddp.simple_ddp import SimpleDDP
from ddp_sharding.zero1 import ZeroOneSharding
from ddp_sharding.zero2 import Zero2Sharding
from ddp_sharding.zero3 import Zero3Sharding

from zerogauge import MOMENTS, Unsupported
from zerogauge.pytorch import Model, TorchAdapter, hyper_parameters


class Owners(TorchAdapter):
    def build(self, case):
        if case.communication_dtype != "fp32":
            raise Unsupported("gradients are reduced in fp32")
        self.model = Model(case, torch.float32)
        self.wrapped = SimpleDDP(self.model)
        groups = self.optimizer_groups(self.model.by_name, "decoupled_weight_decay")
        self.optimizer = torch.optim.Adam(groups, **hyper_parameters(case, 0))
        self.sharding = {1: ZeroOneSharding, 2: Zero2Sharding, 3: Zero3Sharding}[case.stage](self.optimizer)
        if case.stage > 1:
            self.wrapped.set_gradient_sync_fn(self.sharding.shard_gradients)
        if case.stage == 3:
            self.wrapped.set_pre_forward_fn(self.sharding.gather_full_parameters)

    def step(self):
        self.wrapped.sync_gradients()
        self.sharding.step()
        self.sharding.zero_grad()

    def state(self):
        held, tensors = self.optimizer.state, {}
        for name, p in self.model.by_name.items():
            if self.sharding._param_owner.get(id(p), 0) == self.case.rank:
                mine = {"param": p, **held.get(p, {})}
                tensors |= {f"{kind}/{name}": mine[kind] for kind in ("param", *MOMENTS) if kind in mine}
        t = torch.tensor(max((int(state["step"]) for state in held.values()), default=0), device=self.device)
        torch.distributed.all_reduce(t, torch.distributed.ReduceOp.MAX)  # a rank may own nothing
        return self.gathered(tensors), t


if __name__ == "__main__":
    Owners.main()
