# SPDX-License-Identifier: Apache-2.0
"""The smallest adapter: unsharded Adam in plain PyTorch. Copy it, and put your own trainer in the places that say so.

    zerogauge check --claims mine.json --out mine -- python skeleton.py {cases} {answers} {world} {state}

zerogauge_adapter.main starts one process for each rank, joins them by torch.distributed (gloo), and makes one Trainer
for each case on every rank: all ranks call the same methods in the same order, so that collectives work.
Another framework, or another language, writes the same files itself; ../CONTRACT.md is all that it needs.
"""
import torch

from zerogauge_adapter import MOMENTS, Model, Unsupported, main


class Trainer:
    def __init__(self, case, args):
        """`case` has every key of case.json as an attribute, and rank. What cannot be expressed is declined here, in a
        line; what is known before is better said in the claims. Nonsense may raise anything: it counts as refused."""
        if case.world > 1 or case.precision != "fp32" or case.overflow_check or not case.groups[0]["bias_correction"]:
            raise Unsupported("one rank, fp32, without overflow check, with bias correction")
        self.case = case
        # A module whose forward computes the case's loss. Its parameters are in model.by_name, by the case's names.
        self.model = Model(case, torch.float32)
        # YOURS: wrap or shard the model. Hints are in case.stage, case.buckets, case.hints, case.offload.
        # `train` sets "lr" in param_groups before each step, by the "index" that optimizer_groups puts there.
        groups = case.optimizer_groups(self.model.by_name, "decoupled_weight_decay")
        self.optimizer = torch.optim.Adam(groups, **case.hyper_parameters(0))  # YOURS

    def backward(self, gradients, last):
        """One micro-step. The loss's gradient with respect to a parameter is the tensor given. `last`: of this step."""
        loss = self.model(gradients)  # YOURS: call what you have wrapped
        (loss / self.case.accumulation).backward()

    def step(self):
        """Returns whether the step was skipped, the loss scale after it, and the norm before clipping; or None."""
        norm = None
        if self.case.gradient_clipping:
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.case.gradient_clipping)
        self.optimizer.step()  # YOURS
        self.optimizer.zero_grad()
        return False, None, norm

    def state(self):
        """Whole tensors in fp32, read back from where they really are, and t. All ranks take part; rank 0 writes."""
        tensors = {f"param/{name}": p for name, p in self.model.by_name.items()}  # YOURS: the fp32 master parameters
        for name, p in self.model.by_name.items():
            for kind in MOMENTS:
                if p in self.optimizer.state:
                    tensors[f"{kind}/{name}"] = self.optimizer.state[p][kind]  # YOURS: gathered
        return tensors, max(state["step"] for state in self.optimizer.state.values())

    def save(self, path):
        """Your checkpoint, into this folder; without `save` and `load`, do not claim resume."""
        torch.save([self.model.state_dict(), self.optimizer.state_dict()], path / "checkpoint.pt")

    def load(self, path, weights_only):
        model, optimizer = torch.load(path / "checkpoint.pt")
        self.model.load_state_dict(model)
        if not weights_only:
            self.optimizer.load_state_dict(optimizer)

    # def close(self): frees what a case has held, if the next one must not find it.


if __name__ == "__main__":
    main(Trainer)
