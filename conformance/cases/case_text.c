// SPDX-License-Identifier: Apache-2.0
// Writes case.json by hand, so that its bytes are the same wherever it is made.
#include "conformance/cases/case_mesh.h"
#include "conformance/cases/case_tokens.h"

#include "base/err.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const tier_words[] = {"none", "cpu", "nvme"};

static const char *yes(bool value)
{
    return value ? "true" : "false";
}

const char *case_real(double value, char out[CASE_REAL_BYTES])
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, CASE_REAL_BYTES, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    return out;
}

// "-0" would be read as the integer 0.
static void put_real(FILE *out, double value)
{
    char text[CASE_REAL_BYTES];
    case_real(value, text);
    fputs(value == 0 && signbit(value) ? "-0.0" : text, out);
}

static void put_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void put_placement(FILE *out, const struct case_placement *placement)
{
    fprintf(out, ", \"placement\": {\"pipeline\": %d, \"tensor\": \"%s\", \"dimension\": ", placement->pipeline,
            case_part_names[placement->part]);
    if (placement->part == PART_CUT)
        fprintf(out, "%d, \"expert\": ", placement->dimension);
    else
        fputs("null, \"expert\": ", out);
    if (placement->is_expert)
        fprintf(out, "%d}", placement->expert);
    else
        fputs("null}", out);
}

// "[[2, 0], [3, 1]]": steps and micro-steps that leave a use out.
static void put_unused_in(FILE *out, const struct check_case *c, int use)
{
    const char *separator = ", \"unused_in\": [";
    for (int step = 1; step <= c->steps; step++)
        for (int micro = 0; micro < case_micro_steps(c, step); micro++)
            if (!case_is_used_in(c, use, step, micro)) {
                fprintf(out, "%s[%d, %d]", separator, step, micro);
                separator = ", ";
            }
    fputc(']', out);
}

static void put_param(FILE *out, const struct check_case *c, int index)
{
    const struct case_param *param = &c->params[index];
    fprintf(out, "  {\"name\": \"%s\", \"shape\": [", param->name);
    for (int i = 0; i < param->shape_rank; i++)
        fprintf(out, "%s%zu", i ? ", " : "", param->shape[i]);
    fprintf(out, "], \"group\": %d, \"frozen\": %s, \"used\": %s, \"tied_to\": ", param->group, yes(param->frozen),
            yes(param->used));
    if (param->tied_to >= 0)
        fprintf(out, "\"%s\"", c->params[param->tied_to].name);
    else
        fputs("null", out);
    if (case_use_varies(c, index))
        put_unused_in(out, c, index);
    if (param->is_adapter)
        fprintf(out, ", \"adapts\": \"%s\"", c->params[param->adapts].name);
    if (case_has_mesh(c))
        put_placement(out, &param->placement);
    fprintf(out, "}%s\n", index + 1 < c->param_count ? "," : "");
}

static void put_adam(FILE *out, const struct case_group *group)
{
    fputs(", \"betas\": [", out);
    put_real(out, group->beta1);
    fputs(", ", out);
    put_real(out, group->beta2);
    fputs("], \"eps\": ", out);
    put_real(out, group->eps);
    fputs(", \"weight_decay\": ", out);
    put_real(out, group->weight_decay);
    fprintf(out, ", \"bias_correction\": %s", yes(group->bias_correction));
}

static void put_muon(FILE *out, const struct case_group *group)
{
    fputs(", \"momentum\": ", out);
    put_real(out, group->beta1);
    fprintf(out,
            ", \"nesterov\": %s, \"ns_steps\": %d, \"adjust_lr_fn\": \"%s\", \"weight_decay\": ", yes(group->nesterov),
            group->ns_steps, group->matches_adamw ? "match_rms_adamw" : "original");
    put_real(out, group->weight_decay);
}

static void put_group(FILE *out, const struct check_case *c, int index)
{
    const struct case_group *group = &c->groups[index];
    fprintf(out, "  {\"optimizer\": \"%s\", \"lr\": %s",
            group->muon        ? "Muon"
            : group->decoupled ? "AdamW"
                               : "Adam",
            group->lr_by_step ? "[" : "");
    for (int i = 0; i < (group->lr_by_step ? c->steps : 1); i++) {
        fputs(i ? ", " : "", out);
        put_real(out, group->lr[i]);
    }
    fputs(group->lr_by_step ? "]" : "", out);
    (group->muon ? put_muon : put_adam)(out, group);
    fputs(index + 1 < c->group_count ? "},\n" : "}\n", out);
}

static void put_loss_scale(FILE *out, const struct case_loss_scale *scale)
{
    if (scale->kind == SCALE_NONE) {
        fputs(" \"loss_scale\": {\"kind\": \"none\"},\n", out);
        return;
    }
    bool dynamic = scale->kind == SCALE_DYNAMIC;
    fprintf(out, " \"loss_scale\": {\"kind\": \"%s\", \"%s\": ", dynamic ? "dynamic" : "static",
            dynamic ? "initial_scale" : "scale");
    put_real(out, scale->scale);
    if (dynamic) {
        fprintf(out, ", \"window\": %" PRIu64 ", \"hysteresis\": %" PRIu64 ", \"min_scale\": ", scale->window,
                scale->hysteresis);
        put_real(out, scale->min_scale);
    }
    fputs("},\n", out);
}

static void put_tokens(FILE *out, const struct check_case *c)
{
    const char *separator = "";
    if (!c->has_tokens)
        return;
    fputs(" \"tokens\": [", out);
    for (int step = 1; step <= c->steps; step++) {
        fprintf(out, "%s\n  [", step > 1 ? "," : "");
        for (int micro = 0; micro < case_micro_steps(c, step); micro++) {
            fputs(micro > 0 ? ", [" : "[", out);
            separator = "";
            for (int rank = 0; rank < c->world; rank++, separator = ", ")
                fprintf(out, "%s%u", separator, case_rank_tokens(c, step, micro, rank));
            fputc(']', out);
        }
        fputc(']', out);
    }
    fputs("\n ],\n", out);
}

static void put_identity(FILE *out, const struct check_case *c, bool tells)
{
    fprintf(out, "{\n \"contract\": %d,\n \"name\": \"%s\",\n \"note\": ", CASE_CONTRACT, c->name);
    put_string(out, c->note);
    fputs(tells ? ",\n \"requirements\": [" : "", out);
    for (int i = 0; tells && i < c->requirement_count; i++)
        fprintf(out, "%s\"%s\"", i ? ", " : "", c->requirements[i]);
    fprintf(out, "%s,\n \"world\": %d,\n \"steps\": %d,\n \"accumulation\": %d,\n \"stage\": %d,\n", tells ? "]" : "",
            c->world, c->steps, c->accumulation, c->stage);
    fprintf(out, " \"precision\": \"%s\",\n \"communication_dtype\": \"%s\",\n \"accumulation_dtype\": \"%s\",\n",
            dtype_name(c->precision), dtype_name(c->communication_dtype), dtype_name(c->accumulation_dtype));
    if (c->gathers_e4m3)
        fputs(" \"gather_dtype\": \"e4m3\",\n", out);
    if (case_has_mesh(c))
        fprintf(out, " \"mesh\": {\"replicate\": %d, \"shard\": %d, \"tensor\": %d, \"pipeline\": %d, \"expert\": %d",
                c->mesh.replicate, c->mesh.shard, c->mesh.tensor, c->mesh.pipeline, c->mesh.expert);
    if (c->sequence > 1)
        fprintf(out, ", \"sequence\": %d", c->sequence);
    fputs(case_has_mesh(c) ? "},\n" : "", out);
    put_tokens(out, c);
}

static void put_hints(FILE *out, const struct check_case *c)
{
    fprintf(out, " \"buckets\": {\"reduce\": %zu, \"allgather\": %zu, \"prefetch\": %zu, \"sub_group\": %zu},\n",
            c->reduce_bucket, c->allgather_bucket, c->prefetch_bucket, c->sub_group);
    fprintf(out, " \"hints\": {\"overlap\": %s, \"contiguous_gradients\": %s, \"reduce_scatter\": %s},\n",
            yes(c->overlap), yes(c->contiguous_gradients), yes(c->reduce_scatter));
    fprintf(out, " \"offload\": {\"optimizer\": \"%s\", \"param\": \"%s\"},\n", tier_words[c->offload_optimizer],
            tier_words[c->offload_param]);
    fprintf(out, " \"delayed_update\": %d,\n", c->delayed_update);
    if (c->phase == PHASE_WHOLE)
        fputs(" \"checkpoint\": null", out);
    else
        fprintf(out, " \"checkpoint\": {\"phase\": \"%s\", \"step\": %d, \"weights_only\": %s}",
                c->phase == PHASE_SAVE ? "save" : "resume", c->checkpoint_step, yes(c->weights_only));
}

// tells: with the keys that tell the right answer.
static void put_case(FILE *out, const struct check_case *c, bool tells)
{
    put_identity(out, c, tells);
    fputs(" \"params\": [\n", out);
    for (int i = 0; i < c->param_count; i++)
        put_param(out, c, i);
    fputs(" ],\n \"groups\": [\n", out);
    for (int i = 0; i < c->group_count; i++)
        put_group(out, c, i);
    fputs(" ],\n \"gradient_clipping\": ", out);
    put_real(out, c->gradient_clipping);
    fputs(",\n", out);
    put_loss_scale(out, &c->loss_scale);
    fprintf(out, " \"overflow_check\": %s,\n", yes(c->overflow_check));
    put_hints(out, c);
    if (tells)
        fprintf(out, ",\n \"exact\": %s,\n \"expect\": \"%s\"", yes(c->exact),
                c->expects_refusal ? "refusal" : "answer");
    fputs("\n}\n", out);
}

int case_text_of(const struct check_case *c, bool tells, char **text, size_t *bytes)
{
    *text = NULL;
    FILE *out = open_memstream(text, bytes);
    if (!out)
        return err_set(ERR_MEMORY, "no memory for the text of case %s", c->name);
    put_case(out, c, tells);
    if (fclose(out) != 0) {
        free(*text);
        return err_set(ERR_MEMORY, "no memory for the text of case %s", c->name);
    }
    return ERR_NONE;
}

int case_text(const struct check_case *c, char **text, size_t *bytes)
{
    return case_text_of(c, true, text, bytes);
}
