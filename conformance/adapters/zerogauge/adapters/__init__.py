# SPDX-License-Identifier: Apache-2.0
"""Adapters of PyTorch and DeepSpeed, and skeletons to copy; `python -m zerogauge.adapters.NAME` runs one."""
