// SPDX-License-Identifier: Apache-2.0
// `zerogauge convert`: a run's state from one format of checkpoints to another.
#include "ref/model/export/states.h"

#include "base/err.h"
#include "base/help.h"
#include "base/safe_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int convert_checkpoint(const char *from, const char *to)
{
    struct checkpoint *checkpoint;
    char notes[NOTES_BYTES] = "", digest[FILE_DIGEST_BYTES];
    int rc = checkpoint_open(from, &checkpoint, notes);
    for (char *rest = notes, *line; (line = strsep(&rest, "\n")) && *line;)
        text_say("zerogauge convert: note: %s", line);
    TRY(rc);
    if (!checkpoint)
        return err_set(ERR_USAGE, "%s: is not a checkpoint, or a folder of checkpoints", from);
    rc = states_write(checkpoint, to, digest);
    if (rc == ERR_NONE)
        printf("%s: step %" PRIu64 ", %zu parameters, state %s\n", to, checkpoint_manifest(checkpoint)->step,
               checkpoint_manifest(checkpoint)->param_count, digest);
    checkpoint_close(checkpoint);
    return rc;
}

// to: null to check the file only.
static int convert_states(const char *from, const char *to, bool sealed)
{
    struct states states;
    int rc = states_open(from, sealed, &states);
    if (rc == ERR_NONE && to)
        rc = states_write_checkpoint(&states, to);
    const json_t *state = states.text.root;
    if (rc == ERR_NONE)
        printf("%s: step %lld, %zu parameters, state %s\n", to ? to : from,
               (long long)json_integer_value(json_object_get(state, "step")),
               json_object_size(json_object_get(state, "parameters")), states.digest);
    states_close(&states);
    return rc;
}

static int convert(const char *from, const char *to, const char *form, bool sealed)
{
    struct stat status;
    bool is_folder = stat(from, &status) == 0 && S_ISDIR(status.st_mode);
    const char *made = is_folder ? "safetensors" : "zerogauge";
    if (form && (strcmp(form, "universal") == 0 || strcmp(form, "dcp") == 0))
        return err_set(ERR_USAGE, "--to %s: PyTorch writes this format: use `python -m zerogauge convert`", form);
    if (form && strcmp(form, made) != 0)
        return err_set(ERR_USAGE, "--to %s: %s becomes %s", form, is_folder ? "a folder" : "a file", made);
    if (!sealed && (is_folder || to))
        return err_set(ERR_USAGE, "--unsealed is for a file alone");
    if (is_folder && !to)
        return err_set(ERR_USAGE, "expected the file to write after %s", from);
    return is_folder ? convert_checkpoint(from, to) : convert_states(from, to, sealed);
}

static const char *const examples[] = {
    "zerogauge convert saved states.safetensors",
    "zerogauge convert states.safetensors continued",
    "zerogauge convert states.safetensors",
    "python -m zerogauge convert saved universal --to universal",
    "python -m zerogauge convert universal sharded --to dcp",
    NULL,
};

static const struct help help = {
    .usage = "IN [OUT] [OPTION...]",
    .text =
        "Converts a checkpoint with all that the next step depends on: master parameters, moments, steps, groups' "
        "settings, loss scale. A folder of checkpoints becomes one safetensors file with states, and such a file "
        "becomes a folder for `train --resume`. Without OUT, checks a file. Prints the digest of the state, which "
        "is the same in each format.\n"
        "The Python package also converts to and from DeepSpeed's universal checkpoints and PyTorch's distributed "
        "ones, and needs PyTorch for that. Weights alone, such as Hugging Face's, are an export (zerogauge export).",
    .examples = examples,
};

static int run(int argc, const char **argv, char **form)
{
    int unsealed = 0;
    const struct poptOption options[] = {
        {"to", '\0', POPT_ARG_STRING, form, 0, "format of OUT (default: the other one of the first two)",
         "zerogauge|safetensors|universal|dcp"},
        {"unsealed", '\0', POPT_ARG_NONE, &unsealed, 0, "print the digest of a file that names none yet", NULL},
        HELP_OPTIONS(options, &help) POPT_TABLEEND,
    };
    poptContext context = poptGetContext(NULL, argc, argv, options, 0);
    int rc = help_options_end(context, argv, poptGetNextOpt(context));
    const char *from = poptGetArg(context), *to = poptGetArg(context), *extra = poptGetArg(context);
    if (rc == ERR_NONE && (!from || extra))
        rc = err_set(ERR_USAGE, "expected a checkpoint, and what to write");
    if (rc == ERR_NONE)
        rc = convert(from, to, *form, !unsealed);
    help_release(options);
    poptFreeContext(context);
    return rc;
}

int convert_main(int argc, const char **argv)
{
    char *form = NULL;
    int rc = run(argc, argv, &form);
    if (rc != ERR_NONE)
        text_error("zerogauge convert");
    return err_exit_status(rc);
}
