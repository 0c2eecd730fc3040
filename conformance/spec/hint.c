// SPDX-License-Identifier: Apache-2.0
// The kinds of bugs that a finding can point to: what is wrong, and what to look at first.
#include "conformance/spec/verdict.h"

static const struct {
    const char *name, *text;
} hints[HINT_COUNT] = {
    [HINT_NONE] = {"none", ""},
    [HINT_FACTOR_WORLD] = {"factor-world",
                           "The gradient is off by the number of ranks. Look at where the sum over ranks is divided: "
                           "nowhere, or twice, if the collective averages already."},
    [HINT_FACTOR_ACCUMULATION] = {"factor-accumulation",
                                  "The gradient is off by the number of micro-steps. Look at where the loss or the "
                                  "gradient is divided by it: nowhere, or twice, if the engine divides already."},
    [HINT_FACTOR_SCALE] = {"factor-scale",
                           "The gradient is off by the loss scale. Look at where the scale is divided out again, and "
                           "at whether it is the one that the gradient was made with."},
    [HINT_FACTOR_OTHER] = {"factor-other",
                           "The gradient is off by one constant factor. Look at every place that multiplies or divides "
                           "gradients, and for which count of the case the factor is."},
    [HINT_ONE_RANK] = {"one-rank",
                       "The gradient is that of one rank, or of some ranks, alone. Look at whether the reduction is "
                       "called for this tensor, for which group of ranks, and at whether the optimizer reads its "
                       "result."},
    [HINT_ONE_MICRO_STEP] = {"one-micro-step",
                             "Micro-steps are missing in the gradient. Look at whether they are added or overwritten, "
                             "and at which of them are reduced."},
    [HINT_LEFT_OVER] = {"left-over",
                        "The gradient of an earlier step is still in this one. Look at where gradients, buckets and "
                        "counters are zeroed, also after a skipped step."},
    [HINT_STALE_GRADIENT] = {"stale-gradient",
                             "It is the gradient of an earlier step. Look at whether the update waits for its own "
                             "step's reduction and copies."},
    [HINT_SHIFTED] = {"shifted",
                      "These are the values of other elements. Look at the offsets of shares and buckets, first where "
                      "a size is padded or no multiple of the number of ranks."},
    [HINT_TAIL] = {"tail",
                   "Only the last elements are wrong. Look at the rest after a vector loop, at the last share, and at "
                   "the last block that is not full."},
    [HINT_BUCKET] = {"bucket",
                     "Only some whole tensors are wrong. Look at what they share: a bucket, a parameter group, a "
                     "sub-group; and at whether the last one is sent."},
    [HINT_SHARD] = {"shard",
                    "Only one rank's share is wrong. Look at where this rank's share begins and ends, and at how it is "
                    "gathered."},
    [HINT_NOT_UPDATED] = {"not-updated",
                          "Elements keep their old state. Look at whether the optimizer is given them, and at whether "
                          "what it computes is copied back."},
    [HINT_UPDATED_TWICE] = {"updated-twice",
                            "Elements are updated twice in a step. Look for ranges that overlap: vector loop and rest, "
                            "neighbouring shares, a tensor in two groups."},
    [HINT_STEP_COUNT] = {"step-count",
                         "Bias correction uses another t. Look at where t begins, at whether it advances once a step "
                         "and not once a tensor or sub-group, and at what a skipped step and a checkpoint do to it."},
    [HINT_LR] = {"lr",
                 "The learning rate is that of another step or group. Look at whether the schedule moves before or "
                 "after the update, and at which group's value reaches this element."},
    [HINT_DECAY] = {"decay",
                    "Weight decay is missing, is of the other kind (L2 or decoupled), or is another group's. Look at "
                    "which optimizer is made, and at what its groups are given."},
    [HINT_CLIP] = {"clip",
                   "The clip coefficient is missing, is of another norm, or is applied where it should not be. Look at "
                   "whether the norm is of the whole model, of the mean, and unscaled, and at the comparison with the "
                   "threshold."},
    [HINT_OVERFLOW] = {"overflow",
                       "A step is skipped that should not be, or the other way about. Look at which gradients are "
                       "looked through for inf and NaN, and at whether all ranks agree before any of them updates."},
    [HINT_LOSS_SCALE] = {"loss-scale",
                         "The loss scale moves by another rule. Look at when the window begins to count, at "
                         "hysteresis and at the minimum; if another framework's rule is meant, claim it (`scaler`)."},
    [HINT_MOMENTS] = {"moments",
                      "Moments are lost, swapped or of low precision. Look at their dtype, and at the order in which "
                      "they are written and read back."},
    [HINT_MASTER] = {"master",
                     "The master parameters went through a 16-bit format. Look at whether the update reads the master "
                     "or the 16-bit copy, and at what the master is made from after a start or a load."},
    [HINT_ROUNDING] = {"rounding",
                       "The 16-bit copy is not the master's, rounded to nearest even. Look at the conversion: does it "
                       "truncate, round half up, or round twice?"},
    [HINT_STALE_COPY] = {"stale-copy",
                         "Forward used the parameters of another step, as a rule of an earlier one. Look at whether "
                         "the gather comes after the update, on every rank and for every micro-step."},
    [HINT_TORN_COPY] = {"torn-copy",
                        "Forward used parameters of several steps at once. Look at which tensors or pieces are "
                        "gathered, and at what forward waits for."},
    [HINT_FOREIGN_COPY] = {"foreign-copy",
                           "Forward used values that were never parameters. Look for layers that are used without "
                           "being gathered, and for memory that is lent, or written, while they are in it."},
    [HINT_RESUME] = {"resume",
                     "It is right until the checkpoint and wrong from there on. Look at what the checkpoint holds, and "
                     "at what is set up anew after it was loaded."},
    [HINT_OTHER] = {"other",
                    "It is different everywhere, as other arithmetic is. Look at the optimizer's formula and at the "
                    "dtype of every quantity in it."},
};

const char *hint_name(enum hint hint)
{
    return hints[hint].name;
}

const char *hint_text(enum hint hint)
{
    return hints[hint].text;
}
