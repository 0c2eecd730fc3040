# SPDX-License-Identifier: Apache-2.0
"""ZeRO-1 as one writes it by hand: all parameters in one flat tensor, a shard of it for each rank's Adam."""
import torch
import torch.distributed as dist

from zerogauge import MOMENTS, Shard, Unsupported
from zerogauge.pytorch import Model, TorchAdapter, hyper_parameters


class ByHand(TorchAdapter):
    claims = {**TorchAdapter.plain, "name": "ZeRO-1 by hand", "version": "1", "stages": [1], "worlds": [1, 2, 3, 4],
              "unused": "zero_gradient", "features": ["accumulation", "lr_schedule", "tied", "empty", "scalar"]}

    def build(self, case):
        if case.groups[0]["optimizer"] != "AdamW":
            raise Unsupported("the optimizer is AdamW")
        self.model, offset, self.offsets = Model(case, torch.float32), 0, {}
        for name, p in self.model.by_name.items():
            self.offsets[name], offset = offset, offset + p.numel()
        self.part = -(-offset // case.world)
        self.flat, self.grad = torch.zeros(2, self.part * case.world, device=self.device)
        for name, p in self.model.by_name.items():
            here = slice(self.offsets[name], self.offsets[name] + p.numel())
            self.flat[here] = p.detach().flatten()
            p.data, p.grad = self.flat[here].view_as(p), self.grad[here].view_as(p)
        self.shard = self.flat[case.rank * self.part:][:self.part]
        self.optimizer = torch.optim.AdamW([self.shard], **hyper_parameters(case, 0))

    def step(self):
        dist.all_reduce(self.grad)
        self.shard.grad = self.grad[self.case.rank * self.part:][:self.part] / self.case.world
        self.optimizer.step()
        dist.all_gather_into_tensor(self.flat, self.shard.clone())
        self.grad.zero_()

    def state(self):
        held, begin, tensors = self.optimizer.state[self.shard], self.case.rank * self.part, {}
        for kind, whole in {"param": self.shard, **{kind: held[kind] for kind in MOMENTS}}.items():
            for name, p in self.model.by_name.items():
                first, last = max(begin, self.offsets[name]), self.offsets[name] + p.numel()
                tensors[f"{kind}/{name}"] = Shard(whole[first - begin:max(first, last) - begin], first - self.offsets[name])
        return self.gathered(tensors), held["step"]


if __name__ == "__main__":
    ByHand.main()
