// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/throughput.h"

#include "base/err.h"
#include "base/size.h"
#include "base/strict_json.h"
#include "plan/planner/plan.h"
#include "plan/planner/plan_model.h"
#include "plan/planner/plan_print.h"
#include "plan/planner/plan_texts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { ROW_MAX = 1024, SET_MAX = 32, WORLD_MAX = 100000, KEY_BYTES = 96 };

// The changes that describe a run: those of its file, of its row, and its batch.
struct changes {
    const char *list[2 * SET_MAX + 8];
    size_t count;
    char own[4][KEY_BYTES];
};

struct walk {
    const char *name;
    throughput_visit *visit;
    void *context;
    size_t file_count;
};

static int add_list(const struct strict_object *object, struct changes *c)
{
    const json_t *array;
    size_t count;
    if (!json_object_get(object->value, "set"))
        return ERR_NONE;
    TRY(strict_array(object, "set", 0, SET_MAX, &array, &count));
    for (size_t i = 0; i < count; i++)
        if (!(c->list[c->count++] = json_string_value(json_array_get(array, i))))
            return strict_fail(object, "set", "element %zu is not a string such as \"bf16.enabled=true\"", i);
    return ERR_NONE;
}

static int add_own(const struct strict_object *row, double share, struct changes *c)
{
    static const struct {
        const char *key, *path;
    } sizes[] = {{"stage", "zero_optimization.stage"},
                 {"micro_batch", "train_micro_batch_size_per_gpu"},
                 {"accumulation", "gradient_accumulation_steps"}};
    size_t value;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        TRY(strict_size(row, sizes[i].key, 1 << 20, &value));
        snprintf(c->own[i], KEY_BYTES, "%s=%zu", sizes[i].path, value);
        c->list[c->count++] = c->own[i];
    }
    snprintf(c->own[3], KEY_BYTES, "zerogauge.activation_checkpointing.enabled=%s", share > 0 ? "true" : "false");
    c->list[c->count++] = c->own[3];
    return ERR_NONE;
}

static int plan_row(const struct strict_object *file, const struct strict_object *row, struct throughput_row *out)
{
    char model[256], name[256];
    size_t sequence_length;
    struct changes changes = {0};
    struct config config;
    struct plan_machine machine;
    struct plan_setting setting = {.config = &config, .machine = &machine};
    TRY(strict_string(row, "model", model, sizeof model));
    TRY(strict_string(row, "machine", name, sizeof name));
    TRY(strict_int(row, "world", 1, WORLD_MAX, &setting.world));
    TRY(strict_size(row, "sequence_length", 1 << 20, &sequence_length));
    TRY(strict_real(row, "checkpointed", &setting.checkpointed_share));
    if (json_object_get(row->value, "logit_bytes"))
        TRY(strict_size(row, "logit_bytes", 64, &setting.logit_bytes));
    TRY(add_list(file, &changes));
    TRY(add_list(row, &changes));
    TRY(add_own(row, setting.checkpointed_share, &changes));
    const struct config_options options = {.world = setting.world,
                                           .set = changes.list,
                                           .set_count = changes.count,
                                           .nvme_paths = (const char *const[]){"."},
                                           .nvme_path_count = 1};
    TRY(config_load_preset("zero3", &options, &config, NULL));
    config.offload_param.buffer_size = SIZE_MAX;
    TRY(plan_machine_find(name, &machine));
    TRY(plan_model_find_variant(model, &(struct plan_model_variant){.sequence_length = sequence_length},
                                &setting.model));
    struct plan plan;
    TRY(plan_run(&setting, &plan));
    out->predicted = (double)plan.tokens / plan.step_s / setting.world;
    out->fits = plan.fits_all;
    out->needed_bytes = plan.needed_bytes[TIER_DEVICE];
    return ERR_NONE;
}

static int visit_row(const struct strict_object *file, const struct strict_object *row, const char *name,
                     const struct walk *walk)
{
    static const char *const keys[] = {"row",
                                       "model",
                                       "machine",
                                       "world",
                                       "sequence_length",
                                       "micro_batch",
                                       "accumulation",
                                       "checkpointed",
                                       "stage",
                                       "?set",
                                       "?logit_bytes",
                                       "?beyond",
                                       "tokens_per_s_per_device",
                                       NULL};
    struct throughput_row out = {.file = name};
    TRY(strict_keys(row, keys));
    TRY(strict_string(row, "row", out.name, sizeof out.name));
    TRY(strict_real(row, "tokens_per_s_per_device", &out.published));
    out.held_out = XXH64(out.name, strlen(out.name), 0) % 2 == 1;
    if (json_object_get(row->value, "beyond"))
        TRY(strict_string(row, "beyond", out.beyond, sizeof out.beyond));
    if (!*out.beyond) {
        int rc = plan_row(file, row, &out);
        if (rc != ERR_NONE)
            return err_prefix(rc, "%s", out.name);
    }
    return walk->visit(&out, walk->context);
}

static int visit_file(const char *name, const char *text, size_t bytes, struct walk *walk)
{
    static const char *const keys[] = {"source", "set", "rows", NULL};
    struct json_text json;
    const json_t *rows;
    size_t count = 0;
    TRY(json_text_parse(name, text, bytes, &json));
    const struct strict_object file = strict_root(&json);
    int rc = strict_keys(&file, keys);
    if (rc == ERR_NONE)
        rc = strict_array(&file, "rows", 1, ROW_MAX, &rows, &count);
    for (size_t i = 0; rc == ERR_NONE && i < count; i++) {
        struct strict_object row;
        rc = strict_element(&file, "rows", rows, i, &row);
        if (rc == ERR_NONE)
            rc = visit_row(&file, &row, name, walk);
    }
    json_text_close(&json);
    walk->file_count++;
    return rc;
}

int throughput_each(const char *name, throughput_visit *visit, void *context)
{
    struct walk walk = {name, visit, context, 0};
    if (name && strstr(name, ".json")) {
        char *text;
        size_t bytes;
        TRY(json_read(name, &text, &bytes));
        int rc = visit_file(name, text, bytes, &walk);
        free(text);
        return rc;
    }
    for (const struct plan_text *file = plan_throughput_texts; file->name; file++)
        if (!name || strncmp(file->name, name, strlen(name)) == 0)
            TRY(visit_file(file->name, file->text, file->bytes, &walk));
    return walk.file_count > 0
               ? ERR_NONE
               : err_set(ERR_USAGE, "no source of published runs is called '%.64s'; datasets/throughput.json", name);
}

enum { HALF_MAX = 2048 };

// The relative errors of a half of the rows.
struct half {
    double errors[HALF_MAX];
    size_t count;
};

struct printing {
    FILE *out;
    bool json;
    const char *file;       // printed last
    struct half halves[2];  // fitted, held out
    size_t row_count, beyond_count, too_large_count;
};

static void print_row(struct printing *p, const struct throughput_row *row)
{
    char text[SIZE_TEXT_BYTES];
    if (p->file != row->file)
        fprintf(p->out, "%s%s\n  %-60s %10s %10s %8s %10s\n", p->file ? "\n" : "", row->file, "tokens/s of a device",
                "published", "predicted", "", "device");
    p->file = row->file;
    if (*row->beyond)
        fprintf(p->out, "  %-60s %10.1f %10s  not planned: %s\n", row->name, row->published, "-", row->beyond);
    else
        fprintf(p->out, "  %-60s %10.1f %10.1f %+6.1f %% %10s%s%s\n", row->name, row->published, row->predicted,
                100 * (row->predicted / row->published - 1), size_short_text(row->needed_bytes, text),
                row->fits ? "" : "  does not fit", row->held_out ? "  held out" : "");
}

static int print_one(const struct throughput_row *row, void *context)
{
    struct printing *p = context;
    struct half *half = &p->halves[row->held_out];
    p->row_count++;
    p->beyond_count += *row->beyond != 0;
    p->too_large_count += !*row->beyond && !row->fits;
    if (!*row->beyond && half->count < HALF_MAX)
        half->errors[half->count++] = fabs(row->predicted / row->published - 1);
    if (!p->json) {
        print_row(p, row);
        return ERR_NONE;
    }
    return plan_print_record(json_pack("{s:s, s:s, s:s, s:f, s:f, s:b, s:b, s:I, s:s*}", "record", "throughput", "file",
                                       row->file, "row", row->name, "published", row->published, "predicted",
                                       row->predicted, "held_out", row->held_out, "fits", row->fits, "device_bytes",
                                       (json_int_t)row->needed_bytes, "beyond", *row->beyond ? row->beyond : NULL),
                             p->out);
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void print_half(struct half *half, const char *name, FILE *out)
{
    size_t within = 0;
    if (half->count == 0)
        return;
    qsort(half->errors, half->count, sizeof half->errors[0], compare);
    while (within < half->count && half->errors[within] <= 0.25)
        within++;
    fprintf(out, "%s: %zu runs, median error %.1f %%, %.1f %% within 25 %%, largest %.1f %%\n", name, half->count,
            100 * half->errors[half->count / 2], 100 * (double)within / (double)half->count,
            100 * half->errors[half->count - 1]);
}

int throughput_print(const char *name, bool json, FILE *out)
{
    struct printing *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(ERR_MEMORY, "no memory for published runs");
    p->out = out;
    p->json = json;
    int rc = throughput_each(name, print_one, p);
    if (rc == ERR_NONE && !json) {
        fputc('\n', out);
        print_half(&p->halves[0], "fitted", out);
        print_half(&p->halves[1], "held out", out);
        fprintf(out, "%zu published runs: %zu planned, of which %zu do not fit; %zu are beyond what can be planned\n",
                p->row_count, p->row_count - p->beyond_count, p->too_large_count, p->beyond_count);
    }
    free(p);
    return rc;
}
