# SPDX-License-Identifier: Apache-2.0
"""Finds the mutants of a C source: each changes one token, one argument pair or one statement inside a function.

Left out, because nothing could be learnt from them: what only runs when an error is reported (arguments of err_set, and
an `if` that leads to nothing else), texts, assertions, allocations (sizes are the sanitizers' business), what frees
memory, and a for loop's way to its next round (a loop that never ends proves nothing)."""
import hashlib
import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<directive>^[ ]*\#(?:[^\n\\]|\\.|\\\n)*)|(?P<string>"(?:[^"\\]|\\.)*")|
        (?P<character>'(?:[^'\\]|\\.)+')|(?P<number>(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)[uUlLfF]*)|
        (?P<word>[A-Za-z_]\w*)|(?P<operator><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.DOTALL | re.MULTILINE | re.VERBOSE)

BINARY = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "&",
          "&&": "||", "||": "&&"}
RELATION = {"<": ("<=", ">"), "<=": ("<", ">"), ">": (">=", "<"), ">=": (">", "<"), "==": ("!=",), "!=": ("==",)}
ASSIGNMENT = {"+=": ("-=", "="), "-=": ("+=", "="), "*=": ("/=", "="), "/=": ("*=", "="), "|=": ("=",), "&=": ("=",)}
STEP = {"++": "--", "--": "++"}
WORD = {"true": "false", "false": "true"}
SILENT_CALLS = re.compile(r"err_set|v?s?n?printf|fprintf|assert|_Static_assert|(?:c|m|re)alloc|aligned_alloc|meet_fail")
FREEING_FUNCTIONS = re.compile(r"\w*(?:close|free)")
ALLOCATING_CALLS = {"calloc", "malloc", "realloc", "aligned_alloc"}
FREEING_CALLS = re.compile(r"free|f?close|munmap|\w+_(?:close|free|destroy)")
OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


@dataclass
class Token:
    kind: str
    text: str
    begin: int
    end: int


@dataclass
class Mutant:
    file: str
    kind: str
    begin: int  # of the replaced text, in characters of the file
    end: int
    new: str
    first_line: int
    last_line: int
    key: str = ""  # the file, the statement's line with the change marked in it, and which one of those that are alike


def tokens_of(text):
    return [Token(m.lastgroup, m.group(), m.start(), m.end()) for m in TOKEN.finditer(text)
            if m.lastgroup != "comment" and not m.group().isspace()]


def pairs_of(tokens):
    """For each bracket the index of its partner."""
    partner, open_ = {}, []
    for i, token in enumerate(tokens):
        if token.kind == "operator" and token.text in OPENING:
            open_.append(i)
        elif token.kind == "operator" and token.text in CLOSING and open_:
            partner[i] = open_.pop()
            partner[partner[i]] = i
    return partner


class Source:
    def __init__(self, file, text):
        self.file, self.text = file, text
        self.tokens = tokens_of(text)
        self.partner = pairs_of(self.tokens)
        self.found = []

    def is_text(self, i, *texts):
        inside = 0 <= i < len(self.tokens)
        return inside and self.tokens[i].text in texts and self.tokens[i].kind in ("operator", "word")

    def starts_line(self, i):
        begin = self.tokens[i].begin
        return begin == 0 or self.text[begin - 1] == "\n"

    def functions(self):
        """The ranges of tokens between a function's braces, which stand at the beginning of a line."""
        return [(i, self.partner[i]) for i, token in enumerate(self.tokens)
                if token.text == "{" and self.starts_line(i) and self.is_text(i - 1, ")") and
                not FREEING_FUNCTIONS.fullmatch(self.tokens[self.partner[i - 1] - 1].text)]

    def statement_end(self, i):
        """The index of the last token of the statement that begins at i."""
        if self.is_text(i, "{"):
            return self.partner[i]
        if self.is_text(i, "if", "for", "while", "switch"):
            end = self.statement_end(self.partner[i + 1] + 1)
            if self.is_text(i, "if") and self.is_text(end + 1, "else"):
                end = self.statement_end(end + 2)
            return end
        while i < len(self.tokens) and not self.is_text(i, ";"):
            i = self.partner[i] + 1 if self.is_text(i, *OPENING) else i + 1
        return i

    def skipped(self):
        """The indices of tokens that are left out."""
        out = set()
        for i, token in enumerate(self.tokens):
            if token.kind == "word" and self.is_text(i + 1, "(") and SILENT_CALLS.fullmatch(token.text):
                out.update(range(i, self.partner[i + 1] + 1))
            if self.is_text(i, "for"):
                end = self.partner[i + 1]
                steps = max(k for k in range(i, end) if self.is_text(k, ";"))
                out.update(range(steps, end))
            if self.is_text(i, "if"):
                begin = self.partner[i + 1] + 1
                end = self.statement_end(begin)
                last = max((k for k in range(begin, end + 1) if self.is_text(k, "return")), default=-1)
                if last >= 0 and self.is_text(last + 1, "err_set") and not self.is_text(end + 1, "else"):
                    out.update(range(i, end + 1))
        return out

    def add(self, kind, first, last, new):
        begin, end = self.tokens[first].begin, self.tokens[last].end
        lines = [self.text.count("\n", 0, at) + 1 for at in (begin, end)]
        self.found.append(Mutant(self.file, kind, begin, end, new, *lines))

    def is_binary(self, i):
        token = self.tokens[i]
        return self.text[token.begin - 1] in " \n" and self.text[token.end] in " \n"

    def picks_extreme(self, i):
        """Whether this is the `<` of `a < b ? a : b`, where equal ones may change places."""
        rest = self.text[self.tokens[i].end:].split(";")[0]
        before = self.text[:self.tokens[i].begin]
        match = re.match(r"\s*(.+?) \? (.+?) : (.+?)\)*$", rest, re.DOTALL)
        if not match:
            return False
        right, one, other = (re.sub(r"\s", "", part) for part in match.groups())
        left = re.sub(r"\s", "", before)
        return (one == right and left.endswith(other)) or (other == right and left.endswith(one))

    def operator(self, i):
        text = self.tokens[i].text
        if text in BINARY and self.is_binary(i):
            self.add("operator", i, i, BINARY[text])
        for new in RELATION.get(text, ()) if self.is_binary(i) else ():
            if len(new) + len(text) != 3 or not self.picks_extreme(i):
                self.add("relation", i, i, new)
        for new in ASSIGNMENT.get(text, ()):
            self.add("assignment", i, i, new)
        if text in STEP:
            self.add("step", i, i, STEP[text])
        if text == "!" and not self.is_text(i + 1, "="):
            self.add("negation", i, i, "")
        if text == "[" and (self.tokens[i - 1].kind == "word" or self.is_text(i - 1, "]", ")")):
            declares = self.tokens[i - 2].kind == "word" and not self.is_text(i - 2, "return") or \
                self.is_text(i - 2, "*") and not self.is_binary(i - 2)
            end = self.partner[i]
            if not declares and end > i + 1:
                inner = self.text[self.tokens[i].end:self.tokens[end].begin]
                self.add("index", i, end, f"[({inner}) + 1]")

    def number(self, i):
        text = self.tokens[i].text
        if self.is_text(i - 1, "{") and self.is_text(i + 1, "}"):
            return  # {0}
        match = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)", text)
        if match:
            digits = match.group(1)
            value = int(digits, 8 if re.match("0[0-7]", digits) else 0)
            for new in {value + 1, abs(value - 1)}:
                self.add("constant", i, i, f"{new}{match.group(2)}")
        else:
            self.add("constant", i, i, f"({text} + 1)" if float(text.rstrip("fF")) == 0 else f"({text} * 2)")

    def swap(self, i):
        """Neighbouring arguments of the call whose opening bracket is i + 1."""
        end, parts, begin, k = self.partner[i + 1], [], i + 2, i + 2
        while k <= end:
            if k == end or self.is_text(k, ","):
                parts.append((begin, k - 1))
                begin = k + 1
            k = self.partner[k] + 1 if k < end and self.is_text(k, *OPENING) else k + 1
        texts = [self.text[self.tokens[a].begin:self.tokens[b].end] if b >= a else "" for a, b in parts]
        for j in range(len(parts) - 1):
            if texts[j] != texts[j + 1] and "{" not in texts[j] + texts[j + 1]:
                self.add("arguments", parts[j][0], parts[j + 1][1], f"{texts[j + 1]}, {texts[j]}")

    def condition(self, i):
        begin, end = i + 1, self.partner[i + 1]
        for new in ("(true)", "(false)"):
            self.add("condition", begin, end, new)

    def drop(self, i):
        """The statement that begins at i, if it is an expression or a jump."""
        end = self.statement_end(i)
        token = self.tokens[i]
        if token.kind != "word" and token.text not in ("*", "(", "++", "--"):
            return
        if token.text in ("if", "for", "while", "do", "switch", "return", "case", "default", "else", "break", "goto"):
            return
        if token.kind == "word" and (FREEING_CALLS.fullmatch(token.text) or SILENT_CALLS.fullmatch(token.text)):
            return
        if any(t.text in ALLOCATING_CALLS for t in self.tokens[i:end]):
            return
        if token.text != "continue" and not self.is_expression(i, end) or self.is_text(i + 1, ":"):
            return
        self.add("statement", i, end, ";")

    def is_expression(self, i, end):
        """Declarations have two words, or a word and an unspaced star, before anything else."""
        if self.tokens[i].kind != "word":
            return not (self.is_text(i, "(") and self.tokens[i + 1].text == "void")
        follows = self.tokens[i + 1]
        if follows.kind == "word" or (follows.text == "*" and not self.is_binary(i + 1)):
            return False
        return end > i + 1

    def mutants(self):
        skipped = self.skipped()
        for first, last in self.functions():
            for i in range(first + 1, last):
                token = self.tokens[i]
                if i in skipped:
                    continue
                if self.is_text(i - 1, ";", "{", "}", "else") or (self.is_text(i - 1, ")") and self.is_text(
                        self.partner[i - 1] - 1, "if", "for", "while")):
                    if self.brackets_around(i, first) == "{":
                        self.drop(i)
                if token.kind == "operator":
                    self.operator(i)
                elif token.kind == "number":
                    self.number(i)
                elif token.text in WORD:
                    self.add("constant", i, i, WORD[token.text])
                elif token.text == "if":
                    self.condition(i)
                elif token.kind == "word" and self.is_text(i + 1, "(") and not self.is_text(
                        i, "for", "while", "switch", "sizeof", "return"):
                    self.swap(i)
        self.name()
        return self.found

    def brackets_around(self, i, first):
        """The innermost bracket that is open at i; ( also for the braces of a value, in which no statements lie."""
        for k in range(i - 1, first - 1, -1):
            if self.is_text(k, *OPENING) and self.partner[k] > i:
                return "{" if self.text[self.tokens[k].begin] == "{" and not self.is_initializer(k) else "("
        return "("

    def is_initializer(self, k):
        if self.is_text(k - 1, ")"):
            return not self.starts_line(k) and not self.is_text(self.partner[k - 1] - 1, "if", "for", "while", "switch")
        return self.is_text(k - 1, "=", ",", "(", "{")

    def name(self):
        seen = {}
        for mutant in self.found:
            begin = self.text.rfind("\n", 0, mutant.begin) + 1
            end = self.text.find("\n", mutant.end)
            old = " ".join(self.text[mutant.begin:mutant.end].split())
            marked = (self.text[begin:mutant.begin] + f"[{old} => {' '.join(mutant.new.split())}]" +
                      self.text[mutant.end:end])
            key = f"{mutant.file}: {' '.join(marked.split())}"
            seen[key] = seen.get(key, 0) + 1
            mutant.key = key if seen[key] == 1 else f"{key} #{seen[key]}"


def order_of(seed, mutant):
    return hashlib.sha256(f"{seed} {mutant.key}".encode()).digest()


def mutants_of(root, file):
    with open(f"{root}/{file}", encoding="utf-8") as stream:
        return Source(file, stream.read()).mutants()


def sample(root, files, count, seed):
    """Evenly over the files: the first of each, in an order that the seed decides, then the second of each, ..."""
    rows = [sorted(mutants_of(root, file), key=lambda m: order_of(seed, m)) for file in files]
    turns = (row[k] for k in range(max(map(len, rows), default=0)) for row in rows if k < len(row))
    return [mutant for mutant, _ in zip(turns, range(count if count else sum(map(len, rows))))]
