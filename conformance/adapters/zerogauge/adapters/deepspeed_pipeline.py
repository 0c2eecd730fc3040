# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's pipeline engine, which owns the micro-steps, with one stage of the pipeline on each rank's whole model."""
import zerogauge.adapters.deepspeed_start  # noqa: F401  first: it selects the accelerator
import deepspeed
from deepspeed.pipe import PipelineModule

from zerogauge.pytorch import Model, TorchAdapter, torch


class Layer(Model):
    """Takes the number of a batch: between the layers of a pipeline there are tensors."""

    def forward(self, number):
        return super().forward(self.batches[number.item()])


class DeepSpeedPipeline(TorchAdapter):
    claims = {**TorchAdapter.plain, "name": "DeepSpeed, pipeline engine", "version": deepspeed.__version__, "stages": [0],
              "worlds": [1, 2, 4], "unused": "untouched",
              "features": ["accumulation", "clipping", "lr_schedule", "groups", "tied"]}

    def build(self, case):
        self.model = Layer(case, torch.float32)
        self.model.batches = self.batches()
        self.model.register_forward_hook(lambda *_: self.saw_forward())
        deepspeed.init_distributed()
        adam = torch.optim.Adam(self.optimizer_groups(self.model.by_name, "decoupled_weight_decay"))
        self.engine, self.optimizer, *_ = deepspeed.initialize(
            model=PipelineModule([self.model], num_stages=1, loss_fn=lambda loss, _: loss), optimizer=adam, config={
                "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": case.accumulation,
                "gradient_clipping": case.gradient_clipping, "zero_allow_untested_optimizer": True})

    def train(self):
        numbers = ((torch.tensor(i), torch.tensor(0)) for i in range(len(self.model.batches)))
        for step in self.case.own_steps:
            self.begin_step(step)
            self.engine.train_batch(numbers)
            self.finish_step(norm=self.engine.get_global_grad_norm())


if __name__ == "__main__":
    DeepSpeedPipeline.main()
