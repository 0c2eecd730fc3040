# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed on the CPU, with what ranks share loaded: to be imported before the ranks are forked."""
import functools
import os
import sys

import cpuinfo

os.environ.setdefault("DS_ACCELERATOR", "cpu")
cpuinfo.get_cpu_info = functools.cache(cpuinfo.get_cpu_info)  # each DeepSpeedCPUAdam asks, by a process that takes 1 s
import deepspeed  # noqa: E402
import deepspeed.runtime.zero.muon.muon_optimizer  # noqa: E402, F401  each rank's first engine would, in seconds
from deepspeed.accelerator import get_accelerator  # noqa: E402

deepspeed.utils.logger.setLevel("ERROR")
get_accelerator().is_fp16_supported = lambda: True  # asks for a CPU with instructions for it; without, it works too
# Otherwise every rank asks ninja and the compiler whether all is built.
for name in ["ShareMemComm"] + ["CPUAdam"] * ("--offload" in sys.argv) + ["AsyncIO"] * ("nvme" in sys.argv):
    get_accelerator().create_op_builder(f"{name}Builder").load()
