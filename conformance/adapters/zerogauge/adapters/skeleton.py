# SPDX-License-Identifier: Apache-2.0
"""The smallest adapter: data parallelism in numpy, with Adam. Copy it, and replace what each method does by what your trainer does.

    python mine.py --check --out mine          # options of zerogauge check
    pytest --zerogauge mine.py                 # a test for each requirement

A trainer in PyTorch begins with skeleton_torch.py. An adapter in another language writes the same files itself:
CONTRACT.md of the conformance suite defines them.
"""
import numpy as np

from zerogauge import MOMENTS, Adapter


class Skeleton(Adapter):
    claims = {"contract": 1, "name": "data parallelism in numpy", "version": "1", "stages": [0], "worlds": [1, 2, 3, 4],
              "precisions": ["fp32"], "offload_optimizer": ["none"], "offload_param": ["none"],
              "communication_dtypes": ["precision"], "unused": "untouched",
              "features": ["accumulation", "l2", "lr_schedule", "groups", "tied", "frozen", "unused", "varying_use", "empty", "scalar",
                           "resume", "reshard", "weights_only"]}

    def build(self, case):
        """Hints for a sharded trainer are in case.stage, case.buckets, case.hints, case.offload."""
        self.t, self.parameters = 0, case.initial()
        self.moments = {kind: {name: np.zeros_like(self.parameters[name]) for name in case.trained} for kind in MOMENTS}
        self.gradients = {}

    def backward(self, loss):
        for name, gradient in loss.gradients.items():
            self.gradients[name] = self.gradients.get(name, np.float32(0)) + gradient / np.float32(self.case.accumulation)

    def step(self):
        self.t += 1
        for p in self.case.params:
            if p["name"] in self.gradients:
                mean = sum(self.gather(self.gradients[p["name"]])) / np.float32(self.case.world)
                self.update(p["name"], mean, self.case.groups[p["group"]], self.lr[p["group"]])
        self.gradients = {}

    def update(self, name, gradient, group, lr):
        """Adam of one tensor in fp32, with PyTorch's order of operations."""
        (beta1, beta2), f32 = group["betas"], np.float32
        parameter, m, v = self.parameters[name], *(self.moments[kind][name] for kind in MOMENTS)
        if group["optimizer"] == "AdamW":
            parameter *= f32(1 - lr * group["weight_decay"])
        elif group["weight_decay"]:
            gradient = gradient + f32(group["weight_decay"]) * parameter
        take = f32(1 - beta1)
        m[...] = m + take * (gradient - m) if take < 0.5 else gradient - (1 - take) * (gradient - m)
        v[...] = f32(beta2) * v + f32(1 - beta2) * gradient * gradient
        bias1, bias2 = (1 - beta ** self.t for beta in (beta1, beta2))
        parameter += f32(-lr / bias1) * m / (np.sqrt(v) / f32(bias2 ** 0.5) + f32(group["eps"]))

    def state(self):
        tensors = {f"param/{name}": parameter for name, parameter in self.parameters.items()}
        for kind in MOMENTS:
            tensors |= {f"{kind}/{name}": moment for name, moment in self.moments[kind].items()}
        return tensors, self.t

    def save(self, path):
        tensors, t = self.state()
        if self.case.rank == 0:
            np.savez(path / "checkpoint", t=t, **tensors)

    def load(self, path, weights_only):
        saved = np.load(path / "checkpoint.npz")
        self.parameters = {name: saved[f"param/{name}"] for name in self.parameters}
        if not weights_only:
            self.t = int(saved["t"])
            self.moments = {kind: {name: saved[f"{kind}/{name}"] for name in self.case.trained} for kind in MOMENTS}


if __name__ == "__main__":
    Skeleton.main()
