#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Phrases and words that this repository's prose does without: in comments and strings of C and CUDA, in comments of
scripts and build files, and in every Markdown file. JSON keys and other names in quotes are no prose.

A row `PATTERN -> ADVICE` of phrases.txt bans a regular expression, case ignored, as whole words; a blank in it is any
space, a line's end in a comment included; `^` is the beginning of a comment. A row `allow PATH PATTERN: REASON` excepts
files, with `*` as in a shell. An exception that no file needs is an offence, too."""
import bisect
import fnmatch
import re

from common import C_SUFFIXES, C_TOKEN, is_script, tree_of_arguments

COMMENT_START = "\x01"
CODE = "\x00"
# Records of what was, and texts that are not this project's.
LEFT_OUT = ("datasets/", "results/published/", "packaging/changelog", "LICENSE")


def hide(text):
    """Keeps the lines, and that something stood there."""
    return CODE + "\n" * text.count("\n") if text.strip() else text


def prose_of_comment(token, begins):
    """The comment's text at its place; its marks become spaces."""
    text = re.sub(r"^(//|/\*)", lambda mark: (COMMENT_START if begins else " ") + " ", token)
    return re.sub(r"\*/$|(?m:^[ \t]*\*)", lambda mark: " " * len(mark.group()), text)


def prose_of_string(token):
    """The insides; not so a JSON key, in quotes or as a string of its own, nor another name."""
    inside = re.sub(r'\\"\w+\\"', lambda key: hide(key.group()), token[1:-1])
    return " " + hide(inside) + " " if re.fullmatch(r"\w+", inside) else " " + re.sub(r"\\[ntr]", "  ", inside) + " "


def prose_of_c(text):
    """The text with everything but prose hidden: short, and each word is on its line."""
    parts, at, last_comment_line, line = [], 0, -2, 0
    for match in C_TOKEN.finditer(text):
        token, between = match.group(), text[at:match.start()]
        at = match.end()
        parts.append(hide(between))
        line += between.count("\n")
        if token[0] == "/":
            parts.append(prose_of_comment(token, bool(between.strip()) or line > last_comment_line + 1))
            last_comment_line = line + token.count("\n")
        elif token[0] == '"' and not re.search(r"#[ \t]*include[ \t]*$", between):
            parts.append(prose_of_string(token))
        else:
            parts.append(hide(token))
        line += token.count("\n")
    return "".join(parts) + hide(text[at:])


def prose_of_script(text):
    """Whole-line comments, and Python's docstrings."""
    lines, before = [], False
    for line in text.splitlines(keepends=True):
        match = re.match(r"([ \t]*)#(?!!)(.*\n?)", line)
        lines.append(match.group(1) + (" " if before else COMMENT_START) + match.group(2) if match else
                     re.sub(r"\S", CODE, line))
        before = match is not None
    # As long as the text.
    prose = "".join(lines)
    for match in re.finditer(r'"""(.*?)"""', text, re.S):
        prose = prose[:match.start(1)] + match.group(1) + prose[match.end(1):]
    return prose


def prose_of(tree, name):
    if name.startswith(LEFT_OUT):
        return None
    if name.endswith(C_SUFFIXES):
        return prose_of_c(tree.text(name))
    if name.endswith(".md"):
        return re.sub(r'`\w+`|"\w+":', lambda key: hide(key.group()), tree.text(name))
    if name.endswith(".cmake") or name.endswith("CMakeLists.txt") or is_script(tree, name):
        return prose_of_script(tree.text(name))
    return None


def read_phrases(tree):
    banned, allowed = {}, []
    for number, row in tree.rows("phrases.txt"):
        if row.startswith("allow ") and ": " in row:
            path, pattern = row.split(": ", 1)[0].split(None, 2)[1:]
            allowed.append((number, path, pattern))
        elif " -> " in row:
            pattern, advice = row.split(" -> ", 1)
            banned[pattern.strip()] = (number, advice.strip())
        else:
            tree.offence("tools/tidy/phrases.txt", number,
                         "is neither PATTERN -> ADVICE nor allow PATH PATTERN: REASON")
    for number, _, pattern in allowed:
        if pattern not in banned:
            tree.offence("tools/tidy/phrases.txt", number, f"{pattern} is not banned")
    return banned, allowed


def compile_pattern(pattern):
    words = pattern.replace(" ", r"\s+")
    if words.startswith("^"):
        return re.compile(COMMENT_START + r"\s*" + words[1:] + r"\b", re.I)
    return re.compile(r"(?<![\w/-])(?:" + words + r")(?![\w/-]|\.\w)", re.I)


def main():
    tree = tree_of_arguments()
    banned, allowed = read_phrases(tree)
    patterns = [(pattern, advice, compile_pattern(pattern)) for pattern, (_, advice) in banned.items()]
    needed, counts = set(), {}
    for name in tree.files:
        prose = prose_of(tree, name)
        if prose is None or name.startswith("tools/tidy/"):
            continue
        ends = [match.start() for match in re.finditer("\n", prose)]
        for pattern, advice, compiled in patterns:
            excepted = {row for row in allowed if row[2] == pattern and fnmatch.fnmatchcase(name, row[1])}
            for match in compiled.finditer(prose):
                needed |= excepted
                if not excepted:
                    counts[pattern] = counts.get(pattern, 0) + 1
                    found = " ".join(match.group().replace(COMMENT_START, "").split())
                    tree.offence(name, bisect.bisect_left(ends, match.start()) + 1, f'"{found}": {advice}')
    for number, path, pattern in allowed:
        if (number, path, pattern) not in needed:
            tree.offence("tools/tidy/phrases.txt", number, f"{path} does not need the exception for {pattern}")
    for pattern, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"phrases: {count:5} {pattern}")
    tree.end("phrases")


main()
