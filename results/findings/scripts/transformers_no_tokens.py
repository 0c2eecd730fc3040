# SPDX-License-Identifier: Apache-2.0
"""The Trainer of transformers with a model of its own and its default loss: a step in which every label is masked makes
all parameters NaN. transformers 5.23.0."""
import sys
import tempfile

import torch
import transformers

transformers.logging.set_verbosity_error()
for masked in range(3):  # step 1 has labels; in step 2 all of them, or those of one micro-step of two, are -100
    transformers.set_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2))
    ids = torch.arange(8) + 1
    rows = [{"input_ids": ids, "labels": ids if index < 4 - masked else torch.full_like(ids, -100)}
            for index in range(4)]
    settings = transformers.TrainingArguments(
        output_dir=tempfile.mkdtemp(), use_cpu=True, per_device_train_batch_size=1, gradient_accumulation_steps=2,
        num_train_epochs=1, report_to="none", save_strategy="no", disable_tqdm=True, train_sampling_strategy="sequential",
        logging_steps=1)
    trainer = transformers.Trainer(model, settings, train_dataset=rows)
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    bad = sum(int(p.isnan().any()) for p in model.parameters())
    log = trainer.state.log_history[1]
    print(f"{masked} of 2 micro-steps of step 2 without labels: {bad} of {len(list(model.parameters()))} parameters are "
          f"NaN, logged loss {log['loss']}", flush=True)
sys.exit()
