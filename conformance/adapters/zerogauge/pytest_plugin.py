# SPDX-License-Identifier: Apache-2.0
"""Requirements as tests of pytest: `pytest --zerogauge mine.py` judges the adapter mine.py, and is one test for each
requirement. PASS, EQUIVALENT and BOUNDED pass, PARTLY and UNSUPPORTED are skipped with the reason, FAIL and BROKEN fail
with the first difference and the requirement. The suite runs while pytest collects, once also under pytest-xdist; an
adapter that answers nothing is one error."""
import fcntl
import hashlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from zerogauge.command import program


def pytest_addoption(parser):
    group = parser.getgroup("zerogauge")
    group.addoption("--zerogauge", action="store_true",
                    help="judge the adapters among the files of the command line: a test for each requirement")
    group.addoption("--zerogauge-check", default="", metavar="OPTIONS", help="options of zerogauge check")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path, parent):
    """In place of the module of tests that pytest would import: an adapter has none."""
    if parent.config.getoption("zerogauge") and parent.session.isinitpath(module_path):
        return Adapter.from_parent(parent, path=module_path)
    return None


class Adapter(pytest.File):
    """One run of the suite, whose report has the tests."""

    def run(self, folder):
        """Judges the adapter into a folder, and shows how far the run is. Returns what it printed last."""
        command = [sys.executable, str(self.path), "--check", *shlex.split(self.config.getoption("zerogauge_check")),
                   "--out", str(folder)]
        last = b""
        with self.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled(), \
                subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            print(file=sys.stderr)  # behind "collecting ..."
            while piece := os.read(process.stderr.fileno(), 1 << 16):
                last = (last + piece)[-4096:]
                sys.stderr.write(piece.decode(errors="replace"))
                sys.stderr.flush()
        return f"zerogauge check ended with status {process.returncode}:\n{last.decode(errors='replace')}"

    def report(self):
        """The run's report and what it printed last; of workers of pytest-xdist, the first that comes here runs it."""
        folder = Path(self.config._tmp_path_factory.getbasetemp())
        folder = folder.parent if hasattr(self.config, "workerinput") else folder
        name = f"zerogauge-{hashlib.sha256(bytes(self.path)).hexdigest()[:16]}"
        report, printed = folder / name / "junit.xml", folder / f"{name}.txt"
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not printed.exists():
                printed.write_text(self.run(report.parent))
        return report, printed.read_text()

    def collect(self):
        report, printed = self.report()
        if not report.exists():
            raise self.CollectError(printed)
        tests = list(ElementTree.parse(report).iter("testcase"))
        command = tests[0].find("error")  # of the run as a whole
        if command is not None and all(len(test) for test in tests):
            raise self.CollectError(f"no requirement could be judged: {command.get('message')}")
        return [Requirement.from_parent(self, name=test.get("name"), test=test) for test in tests]


class Requirement(pytest.Item):
    def __init__(self, test, **others):
        super().__init__(**others)
        self.test, self.requirement = test, test.get("name").split()[0]

    def runtest(self):
        skipped, failure = self.test.find("skipped"), next(iter(self.test), None)
        if skipped is not None:
            pytest.skip(skipped.get("message") or skipped.text)
        if failure is not None:
            raise AssertionError(failure.text or failure.get("message"))

    def repr_failure(self, excinfo, style=None):
        if not isinstance(excinfo.value, AssertionError):
            return super().repr_failure(excinfo, style)
        text = str(excinfo.value)
        cause = text.partition("cause: ")[2].split("\n")[0]
        if cause and any(item.parent is self.parent and item.requirement == cause for item in self.session.items):
            return f"cause: {cause}, which fails, too, and says more"
        explained = subprocess.run([program(), "check", "--explain", self.requirement], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, check=False).stdout
        return f"{text}\n{explained}"

    def reportinfo(self):
        return self.path, None, self.name
