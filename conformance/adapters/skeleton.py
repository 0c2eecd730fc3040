# SPDX-License-Identifier: Apache-2.0
"""The smallest adapter: unsharded Adam in plain PyTorch. Copy it, and replace the places marked YOURS.

    zerogauge check --claims mine.json --out mine -- python skeleton.py {cases} {answers} {world} {state}

zerogauge_adapter.main starts one process per rank, initializes torch.distributed (gloo), and makes one Trainer for each
case on every rank. All ranks call the same methods in the same order, so collectives work.
An adapter in another framework or language writes the same files itself; ../CONTRACT.md defines them.
"""
import torch

from zerogauge_adapter import MOMENTS, Model, Unsupported, main


class Trainer:
    def __init__(self, case, args):
        """`case` has every key of case.json as an attribute, and rank. Raise Unsupported, with a reason, for a case
        that you cannot run, unless the claims exclude it. Any other exception refuses an invalid configuration."""
        if case.world > 1 or case.precision != "fp32" or case.overflow_check or not case.groups[0]["bias_correction"]:
            raise Unsupported("one rank, fp32, without overflow check, with bias correction")
        self.case = case
        # A module whose forward computes the case's loss. model.by_name has its parameters by their names in the case.
        self.model = Model(case, torch.float32)
        # YOURS: wrap or shard the model. Hints are in case.stage, case.buckets, case.hints, case.offload.
        # `train` sets "lr" in param_groups before each step, using the "index" that optimizer_groups has put there.
        groups = case.optimizer_groups(self.model.by_name, "decoupled_weight_decay")
        self.optimizer = torch.optim.Adam(groups, **case.hyper_parameters(0))  # YOURS

    def backward(self, gradients, last):
        """Runs one micro-step. `gradients` has the loss's gradient for each parameter; `last`: the step's last one."""
        loss = self.model(gradients)  # YOURS: call the wrapped model
        (loss / self.case.accumulation).backward()

    def step(self):
        """Returns whether the step was skipped, the loss scale after it, and the norm before clipping; None for a scale
        or norm that does not exist."""
        norm = None
        if self.case.gradient_clipping:
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.case.gradient_clipping)
        self.optimizer.step()  # YOURS
        self.optimizer.zero_grad()
        return False, None, norm

    def state(self):
        """Returns full fp32 tensors, read back from where the implementation keeps them, and t. Called on all ranks;
        rank 0's is written."""
        tensors = {f"param/{name}": p for name, p in self.model.by_name.items()}  # YOURS: the fp32 master parameters
        for name, p in self.model.by_name.items():
            for kind in MOMENTS:
                if p in self.optimizer.state:
                    tensors[f"{kind}/{name}"] = self.optimizer.state[p][kind]  # YOURS: gathered
        return tensors, max(state["step"] for state in self.optimizer.state.values())

    def save(self, path):
        """Writes your checkpoint into this folder. Without `save` and `load`, do not claim "resume"."""
        torch.save([self.model.state_dict(), self.optimizer.state_dict()], path / "checkpoint.pt")

    def load(self, path, weights_only):
        model, optimizer = torch.load(path / "checkpoint.pt")
        self.model.load_state_dict(model)
        if not weights_only:
            self.optimizer.load_state_dict(optimizer)

    # def close(self): optional; releases what must not survive the case.


if __name__ == "__main__":
    main(Trainer)
