# SPDX-License-Identifier: Apache-2.0
"""What a run has to be: of the definition's bits, with the bytes of the formulas, and nothing left behind."""
import dataclasses
import json
import re
import signal

CRASHES = re.compile(r"Segmentation fault|signal 11|Sanitizer|assert", re.I)
NAMES = re.compile(r"(step-\d{8}(/(manifest\.json|rank-\d+\.safetensors))?|\.lock)$")
KEPT_CHECKPOINTS = 2
INTERRUPTED = 130


@dataclasses.dataclass
class Finding:
    """kind: digest, result, accounting, status, crash, hang, files, processes, refused or definition."""
    kind: str
    text: str


def record(ended):
    """The line of JSON that a run prints; empty if it prints none."""
    try:
        return json.loads(ended.out.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return {}


def last_line(ended):
    lines = [line for line in ended.err.strip().splitlines() if ": note: " not in line]
    return lines[-1][:300] if lines else ""


def message_kind(text):
    """A refusal's message without its numbers and names of files."""
    return re.sub(r"/\S+", "PATH", re.sub(r"\d[\d.e+-]*", "N", text))[:110]


def judge_end(ended):
    """Of any run, a killed one too."""
    if ended.hung:
        return Finding("hang", f"did not end; {ended.err.strip()[-1500:]}\n{ended.stacks}")
    if ended.left:
        return Finding("processes", f"{len(ended.left)} processes stay after the end")
    crashed = ended.status < 0 and not ended.killed
    if crashed or CRASHES.search(ended.err):
        return Finding("crash", f"status {ended.status}: {ended.err.strip()[:300]}")
    return None


def judge_good(ended):
    """Of a run that reaches its end."""
    found = judge_end(ended)
    if found:
        return found
    result = record(ended)
    if ended.status == 2:
        return Finding("refused", last_line(ended))
    alone = result.get("oracle_digest")
    if result.get("equal") is False:
        return Finding("digest", f"differs from unsharded Adam: {json.dumps(result.get('first_difference'))}")
    if alone and alone != result["state_digest"]:
        return Finding("digest", f"state digest {result['state_digest']}, the definition's alone {alone}")
    if result and not result.get("accounting_equal", True):
        return Finding("accounting", last_line(ended))
    if ended.status != 0 or "state_digest" not in result:
        return Finding("status", f"status {ended.status}: {last_line(ended)}")
    return None


def judge_killed(ended, kill):
    """An interrupted run ends by itself, and saves first; before it listens, and after its end, it does neither."""
    found = judge_end(ended)
    if found or not kill.interrupts or ended.status == -signal.SIGINT:
        return found
    return None if ended.status in (0, INTERRUPTED) and "state_digest" in record(ended) else Finding(
        "status", f"interrupted: status {ended.status}: {last_line(ended)}")


def judge_reference(ended):
    """Of the definition's own run, which is verified."""
    found = judge_good(ended)
    if not found and not record(ended).get("equal"):
        return Finding("definition", "it is not verified")
    return found


def judge_equal(result, reference):
    """Of the records of a run and of its reference."""
    if result["state_digest"] != reference["state_digest"]:
        return Finding("digest", f"state digest {result['state_digest']}, expected {reference['state_digest']}")
    for name in "steps", "skipped_steps", "loss":
        if result.get(name) != reference.get(name):
            return Finding("result", f"{name} {result.get(name)}, expected {reference.get(name)}")
    return None


def newest_step(folder):
    """Of the checkpoints in a folder; 0: there is none."""
    return max([int(path.name[5:]) for path in folder.glob("step-*") if path.name[5:].isdigit()], default=0)


def judge_newest(folder, before, ended):
    """Of a folder in which a checkpoint of step `before` was the newest one, after a run that saves there."""
    after, result = newest_step(folder), record(ended)
    if after < before:
        return Finding("files", f"the checkpoint of step {before} is lost; {after} is the newest one")
    if result and (result.get("resumed_step") or 0) != before:
        return Finding("result", f"continued after step {result.get('resumed_step')}, expected {before}")
    if result and after != result["steps"]:
        return Finding("files", f"the newest checkpoint is of step {after}, after {result['steps']} steps")
    if ended.status in (0, INTERRUPTED) and (left := sorted(path.name for path in folder.glob("step-*.*"))):
        return Finding("files", f"a run that ended by itself left {' '.join(left)}")
    return None


def judge_checkpoints(folder, extra):
    """Of the folder that a chain of runs leaves: whole checkpoints, the newest ones. A run that saves nothing, because
    nothing is left to do, does not remove the `extra` ones that each killed run had no time to remove."""
    paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    wrong = [path for path in paths if not NAMES.fullmatch(path)]
    steps = [path for path in paths if path.startswith("step-") and "/" not in path]
    if wrong or not 1 <= len(steps) <= KEPT_CHECKPOINTS + extra:
        return Finding("files", f"the folder of checkpoints holds {' '.join(wrong or steps or paths)}")
    return None
