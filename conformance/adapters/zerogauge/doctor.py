# SPDX-License-Identifier: Apache-2.0
"""`python mine.py --doctor`: what an adapter claims, what it does not and what that leaves out, and three cases that say
whether it works at all."""
import json
import subprocess
import tempfile
import textwrap
from pathlib import Path

from zerogauge.adapter import Adapter
from zerogauge.command import program
from zerogauge.judge import judge
from zerogauge.needs import PLAIN

# The words of the claims (CONTRACT.md), with what they mean where the word does not say it.
WORDS = {
    "stages": {0: "nothing is sharded", 1: "the optimizer's states are", 2: "gradients, too", 3: "parameters, too"},
    "worlds": dict.fromkeys(range(1, 9)),
    "precisions": dict.fromkeys(("fp32", "bf16", "fp16")),
    "communication_dtypes": {"precision": "gradients are sent in their own dtype", "fp32": "", "bf16": "", "fp16": ""},
    "accumulation_dtypes": {"precision": "micro-steps are added in their own dtype", "fp32": "", "bf16": "", "fp16": ""},
    "offload_optimizer": dict.fromkeys(("none", "cpu", "nvme")),
    "offload_param": dict.fromkeys(("none", "cpu", "nvme")),
    "features": {
        "accumulation": "several micro-steps a step", "clipping": "by the norm of all gradients",
        "static_loss_scale": "", "dynamic_loss_scale": "", "overflow_check": "a step with inf or NaN is skipped",
        "l2": "decay in the gradient: Adam, not AdamW", "no_bias_correction": "", "lr_schedule": "a rate for each step",
        "groups": "of parameters", "tied": "a parameter with two names", "frozen": "parameters without updates",
        "unused": "parameters that no loss uses", "varying_use": "parameters that some micro-steps use",
        "empty": "tensors without an element", "scalar": "tensors without a dimension", "resume": "save and load",
        "reshard": "load with another number of ranks", "weights_only": "load without the optimizer's states",
        "delayed_update": "each update is a step late", "refusal": "settings that make no sense are refused"},
    "optional": dict.fromkeys(("replicate", "tensor", "pipeline", "expert", "lora", "token_mean", "muon", "sequence",
                               "fp8_gather")),
}
TOPICS = "adam-basic", "red-exact", "acc-exact"  # one update; the mean over ranks; the sum over micro-steps


def explain(adapter):
    """Prints what the claims of an adapter, a class, say by key, and why cases that need more are not asked."""
    claims = adapter.claims
    for key, words in WORDS.items():
        claimed = claims.get(key, PLAIN[key])
        missing = [word for word in words if word not in claimed]
        why = "not in the list" if key in claims else "the key is left out"
        print(f"  {key}: {', '.join(map(str, claimed)) or 'nothing'}")
        if missing:
            means = ", ".join(f"{word} ({words[word]})" if words[word] else str(word) for word in missing)
            print(textwrap.fill(f"not claimed, {why}: {means}", 110, initial_indent="      ", subsequent_indent="        "))
            print(f'      to claim one: "{key}": {json.dumps([*claimed, missing[0]])}')
    saves = adapter.save is not Adapter.save and adapter.load is not Adapter.load
    if saves != ("resume" in claims.get("features", [])):
        print("  resume: " + ("save and load are there, and it is not claimed" if saves else
                              "it is claimed, and there is no save or no load: cases that resume will be declined"))


def choose(claims):
    """A case of each topic that is claimed, with as many ranks as there are. Their gradients are in the case's precision."""
    listed = subprocess.run([program(), "check", "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
    names = [line.split()[0].split(".") for line in listed.splitlines() if line.startswith(TOPICS)]
    stages, worlds, precisions = (claims.get(key, PLAIN[key]) for key in ("stages", "worlds", "precisions"))
    sums = [claims.get(key, PLAIN[key]) for key in ("communication_dtypes", "accumulation_dtypes")]
    fitting = [name for name in names if int(name[1][1:]) in worlds and int(name[2][1:]) in stages
               and name[3] in precisions and all(name[3] in dtypes or "precision" in dtypes for dtypes in sums)]
    chosen = {name[0]: ".".join(name) for name in sorted(fitting, key=lambda name: int(name[1][1:]))}
    return list(chosen.values())


def examine(cls, adapter, main, options):
    """As `judge`, of a class; prints an explanation."""
    claims = cls.claims
    print(f"{claims['name']} {claims['version']} claims")
    explain(cls)
    cases = choose(claims)
    if not cases:
        print(f"No case of {', '.join(TOPICS)} has a stage, a world and a precision that are claimed: nothing is tried.")
        return 77
    print(f"Tries {len(cases)} cases: {', '.join(cases)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "out" / "report.jsonl"
        status = judge(claims, adapter, main, [*(f"--case={case}" for case in cases), *options, f"--out={report.parent}"],
                       subprocess.DEVNULL)
        records = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    for case in cases:
        findings = [record for record in records if record["record"] == "check" and record["case"] == case]
        bad = [record for record in findings if record["verdict"] in ("FAIL", "BROKEN")]
        absent = [record for record in findings if record["absence"]]
        for record in (bad or absent or findings)[:1]:
            says = record["text"] if bad or absent else "as it must be, bit by bit or within the limits of rounding"
            print(f"  {'wrong' if bad else record['absence'] or 'right'}: {case}: {record['aspect']}: {says}")
    print({0: "Next: --check in place of --doctor asks all that is claimed.",
           77: "Nothing was judged: claim what a case above needs, or make `build` accept it."}
          .get(status, "Next: --check --case NAME in place of --doctor has the first difference, and a hint."))
    return status
