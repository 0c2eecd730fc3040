# SPDX-License-Identifier: Apache-2.0
"""Loads DeepSpeed, for the CPU where there is no accelerator, with everything that ranks can share. Import it before the ranks are forked."""
import contextlib
import functools
import importlib
import os
import sys

import cpuinfo

from zerogauge.pytorch import device_type

if device_type() == "cpu":
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
cpuinfo.get_cpu_info = functools.cache(cpuinfo.get_cpu_info)  # takes 1 s, and each DeepSpeedCPUAdam calls it
import deepspeed  # noqa: E402
from deepspeed.accelerator import get_accelerator  # noqa: E402

with contextlib.suppress(ImportError):  # in releases since 0.18; takes seconds in each rank's first engine
    import deepspeed.runtime.zero.muon.muon_optimizer  # noqa: F401

deepspeed.utils.logger.setLevel("ERROR")
if get_accelerator().device_name() == "cpu":
    get_accelerator()._communication_backend_name = "gloo"  # releases before 0.14.1 have Intel's backend alone
get_accelerator().is_fp16_supported = lambda: True  # DeepSpeed requires fp16 instructions, but works without them
backend = importlib.import_module("deepspeed.comm.torch")  # the package's attribute of this name is PyTorch
backend.build_shm_op = lambda: None  # takes minutes to compile, and serves inference alone
# Loaded here once; otherwise every rank runs ninja and the compiler to check that the operators are built.
for name in ["CPUAdam"] * ("--offload" in sys.argv) + ["AsyncIO"] * ("nvme" in sys.argv):
    get_accelerator().create_op_builder(f"{name}Builder").load()
