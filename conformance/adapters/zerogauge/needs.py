# SPDX-License-Identifier: Apache-2.0
"""The needs of a case, in the words of the claims (CONTRACT.md), and what an adapter claims without a key."""
import json

# The claims of an adapter without a key: a trainer would run wrongly the cases that it never heard of.
PLAIN = {"stages": [], "worlds": [1], "precisions": ["fp32"], "communication_dtypes": ["precision"],
         "accumulation_dtypes": ["precision"], "offload_optimizer": ["none"], "offload_param": ["none"], "features": [],
         "optional": []}


def features(case):
    """case: case.json. What only its other half or its answer tells is left out: `reshard`, `refusal`."""
    groups, params, checkpoint = case["groups"], case["params"], case["checkpoint"]
    has = {"accumulation": case["accumulation"] > 1, "clipping": case["gradient_clipping"] > 0,
           "static_loss_scale": case["loss_scale"]["kind"] == "static",
           "dynamic_loss_scale": case["loss_scale"]["kind"] == "dynamic", "overflow_check": case["overflow_check"],
           "l2": any(g["optimizer"] == "Adam" and g["weight_decay"] for g in groups),
           "no_bias_correction": any(not g.get("bias_correction", True) for g in groups),
           "lr_schedule": any(isinstance(g["lr"], list) for g in groups), "groups": len(groups) > 1,
           "tied": any(p["tied_to"] for p in params), "frozen": any(p["frozen"] for p in params),
           "unused": any(not p["used"] for p in params), "varying_use": any(p.get("unused_in") for p in params),
           "empty": any(0 in p["shape"] for p in params), "scalar": any(p["shape"] == [] for p in params),
           "resume": bool(checkpoint), "weights_only": bool(checkpoint) and checkpoint["weights_only"],
           "delayed_update": case["delayed_update"] > 0}
    return [name for name, needed in has.items() if needed]


def lack(case, claims):
    """Why the claims of an adapter do not cover a case, with the line to add; None: they do."""
    needs = {"stages": [case["stage"]], "worlds": [case["world"]], "precisions": [case["precision"]],
             "offload_optimizer": [case["offload"]["optimizer"]], "offload_param": [case["offload"]["param"]],
             "features": features(case), "optional": ["token_mean"] if case.get("tokens") else []}
    if (case.get("mesh") or {}).get("sequence", 1) > 1:
        needs["optional"].append("sequence")
    if case.get("gather_dtype"):
        needs["optional"].append("fp8_gather")
    for key in ("communication", "accumulation"):
        dtype, listed = case[f"{key}_dtype"], claims.get(f"{key}_dtypes", PLAIN[f"{key}_dtypes"])
        own = dtype == case["precision"] and "precision" in listed
        needs[f"{key}_dtypes"] = [] if own else [dtype]
    if any(g["optimizer"] == "Muon" for g in case["groups"]) and "muon" not in claims.get("optional", []):
        return 'optional: "muon" not claimed; if the trainer does it, its claims need "optional": ["muon"]'
    for key, needed in needs.items():
        claimed = claims.get(key, PLAIN[key])
        missing = [value for value in needed if value not in claimed]
        if missing:
            return (f"{key}: {', '.join(map(json.dumps, missing))} not claimed; if the trainer does it, its claims need "
                    f'"{key}": {json.dumps([*claimed, *missing])}')
    return None
