# SPDX-License-Identifier: Apache-2.0
"""Builds a mutant in a copy of the sources, and has the suite and the unit tests judge it."""
import json
import os
import shutil
import signal
import subprocess
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(ROOT, "build-mutate")

GENERAL_TESTS = ("stage_test", "offload_bytes_test", "prefetch_test", "offload_test", "checkpoint_test",
                 "cmd_train_test", "cmd_checkpoint_test", "gpt_checkpoint_test", "observe_test")
LAUNCH_LIMIT_S, JUDGE_LIMIT_S, BUILD_LIMIT_S, TEST_LIMIT_S = 300, 1800, 1200, 300

children, stopping = set(), threading.Event()


def call(command, limit_s, **options):
    """Runs a command in a process group of its own. Returns (status, output), status None past the limit."""
    if stopping.is_set():
        return None, ""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", start_new_session=True, **options)
    children.add(process)
    try:
        output, _ = process.communicate(timeout=limit_s)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)  # the suite then ends what it has launched
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        return None, ""
    finally:
        children.discard(process)


class Tree:
    """A copy of the sources with builds of its own. TMPDIR, if given, is where cases and answers lie."""

    def __init__(self, name):
        self.folder = os.path.join(WORK, name)
        self.environment = dict(os.environ, CCACHE_BASEDIR=WORK, CCACHE_NOHASHDIR="1", OPENBLAS_NUM_THREADS="1",
                                TMPDIR=os.path.join(self.folder, "temporary"))
        self.judging = dict(self.environment, TMPDIR=os.path.join(
            os.environ.get("TMPDIR", self.folder), f"zerogauge-mutate-{os.getpid()}-{name}"))
        self.clean()
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
        for file in filter(None, listed.decode().split("\0")):
            self.take(file)

    def take(self, file):
        """Copies a file of the repository, if the tree has another one: what is built of equal ones stays."""
        source, target = os.path.join(ROOT, file), os.path.join(self.folder, file)
        if not os.path.isfile(source):
            return
        with open(source, "rb") as stream:
            data = stream.read()
        if file == "CMakeLists.txt":
            # A value that is not used is no error here; a pointer of another type is: such a mutant cannot be.
            errors = b"-Werror=incompatible-pointer-types -Werror=int-conversion -Werror=implicit-function-declaration"
            data = data.replace(b"-Wstrict-prototypes)", b"-Wstrict-prototypes " + errors + b")")
        if os.path.isfile(target):
            with open(target, "rb") as stream:
                if stream.read() == data:
                    return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as stream:
            stream.write(data)
        shutil.copymode(source, target)

    def configure(self, build, tests=False, flags="-O1"):
        command = ["cmake", "-B", build, f"-DZG_TESTS={'ON' if tests else 'OFF'}", "-DCMAKE_BUILD_TYPE=None",
                   f"-DCMAKE_C_FLAGS={flags}", "."]
        command += ["-G", "Ninja"] if shutil.which("ninja") else []
        command += ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        status, output = call(command, BUILD_LIMIT_S, cwd=self.folder, env=self.environment)
        if status != 0:
            raise SystemExit(f"tools/mutate: {self.folder} cannot be configured:\n{output}")

    def build(self, build, *targets):
        return call(["cmake", "--build", build, "-j1", "--target", *targets], BUILD_LIMIT_S, cwd=self.folder,
                    env=self.environment)

    def clean(self):
        self.close()
        for environment in (self.environment, self.judging):
            os.makedirs(environment["TMPDIR"])

    def close(self):
        for environment in (self.environment, self.judging):
            shutil.rmtree(environment["TMPDIR"], ignore_errors=True)

    def judge(self, judge, program, build="build"):
        """Returns (status, verdicts by requirement)."""
        _, check_options, answer_options, _ = judge
        command = [program, "check", "--json", "--time-limit", str(LAUNCH_LIMIT_S), "--memory-limit", "4GiB",
                   "--output-limit", "512MiB", *check_options, "--", f"{self.folder}/{build}/zerogauge", "answer",
                   *answer_options, "{cases}", "{answers}", "{world}", "{state}"]
        status, output = call(command, JUDGE_LIMIT_S, cwd=self.judging["TMPDIR"], env=self.judging)
        verdicts = {}
        for line in output.splitlines():
            record = json.loads(line) if line.startswith('{"record":"requirement"') else {}
            if record:
                verdicts[record["id"]] = record["verdict"]
        self.clean()
        return status, verdicts

    def passes(self, name):
        """Whether a test program passes, or cannot be built."""
        status, _ = self.build("build-tests", name, "zerogauge")  # which some tests start
        if status != 0:
            return False
        command = [f"{self.folder}/build-tests/{name}", "-j1", "--filter", "*/!(*_long)"]
        status, _ = call(command, TEST_LIMIT_S, cwd=self.environment["TMPDIR"], env=self.environment)
        self.clean()
        return status == 0


class Baseline:
    """The unbroken program's result from each judge, computed on first use."""

    def __init__(self):
        self.lock, self.known, self.tested = threading.Lock(), {}, {}
        self.tree = Tree("tree-unbroken")
        self.tree.configure("build")
        status, output = self.tree.build("build", "zerogauge")
        if status != 0:
            raise SystemExit(f"tools/mutate: the unbroken program does not build:\n{output}")
        self.program = f"{self.tree.folder}/build/zerogauge"

    def verdicts(self, judge):
        with self.lock:
            if judge[0] not in self.known:
                status, verdicts = self.tree.judge(judge, self.program)
                if status != 0:
                    raise SystemExit(f"tools/mutate: the unbroken program does not conform: {judge[0]}")
                self.known[judge[0]] = verdicts
            return self.known[judge[0]]

    def passes(self, name):
        with self.lock:
            if not self.tested:
                self.tree.configure("build-tests", tests=True)
            if name not in self.tested:
                self.tested[name] = self.tree.passes(name)
            return self.tested[name]


def judged(tree, mutant, baseline, judges):
    """Returns the suite's outcome: a dictionary with the outcome, and what decided it."""
    changed = set()
    for judge in (judge for judge in judges if not judge[3] or mutant.file in judge[3]):
        expected = baseline.verdicts(judge)
        status, verdicts = tree.judge(judge, baseline.program)
        bad = sorted(i for i in verdicts if verdicts[i] in ("FAIL", "BROKEN"))
        if status != 0 or bad:  # a failed SHOULD does not change the exit status, but counts
            if status in (0, 1, None):
                return {"outcome": "killed", "judge": judge[0], "by": bad[0] if bad else "time", "requirements": bad}
            return {"outcome": "killed", "judge": judge[0], "by": f"status {status}", "requirements": bad}
        changed.update(f"{i} {verdicts[i]}" for i in verdicts if verdicts[i] != expected.get(i))
    return {"outcome": "survived", "changed": sorted(changed)}


def includes(path, file):
    with open(path, encoding="utf-8") as stream:
        return f'#include "{os.path.splitext(file)[0]}.h"' in stream.read()


def failing_test(tree, mutant, baseline):
    """Returns the first test program that passes without the mutant and fails with it, or None. Tries the tests whose
    names begin like the file's, those that include its header, and the most general ones."""
    stem = os.path.basename(mutant.file).split(".")[0]
    own = {name[:-2] for folder, _, names in os.walk(f"{tree.folder}/ref") for name in names
           if name.endswith("_test.c") and
           (name.startswith(stem.split("_")[0]) or includes(f"{folder}/{name}", mutant.file))}
    for name in [*sorted(own), *(name for name in GENERAL_TESTS if name not in own)]:
        # Twice, because a test may fail by chance under load.
        if not tree.passes(name) and baseline.passes(name) and not tree.passes(name):
            return None if stopping.is_set() else name
    return None


def run_mutant(tree, mutant, baseline, arguments, reached, before):
    """Returns the mutant's result; `before`: the suite's result, if it is known, or None."""
    path = os.path.join(tree.folder, mutant.file)
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    result = {"key": mutant.key, "file": mutant.file, "kind": mutant.kind}
    begin = time.monotonic()
    try:
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text[:mutant.begin] + mutant.new + text[mutant.end:])
        status, _ = tree.build("build", "zerogauge") if not before else (0, "")
        if status != 0:
            result["outcome"] = "does not compile"
            return result
        lines = range(mutant.first_line, mutant.last_line + 1)
        counts = [reached[mutant.file][str(k)] for k in lines if str(k) in reached.get(mutant.file, {})]
        if before:
            result.update(before)
        elif counts and not any(counts):
            result.update(outcome="survived", reached=False)
        else:
            result.update(judged(tree, mutant, baseline, arguments.judges))
        if result["outcome"] == "survived" and arguments.tests:
            failed = failing_test(tree, mutant, baseline)
            result.update({"outcome": "killed by tests", "by": failed} if failed else {"tested": True})
        return result
    finally:
        result["seconds"] = round(time.monotonic() - begin, 1)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
