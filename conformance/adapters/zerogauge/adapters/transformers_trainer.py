# SPDX-License-Identifier: Apache-2.0
"""The Trainer of transformers (hf_trainer.py) that weighs by tokens: its batches have a loss for each token and labels
that mask some, and it normalises itself. --loss means: a model that does not take num_items_in_batch. --loss own: a
Trainer that counts no tokens of other ranks."""
import torch

from zerogauge.adapters.hf_trainer import HFTrainer
from zerogauge.pytorch import Model

IGNORED = -100  # the label of a token that is masked


class TokenModel(Model):
    """As a causal language model: the sum of the losses of the tokens that count over num_items_in_batch, or their
    mean where the Trainer does not give it."""

    def forward(self, batch, labels, num_items_in_batch=None):
        loss, counted = super().forward(batch), labels.ne(IGNORED)
        # The first token that counts has the whole loss, and others none: the sum has its bits.
        losses = torch.where(counted.cumsum(0).eq(1) & counted, loss, 0 * loss)
        if num_items_in_batch is not None:
            return {"loss": losses.sum() / num_items_in_batch}
        return {"loss": losses.sum() / counted.sum()}


class TransformersTrainer(HFTrainer):
    claims = {**HFTrainer.claims, "optional": ["token_mean"], "features": ["accumulation", "clipping", "l2", "lr_schedule",
                                                                           "groups", "tied", "frozen"]}
    options = {"loss": ["sum", "means", "own"]}

    def model_of(self, case):
        self.settings = {"average_tokens_across_devices": self.arguments.loss != "own"}
        model = TokenModel(case, torch.float32)
        model.accepts_loss_kwargs = self.arguments.loss != "means"
        return model

    def labels(self, step, micro, length):
        count = self.case.token_count(step, micro) if self.case.tokens else length - 1
        # Position 0 has no prediction; padding is behind the tokens.
        labels = [IGNORED, *[0] * count, *[IGNORED] * (length - 1 - count)]
        return torch.tensor(labels, dtype=torch.int8, device=self.device)

    def batches(self):
        case, all_batches = self.case, []
        for step in case.own_steps:
            gradients = case.gradients(step)
            counts = [max(case.tokens[step - 1][micro]) if case.tokens else 1 for micro in range(len(gradients))]
            all_batches += [{"batch": gradient, "labels": self.labels(step, micro, counts[micro] + 3)}
                            for micro, gradient in enumerate(gradients)]
        return all_batches

    def end_step(self, logs):
        self.loss = logs["loss"]
        super().end_step(logs)


if __name__ == "__main__":
    TransformersTrainer.main()
