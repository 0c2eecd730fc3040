# SPDX-License-Identifier: Apache-2.0
"""FSDP2 in fp32, in as few lines as an adapter needs; torch_ddp_fsdp.py has all of its features."""
from zerogauge.pytorch import Model, TorchAdapter  # first: --check says that it imports torch before it does

import torch
from torch.distributed.fsdp import fully_shard


class FSDP2(TorchAdapter):
    claims = {**TorchAdapter.plain, "name": "FSDP2, by the short adapter", "version": torch.__version__, "stages": [2, 3],
              "worlds": [1, 2, 4], "unused": "untouched",
              "features": ["accumulation", "l2", "lr_schedule", "groups", "tied", "frozen", "unused", "varying_use"]}

    def build(self, case):
        self.model = Model(case, torch.float32)
        for module in [*self.model.units, self.model]:
            fully_shard(module, reshard_after_forward=case.stage == 3)
        self.optimizer = torch.optim.Adam(self.optimizer_groups(self.named(self.model), "decoupled_weight_decay"))


if __name__ == "__main__":
    FSDP2.main()
