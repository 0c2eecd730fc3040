// SPDX-License-Identifier: Apache-2.0
// Reads case.json, which is untrusted: every key must be there, and have a value that CONTRACT.md allows.
#include "conformance/cases/case_read_internal.h"

#include "base/err.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENTS_MAX ((int64_t)1 << 40)  // of a bucket
#define WINDOW_MAX ((int64_t)1 << 40)

static const char *const dtypes[] = {"fp32", "bf16", "fp16", NULL};  // as in enum dtype
static const char *const tiers[] = {"none", "cpu", "nvme", NULL};    // as in enum ledger_tier

static int read_count(const struct strict_object *object, const char *key, uint64_t *out)
{
    int64_t value = 0;
    TRY(strict_integer(object, key, 0, WINDOW_MAX, &value));
    *out = (uint64_t)value;
    return ERR_NONE;
}

static int read_dynamic(const struct strict_object *object, const struct check_case *c, struct case_loss_scale *scale)
{
    TRY(strict_real(object, "initial_scale", &scale->scale));
    TRY(read_count(object, "window", &scale->window));
    TRY(read_count(object, "hysteresis", &scale->hysteresis));
    TRY(strict_real(object, "min_scale", &scale->min_scale));
    if (c->expects_refusal)
        return ERR_NONE;
    if (!(scale->scale > 0))
        return strict_fail(object, "initial_scale", "is %g, expected a positive number", scale->scale);
    if (scale->window == 0 || scale->hysteresis == 0)
        return strict_fail(object, scale->window == 0 ? "window" : "hysteresis", "is 0, expected at least 1");
    if (!(scale->min_scale > 0 && scale->min_scale <= scale->scale))
        return strict_fail(object, "min_scale", "is %g, expected a positive number, at most the initial scale",
                           scale->min_scale);
    return ERR_NONE;
}

static int read_loss_scale(const struct strict_object *root, struct check_case *c)
{
    static const char *const kinds[] = {"none", "static", "dynamic", NULL};  // as in enum case_scale_kind
    struct strict_object object;
    int kind = 0;
    TRY(strict_object_of(root, "loss_scale", &object));
    TRY(strict_word(&object, "kind", kinds, &kind));
    c->loss_scale.kind = (enum case_scale_kind)kind;
    if (kind == SCALE_NONE)
        return strict_only(&object, "kind");
    TRY(strict_only(&object, kind == SCALE_STATIC ? "kind scale" : "kind initial_scale window hysteresis min_scale"));
    if (kind == SCALE_DYNAMIC)
        return read_dynamic(&object, c, &c->loss_scale);
    TRY(strict_real(&object, "scale", &c->loss_scale.scale));
    if (!c->expects_refusal && !(c->loss_scale.scale > 0))
        return strict_fail(&object, "scale", "is %g, expected a positive number", c->loss_scale.scale);
    return ERR_NONE;
}

static int read_checkpoint(const struct strict_object *root, struct check_case *c)
{
    static const char *const phases[] = {"save", "resume", NULL};
    struct strict_object object;
    int phase = 0;
    if (json_is_null(json_object_get(root->value, "checkpoint")))
        return ERR_NONE;
    TRY(strict_object_of(root, "checkpoint", &object));
    TRY(strict_only(&object, "phase step weights_only"));
    TRY(strict_word(&object, "phase", phases, &phase));
    c->phase = phase == 0 ? PHASE_SAVE : PHASE_RESUME;
    if (c->steps < 2)
        return strict_fail(root, "checkpoint", "is given in a case of one step, which has none after it");
    TRY(strict_int(&object, "step", 1, c->steps - 1, &c->checkpoint_step));
    return strict_bool(&object, "weights_only", &c->weights_only);
}

static int read_hints(const struct strict_object *root, struct check_case *c)
{
    struct strict_object object;
    int optimizer = 0, param = 0;
    TRY(strict_object_of(root, "buckets", &object));
    TRY(strict_only(&object, "reduce allgather prefetch sub_group"));
    TRY(strict_size(&object, "reduce", ELEMENTS_MAX, &c->reduce_bucket));
    TRY(strict_size(&object, "allgather", ELEMENTS_MAX, &c->allgather_bucket));
    TRY(strict_size(&object, "prefetch", ELEMENTS_MAX, &c->prefetch_bucket));
    TRY(strict_size(&object, "sub_group", ELEMENTS_MAX, &c->sub_group));
    TRY(strict_object_of(root, "hints", &object));
    TRY(strict_only(&object, "overlap contiguous_gradients reduce_scatter"));
    TRY(strict_bool(&object, "overlap", &c->overlap));
    TRY(strict_bool(&object, "contiguous_gradients", &c->contiguous_gradients));
    TRY(strict_bool(&object, "reduce_scatter", &c->reduce_scatter));
    TRY(strict_object_of(root, "offload", &object));
    TRY(strict_only(&object, "optimizer param"));
    TRY(strict_word(&object, "optimizer", tiers, &optimizer));
    TRY(strict_word(&object, "param", tiers, &param));
    c->offload_optimizer = (enum ledger_tier)optimizer;
    c->offload_param = (enum ledger_tier)param;
    return ERR_NONE;
}

static int read_requirements(const struct strict_object *root, struct check_case *c)
{
    const json_t *array;
    size_t count;
    if (!json_object_get(root->value, "requirements"))
        return ERR_NONE;
    TRY(strict_array(root, "requirements", 0, CASE_REQUIREMENT_MAX, &array, &count));
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(array, i));
        if (!text || strlen(text) >= CASE_REQUIREMENT_BYTES || !case_is_name(text, ""))
            return strict_fail(root, "requirements", "element %zu is not the name of a requirement", i);
        memcpy(c->requirements[i], text, strlen(text) + 1);
    }
    c->requirement_count = (int)count;
    return ERR_NONE;
}

static int read_dtypes(const struct strict_object *root, struct check_case *c)
{
    static const char *const gathers[] = {"e4m3", NULL};
    int precision = 0, communication = 0, accumulation = 0, gather;
    TRY(strict_word(root, "precision", dtypes, &precision));
    TRY(strict_word(root, "communication_dtype", dtypes, &communication));
    TRY(strict_word(root, "accumulation_dtype", dtypes, &accumulation));
    c->precision = (enum dtype)precision;
    c->communication_dtype = (enum dtype)communication;
    c->accumulation_dtype = (enum dtype)accumulation;
    const json_t *gathered = json_object_get(root->value, "gather_dtype"), *mesh = json_object_get(root->value, "mesh");
    if (!gathered || json_is_null(gathered))
        return ERR_NONE;
    TRY(strict_word(root, "gather_dtype", gathers, &gather));
    c->gathers_e4m3 = true;
    if (c->stage != 3 || c->precision != DTYPE_FP32 || (mesh && !json_is_null(mesh)))
        return strict_fail(root, "gather_dtype",
                           "is given in a case of stage %d and %s, expected stage 3, fp32 and no mesh", c->stage,
                           dtype_name(c->precision));
    return ERR_NONE;
}

static int read_identity(const struct strict_object *root, struct check_case *c)
{
    static const char *const expectations[] = {"answer", "refusal", NULL};
    int expectation = c->expects_refusal;
    if (json_object_get(root->value, "expect"))
        TRY(strict_word(root, "expect", expectations, &expectation));
    c->expects_refusal = expectation == 1;
    TRY(case_read_name(root, "name", "~", c->name));
    return strict_string(root, "note", c->note, CASE_NOTE_BYTES);
}

static int read_case(const struct strict_object *root, struct check_case *c)
{
    int contract = 0;
    TRY(strict_int(root, "contract", CASE_CONTRACT, CASE_CONTRACT, &contract));
    TRY(strict_only(root, "contract name note ?requirements world ?mesh ?tokens steps accumulation stage precision "
                          "communication_dtype accumulation_dtype ?gather_dtype params groups gradient_clipping "
                          "loss_scale overflow_check buckets hints offload delayed_update checkpoint ?exact ?expect"));
    TRY(read_identity(root, c));
    TRY(read_requirements(root, c));
    TRY(strict_int(root, "world", 1, CASE_WORLD_MAX, &c->world));
    TRY(strict_int(root, "steps", 1, CASE_STEP_MAX, &c->steps));
    TRY(strict_int(root, "accumulation", 1, CASE_ACCUMULATION_MAX, &c->accumulation));
    TRY(strict_int(root, "stage", 0, 3, &c->stage));
    TRY(read_dtypes(root, c));
    TRY(case_read_mesh(root, c));
    TRY(case_read_tokens(root, c));
    TRY(case_read_groups(root, c));
    TRY(case_read_params(root, c));
    TRY(case_check_placements(root, c));
    TRY(strict_real(root, "gradient_clipping", &c->gradient_clipping));
    if (!c->expects_refusal && !(c->gradient_clipping >= 0))
        return strict_fail(root, "gradient_clipping", "is %g, expected at least 0", c->gradient_clipping);
    TRY(read_loss_scale(root, c));
    TRY(strict_bool(root, "overflow_check", &c->overflow_check));
    TRY(read_hints(root, c));
    TRY(strict_int(root, "delayed_update", 0, c->steps, &c->delayed_update));
    TRY(read_checkpoint(root, c));
    return json_object_get(root->value, "exact") ? strict_bool(root, "exact", &c->exact) : ERR_NONE;
}

// Without `expect`, a case is to be refused if and only if its values make no sense.
static int read_unsaid(const struct strict_object *root, void *context)
{
    struct check_case *c = context;
    int rc = read_case(root, c);
    if (rc != ERR_USAGE || json_object_get(root->value, "expect"))
        return rc;
    struct check_case *lenient = calloc(1, sizeof *lenient);
    if (!lenient)
        return err_set(ERR_MEMORY, "no memory for a case");
    char why[512];
    snprintf(why, sizeof why, "%s", err_message());
    lenient->expects_refusal = true;
    rc = read_case(root, lenient) == ERR_NONE ? ERR_NONE : err_set(ERR_USAGE, "%s", why);
    if (rc == ERR_NONE)
        *c = *lenient;
    free(lenient);
    return rc;
}

int case_parse(const char *file, const char *text, size_t bytes, struct check_case *out)
{
    *out = (struct check_case){0};
    return strict_parse(file, text, bytes, read_unsaid, out);
}

int case_read(const char *folder, struct check_case *out)
{
    char path[PATH_MAX], *text = NULL;
    size_t bytes = 0;
    TRY(file_join(folder, "case.json", path));
    TRY(json_read(path, &text, &bytes));
    int rc = case_parse(path, text, bytes, out);
    free(text);
    return rc;
}
