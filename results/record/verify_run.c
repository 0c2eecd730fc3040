// SPDX-License-Identifier: Apache-2.0
// Verifies that a file of `validate` is of a run that validate makes: its level, its parts and their commands, and the
// number of samples. All of that is in tables of this program; the file is not asked.
#include "results/record/verify_internal.h"

#include "results/limits/accepted_range.h"

#include <string.h>

static bool is_option(const char *word, const char *option)
{
    size_t length = strlen(option);
    return strncmp(word, option, length) == 0 && (word[length] == '\0' || word[length] == '=');
}

static bool has_option(const json_t *command, const char *option)
{
    size_t i;
    const json_t *word;
    json_array_foreach (command, i, word)
        if (is_option(json_string_value(word), option))
            return true;
    return false;
}

static const char *word_at(const json_t *command, size_t index)
{
    const char *word = json_string_value(json_array_get(command, index));
    return word ? word : "";
}

static bool is_quick(const struct verify *v)
{
    return strcmp(verify_text(v->file->run, "level"), "quick") == 0;
}

static void verify_level(struct verify *v)
{
    const json_t *command = json_object_get(v->file->run, "command");
    const char *level = verify_text(v->file->run, "level");
    bool quick = has_option(command, "--quick") || has_option(command, "-q");
    if (strcmp(word_at(command, 1), "validate") != 0)
        verify_refuse(v, 1, "command", "is not of `validate`, which `program` names");
    if (!level || (strcmp(level, "quick") != 0 && strcmp(level, "full") != 0))
        verify_refuse(v, 1, "level", "is %s, expected quick or full", level ? level : "null");
    else if (quick != is_quick(v))
        verify_refuse(v, 1, "level", "is %s, expected %s by the command", level, quick ? "quick" : "full");
}

// The words that validate gives a part, in their order; options that it does not know change what is measured.
static void verify_command(struct verify *v, size_t line, const json_t *part, const struct run_row *row)
{
    const json_t *command = json_object_get(part, "command");
    const char *name = verify_text(part, "name"), *what = row->bench ? "bench" : "check";
    const json_t *word;
    size_t i;
    if (strcmp(word_at(command, 1), what) != 0 || (row->bench && strcmp(word_at(command, 2), row->bench) != 0))
        verify_refuse(v, line, "command", "is %s %s, expected the command of %s", word_at(command, 1),
                      word_at(command, 2), name);
    bool quick = row->bench ? has_option(command, "--quick") : !has_option(command, "--level");
    if (quick != is_quick(v))
        verify_refuse(v, line, "command", "is %s, expected a command of the level %s", quick ? "quick" : "not quick",
                      verify_text(v->file->run, "level"));
    json_array_foreach (command, i, word)
        if (json_string_value(word)[0] == '-' && !run_option_is_known(json_string_value(word), is_quick(v)))
            verify_refuse(v, line, "command", "has %s, which validate gives no part of a %s run",
                          json_string_value(word), verify_text(v->file->run, "level"));
}

// Of rank 0, or of a run without a launcher.
static bool is_of_first_rank(const json_t *part)
{
    return json_integer_value(json_object_get(part, "rank")) == 0;
}

// The parts of the first rank, which must differ in their names. There are at most a few times as many as rows.
enum { PART_MAX = 64 };
struct parts {
    const char *names[PART_MAX];
    size_t count;
};

static void add_part(struct verify *v, size_t line, const json_t *part, struct parts *parts)
{
    const char *name = verify_text(part, "name");
    if (!is_of_first_rank(part))
        return;
    for (size_t i = 0; i < parts->count; i++)
        if (strcmp(parts->names[i], name) == 0) {
            verify_refuse(v, line, "name", "is %s, of which there is another one", name);
            return;
        }
    if (parts->count < PART_MAX)
        parts->names[parts->count++] = name;
    else
        verify_refuse(v, line, "name", "is %s, expected at most %d parts", name, PART_MAX);
}

static bool has_row(const struct parts *parts, const struct run_row *row)
{
    for (size_t i = 0; i < parts->count; i++)
        if (run_row_of(parts->names[i]) == row)
            return true;
    return false;
}

// False: a library made the program's products, and no part measured them.
bool verify_has_products(const struct result_file *file)
{
    const json_t *suite = json_object_get(file->run, "suite");
    return !json_object_get(json_object_get(suite, "libraries"), "openblas");
}

static bool is_of_products(const struct run_row *row)
{
    return row->bench && strcmp(row->bench, "product") == 0;
}

static void verify_all_parts(struct verify *v, const struct parts *parts)
{
    bool several = json_array_size(json_object_get(v->file->run, "other_hosts")) > 0;
    const struct run_row *row;
    for (size_t i = 0; (row = run_row_at(i)); i++)
        if ((several || !row->between_hosts) && (verify_has_products(v->file) || !is_of_products(row)) &&
            !has_row(parts, row))
            verify_refuse(v, v->file->line_count, "verdict", "is VALID, expected a part %s%s",
                          row->bench ? "bench-" : "arithmetic", row->bench ? row->bench : "");
}

static bool ended_well(const json_t *part)
{
    const json_t *status = json_object_get(part, "status");
    return json_is_integer(status) && json_integer_value(status) == 0;
}

static size_t sample_count(const json_t *of)
{
    return json_array_size(json_object_get(of, "samples"));
}

static void verify_samples_of(struct verify *v, size_t line, const json_t *of, const char *key,
                              const struct run_row *row)
{
    size_t least = is_quick(v) ? RUN_QUICK_SAMPLES : row->full_samples;
    if (sample_count(of) < least)
        verify_refuse(v, line, key, "has %zu, expected at least %zu of the part bench-%s", sample_count(of), least,
                      row->bench);
}

// Results, and cases that memory does not permit.
static bool is_result(const json_t *record)
{
    return verify_is(record, "bench") || verify_is(record, "skip");
}

// Results follow the part that printed them.
static void verify_result(struct verify *v, size_t line, const json_t *bench, const json_t *part)
{
    const char *name = verify_text(bench, "name"), *of = part ? verify_text(part, "name") : "none";
    const struct run_row *row = part ? run_row_of(of) : NULL;
    const json_t *baseline = json_object_get(bench, "yardstick");
    if (!row || !row->bench || !ended_well(part) || !bench_is_of(row->bench, name)) {
        verify_refuse(v, line, "name", "is %s, expected a result of the part before it, %s", name, of);
        return;
    }
    if (!verify_is(bench, "bench"))
        return;
    verify_samples_of(v, line, bench, "samples", row);
    if (json_is_object(baseline))
        verify_samples_of(v, line, baseline, "yardstick.samples", row);
}

static void verify_part(struct verify *v, size_t line, const json_t *part, struct parts *parts)
{
    const char *name = verify_text(part, "name");
    const struct run_row *row = run_row_of(name);
    if (!row) {
        verify_refuse(v, line, "name", "is %s, which is no part of validate", name);
        return;
    }
    verify_command(v, line, part, row);
    if (row->bench && ended_well(part) && (line == v->file->line_count || !is_result(verify_record(v, line + 1))))
        verify_refuse(v, line, "status", "is 0, expected results after it");
    add_part(v, line, part, parts);
}

static bool is_emulated(const struct verify *v)
{
    bool emulated = has_option(json_object_get(v->file->run, "command"), "--emulate");
    for (size_t line = 1; line <= v->file->line_count; line++)
        emulated |= verify_is(verify_record(v, line), "part") &&
                    has_option(json_object_get(verify_record(v, line), "command"), "--emulate");
    return emulated;
}

void verify_run(struct verify *v)
{
    const char *verdict = v->file->end ? verify_text(v->file->end, "verdict") : NULL;
    const json_t *part = NULL;
    struct parts parts = {0};
    size_t refusals = v->refusal_count;
    verify_level(v);
    if (v->refusal_count > refusals)
        return;  // the other checks need the level
    for (size_t line = 1; line <= v->file->line_count; line++) {
        const json_t *record = verify_record(v, line);
        if (verify_is(record, "part"))
            verify_part(v, line, part = record, &parts);
        else if (is_result(record))
            verify_result(v, line, record, part);
    }
    if (!verdict || strcmp(verdict, "VALID") != 0)
        return;
    verify_all_parts(v, &parts);
    if (is_emulated(v))
        verify_refuse(v, v->file->line_count, "verdict", "is VALID, expected INCOMPLETE: lanes were emulated");
}

static const struct run_row rows[] = {
    {NULL, 0, false},       {"adam", 15, false}, {"memory", 15, false}, {"ranks", 25, false}, {"links", 25, true},
    {"comm", 15, false},    {"nvme", 5, false},  {"pcie", 9, false},    {"swap", 7, false},   {"overlap", 7, false},
    {"pipeline", 7, false}, {"step", 7, false},  {"product", 5, false},
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

const struct run_row *run_row_at(size_t index)
{
    return index < ROW_COUNT ? &rows[index] : NULL;
}

const struct run_row *run_row_of(const char *part)
{
    if (strcmp(part, "arithmetic") == 0)
        return &rows[0];
    if (strncmp(part, "bench-", 6) != 0)
        return NULL;
    size_t length = strcspn(part + 6, "-");
    for (size_t i = 1; i < ROW_COUNT; i++)
        if (strlen(rows[i].bench) == length && strncmp(rows[i].bench, part + 6, length) == 0)
            return &rows[i];
    return NULL;
}

bool run_option_is_known(const char *option, bool quick)
{
    if (strcmp(option, "--budget") == 0)
        return quick;
    static const char *const known[] = {"--json",  "--level", "--quick",  "--device", "--nvme-path", "--emulate",
                                        "--world", "--pin",   "--engine", "--text",   "--model",     "--sequences"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(option, known[i]) == 0)
            return true;
    return false;
}
