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
    if here in ("universal", "dcp"):
        said = states.write(file, *take(here, source))
    else:
        said = states.run(*([source] if here == "safetensors" else [source, file]))
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


def main(arguments):
    parser = argparse.ArgumentParser(prog="zerogauge convert", add_help=False)
    parser.add_argument("source", type=Path, nargs="?")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--to", choices=FORMATS)
    asked, rest = parser.parse_known_args(arguments)
    form = asked.to or ("zerogauge" if asked.source and asked.source.is_file() else "safetensors")
    own = asked.source and {format_of(asked.source), form} <= {"zerogauge", "safetensors"}
    if rest or own or not asked.source or not asked.out:
        os.execvp(program(), [program(), "convert", *arguments])
    work = asked.out.with_name(asked.out.name + ".partial")
    try:
        if asked.out.exists() or asked.out.is_symlink():
            raise states.Refused(f"{asked.out}: exists already; name one that does not")
        work.mkdir()
    except (states.Refused, OSError) as error:
        sys.exit(f"zerogauge convert: {error}")
    try:
        made, said = convert(asked.source, asked.out, form, work)
        made.rename(asked.out)
        print(f"{asked.out}: {said}")
        return said
    except (states.Refused, OSError) as error:
        said = str(error).replace(f"{work}/states.safetensors", str(asked.source))
        sys.exit(f"zerogauge convert: {said if said.startswith(str(asked.source)) else f'{asked.source}: {said}'}")
    finally:
        shutil.rmtree(work)
