# SPDX-License-Identifier: Apache-2.0
"""Programs of the target `standin` without one of their waits for the device.

A call that waits is replaced by 0 in the text of its file, which is compiled as the build compiles it and linked before
the library that has the whole file."""
import json
import os
import re
import shlex
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")
FOLDER = os.path.join(BUILD, "standin")

WAIT = re.compile(r"(?:\b(?:accelerator_wait|cuda_lane_wait|cuda(?:Stream|Event|Device)Synchronize|cudaStreamWaitEvent|"
                  r"comm_nccl_(?:wait_until|drain))|->wait(?=\(\)))\(")


class Wait:
    """A call that waits, and the text of its file without it."""

    def __init__(self, path, text, begin, end):
        self.path, self.line = path, text.count("\n", 0, begin) + 1
        self.name = f"{path}:{self.line}"
        self.what = text[begin:end]
        self.mutated = text[:begin] + "0" + text[end:]


def call_end(text, opened):
    depth = 0
    for at in range(opened, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    raise ValueError("no end of a call")


def waits_of(path):
    text = open(os.path.join(ROOT, path)).read()
    for match in WAIT.finditer(text):
        line = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
        if "//" in line or re.match(r"(static )?(int|void) \Z", line):
            continue
        begin = match.start()
        if match.group().startswith("->"):
            begin = re.search(r"[\w.]+\Z", text[:begin]).start()
        yield Wait(path, text, begin, call_end(text, match.end() - 1))


def source_paths(ending):
    paths = subprocess.run(["git", "ls-files", "ref", "bench", "validate"], cwd=ROOT, check=True, capture_output=True,
                           text=True).stdout.split()
    return [path for path in paths if re.search(ending, path) and not re.search(r"_(test|trial)\.", path)]


def named(places, words):
    return [place for place in places if not words or any(word in place.name for word in words)]


def find_waits(words):
    return named([wait for path in source_paths(r"\.(c|cu|cuh)$") for wait in waits_of(path)], words)


def compile_command(path):
    """The command that compiles a file of the program, and the file that it names."""
    source = os.path.join(FOLDER, path.replace("/", "_") + ".cpp") if path.endswith(".cu") else os.path.join(ROOT, path)
    for entry in json.load(open(os.path.join(BUILD, "compile_commands.json"))):
        if os.path.join(entry["directory"], entry["file"]) == source:
            return shlex.split(entry["command"]), source
    raise ValueError(f"nothing compiles {path}")


def link_command(program):
    """The command that links a program, from BUILD, without the shell around it."""
    if os.path.exists(os.path.join(BUILD, "build.ninja")):
        lines = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", f"standin/{program}"], check=True,
                               capture_output=True, text=True).stdout.splitlines()
    else:
        lines = open(os.path.join(BUILD, "CMakeFiles", f"standin_{program}.dir", "link.txt")).read().splitlines()
    return [word for word in shlex.split(lines[-1]) if word not in (":", "&&")]


class Mutant:
    """Programs in which some files have another text; each is linked when a check asks for it."""

    def __init__(self, folder):
        self.folder, self.objects, self.linked = folder, {}, {}

    def compile(self, path, mutated, *options):
        """Returns what the compiler says where it fails."""
        command, source = compile_command(path)
        name = os.path.basename(source)
        text, made = os.path.join(self.folder, name), os.path.join(self.folder, f"{name}.o")
        replaced = command[command.index("-o") + 1]
        open(text, "w").write(mutated)
        if source.endswith(".cpp"):
            launches = subprocess.run([os.path.join(ROOT, "ci/standin/launches"), text], check=True,
                                      capture_output=True, text=True)
            open(text, "w").write(launches.stdout)
        words = {replaced: made, source: text, "-Werror": "-w"}
        command[1:1] = options
        done = subprocess.run([words.get(word, word) for word in command], cwd=BUILD, capture_output=True, text=True)
        self.objects[replaced] = made
        return done.stderr if done.returncode else None

    def program(self, name):
        if name not in self.linked:
            path = os.path.join(self.folder, name)
            words = link_command(name)
            words[words.index("-o") + 1] = path
            for replaced, made in self.objects.items():
                if replaced in words:
                    words[words.index(replaced)] = made
                else:
                    words.insert(words.index("-o"), made)
            subprocess.run(words, cwd=BUILD, check=True, capture_output=True)
            self.linked[name] = path
        return self.linked[name]
