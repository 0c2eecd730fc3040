# SPDX-License-Identifier: Apache-2.0
"""The Trainer of transformers, which owns the loop: it is given batches with a loss for each token and labels that mask
some, and normalises itself. --loss means: a model that does not take num_items_in_batch. --loss own: a Trainer that
counts no tokens of other ranks."""
import logging
import os

import torch
import transformers
from accelerate.state import AcceleratorState, GradientState, PartialState
from torch.utils.data import DataLoader

from zerogauge.pytorch import Model, TorchAdapter, hyper_parameters

IGNORED = -100  # the label of a token that is masked


class TokenModel(Model):
    """As a causal language model: the sum of the losses of the tokens that count over num_items_in_batch, or their
    mean where the Trainer does not give it."""

    def forward(self, batch, labels, num_items_in_batch=None):
        loss = super().forward(batch)
        self.all_seen.append({name: tensor.clone() for name, tensor in self.seen.items()})
        counted = labels.ne(IGNORED)
        # The first token that counts has the whole loss, and others none: the sum has its bits.
        losses = torch.where(counted.cumsum(0).eq(1) & counted, loss, 0 * loss)
        if num_items_in_batch is not None:
            return {"loss": losses.sum() / num_items_in_batch}
        return {"loss": losses.sum() / counted.sum()}


class Callback(transformers.TrainerCallback):
    """Follows the Trainer's loop."""

    def __init__(self, adapter):
        self.adapter = adapter

    def on_step_begin(self, args, state, control, **_):
        self.adapter.begin_step(state.global_step + 1)

    def on_log(self, args, state, control, logs=None, **_):
        if "loss" in logs:
            self.adapter.end_step(logs)


class Batches(transformers.Trainer):
    """A Trainer whose data are this rank's."""

    def get_train_dataloader(self):
        return DataLoader(self.train_dataset, batch_size=None, collate_fn=lambda batch: batch)


class TransformersTrainer(TorchAdapter):
    claims = {"contract": 1, "name": "transformers, Trainer", "version": transformers.__version__, "stages": [0],
              "worlds": [1, 2, 4], "precisions": ["fp32"], "offload_optimizer": ["none"], "offload_param": ["none"],
              "knobs": [], "clip_form": "torch", "unused": "untouched", "optional": ["token_mean"],
              "features": ["accumulation", "clipping", "l2", "lr_schedule", "groups", "tied", "frozen"]}
    options = {"loss": ["sum", "means", "own"]}

    def build(self, case):
        logging.disable(logging.WARNING)
        os.environ.setdefault("MASTER_ADDR", "localhost")  # Accelerate asks for it, though the ranks have met
        for shared in AcceleratorState, PartialState, GradientState:  # one per process, so that of the last case
            shared._reset_state()
        self.model = TokenModel(case, torch.float32)
        self.model.accepts_loss_kwargs = self.arguments.loss != "means"
        groups = self.optimizer_groups(self.model.by_name, "decoupled_weight_decay")
        self.optimizer = torch.optim.Adam(groups, **hyper_parameters(case, 0))
        settings = transformers.TrainingArguments(
            output_dir=str(case.answer), use_cpu=True, gradient_accumulation_steps=case.accumulation, num_train_epochs=1,
            max_grad_norm=case.gradient_clipping, logging_steps=1, save_strategy="no", report_to="none",
            disable_tqdm=True, remove_unused_columns=False, logging_nan_inf_filter=False,
            average_tokens_across_devices=self.arguments.loss != "own")
        schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda _: 1)  # `begin_step` sets the rates
        self.trainer = Batches(self.model, settings, train_dataset=self.batches(), callbacks=[Callback(self)],
                               optimizers=(self.optimizer, schedule))
        self.trainer.remove_callback(transformers.PrinterCallback)

    def labels(self, step, micro, length):
        count = self.case.token_count(step, micro) if self.case.tokens else length - 1
        # Position 0 has no prediction; padding is behind the tokens.
        return torch.cat([torch.full((1,), IGNORED, dtype=torch.int8), torch.zeros(count, dtype=torch.int8),
                          torch.full((length - 1 - count,), IGNORED, dtype=torch.int8)])

    def batches(self):
        case, all_batches = self.case, []
        for step in case.own_steps:
            gradients = case.gradients(step)
            counts = [max(case.tokens[step - 1][micro]) if case.tokens else 1 for micro in range(len(gradients))]
            all_batches += [{"batch": gradient, "labels": self.labels(step, micro, counts[micro] + 3)}
                            for micro, gradient in enumerate(gradients)]
        return all_batches

    def begin_step(self, step):
        self.now, self.model.all_seen = step, []
        self.set_lr(step)

    def end_step(self, logs):
        self.loss = logs["loss"]
        seen = [{name: self.array(tensor) for name, tensor in part.items()} for part in self.model.all_seen]
        self.finish_step(self.now, seen, norm=logs.get("grad_norm") if self.case.gradient_clipping else None)

    def train(self):
        self.trainer.train()


if __name__ == "__main__":
    TransformersTrainer.main()
