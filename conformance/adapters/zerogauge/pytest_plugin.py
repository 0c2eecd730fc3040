# SPDX-License-Identifier: Apache-2.0
"""Requirements as tests of pytest: `pytest --zerogauge mine.py` judges the adapter mine.py, and is one test for each
requirement. PASS, EQUIVALENT and BOUNDED pass, PARTLY and UNSUPPORTED are skipped with the reason, FAIL and BROKEN fail
with the first difference."""
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from zerogauge.command import judge


def pytest_addoption(parser):
    group = parser.getgroup("zerogauge")
    group.addoption("--zerogauge", action="store_true",
                    help="judge the adapters among the files of the command line: a test for each requirement")
    group.addoption("--zerogauge-check", default="", metavar="OPTIONS", help="options of zerogauge check")


def pytest_collect_file(file_path, parent):
    if parent.config.getoption("zerogauge") and file_path.suffix == ".py" and parent.session.isinitpath(file_path):
        return Adapter.from_parent(parent, path=file_path)
    return None


class Adapter(pytest.File):
    """One run of the suite, whose report has the tests."""

    def collect(self):
        options = shlex.split(self.config.getoption("zerogauge_check"))
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "out" / "junit.xml"
            status = judge([sys.executable, str(self.path)], [*options, "--out", report.parent],
                           stdout=subprocess.DEVNULL)
            if not report.exists():
                raise self.CollectError(f"zerogauge check ended with status {status} and without a report")
            tests = list(ElementTree.parse(report).iter("testcase"))
        return [Requirement.from_parent(self, name=test.get("name"), test=test) for test in tests]


class Requirement(pytest.Item):
    def __init__(self, test, **others):
        super().__init__(**others)
        self.test = test

    def runtest(self):
        skipped, failure = self.test.find("skipped"), next(iter(self.test), None)
        if skipped is not None:
            pytest.skip(skipped.get("message") or skipped.text)
        if failure is not None:
            raise AssertionError(failure.text)

    def repr_failure(self, excinfo, style=None):
        is_finding = isinstance(excinfo.value, AssertionError)
        return str(excinfo.value) if is_finding else super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, None, self.name
