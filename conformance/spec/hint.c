// SPDX-License-Identifier: Apache-2.0
// The kinds of bugs that a finding can point to: the error, and the first thing to check.
#include "conformance/spec/verdict.h"

#include <assert.h>

static const struct {
    const char *name, *text;
} hints[HINT_COUNT] = {
    [HINT_NONE] = {"none", ""},
    [HINT_FACTOR_WORLD] = {"factor-world",
                           "The gradient is off by the number of ranks. Check the division of the sum over "
                           "ranks: it may be missing, or done twice because the collective averages already."},
    [HINT_FACTOR_ACCUMULATION] = {"factor-accumulation",
                                  "The gradient is off by the number of micro-steps. Check the division of the loss"
                                  " or gradient by it: it may be missing, or done twice because the engine divides "
                                  "already."},
    [HINT_FACTOR_SCALE] = {"factor-scale", "The gradient is off by the loss scale. Check that the gradient is unscaled "
                                           "exactly once, and by the scale that it was made with."},
    [HINT_FACTOR_OTHER] = {"factor-other",
                           "The gradient is off by one constant factor. Check every place that multiplies or"
                           " divides gradients, and compare the factor with the counts of the case."},
    [HINT_ONE_RANK] = {"one-rank", "The gradient comes from one rank, or from some ranks, alone. Check that the "
                                   "reduction is called for this tensor and for the right group of ranks, and that "
                                   "the optimizer reads its result."},
    [HINT_ONE_MICRO_STEP] = {"one-micro-step",
                             "The gradient lacks micro-steps. Check whether they are added or overwritten, and"
                             " which of them are reduced."},
    [HINT_WEIGHTS] = {"weights", "Ranks or micro-steps do not count equally in the mean. Check for a gradient that is "
                                 "added twice, and for a mean of means."},
    [HINT_ONE_USE] = {"one-use", "The gradient of a tied parameter lacks one of its uses. Check that the second use is "
                                 "added to the first, and that the reduction waits for all of them."},
    [HINT_LEFT_OVER] = {"left-over", "The gradient still contains that of an earlier step, or a step is skipped "
                                     "because the one before was. Check where gradients, buckets, flags and counters "
                                     "are reset, also after a skipped step."},
    [HINT_STALE_GRADIENT] = {"stale-gradient",
                             "The update used the gradient of an earlier step. Check that it waits for its own"
                             " step's reduction and copies."},
    [HINT_SHIFTED] = {"shifted", "The values belong to other elements. Check the offsets of shards and buckets, "
                                 "first where a size is padded or not a multiple of the number of ranks."},
    [HINT_TAIL] = {"tail", "Only the last elements are wrong. Check the remainder of vector loops, the last "
                           "shard, and the last block, which may not be full."},
    [HINT_BUCKET] = {"bucket", "Only some whole tensors are wrong. Check what they share: a bucket, a parameter "
                               "group or a sub-group; and check that the last one is sent."},
    [HINT_SHARD] = {"shard", "Only one rank's shard is wrong. Check where this rank's shard begins and ends, "
                             "and how it is gathered."},
    [HINT_NOT_UPDATED] = {"not-updated",
                          "Elements keep their old state. Check that the optimizer receives them, and that "
                          "its results are copied back."},
    [HINT_UPDATED_TWICE] = {"updated-twice",
                            "Elements are updated twice in a step. Check for overlapping ranges: a vector "
                            "loop and its remainder, neighbouring shards, a tensor in two groups."},
    [HINT_STEP_COUNT] = {"step-count", "Bias correction uses the wrong t. Check where t begins, that it advances once "
                                       "per step and not once per tensor or sub-group, and how a skipped step and a "
                                       "checkpoint treat it."},
    [HINT_LR] = {"lr", "The learning rate belongs to another step or group. Check whether the schedule "
                       "moves before or after the update, and which group's value reaches this element."},
    [HINT_CORRECTION] = {"bias-correction", "Bias correction is missing, or made where it should not be. Check the "
                                            "option of each group, and that both moments are corrected."},
    [HINT_BETAS] = {"betas",
                    "The moments decay by other betas. Check which group's betas reach this element, and where "
                    "they are defaults of the optimizer."},
    [HINT_EPS] = {"eps", "The update has another eps. Check which group's eps reaches this element, and whether it is "
                         "added before or after the bias correction."},
    [HINT_DECAY_ORDER] = {"decay-order", "Decoupled decay scales the parameter after the update. Check the order of "
                                         "both: the decay is of the parameter before the step."},
    [HINT_GROUP] = {"group", "All settings are another group's. Check how parameters find their group, and what an "
                             "empty or frozen group does to its index."},
    [HINT_DECAY] = {"decay", "Weight decay is missing, of the other kind (L2 or decoupled), or another "
                             "group's. Check which optimizer is made, and the settings of its groups."},
    [HINT_CLIP] = {"clip", "The clip coefficient is missing, comes from another norm, or is applied where it"
                           " should not be. Check that the norm covers the whole model and the mean, "
                           "unscaled gradient, and check the comparison with the threshold."},
    [HINT_OVERFLOW] = {"overflow", "A step is skipped that should not be, or is not skipped although it should be. "
                                   "Check which gradients are searched for inf and NaN, and that all ranks agree "
                                   "before any of them updates."},
    [HINT_LOSS_SCALE] = {"loss-scale", "The loss scale follows another rule. Check where the window begins, the "
                                       "hysteresis and the minimum; if you mean another framework's rule, claim it "
                                       "(`scaler`)."},
    [HINT_MOMENTS] = {"moments", "Moments are lost, swapped or of low precision. Check their dtype, and the order "
                                 "in which they are written and read back."},
    [HINT_OVERWRITTEN] = {"overwritten",
                          "The gradient is right, and some elements met other states than the step before left. Check "
                          "the buffers and files that states go through: their sizes, their offsets, and what is still "
                          "in use when one is used again."},
    [HINT_MASTER] = {"master",
                     "The master parameters went through a 16-bit format, or FP8. Check that the update reads "
                     "the master and not the copy, and how the master is made after a start or "
                     "a load."},
    [HINT_ROUNDING] = {"rounding", "What is kept in 16 bits is not the fp32 result rounded to nearest even. Check the "
                                   "conversion: it may truncate, round half up, or round twice."},
    [HINT_STALE_COPY] = {"stale-copy",
                         "Forward used the parameters of another step, usually an earlier one. Check that "
                         "the gather follows the update, on every rank and for every micro-step."},
    [HINT_TORN_COPY] = {"torn-copy", "One forward used parameters of several steps. Check which tensors or pieces "
                                     "are gathered, and which operations forward waits for."},
    [HINT_FOREIGN_COPY] = {"foreign-copy",
                           "Forward used values that were never parameters. Check for layers that are used "
                           "without being gathered, or before they are, for buffers that are reused or "
                           "written while they hold parameters, and for copies that do not wait for the update."},
    [HINT_QUANTIZED] = {"quantized",
                        "Forward used parameters that no scale of the whole tensor explains. Check that they are "
                        "quantized before the gather, by the largest magnitude of all shards, empty ones included, and "
                        "of this step."},
    [HINT_RESUME] = {"resume", "The state is right up to the checkpoint and wrong after it. Check the contents "
                               "of the checkpoint, and everything that is initialised after loading it."},
    [HINT_SETTING] = {"setting",
                      "Each answer is right by itself, but their bits depend on a setting that must not matter. Check "
                      "where the order of sums, the place of a division or the cut of a loop follows from it."},
    [HINT_UNSET] =
        {"unset", "Some elements are no numbers, although their gradients are: memory that nothing has filled, or that "
                  "was given back. Check that the last piece of a bucket is sent, that every element of a "
                  "buffer is written before it is read, and that no buffer is given back while it is in use."},
    [HINT_GRADIENT] = {"gradient",
                       "Both moments follow from another gradient than the mean, and the optimizer's step from them is "
                       "right. Check what is summed and in which dtype, where it is divided, and what else is added "
                       "before the optimizer reads it."},
    [HINT_TOKENS_MEANS] =
        {"tokens-means", "The gradient is a mean of means: every rank and micro-step counts alike, whatever tokens it "
                         "has. Check that losses are sums, divided once by all tokens of the step."},
    [HINT_TOKENS_OWN_RANK] = {"tokens-own-rank",
                              "Each rank divides by its own tokens. Check that the count is summed over ranks before "
                              "the loss is divided by it, and multiplied by the ranks if the collective averages."},
    [HINT_TOKENS_MICRO_STEP] = {"tokens-micro-step",
                                "The gradient is divided by the tokens of one micro-step, its own or the last. Check "
                                "that the tokens of all micro-steps are counted before the first is divided."},
    [HINT_TOKENS_PADDING] = {"tokens-padding",
                             "Padding is counted. Check that the count is of tokens with a loss, not of places."},
    [HINT_TOKENS_BEFORE] = {"tokens-before",
                            "The gradient is divided by the tokens of the step before. Check where the "
                            "count is reset, and that it belongs to the batches at hand."},
    [HINT_TOKENS_COPIES] = {"tokens-copies",
                            "Tokens are counted on every rank that has them. Check that the count is summed over data "
                            "ranks, not over tensor ranks, context ranks or stages with the same batch."},
    [HINT_TOKENS_ROUNDED] = {"tokens-rounded", "The number of tokens is rounded. Check that it is counted in integers: "
                                               "fp32 holds them all only up to 16777216, bf16 up to 256."},
    [HINT_REPORTED] = {"reported", "The step is right, and the report of it is not. Check that the logged number is of "
                                   "all ranks and micro-steps, and divided as the gradient is."},
    [HINT_ORTHOGONAL] =
        {"orthogonal", "Muon's update of a matrix is not its momentum's, made orthogonal as a whole. Check that "
                       "Newton-Schulz runs, once a step, and on the whole matrix of the complete mean gradient: not on "
                       "a rank's slice, a flat partition, or what other ranks have not yet added to."},
    [HINT_RECIPE] = {"recipe",
                     "The answer follows another recipe of Adam than the others. Check which kernel or class of "
                     "optimizer is chosen, and by which setting of the case."},
    [HINT_OTHER] = {"other", "The difference is everywhere, as with other arithmetic. Check the optimizer's "
                             "formula, and the dtype of every quantity in it."},
};

const char *hint_name(enum hint hint)
{
    assert(hint >= 0 && hint < HINT_COUNT);
    return hints[hint].name;
}

int hint_strength(enum hint hint)
{
    switch (hint) {
    case HINT_NONE:
        return 0;
    case HINT_OTHER:
    case HINT_GRADIENT:
    case HINT_SETTING:
        return 1;
    case HINT_TAIL:
    case HINT_BUCKET:
    case HINT_SHARD:
    case HINT_OVERWRITTEN:
        return 2;
    default:
        return 3;
    }
}

const char *hint_text(enum hint hint)
{
    assert(hint >= 0 && hint < HINT_COUNT);
    return hints[hint].text;
}
