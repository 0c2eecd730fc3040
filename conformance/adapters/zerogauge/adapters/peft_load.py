# SPDX-License-Identifier: Apache-2.0
"""Trains adapters with zerogauge, exports them, and loads them into a GPT-2 of Hugging Face with PEFT:

    python peft_load.py ZEROGAUGE OUT

Fails unless PEFT holds every exported tensor bit by bit, under a name of its own, and computes with base and adapters
what the same GPT-2 computes with the weights that `export --merge` wrote."""
import os
import subprocess
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

MODEL = {"n_layer": 2, "n_embd": 16, "n_head": 2, "n_positions": 16, "vocab_size": 256}  # gpt-nano
TRAIN = ["--preset", "zero3", "--set", "bf16.enabled=false", "--world", "3", "--steps", "12", "--verify"]
CASES = ["rank=4,alpha=8,targets=c_attn", "rank=3,alpha=5,targets=attn.c_proj+mlp.c_fc", "rank=4,targets=all-linear"]


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")


def gpt2(weights):
    """A GPT-2 with these weights, whose names are those of its body."""
    model = GPT2LMHeadModel(GPT2Config(**MODEL, bos_token_id=None, eos_token_id=None, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)).eval()
    missing, unexpected = model.transformer.load_state_dict(weights, strict=False)
    assert not unexpected and not [name for name in missing if not name.endswith("attn.bias")], (missing, unexpected)
    return model


def check(zerogauge, out, lora):
    """One set of adapters. Returns the largest difference of a logit."""
    saved, folder, merged, start = (out / name for name in ("saved", "adapters", "merged.safetensors", "base.safetensors"))
    run(zerogauge, "train", *TRAIN, "--model", "gpt-nano", "--lora", lora, "--save", saved)
    run(zerogauge, "export", saved, folder)
    run(zerogauge, "export", saved, merged, "--merge")
    # The weights that the run began with: adapters of rank 1, never updated by a step with a learning rate of 0.
    run(zerogauge, "train", *TRAIN, "--model", "gpt-nano", "--lora", "rank=1", "--set", "optimizer.params.lr=0",
        "--save", out / "base")
    run(zerogauge, "export", out / "base", start, "--merge")
    tokens = torch.randint(0, MODEL["vocab_size"], (4, MODEL["n_positions"]), generator=torch.Generator().manual_seed(1))
    base = gpt2(load_file(start))
    with torch.no_grad():
        before, expected = base(tokens).logits, gpt2(load_file(merged))(tokens).logits
        model = PeftModel.from_pretrained(base, folder).eval()
        logits = model(tokens).logits
    held = {name.replace(".default", ""): value for name, value in model.state_dict().items() if "lora_" in name}
    stored = load_file(folder / "adapter_model.safetensors")
    assert held.keys() == stored.keys(), held.keys() ^ stored.keys()
    assert all(torch.equal(held[name], stored[name]) for name in stored)
    change, error = (logits - before).abs().max().item(), (logits - expected).abs().max().item()
    assert change > 1e-4, f"{lora}: the adapters change logits by {change} alone"
    assert error < 1e-5 * expected.abs().max().item(), f"{lora}: merged weights differ by {error}"
    return change, error


def main():
    zerogauge, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    for index, lora in enumerate(CASES):
        folder = out / str(index)
        folder.mkdir(parents=True, exist_ok=True)
        for old in sorted(folder.rglob("*"), reverse=True):
            old.rmdir() if old.is_dir() else old.unlink()
        change, error = check(zerogauge, folder, lora)
        print(f"{lora}: logits change by {change:.2g}, and differ from the merged weights' by {error:.1g}")


if __name__ == "__main__":
    main()
