# SPDX-License-Identifier: Apache-2.0
"""Programs of the target `standin` in which a barrier of the kernels or a thread's wait for its copies is left out, or
the mask of a warp's operation is its thread's own lane alone.

The kernels are compiled once with all of these, of which ZG_STANDIN_MUTANT chooses one when a program runs."""
import os
import re

from waits import ROOT, Mutant, named, source_paths

BARRIER = re.compile(r"\b(?:block\.sync|block\.wait_for_copies|__syncthreads|__syncwarp)\(\)")
MASK = re.compile(r"(?<=_sync\()\w+(?=,)")  # of __shfl_sync and the like
CHOICE = """#include <cstdlib>
static const char *const chosen_mutant = std::getenv("ZG_STANDIN_MUTANT");
static const unsigned standin_mutant = chosen_mutant ? (unsigned)std::atoi(chosen_mutant) : 0;
"""


class Barrier:
    """A place in a kernel; the number chooses its mutant, from 1."""

    def __init__(self, path, text, match, number):
        self.path, self.number = path, number
        self.name = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
        self.what, other = match.group(), "(void)0"
        if match.re is MASK:
            self.what = f"the mask of {re.search(r'__[a-z_]+[(]$', text[:match.start()]).group()})"
            other = "1u << threadIdx.x % 32"
        self.span = match.span()
        self.mutated = f"(standin_mutant == {number} ? {other} : {match.group()})"


class Barriers:
    """All places, and the programs of them."""

    def __init__(self):
        self.places, self.texts = [], {}
        for path in source_paths(r"\.cuh?$"):
            text = mutated = open(os.path.join(ROOT, path)).read()
            matches = sorted((match for kind in (BARRIER, MASK) for match in kind.finditer(text)),
                             key=lambda match: match.start())
            found = [Barrier(path, text, match, len(self.places) + 1 + i) for i, match in enumerate(matches)]
            for place in reversed(found):
                mutated = mutated[:place.span[0]] + place.mutated + mutated[place.span[1]:]
            self.places += found
            self.texts[path] = mutated

    def find(self, words):
        return named(self.places, words)

    def compile(self, folder):
        """Returns the programs, which without a chosen mutant do what the build's do."""
        mutant = Mutant(folder)
        for path, text in self.texts.items():
            if path.endswith(".cuh"):
                os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
                open(os.path.join(folder, path), "w").write(text)
        for path, text in self.texts.items():
            if path.endswith(".cu") and path != "ref/cuda/isa_host.cu":
                wrong = mutant.compile(path, CHOICE + text, "-I", folder)
                if wrong:
                    raise ValueError(f"the mutants of {path} do not compile: {wrong}")
        return mutant
