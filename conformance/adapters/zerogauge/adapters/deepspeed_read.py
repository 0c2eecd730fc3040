# SPDX-License-Identifier: Apache-2.0
"""Reads configurations as people write them with the package that DeepSpeed reads its files with, hjson:

    python deepspeed_read.py ZEROGAUGE OUT

Each text must mean the same to zerogauge as hjson's result does as JSON, and be refused where hjson refuses it."""
import json
import random
import subprocess
import sys
from pathlib import Path

import hjson
from deepspeed.runtime.config_utils import dict_raise_error_on_duplicate_keys

TEXTS = ["# ours\ntrain_batch_size: 8\nzero_optimization: {\n  stage: 3 // all\n  offload_param: {device: 'cpu'}\n}\n",
         "{train_batch_size: 8, zero_optimization: {stage: 2, reduce_bucket_size: 5e8,},}",
         "train_batch_size: 8\nzero_optimization: {offload_optimizer: {\n device: cpu\n pin_memory: true}, stage: 2}\n",
         "train_batch_size: 8 /* all */ fp16: {enabled: true\n loss_scale: 0.5e1}\nwall_clock_breakdown: false # quiet\n",
         "{\n  \"train_batch_size\": 8\n  'optimizer': {type: AdamW\n params: {lr: 1e-4, betas: [0.9\n0.95]}}\n}\n",
         "train_batch_size: 8\nzerogauge: {\n  recipe:\n    '''\n    torch-cpu\n    '''\n}\n"]
PIECES = ["{", "}", "[", "]", ",", ":", "#", "//", "/*", "*/", "'", '"', "\\", "8", "-", "true", "null", "a: b"]
PIECES += ["\n", " ", "\t", "\r\n", "# x\n", "// y\n", "/* z */"] * 4
COUNT = 150


def printed(zerogauge, file, text):
    """The configuration with every default; None where it is refused."""
    file.write_text(text)
    run = subprocess.run([zerogauge, "train", "--world", "2", "--config", file, "--print-config"], text=True,
                         capture_output=True)
    return run.stdout if run.returncode == 0 else None


def understood(text):
    try:
        return hjson.loads(text, object_pairs_hook=dict_raise_error_on_duplicate_keys)
    except (ValueError, IndexError):  # of an open comment
        return None


def main(zerogauge, out):
    out, draw, differing, read = Path(out), random.Random(1), 0, 0
    out.mkdir(parents=True, exist_ok=True)
    texts = list(TEXTS)
    for _ in range(COUNT):
        text = draw.choice(TEXTS)
        at = draw.randrange(len(text))
        texts.append(text[:at] + draw.choice(PIECES) + text[at + draw.randrange(2):])
    for i, text in enumerate(texts):
        meant = understood(text)
        theirs = None if meant is None else printed(zerogauge, out / "theirs.json", json.dumps(meant))
        ours = printed(zerogauge, out / f"{i}.json", text)
        read += ours is not None
        if ours != theirs or (i < len(TEXTS) and ours is None):
            differing += 1
            print(f"{out}/{i}.json means something else to hjson")
    print(f"{len(texts)} texts, of which {read} are configurations: {differing} differ")
    return differing > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
