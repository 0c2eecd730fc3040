# SPDX-License-Identifier: Apache-2.0
"""The Trainer of Hugging Face's transformers, which owns the loop, with DistributedDataParallel."""
from zerogauge.pytorch import Model, TorchAdapter  # first: --check says what it imports before it does

import torch
import transformers


class LossModel(Model):
    def forward(self, batch):
        return {"loss": super().forward(batch)}


class Callback(transformers.TrainerCallback):
    """Follows the Trainer's loop."""

    def __init__(self, adapter):
        self.adapter = adapter

    def on_step_begin(self, args, state, control, **_):
        self.adapter.begin_step(state.global_step + 1)

    def on_log(self, args, state, control, logs, **_):  # after each step, and at the end without its loss
        if "loss" in logs:
            self.adapter.end_step(logs)


class HFTrainer(TorchAdapter):
    claims = {**TorchAdapter.plain, "name": "transformers, Trainer", "version": transformers.__version__, "stages": [0],
              "worlds": [1, 2, 4], "clip_form": "torch", "unused": "untouched",
              "features": ["accumulation", "clipping", "l2", "lr_schedule", "groups", "tied", "frozen", "unused"]}
    settings = {}  # of TrainingArguments

    def model_of(self, case):
        return LossModel(case, torch.float32)

    def build(self, case):
        self.model = self.model_of(case)
        self.model.register_forward_hook(lambda *_: self.saw_forward())
        self.optimizer = torch.optim.Adam(self.optimizer_groups(self.model.by_name, "decoupled_weight_decay"))
        settings = transformers.TrainingArguments(
            output_dir=str(case.answer), use_cpu=self.device.type == "cpu", num_train_epochs=1, logging_steps=1,
            gradient_accumulation_steps=case.accumulation, max_grad_norm=case.gradient_clipping, save_strategy="no",
            ddp_find_unused_parameters=not case.uses_all, report_to="none", disable_tqdm=True,
            lr_scheduler_type="constant", logging_nan_inf_filter=False, **self.settings)
        trainer = transformers.Trainer(self.model, settings, callbacks=[Callback(self)],
                                       optimizers=(self.optimizer, None))
        trainer.get_train_dataloader = self.batches  # this rank's, in order
        self.train = trainer.train

    def batches(self):
        return [{"batch": gradients} for gradients in super().batches()]

    def end_step(self, logs):
        self.finish_step(norm=logs.get("grad_norm") if self.case.gradient_clipping else None)


if __name__ == "__main__":
    HFTrainer.main()
