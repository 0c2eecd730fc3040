# SPDX-License-Identifier: Apache-2.0
"""The adapters of the package, to start one's own from:

    zerogauge adapters list
    zerogauge adapters copy NAME [FILE]    into FILE, by default NAME.py or NAME.c here; a file that exists stays
"""
import ast
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIRST = ("skeleton", "skeleton_torch", "contract_example")
# Of the plug-in in C: installed with the program, and in the source tree.
EXAMPLES = HERE / "share/doc/zerogauge/examples", HERE.parent
HEADERS = HERE / "include/zerogauge", HERE.parents[1] / "contract"


def adapters():
    """{name: file}, those with the least of their own first."""
    files = [file for file in (HERE / "adapters").glob("*.py") if ".main()" in file.read_text(encoding="utf-8")]
    files += [folder / "contract_example.c" for folder in EXAMPLES if (folder / "contract_example.c").exists()]
    files.sort(key=lambda file: (file.stem not in FIRST, file.suffix, file.stem))
    return {file.stem: file for file in files}


def about(file):
    """The first sentence of what a file says of itself."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return re.split(r"(?<=\.) ", " ".join(ast.get_docstring(ast.parse(text)).split()))[0]
    return text.splitlines()[1].removeprefix("// ").partition(":")[2].strip()


def copy(name, to=None):
    """Raises ValueError where there is no such adapter, or the file cannot be made."""
    file = adapters().get(name)
    if file is None:
        raise ValueError(f"there is no adapter {name!r}; zerogauge adapters list names them")
    to = Path(to or file.name)
    if to.suffix != file.suffix:
        raise ValueError(f"{to}: write a name that ends with {file.suffix}, as {name} is such a file")
    try:
        with open(to, "x", encoding="utf-8") as new:
            new.write(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{to}: {error.strerror}; nothing is written") from error
    print(f"{to}: {about(file)}")
    if file.suffix == ".py":
        print(f"Have it judged:\n    python {to} --check")
    else:
        header = next(folder for folder in HEADERS if (folder / "contract.h").exists())
        print(f"Have it judged:\n    cc -shared -fPIC -ffp-contract=off -I {header} -o {to.stem}.so {to} -lm\n"
              f"    zerogauge check --plugin ./{to.stem}.so")


def main(arguments):
    usage = __doc__.split("\n\n")[1].rstrip()
    try:
        if arguments == ["list"]:
            for name, file in adapters().items():
                print(f"{name:22} {about(file)}")
        elif arguments[:1] == ["copy"] and len(arguments) in (2, 3):
            copy(*arguments[1:])
        elif arguments in (["-h"], ["--help"]):
            print(usage)
        else:
            raise ValueError(f"expected\n{usage}")
    except ValueError as error:
        return f"zerogauge adapters: {error}"
    return 0
