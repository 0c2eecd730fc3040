# SPDX-License-Identifier: Apache-2.0
"""The pages that ci/docs proves: the tracked files, and each .md as lines of prose and of code blocks."""
import functools
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(*command):
    return subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True)


def tracked():
    return run("git", "ls-files", "--cached", "--others", "--exclude-standard").stdout.split("\n")[:-1]


FILES = [file for file in tracked() if (ROOT / file).exists()]
NAMES = {pathlib.Path(file).name for file in FILES}
FOLDERS = {str(parent) for file in FILES for parent in pathlib.Path(file).parents}
TOP = {file.split("/")[0] for file in FILES if "/" in file}


class Page:
    """A document: its lines, each with whether it lies in a block of code, and in which language."""

    def __init__(self, name):
        self.name, self.lines, fence = name, [], None
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").split("\n"), 1):
            opened = re.match(r"\s*```(\w*)", line)
            if opened:
                fence = None if fence is not None else opened.group(1)
                continue
            block = fence if fence is not None else "text" if re.match(r"    ", line) else None
            self.lines.append((number, line, block))

    def where(self, number):
        return f"{self.name}:{number}"

    def prose(self):
        return [(number, line) for number, line, block in self.lines if block is None]

    def near(self, path):
        """The path from the root, or from the folder of the page, or from the one above it."""
        here = pathlib.PurePosixPath(self.name).parent
        for base in pathlib.PurePosixPath(), here, here.parent:
            candidate = (ROOT / base / path).resolve()
            if candidate.is_relative_to(ROOT) and (
                    str(candidate.relative_to(ROOT)) in FOLDERS or candidate.is_file()):
                return candidate
        return None


@functools.cache
def anchors(path):
    """GitHub's names of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
