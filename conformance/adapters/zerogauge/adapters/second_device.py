# SPDX-License-Identifier: Apache-2.0
"""Runs an adapter in PyTorch on a device that is not the host, where there is no GPU: memory of its own to which no
operation mixes the host's (a Python back end of PyTorch 2.15's PrivateUse1), and gloo between ranks. --on cpu runs it on
the CPU. On both, the package's code fails where it makes a tensor without saying where, or reads one on the host but to
answer. --adapter NAME, and its options."""
import argparse
import contextlib
import ctypes
import functools
import importlib
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree, backend_registration

from zerogauge.pytorch import TorchAdapter

aten, HOST, HOME = torch.ops.aten, torch.device("cpu"), str(Path(__file__).resolve().parents[1])
BY_HOST = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
FACTORIES = {getattr(torch, name) for name in ("arange", "empty", "eye", "full", "ones", "tensor", "zeros")}
CROSSINGS = {getattr(torch.Tensor, name) for name in ("__array__", "__bool__", "__float__", "__int__", "cpu", "item",
                                                     "numpy", "tolist")}
ANSWERS = {"answer_of", "array", "finish_step", "state", "step"}  # the functions that read what is answered
KEPT = []  # the device's memory


class Strict(TorchFunctionMode):
    """Looks at the calls that the package's own code makes."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        frame = sys._getframe(1)
        if frame.f_code.co_filename.startswith(HOME) and frame.f_code.co_filename != __file__:
            where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            if function in FACTORIES and "device" not in (kwargs or {}):
                raise RuntimeError(f"{where}: a tensor is made without a device")
            while frame.f_code.co_name.startswith("<"):  # a comprehension
                frame = frame.f_back
            if function in CROSSINGS and frame.f_code.co_name not in ANSWERS:
                raise RuntimeError(f"{where}: a tensor is read on the host")
        return function(*args, **(kwargs or {}))


class Event(torch.Event):
    def __new__(cls, *_, **__):
        return super().__new__(cls, device="second:0")

    def synchronize(self):
        pass


class Module(backend_registration._DummyBackendModule):
    """torch.second."""

    Stream = current_stream = default_stream = staticmethod(lambda *_, **__: torch.Stream(device="second:0"))
    Event = Event
    stream = device = staticmethod(lambda *_: contextlib.nullcontext())
    set_device = synchronize = manual_seed = staticmethod(lambda *_: None)
    get_amp_supported_dtype = staticmethod(lambda: [torch.bfloat16, torch.float16])


def is_ours(value):
    return isinstance(value, torch.Tensor) and value.device.type == "second"


def on_host(value):
    """A tensor of the device as the host sees its memory."""
    if isinstance(value, torch.device) and value.type == "second":
        return HOST
    if not is_ours(value):
        return value
    storage, flat = value.untyped_storage(), torch.empty(0, dtype=torch.uint8)
    if storage.nbytes():
        flat = torch.frombuffer((ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr()), dtype=torch.uint8)
    return torch.empty(0, dtype=value.dtype).set_(flat.untyped_storage(), value.storage_offset(), value.shape,
                                                  value.stride())


def empty_strided(size, stride, dtype=None, **_):
    dtype = dtype or torch.get_default_dtype()
    count = 0 if 0 in size else 1 + sum((length - 1) * step for length, step in zip(size, stride))
    KEPT.append(torch.full((count * dtype.itemsize + 1,), 255, dtype=torch.uint8))  # NaN
    storage = torch._C._construct_storage_from_data_pointer(KEPT[-1].data_ptr(), torch.device("second", 0),
                                                            count * dtype.itemsize)
    return aten.set_.source_Storage_storage_offset.redispatch(BY_HOST, torch._C._acc.create_empty_tensor([0], dtype),
                                                              storage, 0, list(size), list(stride))


def empty(size, dtype=None, **_):
    return empty_strided(size, torch.empty(size, device="meta").stride(), dtype)


def on_device(tensor):
    out = empty_strided(tensor.shape, tensor.stride(), tensor.dtype)
    on_host(out).copy_(tensor)
    return out


def computed(op, *args, **kwargs):
    """An operation on the device's memory, computed by the host."""
    given, seen = [], {}

    def taken(value):
        if isinstance(value, torch.Tensor):
            given.append(value)
        host = on_host(value.detach() if isinstance(value, torch.Tensor) and value.requires_grad else value)
        if is_ours(value):
            seen[id(host)] = host, value
        return host
    args, kwargs = _pytree.tree_map(taken, (args, kwargs))
    if op is not aten.copy_.default and any(tensor.dim() and not is_ours(tensor) for tensor in given):
        raise RuntimeError(f"{op}: tensors of two devices")
    result = op(*args, **kwargs)
    for host, own in seen.values():  # an out= that has grown
        if host.shape != own.shape:
            aten.set_.source_Storage_storage_offset.redispatch(BY_HOST, own, on_device(host).untyped_storage(), 0,
                                                               host.shape, host.stride())
    return _pytree.tree_map(lambda value: seen[id(value)][1] if id(value) in seen else on_device(value)
                            if isinstance(value, torch.Tensor) and value.device == HOST else value, result)


def copied_from(source, target, non_blocking=False):
    on_host(target).copy_(on_host(source))
    return target


def operators(namespace, names):
    for name in names:
        base, _, overload = name.partition(".")
        yield name, getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")


def make_device():
    backend_registration._setup_privateuseone_for_python_backend("second", backend_module=Module())
    own, sums, rest = (torch.library.Library(namespace, "IMPL") for namespace in ("aten", "c10d", "_"))
    for name, kernel in {"empty.memory_format": empty, "empty_strided": empty_strided, "_copy_from": copied_from,
                         "record_stream": lambda *_: None}.items():
        own.impl(name, kernel, "PrivateUse1")
    for name, op in operators("aten", ("as_strided", "view", "_reshape_alias", "unfold", "set_.source_Tensor",
                                       "set_.source_Storage", "set_.source_Storage_storage_offset")):
        own.impl(name, functools.partial(op.redispatch, BY_HOST), "PrivateUse1")  # which looks at no memory
    collectives = [name[6:] for name in torch._C._dispatch_get_all_op_names() if name.startswith("c10d::")
                   and torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU")]
    for name, op in operators("c10d", collectives):
        sums.impl(name, functools.partial(computed, op), "PrivateUse1", allow_override=True)
    rest.fallback(computed, "PrivateUse1")
    KEPT.extend((own, sums, rest))
    dist.Backend.default_device_backend_map["second"] = "gloo"
    dist.Backend.backend_capability["gloo"].append("second")
    resize = torch.UntypedStorage.resize_  # FSDP frees memory by it
    torch.UntypedStorage.resize_ = lambda self, size: self if self.device.type == "second" else resize(self, size)


def join(adapter, *arguments):
    adapter(*arguments)
    Strict().__enter__()


if __name__ in ("__main__", "imported"):
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False, add_help=False)
    parser.add_argument("--adapter", action="append", required=True)
    parser.add_argument("--on", choices=["second", "cpu"], default="second")
    own, sys.argv[1:] = parser.parse_known_args()
    modules = [importlib.import_module(f"zerogauge.adapters.{name}") for name in own.adapter]
    if __name__ == "__main__":
        if own.on == "second":
            make_device()
        Adapter = next(value for value in vars(modules[0]).values() if isinstance(value, type) and issubclass(
            value, TorchAdapter) and value.__module__ == modules[0].__name__)
        Adapter.join = functools.partial(join, Adapter.join)
        Adapter.main()
