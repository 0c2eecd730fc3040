// SPDX-License-Identifier: Apache-2.0
// The dtypes of a configuration, and the loss scale.
#include "ref/config/config_doc.h"

#include "base/err.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

static int resolve_loss_scale(const struct config_doc *doc, struct config *out)
{
    struct config_loss_scale *scale = &out->loss_scale;
    *scale = (struct config_loss_scale){
        .static_scale = 1, .initial_scale_power = 16, .window = 1000, .hysteresis = 2, .min_scale = 1};
    if (out->precision != DTYPE_FP16)
        return ERR_NONE;
    double fixed = config_doc_number(doc, "fp16.loss_scale", 0);
    scale->dynamic = fixed == 0;
    if (!scale->dynamic) {
        scale->static_scale = fixed;
        if (fixed < FLT_MIN)
            return config_doc_fail(doc, "fp16.loss_scale", "is %g, expected 0 (dynamic) or at least %g", fixed,
                                   (double)FLT_MIN);
        return ERR_NONE;
    }
    int64_t power = config_doc_whole(doc, "fp16.initial_scale_power", 16);
    int64_t window = config_doc_whole(doc, "fp16.loss_scale_window", 1000);
    int64_t hysteresis = config_doc_whole(doc, "fp16.hysteresis", 2);
    int64_t min_scale = config_doc_whole(doc, "fp16.min_loss_scale", 1);
    if (power < 0 || power > 127)
        return config_doc_fail(doc, "fp16.initial_scale_power", "is %lld, expected a whole number from 0 to 127",
                               (long long)power);
    if (window < 1)
        return config_doc_fail(doc, "fp16.loss_scale_window", "is %lld, expected at least 1", (long long)window);
    if (hysteresis < 1)
        return config_doc_fail(doc, "fp16.hysteresis", "is %lld, expected at least 1", (long long)hysteresis);
    if (min_scale < 1)
        return config_doc_fail(doc, "fp16.min_loss_scale", "is %lld, expected at least 1", (long long)min_scale);
    if (power < 63 && min_scale > (1LL << power))
        return config_doc_fail(doc, "fp16.min_loss_scale", "is %lld, expected at most the initial scale, 2^%lld = %lld",
                               (long long)min_scale, (long long)power, 1LL << power);
    scale->initial_scale_power = (unsigned)power;
    scale->window = (uint64_t)window;
    scale->hysteresis = (uint64_t)hysteresis;
    scale->min_scale = (double)min_scale;
    scale->consecutive_hysteresis = config_doc_flag(doc, "fp16.consecutive_hysteresis", false);
    return ERR_NONE;
}

static const char ACCUMULATE[] = "data_types.grad_accum_dtype";

static bool converts(enum dtype a, enum dtype b)
{
    return a == b || a == DTYPE_FP32 || b == DTYPE_FP32;
}

// Gradients go from the model's dtype to that of communication and on to that of accumulation; in the first two stages
// they are accumulated before they are sent. No step leads from one format of 16 bits to another.
static int check_conversions(const struct config_doc *doc, const struct config *out)
{
    enum dtype model = out->precision, communication = out->communication_dtype, accumulation = out->accumulation_dtype;
    const char *key = model == DTYPE_FP16 ? "fp16.enabled" : "bf16.enabled";
    bool early = out->stage < 2;
    if (early && !converts(model, accumulation))
        return config_doc_fail(doc, ACCUMULATE, "is \"%s\" and %s is true, expected \"%s\" or \"fp32\" in stage %d",
                               dtype_name(accumulation), key, dtype_name(model), out->stage);
    if (!converts(model, communication) && (!early || accumulation == model))
        return config_doc_fail(doc, "communication_data_type", "is \"%s\" and %s is true, expected \"%s\" or \"fp32\"",
                               dtype_name(communication), key, dtype_name(model));
    if (!converts(communication, accumulation))
        return config_doc_fail(doc, ACCUMULATE,
                               "is \"%s\" and communication_data_type is \"%s\", expected \"%s\" or "
                               "\"fp32\"",
                               dtype_name(accumulation), dtype_name(communication), dtype_name(communication));
    return ERR_NONE;
}

// One note on both keys in place of one on each.
static void note_dtype(struct config_doc *doc, const char *dtype)
{
    const char *fp16 = config_key_find("fp16.enabled")->path, *bf16 = config_key_find("bf16.enabled")->path;
    struct config_notes *notes = doc->notes;
    size_t kept = 0;
    for (size_t i = 0; notes && i < notes->count; i++) {
        struct config_note note = notes->notes[i];
        if (note.key == fp16)
            continue;
        if (note.key == bf16) {
            note.kind = CONFIG_DTYPE;
            snprintf(note.value, sizeof note.value, "%s, %s", dtype,
                     doc->options->dtype ? "as the model's file says" : "where no file of the model says otherwise");
        }
        notes->notes[kept++] = note;
    }
    if (notes)
        notes->count = kept;
}

// The meaning of "auto" for both dtypes in Hugging Face's trainers: the model's own, which is of 16 bits for models of
// these years. For one of them alone it is true, unless the other is.
static void resolve_auto(struct config_doc *doc, bool *fp16, bool *bf16)
{
    bool auto_fp16 = config_doc_is_auto(doc, "fp16.enabled"), auto_bf16 = config_doc_is_auto(doc, "bf16.enabled");
    if (*fp16 || *bf16)
        return;
    const char *dtype = auto_fp16 && auto_bf16 && doc->options->dtype ? doc->options->dtype : "bf16";
    *bf16 = auto_bf16 && strcmp(dtype, "bf16") == 0;
    *fp16 = auto_fp16 && (!auto_bf16 || strcmp(dtype, "fp16") == 0);
    if (auto_fp16 && auto_bf16)
        note_dtype(doc, dtype);
}

int config_resolve_precision(struct config_doc *doc, struct config *out)
{
    static const char PARAM[] = "data_types.param_dtype";
    bool fp16 = config_doc_flag(doc, "fp16.enabled", false), bf16 = config_doc_flag(doc, "bf16.enabled", false);
    resolve_auto(doc, &fp16, &bf16);
    if (fp16 && bf16)
        return config_doc_fail(doc, "bf16.enabled", "is true and fp16.enabled is true, expected at most one of them");
    enum dtype model = fp16 ? DTYPE_FP16 : bf16 ? DTYPE_BF16 : DTYPE_FP32;
    enum dtype param = config_doc_dtype(doc, PARAM, model);
    if (param != model)
        return config_doc_fail(doc, PARAM, "is \"%s\", expected \"%s\", as fp16.enabled and bf16.enabled say",
                               dtype_name(param), dtype_name(model));
    out->precision = model;
    out->communication_dtype = config_doc_dtype(doc, "communication_data_type", model);
    out->accumulation_dtype = config_doc_dtype(doc, ACCUMULATE, model);
    if (out->stage == 0 && out->accumulation_dtype != model && out->accumulation_dtype != DTYPE_FP32)
        return config_doc_fail(doc, ACCUMULATE, "is \"%s\", expected \"%s\" or \"fp32\" in stage 0",
                               dtype_name(out->accumulation_dtype), dtype_name(model));
    TRY(check_conversions(doc, out));
    out->check_overflow = fp16 || (bf16 && config_doc_flag(doc, "bf16.check_grad_overflow", true));
    return resolve_loss_scale(doc, out);
}
