# SPDX-License-Identifier: Apache-2.0
"""The smallest adapter of a trainer in PyTorch: unsharded Adam. Copy it, and replace the places marked YOURS.

    python mine.py --check --out mine          # options of zerogauge check

TorchAdapter starts one process per rank and initializes torch.distributed, on the accelerator where there is one.
"""
from zerogauge import MOMENTS  # first: --check says that it imports torch before it does
from zerogauge.pytorch import Model, TorchAdapter, hyper_parameters

import torch


class Skeleton(TorchAdapter):
    claims = {"contract": 1, "name": "unsharded Adam in PyTorch", "version": torch.__version__, "stages": [0],
              "worlds": [1], "precisions": ["fp32"], "offload_optimizer": ["none"], "offload_param": ["none"],
              "communication_dtypes": ["precision"], "clip_form": "torch", "unused": "untouched",
              "features": ["accumulation", "clipping", "l2", "lr_schedule", "groups", "tied", "frozen", "unused", "varying_use", "empty",
                           "scalar", "resume", "weights_only"]}

    def build(self, case):
        # A module whose forward computes the case's loss. model.by_name has its parameters by their names in the case.
        self.model = Model(case, torch.float32)
        # YOURS: wrap or shard the model. Hints are in case.stage, case.buckets, case.hints, case.offload.
        # "lr" in param_groups is set before each step, using the "index" that optimizer_groups has put there.
        groups = self.optimizer_groups(self.model.by_name, "decoupled_weight_decay")
        self.optimizer = torch.optim.Adam(groups, **hyper_parameters(case, 0))  # YOURS

    def forward(self, gradients):
        return self.model(gradients)  # YOURS: call the wrapped model

    def backward(self, loss):
        (loss / self.case.accumulation).backward()  # YOURS

    def step(self):
        norm = None
        if self.case.gradient_clipping:
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.case.gradient_clipping)
        self.optimizer.step()  # YOURS
        self.optimizer.zero_grad()
        return False, None, norm

    def state(self):
        tensors = {f"param/{name}": p for name, p in self.model.by_name.items()}  # YOURS: the fp32 master parameters
        for name, p in self.model.by_name.items():
            for kind in MOMENTS:
                if p in self.optimizer.state:
                    tensors[f"{kind}/{name}"] = self.optimizer.state[p][kind]  # YOURS: gathered
        return tensors, max((state["step"] for state in self.optimizer.state.values()), default=0)

    def save(self, path):
        torch.save([self.model.state_dict(), self.optimizer.state_dict()], path / "checkpoint.pt")

    def load(self, path, weights_only):
        model, optimizer = torch.load(path / "checkpoint.pt")
        self.model.load_state_dict(model)
        if not weights_only:
            self.optimizer.load_state_dict(optimizer)


if __name__ == "__main__":
    Skeleton.main()
