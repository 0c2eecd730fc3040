// SPDX-License-Identifier: Apache-2.0
#include "results/page/submission.h"

#include "base/err.h"
#include "base/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FORM_BYTES_MAX = 1 << 16, COMMAND_MAX = 100 };

static int read_peak(const struct strict_object *root, struct submission_form *out)
{
    static const char *const keys[] = {"TFLOP_per_s", "of", "dense", "source", NULL};
    struct strict_object peak;
    out->peak_TFLOP_per_s = NAN;
    if (!json_object_get(root->value, "peak"))
        return ERR_NONE;
    TRY(strict_object_of(root, "peak", &peak));
    TRY(strict_keys(&peak, keys));
    TRY(strict_real(&peak, "TFLOP_per_s", &out->peak_TFLOP_per_s));
    TRY(strict_text(&peak, "of", &out->peak_of));
    TRY(strict_bool(&peak, "dense", &out->peak_is_dense));
    return strict_text(&peak, "source", &out->peak_source);
}

static int read_commands(const struct strict_object *root, struct submission_form *out)
{
    size_t count;
    TRY(strict_array(root, "commands", 1, COMMAND_MAX, &out->commands, &count));
    for (size_t i = 0; i < count; i++)
        if (!json_is_string(json_array_get(out->commands, i)))
            return strict_fail(root, "commands", "has an element %zu that is no string", i);
    return ERR_NONE;
}

static int read_form(const struct strict_object *root, struct submission_form *out)
{
    static const char *const keys[] = {"schema",          "operator", "interconnect",
                                       "commands",        "?peak",    "?GB_per_s_a_device",
                                       "?other_programs", "differs",  NULL};
    int schema;
    TRY(strict_keys(root, keys));
    TRY(strict_int(root, "schema", 1, 1, &schema));
    TRY(strict_text(root, "operator", &out->operator));
    TRY(strict_text(root, "interconnect", &out->interconnect));
    TRY(strict_text(root, "differs", &out->differs));
    out->GB_per_s_a_device = NAN;
    if (json_object_get(root->value, "GB_per_s_a_device"))
        TRY(strict_real(root, "GB_per_s_a_device", &out->GB_per_s_a_device));
    if (json_object_get(root->value, "other_programs"))
        TRY(strict_text(root, "other_programs", &out->other_programs));
    TRY(read_peak(root, out));
    return read_commands(root, out);
}

int submission_form_open(const char *folder, struct submission_form *out)
{
    size_t bytes;
    *out = (struct submission_form){0};
    TRY(file_join(folder, "form.json", out->path));
    TRY(file_read_text(out->path, FORM_BYTES_MAX, &out->text, &bytes));
    TRY(json_text_parse(out->path, out->text, bytes, &out->json));
    struct strict_object root = strict_root(&out->json);
    return read_form(&root, out);
}

void submission_form_close(struct submission_form *form)
{
    if (form->json.root)
        json_text_close(&form->json);
    free(form->text);
}
