# SPDX-License-Identifier: Apache-2.0
"""The Trainer of Lightning, which owns the loop, with DistributedDataParallel."""
from zerogauge.pytorch import Model, TorchAdapter  # first: --check says what it imports before it does

import pytorch_lightning as lightning
import torch


class Module(lightning.LightningModule):
    def __init__(self, adapter):
        super().__init__()
        self.model, self.adapter = adapter.model, [adapter]  # in a list, it is not saved

    def training_step(self, gradients, index):
        if index % self.trainer.accumulate_grad_batches == 0:
            self.adapter[0].begin_step(index // self.trainer.accumulate_grad_batches + 1)
        loss = self.model(gradients)
        self.adapter[0].saw_forward()
        return loss

    def configure_optimizers(self):
        return self.adapter[0].optimizer

    def on_train_batch_end(self, outputs, batch, index):
        if (index + 1) % self.trainer.accumulate_grad_batches == 0:
            self.adapter[0].finish_step()


class LightningTrainer(TorchAdapter):
    claims = {**TorchAdapter.plain, "name": "Lightning, Trainer", "version": lightning.__version__, "stages": [0],
              "worlds": [1, 2, 4], "clip_form": "torch", "unused": "untouched",
              "features": ["accumulation", "clipping", "l2", "lr_schedule", "groups", "tied", "frozen", "unused"]}

    def build(self, case):
        self.model = Model(case, torch.float32)
        self.optimizer = torch.optim.Adam(self.optimizer_groups(self.model.by_name, "decoupled_weight_decay"))
        self.trainer = lightning.Trainer(
            accelerator=self.device.type, devices=case.world, max_epochs=1, logger=False, enable_checkpointing=False,
            strategy="ddp" if case.uses_all else "ddp_find_unused_parameters_true", enable_progress_bar=False,
            accumulate_grad_batches=case.accumulation, gradient_clip_val=case.gradient_clipping or None,
            enable_model_summary=False, use_distributed_sampler=False)

    def train(self):
        self.trainer.fit(Module(self), iter(self.batches()))


if __name__ == "__main__":
    LightningTrainer.main()
