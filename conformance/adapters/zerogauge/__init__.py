# SPDX-License-Identifier: Apache-2.0
"""zerogauge: a conformance suite and benchmark for ZeRO-style training, and what an adapter in Python builds on.

`from zerogauge import Adapter` needs numpy; the command `zerogauge` and this module by itself need nothing."""
import importlib
import sys

_HOMES = {"Adapter": "adapter", "Loss": "adapter", "OneProcess": "one_process", "Shard": "shards", "Case": "case",
          "MOMENTS": "case", "Unsupported": "case"}
__all__ = list(_HOMES)

if {"--check", "--doctor"} & set(sys.argv) and "pytest" not in sys.modules:
    from zerogauge.announce import begin  # before a framework is imported
    begin()


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
