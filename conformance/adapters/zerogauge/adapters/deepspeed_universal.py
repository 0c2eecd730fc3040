# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's universal checkpoints: ds_to_universal converts a checkpoint, which can then be resumed at any world."""
import subprocess
import sys

import torch.distributed as dist
from deepspeed.checkpoint.constants import UNIVERSAL_CHECKPOINT_INFO, UNIVERSAL_CHECKPOINT_VERSION_KEY
from deepspeed.checkpoint.constants import UNIVERSAL_CHECKPOINT_VERSION_VALUE


def described(kind):
    """What the trainer adds to its checkpoint so that it can be converted: its tensors are data-parallel alone."""
    version = {UNIVERSAL_CHECKPOINT_VERSION_KEY: UNIVERSAL_CHECKPOINT_VERSION_VALUE}
    return {UNIVERSAL_CHECKPOINT_INFO: version} if kind == "universal" else {}


def converted(path, tag, meet):
    """Converts the checkpoint once; returns the new tag. Collective."""
    if dist.get_rank() == 0 and not (path / f"{tag}-universal").exists():
        subprocess.run([sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--num_extract_workers", "1",
                        "--num_merge_workers", "1", "--input_folder", path / tag,
                        "--output_folder", path / f"{tag}-universal"], check=True)
    meet()
    return f"{tag}-universal"
