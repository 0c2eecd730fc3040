// SPDX-License-Identifier: Apache-2.0
// The dtypes in which Adam's states are kept: DeepSpeed's keys with its limits, and keys of our own without them, which
// also say what DeepSpeed has no word for, as moments of 16 bits with a master in fp32.
#include "ref/config/config_doc.h"

#include "base/err.h"

static const char BF16_MASTER[] = "bf16.bf16_master_weights_and_grads", BF16_STATES[] = "bf16.bf16_optimizer_states",
                  FP16_MASTER[] = "fp16.fp16_master_weights_and_grads",
                  WHOLE[] = "optimizer.params.fp32_optimizer_states", MASTER[] = "zerogauge.master_dtype",
                  MOMENTS[] = "zerogauge.moment_dtype";

// A key of one precision's section has no effect in another.
static bool flag_of(struct config_doc *doc, const char *key, const struct config *config, enum dtype precision)
{
    bool asked = config_doc_flag(doc, key, false);
    if (asked && config->precision != precision)
        config_doc_ignore(doc, key);
    return asked && config->precision == precision;
}

// Our own key; where DeepSpeed's `by` asks for a dtype of 16 bits, it must not ask for another.
static int choose(const struct config_doc *doc, const char *key, const char *by, enum dtype asked, enum dtype *out)
{
    enum dtype own = config_doc_dtype(doc, key, asked);
    if (asked != DTYPE_FP32 && own != asked)
        return config_doc_fail(doc, key, "is \"%s\" and %s asks for \"%s\"; expected only one of the two keys",
                               dtype_name(own), by, dtype_name(asked));
    *out = own;
    return ERR_NONE;
}

int config_resolve_states(struct config_doc *doc, struct config *out)
{
    bool bf16 = flag_of(doc, BF16_MASTER, out, DTYPE_BF16), fp16 = flag_of(doc, FP16_MASTER, out, DTYPE_FP16);
    bool states = flag_of(doc, BF16_STATES, out, DTYPE_BF16), whole = config_doc_flag(doc, WHOLE, !states);
    const char *master = fp16 ? FP16_MASTER : BF16_MASTER;
    if ((bf16 || fp16) && out->stage == 0)
        return config_doc_fail(
            doc, master, "is true in stage 0, expected stage 1, 2 or 3, as in DeepSpeed; %s has no such limit", MASTER);
    if (states && !bf16)
        return config_doc_fail(doc, BF16_STATES,
                               "is true and %s is not, expected both, as in DeepSpeed; %s has no such "
                               "limit",
                               BF16_MASTER, MOMENTS);
    if (states && whole)
        return config_doc_fail(doc, WHOLE, "is true and %s is true, expected only one of the two", BF16_STATES);
    TRY(choose(doc, MASTER, master, bf16 || fp16 ? out->precision : DTYPE_FP32, &out->master_dtype));
    if (out->master_dtype != DTYPE_FP32 && out->master_dtype != out->precision)
        return config_doc_fail(doc, MASTER, "is \"%s\", expected \"fp32\" or the model's dtype, \"%s\"",
                               dtype_name(out->master_dtype), dtype_name(out->precision));
    // DeepSpeed's moments that are not fp32 have the master's dtype.
    return choose(doc, MOMENTS, states ? BF16_STATES : WHOLE, whole ? DTYPE_FP32 : out->master_dtype,
                  &out->moment_dtype);
}
