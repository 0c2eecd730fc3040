// SPDX-License-Identifier: Apache-2.0
// `zerogauge export`: writes a checkpoint's weights for other programs.
#include "ref/model/export/export.h"

#include "base/err.h"
#include "base/help.h"
#include "base/safe_text.h"
#include "base/size.h"
#include "ref/model/names/model_find.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct export_options {
    char *dtype, *base;  // may be null
    int merge;
};

static int write_export(const struct checkpoint *checkpoint, const char *to, const struct export_options *a,
                        enum dtype dtype)
{
    const struct model *model;
    // A checkpoint of another program's model has no adapters that this one could know.
    bool adapts = model_find(checkpoint_manifest(checkpoint)->model, &model) == ERR_NONE && model->lora;
    if (!adapts && (a->merge || a->base))
        return err_set(ERR_USAGE, "%s: is not a checkpoint of a model with adapters: leave out %s",
                       checkpoint_path(checkpoint), a->merge ? "--merge" : "--base");
    if (a->base && !a->merge)
        return err_set(ERR_USAGE, "--base needs --merge: adapters alone are exported without their base");
    if (!adapts)
        return export_weights(checkpoint, to, dtype);
    return a->merge ? export_merged(checkpoint, a->base, to, dtype) : export_adapters(checkpoint, to, dtype);
}

static int export(const char *from, const char *to, const struct export_options *a, enum dtype dtype)
{
    struct checkpoint *checkpoint;
    char notes[NOTES_BYTES] = "", count[SIZE_TEXT_BYTES], shown[TEXT_MESSAGE_BYTES];
    int rc = checkpoint_open(from, &checkpoint, notes);
    for (char *rest = notes, *line; (line = strsep(&rest, "\n")) && *line;)
        text_say("zerogauge export: note: %s", line);
    TRY(rc);
    if (!checkpoint)
        return err_set(ERR_USAGE, "%s: no checkpoint found", from);
    rc = write_export(checkpoint, to, a, dtype);
    const struct manifest *m = checkpoint_manifest(checkpoint);
    uint64_t elements = 0;
    for (size_t i = 0; i < m->param_count; i++)
        elements += m->params[i].count;
    if (rc == ERR_NONE && a->merge)
        printf("%s: %s after step %" PRIu64 ", adapters merged, %s\n", to, text_message(shown, m->model, 60), m->step,
               dtype_name(dtype));
    else if (rc == ERR_NONE)
        printf("%s: %s after step %" PRIu64 ", %zu tensors, %s parameters, %s\n", to, text_message(shown, m->model, 60),
               m->step, m->param_count, size_text(elements, count), dtype_name(dtype));
    checkpoint_close(checkpoint);
    return rc;
}

static const char *const examples[] = {
    "zerogauge export saved weights.safetensors",
    "zerogauge export saved weights-bf16.safetensors --dtype bf16",
    "zerogauge export tuned adapters",
    "zerogauge export tuned merged.safetensors --merge",
    NULL,
};

static const struct help help = {
    .usage = "CHECKPOINT OUT.safetensors [OPTION...]",
    .text = "Writes the unsharded weights of a checkpoint to one safetensors file; of a model with adapters, these "
            "alone to "
            "a folder that PEFT reads.",
    .examples = examples,
};

static int run(int argc, const char **argv, struct export_options *a)
{
    const struct poptOption options[] = {
        {"dtype", '\0', POPT_ARG_STRING, &a->dtype, 0,
         "number format of the weights, rounded to nearest (default: fp32)", "fp32|bf16|fp16"},
        {"merge", '\0', POPT_ARG_NONE, &a->merge, 0, "add adapters to their base, and write that", NULL},
        {"base", '\0', POPT_ARG_STRING, &a->base, 0, "with --merge: the file that the run gave to --load-weights",
         "FILE"},
        HELP_OPTIONS(options, &help) POPT_TABLEEND,
    };
    poptContext context = poptGetContext(NULL, argc, argv, options, 0);
    int rc = help_options_end(context, argv, poptGetNextOpt(context));
    const char *from = poptGetArg(context), *to = poptGetArg(context), *extra = poptGetArg(context);
    enum dtype dtype = DTYPE_FP32;
    if (rc == ERR_NONE && (!from || !to || extra))
        rc = err_set(ERR_USAGE, "expected a checkpoint, or a folder of checkpoints, and the file to write");
    if (rc == ERR_NONE && a->dtype && !dtype_of_name(a->dtype, &dtype))
        rc = err_set(ERR_USAGE, "--dtype %s: expected fp32, bf16 or fp16", a->dtype);
    if (rc == ERR_NONE)
        rc = export(from, to, a, dtype);
    help_release(options);
    poptFreeContext(context);
    return rc;
}

int export_main(int argc, const char **argv)
{
    struct export_options options = {0};
    int rc = run(argc, argv, &options);
    if (rc != ERR_NONE)
        text_error("zerogauge export");
    return err_exit_status(rc);
}
