# SPDX-License-Identifier: Apache-2.0
"""What several documents, the program and the packages say of one thing, for ci/docs: the same."""
import collections
import fnmatch
import functools
import json
import re
import shutil
import subprocess

from docs_help import help_of_scripts
from docs_page import FILES, NAMES, ROOT, TOP
from docs_recipes import recipes
from gpu_files import measured_on_gpus

ZEROGAUGE = ROOT / "build/zerogauge"
# Commands whose output depends on no machine, and follows them in a document; a page on which all of them are such.
SHOWN, SHOWN_PAGE = "build/zerogauge plan --paper | tail", "docs/claims.md"


def text_of(file):
    return (ROOT / file).read_text(encoding="utf-8")


def minutes(verify):
    """How long things take is said everywhere as ci/minutes measured it."""
    places = {"quickstart": [("README.md", r"ci/quickstart .*\n +# about (\w+ \w+) and")],
              "test": [("README.md", r"ci/test .*?about (\w+ \w+)")],
              "check": [("README.md", r"`zerogauge check -- [^|]*\| ([^|]*?) \|"),
                        ("README.md", r"quick\s+cases, about (\w+ \w+);"),
                        ("conformance/run/cmd_check.c", r"quick takes about (\w+ \w+) ")]}
    taken = {row.split()[0]: int(row.split()[1]) for row in text_of("ci/minutes.txt").splitlines() if row[0] != "#"}
    for name, file, pattern in ((name, *place) for name in places for place in places[name]):
        found = re.search(pattern, text_of(file))
        if name not in taken:
            verify(not found, file, f"says how long {name} takes, which ci/minutes.txt does not: ci/minutes {name}")
            continue
        count = max(1, round(taken[name] / 60))
        words = "a minute" if count == 1 else f"{count} minutes"
        verify(found and found.group(1) == words, file, f"does not say {words} of {name}, as ci/minutes.txt does")


def claimed(verify):
    """The doctor of adapters knows the words of each claim that is a list."""
    doctor = "conformance/adapters/zerogauge/doctor.py"
    schema = json.loads(text_of("conformance/schema/claims.schema.json"))
    for key in ("features", "optional"):
        for word in schema["properties"][key]["items"]["enum"]:
            verify(f'"{word}"' in text_of(doctor), doctor, f"does not know {word} of {key}")


def suite_version(verify):
    """The newest entry of the packages' history names the default version of the suite."""
    default = re.search(r"set\(ZG_SUITE_VERSION (\d+)\)", text_of("CMakeLists.txt"))
    found = re.search(r"suite version (\d+)", text_of("packaging/changelog"))
    verify(default and found and found.group(1) == default.group(1), "packaging/changelog",
           f"the suite's version is {default and default.group(1)}")


def gpu(verify):
    """Which code ran on a GPU, and when, is said in docs/gpu.md alone."""
    for file in FILES:
        if file != "docs/gpu.md" and file.endswith((".c", ".h", ".cu", ".cuh", ".md")):
            text = re.sub(r"\s+(?://)?\s*", " ", text_of(file))
            found = re.search(r"(?i)\b(?:not|never) yet (?:been )?run on a GPU", text)
            verify(not found, file, "says what ran on a GPU, as docs/gpu.md alone does")


def rows_of_peers():
    """By work and peer, of whichever version: what docs/performance.md says of it on each machine, the time and rate
    here, and the ratio."""
    found, sizes = collections.defaultdict(list), []
    for line in text_of("docs/performance.md").splitlines():
        what, peer, *cells = [*line.strip("| ").split(" | "), "", ""]
        peer = re.sub(r" v?\d[\d.]*", "", peer)
        sizes = cells if what == "collective" else sizes
        row = re.fullmatch(r"\| .+ \| .+ \| (.+) \| .+ \| \**([\d.]+)\** \(.*\) \|", line)
        if row:
            found[what, peer].append((row[1], row[2]))
        for size, cell in zip(sizes, cells):
            each = re.fullmatch(r"\**([\d.]+)\** \([^|]*\), (.+)", cell)
            if each:
                found[f"{what}, {size}", peer].append((each[2], each[1]))
    return found


def compared(verify):
    """Each row of README's comparison is one of docs/performance.md, and ends with the least ratio of its machines."""
    rows = rows_of_peers()
    for line in re.search(r"## Compared with.*?\n\n\| .*?\n\n", text_of("README.md"), re.S)[0].splitlines():
        cells = line.strip("| ").split(" | ")
        if len(cells) != 6 or cells[0] in ("work", "---"):
            continue
        same = [of for of in rows.values() if (cells[2], cells[4]) in of]
        least = min((ratio for of in same for _, ratio in of), key=float, default="")
        verify(len(same) == 1 and cells[5] == least, "README.md",
               f"docs/performance.md has {len(same)} works like {line}, the least ratio is {least}")


def folders(verify):
    """ARCHITECTURE.md names every folder of the first rank."""
    text = text_of("ARCHITECTURE.md")
    for folder in sorted(TOP):
        verify(folder.startswith(".") or re.search(rf"(?<![\w/]){re.escape(folder)}/", text), "ARCHITECTURE.md",
               f"does not name {folder}/")


def drawn(page, verify):
    """Sources that a drawing in a room's README names exist."""
    for number, line, block in page.lines:
        if page.name.endswith("/README.md") and block == "text" and "|" in line:
            for name in re.findall(r"(?<![\w/.])[a-z]\w*\.[ch]\b", line):
                verify(name in NAMES, page.where(number), f"{name}: no such file")


def formatted(page, verify):
    """C that a page asks its readers to paste passes the formatter."""
    code = "\n".join(line for _, line, block in page.lines if block == "c")
    if code and shutil.which("clang-format"):
        done = subprocess.run(["clang-format", "--style=file", "--assume-filename=base/pasted.c"], cwd=ROOT, input=code,
                              capture_output=True, text=True)
        wrong = [old for old, new in zip(code.split("\n"), done.stdout.split("\n")) if old != new]
        verify(not wrong, page.name, f"clang-format breaks its C otherwise: {(wrong or [''])[0].strip()}")


def shown(page, verify):
    """Lines below a command of SHOWN, or of SHOWN_PAGE, are those that it prints."""
    for at, (number, line, block) in enumerate(page.lines):
        command = line.strip().removeprefix("$ ")
        while command.endswith("\\"):
            at, command = at + 1, command[:-1] + page.lines[at + 1][1].strip()
        if block is None or not command.startswith(SHOWN if page.name != SHOWN_PAGE else "build/zerogauge "):
            continue
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
        printed = [text.strip() for text in done.stdout.splitlines()]
        said = [text.strip() for _, text, _ in page.lines[at + 1:at + 1 + len(printed)]]
        verify(printed and said == printed, page.where(number), f"`{command}` prints other lines")


def planned(page, verify):
    """The time of a step below an example of `plan` is the plan's."""
    example = re.compile(r"^    \$ (build/zerogauge plan --preset (?:.*\\\n)*.*)\n((?:    [^$\n].*\n|\n)*)", re.M)
    for command, below in example.findall(text_of(page.name)):
        steps = re.findall(r"^    (step .*)", below, re.M)
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True) if steps else None
        for step in steps:
            verify(step in done.stdout.splitlines(), page.name, f"`{command[:70]}...` does not print \"{step}\"")


@functools.cache
def quick_cases():
    done = subprocess.run([ZEROGAUGE, "check", "--list"], cwd=ROOT, capture_output=True, text=True)
    return len(re.findall(r"^\S+ +R-", done.stdout, re.M))


def asked(page, verify):
    """A shown run of `check` asks the cases that there are, and those again whose repeat it judges."""
    text = "\n".join(line for _, line, _ in page.lines)
    for total, again in re.findall(r"level quick, seed 0: (\d+) cases, (\d+) of them asked twice, in", text):
        judged = re.search(r"The same case twice has the same answer \((\d+) PASS\)", text)
        verify(judged and int(total) == quick_cases() and again == judged.group(1), page.name,
               f"{total} cases are not {quick_cases()}, or {again} are not those whose repeat is judged")


@functools.cache
def names_of_cases(*options):
    done = subprocess.run([ZEROGAUGE, "check", "--list", *options], cwd=ROOT, capture_output=True, text=True)
    return re.findall(r"^(\S+) +R-", done.stdout, re.M)


def alternatives(pattern):
    """The patterns that @(A|B) in one makes, each with the alternatives that it took, of which group."""
    found = re.search(r"@\(((?:[^()@]|@\([^()]*\))*)\)", pattern)
    if not found:
        return [(pattern, ())]
    return [(text, (*taken, (found[1], each))) for each in re.findall(r"(?:[^|()]|\([^()]*\))+", found[1])
            for text, taken in alternatives(pattern[:found.start()] + each + pattern[found.end():])]


def peers(verify):
    """In peers.txt each alternative of a row's cases, and what is expected of cases and names, is of something."""
    file, runs = "conformance/adapters/peers.txt", {}
    for line in text_of(file).splitlines() if ZEROGAUGE.exists() else []:
        words = line.split()
        if words[:1] == ["run"]:
            options = words[3:next(i for i, word in enumerate(words) if word.endswith(".py"))]
            version = options[options.index("--suite-version") + 1] if "--suite-version" in options else "1"
            level = options[options.index("--level") + 1] if "--level" in options else "quick"
            asked = alternatives(options[options.index("--case") + 1]) if "--case" in options else [("*", ())]
            runs[words[1]] = names = names_of_cases("--suite-version", version, "--level", level)
            asked = [(fnmatch.filter(names, each), took or [("", each)]) for each, took in asked]
            alive = {taken for found, took in asked if found for taken in took}
            for taken in sorted({taken for _, took in asked for taken in took}):
                verify(taken in alive, file, f"{words[1]}: of suite version {version} there is no case {taken[1]}")
        elif words[:1] in (["expect"], ["cases"]):
            mine = [names for name, names in runs.items() if fnmatch.fnmatch(name, words[1])]
            verify(mine, file, f"{words[0]} {words[1]}: no such configuration above")
            some = words[0] == "expect" or any(fnmatch.filter(names, each) for names in mine
                                               for each, _ in alternatives(words[2]))
            verify(some, file, f"cases {words[1]} {words[2]}: no such case")


def page_facts(page, verify):
    drawn(page, verify)
    formatted(page, verify)
    if ZEROGAUGE.exists():
        shown(page, verify)
        planned(page, verify)
        asked(page, verify)


def facts(verify):
    for each in (minutes, claimed, suite_version, gpu, measured_on_gpus, compared, folders, recipes, help_of_scripts,
                 peers):
        each(verify)
