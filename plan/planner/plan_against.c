// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_against.h"

#include "plan/planner/calibration.h"
#include "base/err.h"
#include "base/safe_text.h"
#include "plan/planner/plan.h"
#include "plan/planner/plan_model.h"
#include "results/record/record_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *word(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

// The machine that the file's records measured.
static int measured_machine(const struct result_file *file, struct plan_machine *out)
{
    json_t *machine;
    const char *missing;
    TRY(calibration_make(file->lines, file->line_count, &machine, &missing));
    if (!machine)
        return err_set(ERR_USAGE, "%s: has no measurement of %s; files of `zerogauge validate` have", file->path,
                       missing);
    char *text = json_dumps(machine, 0);
    json_decref(machine);
    int code = text ? plan_machine_parse("this machine", text, strlen(text), out)
                    : err_set(ERR_MEMORY, "no memory for a machine");
    free(text);
    return code;
}

// Plans the step that a record's case describes, s. The serial schedule takes the sum over all lanes.
static int plan_case(const json_t *of_case, const struct plan_machine *machine, double *out)
{
    // Keys of a record and of the configuration; earlier records have the preset's values.
    static const char *const keys[][2] = {
        {"sequences_a_rank", "train_micro_batch_size_per_gpu"},
        {"bucket_elements", "zero_optimization.reduce_bucket_size"},
        {"bucket_elements", "zero_optimization.allgather_bucket_size"},
        {"prefetched_elements", "zero_optimization.stage3_prefetch_bucket_size"},
        {"optimizer_buffers", "zero_optimization.offload_optimizer.buffer_count"},
    };
    enum { KEY_COUNT = sizeof keys / sizeof keys[0] };
    char texts[KEY_COUNT][96];
    const char *set[KEY_COUNT];
    size_t set_count = 0;
    for (int i = 0; i < KEY_COUNT; i++) {
        const json_t *value = json_object_get(of_case, keys[i][0]);
        if (!value)
            continue;
        snprintf(texts[i], sizeof texts[i], "%s=%" JSON_INTEGER_FORMAT, keys[i][1], json_integer_value(value));
        set[set_count++] = texts[i];
    }
    static const char *const folder[] = {"."};
    struct config config;
    struct plan plan;
    struct plan_setting setting = {
        .config = &config, .machine = machine, .world = (int)json_integer_value(json_object_get(of_case, "world"))};
    const struct config_options options = {
        .world = setting.world, .set = set, .set_count = set_count, .nvme_paths = folder, .nvme_path_count = 1};
    TRY(config_load_preset(word(of_case, "preset"), &options, &config, NULL));
    TRY(plan_model_find(word(of_case, "model"), config.tiling_factor, &setting.model));
    TRY(plan_run(&setting, &plan));
    *out = plan.step_s;
    if (strcmp(word(of_case, "schedule"), "serial") == 0) {
        *out = 0;
        for (int lane = 0; lane < LANE_COUNT; lane++)
            *out += plan.busy_s[lane];
    }
    return ERR_NONE;
}

// True for a step at this machine's own rates: without throttled lanes, with communication.
static bool is_step(const json_t *record)
{
    const json_t *of_case = json_object_get(record, "case");
    return strcmp(word(record, "record"), "bench") == 0 && strcmp(word(record, "name"), "step") == 0 &&
           strcmp(word(record, "unit"), "ms_per_step") == 0 && !json_object_get(of_case, "emulated") &&
           !json_object_get(of_case, "emulate") && !strstr(word(of_case, "what"), "no communication");
}

static int print_steps(const struct result_file *file, const struct plan_machine *machine, bool json, FILE *out)
{
    char what[TEXT_MESSAGE_BYTES];
    double largest = 0;
    int count = 0;
    for (size_t i = 0; i < file->line_count; i++) {
        const json_t *record = file->lines[i], *of_case = json_object_get(record, "case");
        double planned_s, measured_s = json_number_value(json_object_get(record, "median")) * 1e-3;
        if (!is_step(record))
            continue;
        TRY(plan_case(of_case, machine, &planned_s));
        double difference = planned_s / measured_s - 1;
        largest = fabs(difference) > fabs(largest) ? difference : largest;
        if (count++ == 0 && !json)
            fprintf(out, "%-32s %-16s %12s %12s %8s\n", "step", "preset", "measured", "planned", "");
        if (json)
            fprintf(out,
                    "{\"record\":\"against\",\"line\":%zu,\"measured_s\":%.9g,\"planned_s\":%.9g,"
                    "\"difference\":%.6g}\n",
                    i + 1, measured_s, planned_s, difference);
        else
            fprintf(out, "%-32.32s %-16s %9.1f ms %9.1f ms %+6.1f %%\n", text_message(what, word(of_case, "what"), 29),
                    word(of_case, "preset"), 1e3 * measured_s, 1e3 * planned_s, 100 * difference);
    }
    if (count == 0)
        return err_set(ERR_USAGE, "%s: has no measured steps", file->path);
    if (!json)
        fprintf(out, "largest difference of %d steps: %+.1f %%\n", count, 100 * largest);
    return ERR_NONE;
}

int plan_against(const char *path, bool json, FILE *out)
{
    struct result_file file;
    struct plan_machine machine;
    TRY(result_open(path, &file));
    int code = measured_machine(&file, &machine);
    if (code == ERR_NONE)
        code = print_steps(&file, &machine, json, out);
    result_close(&file);
    return code;
}
