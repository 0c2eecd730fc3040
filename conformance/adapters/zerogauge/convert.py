# SPDX-License-Identifier: Apache-2.0
"""`zerogauge convert` with the formats that PyTorch writes: DeepSpeed's universal checkpoints, and distributed ones."""
import argparse
import importlib
import os
import shutil
import sys
from pathlib import Path

from zerogauge import states
from zerogauge.command import program

FORMATS = ("zerogauge", "safetensors", "universal", "dcp")


def format_of(path):
    if path.is_file():
        return "safetensors"
    if (path / ".metadata").is_file():
        return "dcp"
    if (path / "latest_universal").is_file() or (path / "zero").is_dir():
        return "universal"
    return "zerogauge"


def reader(form):
    try:
        return importlib.import_module(f"zerogauge.{form}")
    except ImportError as error:
        raise states.Refused(f"the format {form} needs PyTorch and numpy ({error}): pip install torch numpy") from error


def take(form, path):
    """A checkpoint's (state, tensors), after notes about what it has besides."""
    try:
        state, tensors, *notes = reader(form).read(path)
    except states.Refused:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, MemoryError) as error:  # of what a pickle holds elsewhere
        raise states.Refused(f"{path}: has not the form of a checkpoint: {type(error).__name__}: {error}") from error
    for note in notes[0] if notes else []:
        print(f"zerogauge convert: note: {path}: {note}", file=sys.stderr)
    return state, tensors


def convert(source, out, form, work):
    """Makes OUT in the folder `work`, and returns its path there and what there is to say of the state."""
    here, made = format_of(source), work / "out"
    file = source if here == "safetensors" else work / "states.safetensors"
    said = states.write(file, *take(here, source)) if here in ("universal", "dcp") else \
        states.run(source, *([] if here == "safetensors" else [file]))
    if form == "safetensors":
        return file, said
    if form == "zerogauge":
        states.run(file, made)
        return made, said
    reader(form).write(made, *states.read(file))
    again = states.write(work / "again.safetensors", *take(form, made))
    if again != said:
        raise states.Refused(f"{out}: holds {again}, not {said}: please report it")
    return made, said


def make(source, out, form):
    """Converts; returns what there is to say of the state. Leaves nothing after an error."""
    work = out.with_name(out.name + ".partial")
    if out.exists() or out.is_symlink():
        raise states.Refused(f"{out}: exists already; name one that does not")
    work.mkdir()
    try:
        made, said = convert(source, out, form, work)
        made.rename(out)
        return said
    except states.Refused as error:
        said = str(error).replace(f"{work}/states.safetensors", str(source))
        raise states.Refused(said if said.startswith(str(source)) else f"{source}: {said}") from error
    finally:
        shutil.rmtree(work)


def main(arguments):
    parser = argparse.ArgumentParser(prog="zerogauge convert", add_help=False)
    parser.add_argument("source", type=Path, nargs="?")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--to", choices=FORMATS)
    asked, rest = parser.parse_known_args(arguments)
    form = asked.to or ("zerogauge" if asked.source and asked.source.is_file() else "safetensors")
    if rest or not asked.out or {format_of(asked.source), form} <= {"zerogauge", "safetensors"}:
        os.execvp(program(), [program(), "convert", *arguments])
    try:
        said = make(asked.source, asked.out, form)
    except (states.Refused, OSError) as error:
        sys.exit(f"zerogauge convert: {error}")
    print(f"{asked.out}: {said}")
    return said
