# SPDX-License-Identifier: Apache-2.0
"""What ci/usage does, for the scripts in Python, whose comment is their first string."""
import re
import sys


def answer(text, words=None):
    """text: of the script; words: those that are its own, unless all are."""
    for word in sys.argv[1:] if words is None else words:
        if word == "--":
            return
        if word in ("-h", "--help"):
            print(text.strip())
            sys.exit(0)
        if re.match(r"--|-.$", word) and word.split("=")[0] not in re.findall(r"(?<![\w-])--?[\w-]+", text):
            print(f"{sys.argv[0]}: unknown option {word!r}; --help says what it takes", file=sys.stderr)
            sys.exit(2)
