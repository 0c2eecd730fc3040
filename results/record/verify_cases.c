// SPDX-License-Identifier: Apache-2.0
// Verifies that no `bench` record of a whole run is left out, by whole_run.json, which is compiled in: the cases of
// each part that succeeded.
#include "results/record/verify_internal.h"

#include "results/limits/accepted_range.h"
#include "results/record/record_rule.h"
#include "results/record/record_verify.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static json_t *whole;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    whole = json_loads(record_whole_run_text, 0, NULL);
}

static bool has_case(const json_t *record, const json_t *asked)
{
    const char *key;
    json_t *value, *of_case = json_object_get(record, "case");
    json_object_foreach ((json_t *)(uintptr_t)asked, key, value)
        if (!json_equal(value, json_object_get(of_case, key)))
            return false;
    return true;
}

// A skipped case answers for all that differ from it only in settings that it does not name.
static bool is_skipped_by(const json_t *skip, const json_t *asked)
{
    const char *key;
    json_t *value;
    json_object_foreach (json_object_get(skip, "case"), key, value)
        if (json_object_get(asked, key) && !json_equal(value, json_object_get(asked, key)))
            return false;
    return true;
}

// v->found are the lines of the `bench` records of a name and a device, until the next search.
struct search {
    struct verify *v;
    const json_t *row;
    const char *name;
    size_t count, next;  // next: the one that is looked at first, as a run has the cases in the order of the rows
};

static struct search search_for(struct verify *v, const json_t *row, const char *name, const char *device)
{
    struct search s = {v, row, name, 0, 0};
    for (size_t i = 0; i < v->bench_count; i++) {
        const json_t *record = verify_record(v, v->benches[i]);
        if (strcmp(verify_text(record, "name"), name) != 0)
            continue;
        const char *on = verify_text(json_object_get(record, "case"), "device");
        if (strcmp(on ? on : "cpu", device) == 0)
            v->found[s.count++] = v->benches[i];
    }
    return s;
}

static bool has_record(struct search *s, const json_t *asked)
{
    const struct verify *v = s->v;
    for (size_t i = 0; i < s->count; i++, s->next++)
        if (has_case(verify_record(v, v->found[s->next % s->count]), asked))
            return true;
    for (size_t line = 1; line <= v->file->line_count; line++)
        if (verify_is(verify_record(v, line), "skip") &&
            strcmp(verify_text(verify_record(v, line), "name"), s->name) == 0 &&
            is_skipped_by(verify_record(v, line), asked))
            return true;
    return false;
}

// The largest value of a setting in the records of a row.
static json_int_t most_of(const struct search *s, const char *key)
{
    json_int_t most = 0;
    for (size_t i = 0; i < s->count; i++) {
        const json_t *record = verify_record(s->v, s->v->found[i]);
        json_int_t value = json_integer_value(json_object_get(json_object_get(record, "case"), key));
        most = value > most ? value : most;
    }
    return most;
}

// "every", "most" and "ends" as lists of numbers; a list as it is. New.
static json_t *values_of(const struct search *s, const char *key, json_t *values)
{
    enum { MOST = 1 << 16 };
    if (json_is_array(values))
        return json_incref(values);
    const char *which = json_string_value(values);
    bool is_rank = strcmp(key, "rank") == 0, every = strcmp(which, "every") == 0;
    json_int_t most = most_of(s, is_rank ? "world" : key);
    json_t *list = json_array();
    for (json_int_t i = is_rank ? 0 : 1; every && i < most && i < MOST; i = is_rank ? i + 1 : 2 * i)
        json_array_append_new(list, json_integer(i));
    if (strcmp(which, "ends") == 0 && most > 1)
        json_array_append_new(list, json_integer(1));
    if (!is_rank)
        json_array_append_new(list, json_integer(most));
    return list;
}

// Goes through the choices of a row's values, one key after the other.
static void verify_choices(struct search *s, void *key, json_t *asked)
{
    json_t *of_case = json_object_get(s->row, "case"), *value;
    size_t i;
    if (!key) {
        char *text = has_record(s, asked) ? NULL : json_dumps(asked, JSON_COMPACT);
        if (text)
            verify_refuse(s->v, s->v->file->line_count, "record",
                          "has no `bench` record of %s with %s, as a whole run does", s->name, text);
        free(text);
        return;
    }
    json_t *values = values_of(s, json_object_iter_key(key), json_object_iter_value(key));
    json_array_foreach (values, i, value) {
        json_object_set(asked, json_object_iter_key(key), value);
        verify_choices(s, json_object_iter_next(of_case, key), asked);
    }
    json_decref(values);
}

static bool is_measured(const struct search *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (has_case(verify_record(s->v, s->v->found[i]), json_object_get(s->row, "where")))
            return true;
    return false;
}

static bool is_of_machine(const json_t *file_run, const json_t *row)
{
    const char *key;
    json_t *values, *value;
    size_t i;
    bool is = true;
    json_object_foreach (json_object_get(row, "machine"), key, values) {
        bool found = false;
        json_array_foreach (values, i, value)
            found |= json_equal(value, json_object_get(json_object_get(file_run, "machine"), key));
        is &= found;
    }
    return is;
}

// Of the level and the version of the suite of this run.
static bool is_of_run(const json_t *run, const json_t *row)
{
    const char *level = verify_text(row, "level"), *of_run = verify_text(run, "level");
    json_int_t version = json_integer_value(json_object_get(json_object_get(run, "suite"), "edition"));
    level = level ? level : "full";
    return of_run && (strcmp(level, "any") == 0 || strcmp(level, of_run) == 0) &&
           version >= json_integer_value(json_object_get(row, "since")) && is_of_machine(run, row);
}

// A row is of one device: the first of its case's, or the processor.
static void verify_rows(struct verify *v, const char *of, const char *device)
{
    size_t i;
    const json_t *row;
    json_array_foreach (json_object_get(whole, "rows"), i, row) {
        json_t *of_case = json_object_get(row, "case");
        const char *name = verify_text(row, "name");
        const char *of_row = json_string_value(json_array_get(json_object_get(of_case, "device"), 0));
        if (strcmp(verify_text(row, "of"), of) != 0 || strcmp(of_row ? of_row : "cpu", device) != 0 ||
            !is_of_run(v->file->run, row))
            continue;
        struct search s = search_for(v, row, name ? name : of, device);
        if (json_object_get(row, "where") && !is_measured(&s))
            continue;
        json_t *asked = json_object();
        verify_choices(&s, json_object_iter(of_case), asked);
        json_decref(asked);
    }
}

// A benchmark prints the rate of each step that it times.
static void verify_step_pairs(struct verify *v)
{
    static const char *const names[] = {"step", "step_flops"};
    for (size_t i = 0; i < v->bench_count; i++) {
        const json_t *record = verify_record(v, v->benches[i]), *of_case = json_object_get(record, "case");
        const char *device = verify_text(of_case, "device");
        for (int k = 0; k < 2; k++) {
            if (strcmp(verify_text(record, "name"), names[k]) != 0)
                continue;
            struct search s = search_for(v, NULL, names[1 - k], device ? device : "cpu");
            if (!has_record(&s, of_case))
                verify_refuse(v, v->benches[i], "name", "is %s, without the `bench` record of %s of that case",
                              names[k], names[1 - k]);
        }
    }
}

static void verify_part_rows(struct verify *v, const json_t *part)
{
    char of[BENCH_FINDING_ID_BYTES];
    const char *name = verify_text(part, "name"), *dash;
    if (!verify_is(part, "part") || strncmp(name, "bench-", 6) != 0 ||
        !json_is_integer(json_object_get(part, "status")) || json_integer_value(json_object_get(part, "status")) != 0)
        return;
    dash = strchr(name + 6, '-');
    snprintf(of, sizeof of, "%.*s", (int)(dash ? dash - name - 6 : 32), name + 6);
    verify_rows(v, of, dash ? dash + 1 : part_is_of_device(name) ? "cuda" : "cpu");
}

bool record_chooses_cases(const struct result_file *file)
{
    static const char *const others[] = {"--json",   "--quick", "-q",    "--device", "--out",    "--nvme-path",
                                         "--engine", "--text",  "--pin", "--repeat", "--warmup", "--where"};
    const json_t *command = json_object_get(file->run, "command"), *word;
    size_t i, k;
    bool chooses = false;
    json_array_foreach (command, i, word) {
        const char *text = json_string_value(word);
        size_t length = strcspn(text, "=");
        for (k = 0; k < sizeof others / sizeof others[0]; k++)
            if (strlen(others[k]) == length && strncmp(others[k], text, length) == 0)
                break;
        chooses |= *text == '-' && k == sizeof others / sizeof others[0];
    }
    return chooses;
}

// The device of `bench NAME --device cuda`; pcie has no other.
static const char *device_of(const json_t *command, const char *of)
{
    size_t i;
    const json_t *word;
    json_array_foreach (command, i, word) {
        const char *text = json_string_value(word), *next = json_string_value(json_array_get(command, i + 1));
        if (strncmp(text, "--device=", 9) == 0)
            return text + 9;
        if (strcmp(text, "--device") == 0 && next)
            return next;
    }
    return strcmp(of, "pcie") == 0 ? "cuda" : "cpu";
}

void verify_cases(struct verify *v)
{
    const json_t *command = json_object_get(v->file->run, "command");
    const char *of = json_string_value(json_array_get(command, 2)), *program = verify_text(v->file->run, "program");
    pthread_once(&once, load);
    bool of_validate = strcmp(program, "validate") == 0;
    if (of_validate || (of && strcmp(of, "step") == 0))
        verify_step_pairs(v);
    if (strcmp(program, "bench") == 0 && of && !record_chooses_cases(v->file))
        verify_rows(v, of, device_of(command, of));
    for (size_t line = 1; of_validate && line <= v->file->line_count; line++)
        verify_part_rows(v, verify_record(v, line));
}
