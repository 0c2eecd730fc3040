# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0
"""set_optimizer_state_dict(full_state_dict=True) gives a parameter without state a step, and moments of its decay.

States that the checkpoint lacks are made by a step with zero gradients and a learning rate of 0, and kept: t is one too
large when the parameter gets its first gradient, and Adam's L2 decay is in its moments. Sharded loading keeps none."""
import sys
try:
    import torch
    from torch.distributed.checkpoint import state_dict as dcp
except ImportError as missing:
    sys.exit(print(missing) or 77)

def made():
    model = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False))
    for parameter in model.parameters():
        parameter.data.fill_(1)
    return model, torch.optim.Adam(model.parameters(), lr=0.1, weight_decay=0.1)

model, optimizer = made()
model[0](torch.ones(1)).backward()  # the second layer has no gradient yet
optimizer.step()
saved, (model, optimizer) = dcp.get_optimizer_state_dict(model, optimizer), made()
whole = dcp.StateDictOptions(full_state_dict=True, strict=False)
dcp.set_optimizer_state_dict(model, optimizer, saved, options=whole)
state = optimizer.state.get(model[1].weight, {})
actual = f"t {float(state.get('step', 0)):g}, first moment {float(state.get('exp_avg', 0)):g}"
expected = "t 0, first moment 0"
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
