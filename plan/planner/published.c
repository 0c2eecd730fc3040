// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/published.h"

#include "base/err.h"
#include "base/statistics.h"
#include "base/strict_json.h"
#include "plan/planner/plan_degrees.h"
#include "plan/planner/plan_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { ROW_MAX = 1024, SET_MAX = 32, WORLD_MAX = 100000, KEY_BYTES = 128 };

// The changes that describe a run: those of its file, of its row, and its batch.
struct changes {
    const char *list[2 * SET_MAX + 8];
    size_t count;
    char own[5][KEY_BYTES];
};

struct walk {
    const struct plan_text *texts;  // null: a file of the user's
    published_visit *visit;
    void *context;
    size_t source_count;
    const char *name;  // of the file that is read, and its root
    const struct strict_object *source;
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

// The mesh, with the degrees of plans alone.
static int add_degrees(const struct strict_object *row, struct changes *c, struct framework_choice *out)
{
    char given[KEY_BYTES], mesh[MESH_TEXT_BYTES];
    if (json_object_get(row->value, "interleave"))
        TRY(strict_int(row, "interleave", 1, 1000, &out->interleave));
    if (!json_object_get(row->value, "mesh"))
        return ERR_NONE;
    TRY(strict_string(row, "mesh", given, sizeof given));
    TRY(plan_mesh_read(given, mesh, out));
    snprintf(c->own[4], KEY_BYTES, "zerogauge.mesh=%s", mesh);
    c->list[c->count] = c->own[4];
    c->count += mesh[0] != '\0';
    return ERR_NONE;
}

// The words of a row's framework, and the measure of its memory.
static int read_choice(const struct strict_object *row, struct framework_choice *out)
{
    static const char *const keys[] = {"framework", "logits", "weights", "moments", "products"};
    char texts[5][32];
    const char *words[5] = {NULL};
    for (size_t i = 0; i < 5; i++)
        if (json_object_get(row->value, keys[i])) {
            TRY(strict_string(row, keys[i], texts[i], sizeof texts[i]));
            words[i] = texts[i];
        }
    TRY(strict_real(row, "checkpointed", &out->checkpointed_share));
    return framework_choose(&(struct framework_words){words[0], words[1], words[2], words[3], words[4]}, out);
}

const char *published_memory_name(enum published_memory memory)
{
    static const char *const names[] = {"", "allocated", "reserved", "device", "fitted", "failed"};
    return names[memory];
}

static int read_memory(const struct strict_object *row, struct published_row *out)
{
    char text[32] = "";
    if (!json_object_get(row->value, "memory"))
        return ERR_NONE;
    TRY(strict_string(row, "memory", text, sizeof text));
    for (int i = MEMORY_ALLOCATED; i <= MEMORY_FAILED; i++)
        if (strcmp(text, published_memory_name((enum published_memory)i)) == 0)
            out->memory = (enum published_memory)i;
    if (out->memory == MEMORY_UNKNOWN)
        return strict_fail(row, "memory", "is \"%s\", expected allocated, reserved, device, fitted or failed", text);
    if (out->memory >= MEMORY_FITTED)
        return ERR_NONE;
    TRY(strict_real(row, "peak_gib", &out->peak_gib));
    return out->peak_gib > 0 ? ERR_NONE : strict_fail(row, "peak_gib", "is %g, expected more than 0", out->peak_gib);
}

static int read_machine(const struct strict_object *row, struct plan_machine *out)
{
    char name[256];
    double gib;
    TRY(strict_string(row, "machine", name, sizeof name));
    TRY(plan_machine_find(name, out));
    if (!json_object_get(row->value, "device_gib"))
        return ERR_NONE;
    TRY(strict_real(row, "device_gib", &gib));
    plan_machine_set(out, MACHINE_DEVICE_MEMORY_BYTES, gib * (1 << 30), "the row's device_gib");
    return ERR_NONE;
}

static int plan_row(const struct strict_object *source, const struct strict_object *row, struct published_row *out)
{
    char model[256];
    struct changes changes = {0};
    struct config config;
    struct plan_machine machine;
    struct plan_model_variant variant = {0};
    struct plan_setting setting = {.config = &config, .machine = &machine};
    TRY(strict_string(row, "model", model, sizeof model));
    TRY(strict_int(row, "world", 1, WORLD_MAX, &setting.world));
    TRY(strict_size(row, "sequence_length", 1 << 20, &variant.sequence_length));
    if (json_object_get(row->value, "lora"))
        TRY(strict_size(row, "lora", 65536, &variant.lora_rank));
    TRY(read_choice(row, &setting.choice));
    TRY(add_list(source, &changes));
    TRY(add_list(row, &changes));
    TRY(add_degrees(row, &changes, &setting.choice));
    TRY(add_own(row, setting.choice.checkpointed_share, &changes));
    const struct config_options options = {.world = setting.world,
                                           .plans = true,
                                           .sequence_ranks = setting.choice.context,
                                           .set = changes.list,
                                           .set_count = changes.count,
                                           .nvme_paths = (const char *const[]){"."},
                                           .nvme_path_count = 1};
    TRY(config_load_preset("zero3", &options, &config, NULL));
    config.offload_param.buffer_size = SIZE_MAX;
    variant.tensor = config.mesh.tensor > 1 ? (size_t)config.mesh.tensor : 0;
    variant.sequence_parallel = config.sequence_parallel;
    variant.context = (size_t)setting.choice.context;
    variant.whole_experts = setting.choice.whole_experts;
    TRY(read_machine(row, &machine));
    TRY(plan_model_find_variant(model, &variant, &setting.model));
    out->world = setting.world;
    return plan_run(&setting, &out->plan);
}

static bool is_held_out(const struct strict_object *source, const char *name)
{
    return !json_is_true(json_object_get(source->value, "fitted")) && XXH64(name, strlen(name), 0) % 2 == 1;
}

static int visit_row(const struct strict_object *row, size_t i, void *context)
{
    const struct walk *walk = context;
    bool held_out = walk->texts && is_held_out(walk->source, walk->name);
    struct published_row out = {.source = walk->name, .held_out = held_out};
    (void)i;
    TRY(strict_only(row, "row model machine world sequence_length micro_batch accumulation stage checkpointed "
                         "?device_gib ?set ?mesh ?interleave ?lora ?framework ?logits ?weights ?moments ?products "
                         "?beyond ?peak_gib ?memory ?tokens_per_s_per_device"));
    TRY(strict_string(row, "row", out.name, sizeof out.name));
    TRY(read_memory(row, &out));
    if (out.memory == MEMORY_UNKNOWN)
        TRY(strict_real(row, "tokens_per_s_per_device", &out.tokens_per_s));
    if (json_object_get(row->value, "beyond"))
        TRY(strict_string(row, "beyond", out.beyond, sizeof out.beyond));
    if (!*out.beyond) {
        int rc = plan_row(walk->source, row, &out);
        if (rc != ERR_NONE)
            return err_prefix(rc, "%s", out.name);
    }
    return walk->visit(&out, walk->context);
}

static int visit_rows(const struct strict_object *root, void *context)
{
    struct walk *walk = context;
    size_t count;
    walk->source = root;
    TRY(strict_only(root, "source set rows ?fitted"));
    return strict_each(root, "rows", 1, ROW_MAX, visit_row, walk, &count);
}

static int visit_file(const char *name, const char *text, size_t bytes, struct walk *walk)
{
    walk->name = name;
    walk->source_count++;
    return strict_parse(name, text, bytes, visit_rows, walk);
}

bool published_is_own(const char *name)
{
    return name && strstr(name, ".json");
}

int published_each(const struct plan_text *texts, const char *name, published_visit *visit, void *context)
{
    struct walk walk = {.texts = texts, .visit = visit, .context = context};
    if (published_is_own(name)) {
        char *text;
        size_t bytes;
        walk.texts = NULL;
        TRY(json_read(name, &text, &bytes));
        int rc = visit_file(name, text, bytes, &walk);
        free(text);
        return rc;
    }
    for (const struct plan_text *file = texts; file->name; file++)
        if (!name || strncmp(file->name, name, strlen(name)) == 0)
            TRY(visit_file(file->name, file->text, file->bytes, &walk));
    return walk.source_count > 0
               ? ERR_NONE
               : err_set(ERR_USAGE, "no source of published runs is called '%.64s'; see datasets/README.md", name);
}

void published_note(struct published_errors *errors, double predicted, double published)
{
    if (errors->count < PUBLISHED_MAX)
        errors->list[errors->count++] = fabs(predicted / published - 1);
}

void published_print_errors(struct published_errors *errors, const char *name, FILE *out)
{
    size_t within = 0;
    if (errors->count == 0)
        return;
    statistics_sort(errors->list, errors->count);
    while (within < errors->count && errors->list[within] <= 0.25)
        within++;
    fprintf(out, "%s: %zu runs, median error %.1f %%, %.1f %% within 25 %%, largest %.1f %%\n", name, errors->count,
            100 * errors->list[errors->count / 2], 100 * (double)within / (double)errors->count,
            100 * errors->list[errors->count - 1]);
}
