# SPDX-License-Identifier: Apache-2.0
"""cs244c-llama-zero (github.com/dannyadkins/cs244c-llama-zero, in PYTHONPATH): stages 0 to 3 from scratch, all parameters
in one flat tensor; at stage 3, in one for each module of a Llama."""
import math

import torch
import zero

from zerogauge import MOMENTS, Shard, Unsupported
from zerogauge.pytorch import DTYPES, Model, TorchAdapter, tensor_of

ENGINES = {0: zero.ZeROStage0DDP, 1: zero.ZeROStage1Optimizer, 2: zero.ZeROStage2Optimizer, 3: zero.ZeROStage3Optimizer}


class Llama(Model):
    """A model whose units have the names of a Llama's modules, by which stage 3 finds them."""

    def __init__(self, case, dtype):
        super().__init__(case, dtype)
        self.tok_embeddings, self.layers = self.own, self.units
        self.norm, self.lm_head = torch.nn.Identity(), torch.nn.Identity()
        self.named_units = {"tok_embeddings": self.own, **{f"layers.{at}": unit for at, unit in enumerate(self.units)}}

    def forward(self, gradients):
        self.gradients, self.seen = {name: tensor_of(array) for name, array in gradients.items()}, {}
        loss, executor = torch.zeros((), device=TorchAdapter.device), getattr(self, "_zero3_executor", None)
        for name, unit in self.named_units.items():
            loss = executor.call_module(name, unit, loss) if executor else unit(loss)
        return loss


class Flat(TorchAdapter):
    def build(self, case):
        group = case.groups[0]
        if group["optimizer"] != "AdamW" and group["weight_decay"]:
            raise Unsupported("decay is decoupled")
        added = case.precision if case.stage < 2 else "fp32"
        if case.communication_dtype != case.precision or case.accumulation > 1 and case.accumulation_dtype != added:
            raise Unsupported(f"gradients are sent in the model's dtype, and micro-steps are added in {added}")
        self.model = Llama(case, DTYPES[case.precision])
        self.engine = ENGINES[case.stage](self.model, self.case.lr(0, 1), group["betas"], group["eps"],
                                          group["weight_decay"])
        self.engine.zero_grad()

    def set_lr(self, step):
        self.engine.lr = self.case.lr(0, step)

    def backward(self, loss):
        self.engine.backward(loss / self.case.accumulation)

    def step(self):
        norm = self.engine.step(max_grad_norm=self.case.gradient_clipping)
        self.engine.zero_grad()
        return False, None, norm if self.case.gradient_clipping else None

    def state(self):
        tensors = {f"param/{name}": p for name, p in self.model.by_name.items() if not p.requires_grad}
        for piece in self.engine._handle_order if self.case.stage == 3 else [self.engine]:
            begin = piece.shard.shard_start if self.case.stage else 0
            held = {"param": piece.local_master_param_shard if self.case.stage else piece.master_params,
                    **{kind: getattr(piece, kind) for kind in MOMENTS}}
            for p, offset, shape in zip(piece.meta.params, piece.meta.offsets, piece.meta.shapes):
                first, last = max(offset - begin, 0), max(offset + math.prod(shape) - begin, 0)
                tensors |= {f"{kind}/{self.model.name_of[p]}": Shard(flat[first:last], begin + first - offset)
                            for kind, flat in held.items()}
        return self.gathered(tensors), self.engine.step_count

    def save(self, path):
        torch.save(self.engine.state_dict(), path / f"rank-{self.case.rank}.pt")

    def load(self, path, weights_only):
        self.engine.load_state_dict(torch.load(path / f"rank-{self.case.rank}.pt"))


if __name__ == "__main__":
    Flat.main()
