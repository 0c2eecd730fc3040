# SPDX-License-Identifier: Apache-2.0
"""Runs of programs of the target `standin`, and how each is judged."""
import os
import re
import subprocess
import tempfile

from waits import FOLDER

LIMIT_S = 850  # of a busy machine; a bench of 70 s of processor time took more than 300
NO_TEST = "no test ran"
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_mpi_yield_when_idle": "1", "ZG_STANDIN_DEVICES": "8"}


def run(command, environment, folder):
    """Status and output; a command that takes too long has failed."""
    try:
        done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, text=True, timeout=LIMIT_S,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        return 124, f"more than {LIMIT_S} s"
    return done.returncode, done.stdout


def said_of(environment):
    return ["=".join(pair) for pair in environment.items()]


class Check:
    """One program's run, as one process or `processes`; `fails` gives the reason, or nothing."""
    each = []  # words of mpirun before the program

    def __init__(self, name, program, arguments, environment=None, processes=0):
        self.name, self.program, self.arguments = name, program, arguments
        self.environment, self.processes, self.skipped = environment or {}, processes, []

    def run(self, program, folder):
        command, environment = [program, *self.arguments, *self.more(folder)], self.environment
        if not self.processes:
            return run(command, environment, folder)
        # mpirun removes the common folder of its user while another begins to use it.
        with tempfile.TemporaryDirectory(prefix="zg-") as own:
            return run(["mpirun", "-n", str(self.processes), *self.each, *command],
                       {**MPI, "OMPI_MCA_orte_tmpdir_base": own, **environment}, folder)

    def more(self, folder):
        return []

    def fails(self, program, folder):
        status, output = self.run(program, folder)
        return self.judge(status, output, program, folder)

    def judge(self, status, output, program, folder):
        return f"status {status}: {last_line(output)}" if status else None


class Test(Check):
    def __init__(self, name, pattern="*/*_gpu", environment=None):
        super().__init__(f"{name} {pattern}", name, ["--filter", pattern, "-j1"], environment)

    def judge(self, status, output, program, folder):
        self.skipped = re.findall("TEST SKIPPED: (.* on the stand-in.*)", output)
        skipped = re.search("TEST SKIPPED: (?!.* on the stand-in).*", output)
        if skipped:
            return skipped.group()
        return super().judge(status, output, program, folder) or \
            (NO_TEST if "Tested: 0 " in output else None)


class State(Check):
    """A run whose state is the processor's."""

    def __init__(self, preset, model, *options, environment=None, world="2", processes=0):
        name = " ".join([preset, model, *(["mpirun -n", str(processes)] if processes else ["--world", world]),
                         *options, *said_of(environment or {})])
        words = ["train", "--preset", preset, "--model", model, "--steps", "4", "--json", "--verify", *options]
        super().__init__(name, "zerogauge", words, environment, processes)
        self.world, self.expected = world, None

    def more(self, folder):
        return ["--nvme-path", folder, "--device", "cuda", *([] if self.processes else ["--world", self.world])]

    def prepare(self, folder):
        command = [os.path.join(FOLDER, self.program), *self.arguments, "--nvme-path", folder, "--world",
                   str(self.processes or self.world)]
        status, output = run(command, self.environment, folder)
        self.expected = state_of(output)
        return None if status == 0 else f"the processor's run: {last_line(output)}"

    def judge(self, status, output, program, folder):
        if status:
            return super().judge(status, output, program, folder)
        return None if state_of(output) == self.expected else f"{state_of(output)}, on the processor {self.expected}"


class Known(Check):
    """A run in fp32, whose products are our kernel's, ends in the state of datasets/digests.txt."""

    def __init__(self, preset, model, steps, digest):
        words = ["train", "--preset", preset, "--model", model, "--steps", steps, "--world", "2", "--text", "@times",
                 "--set", "train_micro_batch_size_per_gpu=1", "--set", "bf16.enabled=false", "--set",
                 "bf16.check_grad_overflow=false", "--json"]
        super().__init__(f"{preset} {model} fp32, known", "zerogauge", words)
        self.digest = digest

    def more(self, folder):
        return ["--device", "cuda"]

    def judge(self, status, output, program, folder):
        found = re.search('"state_digest":"([^"]*)"', output)
        return super().judge(status, output, program, folder) or \
            (None if found and found.group(1) == self.digest else f"{found and found.group(1)}, not {self.digest}")


class Bench(Check):
    def __init__(self, name, *options, device=("--device", "cuda"), environment=None, processes=0):
        words = ["bench", name, "--quick", *device, *options]
        super().__init__(" ".join([f"mpirun -n {processes}"] * bool(processes) + words), "zerogauge", words,
                         environment, processes)

    def more(self, folder):
        return ["--out", os.path.join(folder, "result.jsonl")] + \
            (["--nvme-path", folder] if self.arguments[1] in ("overlap", "pcie", "step") else [])

    def judge(self, status, output, program, folder):
        result = os.path.join(folder, "result.jsonl")
        reason = super().judge(status, output, program, folder)
        if not reason:
            status, output = run([program, "report", "--verify", result], {}, folder)
            if status == 0 or "CUDA stand-in" not in output:
                reason = f"report --verify takes it for a result: {last_line(output)}"
        if os.path.exists(result):
            os.remove(result)
        return reason


class Says(Check):
    """A run that ends with this status and says these words: a text, or several texts and patterns, each of them."""

    def __init__(self, status, said, words, environment, processes=0):
        name = [*said_of(environment), *(["mpirun -n", str(processes)] if processes else []), words]
        super().__init__(" ".join(name), "zerogauge", words.split(), environment, processes)
        self.status, self.said = status, (said,) if isinstance(said, str) else said

    def judge(self, status, output, program, folder):
        lacks = [text for text in self.said if not (text.search(output) if hasattr(text, "search") else text in output)]
        return None if status == self.status and not lacks else \
            f"status {status}{''.join(f', without {text!r}' for text in lacks[:1])}: {last_line(output)}"


class Ends(Check):
    """Processes of which one fails: every one ends by itself, with status 2 and these words, or was killed."""
    each = ["--mca", "orte_enable_recovery", "1", "--mca", "orte_abort_on_non_zero_status", "0", "sh", "-c",
            '"$@"; echo "ended with status $?"', "ranks"]

    def __init__(self, injected, processes, said, statuses):
        words = "train --preset zero3 --model linear --steps 2 --device cuda"
        super().__init__(f"ZG_STANDIN_NCCL={injected} mpirun -n {processes} {words}", "zerogauge", words.split(),
                         {"ZG_STANDIN_NCCL": injected}, processes)
        self.said, self.statuses = said, statuses

    def judge(self, status, output, program, folder):
        statuses = sorted(re.findall(r"ended with status (\d+)", output))
        told = len(re.findall(f"^zerogauge train: .*{self.said}", output, re.MULTILINE))
        return None if statuses == self.statuses and told == statuses.count("2") and "stand-in" not in output else \
            f"statuses {statuses}, said {told} times: {last_line(output)}"


def last_line(output):
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def state_of(output):
    return " ".join(re.findall(r'"(?:state_digest|loss|equal)":[^,]*', output))
