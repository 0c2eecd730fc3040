// SPDX-License-Identifier: Apache-2.0
#include "conformance/run/hunt_internal.h"

#include "base/err.h"
#include "base/file.h"
#include "base/process/shell_word.h"
#include "base/safe_text.h"

#include <inttypes.h>
#include <stdio.h>

static int find_folder(const struct check_hunt *hunt, const struct hunt_find *find, char out[PATH_MAX])
{
    char name[32];
    snprintf(name, sizeof name, "find-%d", find->index);
    return file_join(hunt->folder, name, out);
}

static int write_script(const struct check_hunt *hunt, const struct hunt_find *find, const struct hunt_case *h,
                        const char *folder)
{
    char path[PATH_MAX];
    struct file_output script;
    if (!hunt_script_can(h, hunt->upstream, hunt->setting.command))
        return ERR_NONE;
    TRY(file_join(folder, "report.py", path));
    TRY(file_output_open(path, FILE_NEW, &script));
    return file_output_close(&script,
                             hunt_script(h, hunt->upstream, hunt->setting.command, &find->failure, script.out));
}

int hunt_find_write(const struct check_hunt *hunt, const struct hunt_find *find, struct hunt_cases cases)
{
    char folder[PATH_MAX];
    TRY(find_folder(hunt, find, folder));
    TRY(file_make_folder(folder));
    TRY(hunt_folder_write(cases.list, cases.count, folder));
    return find->alone ? write_script(hunt, find, &cases.list[0], folder) : ERR_NONE;
}

static void print_line(const char *key, const char *text)
{
    if (!text[0])
        return;
    printf("  %-8s", key);
    text_terminal(stdout, text, 10);
    putchar('\n');
}

static void print_find(const struct check_hunt *hunt, const struct hunt_find *find, const char *folder)
{
    const struct check_failure *failure = &find->failure;
    char text[1024];
    printf("FIND %d: %s is %s\n", find->index, aspect_name(failure->aspect), verdict_name(failure->verdict));
    snprintf(text, sizeof text, "case %" PRIu64 " of seed %" PRIu64 ": %s", find->number, hunt->setting.seed,
             find->note);
    print_line("drawn", text);
    if (find->alone)
        snprintf(text, sizeof text, "from %s to %s: %d candidates in %d rounds, %.1f s%s", find->drawn, find->left,
                 find->shrinking.judged_count, find->shrinking.round_count, find->seconds,
                 find->shrinking.complete ? "" : "; not complete, more may be left out");
    else
        snprintf(text, sizeof text, "no: it fails with others, but not alone; kept are %s", find->left);
    print_line("shrunk", text);
    print_line("first", failure->where);
    print_line("bits", failure->bits);
    print_line("why", failure->why);
    print_line("hint", hint_text(failure->hint));
    if (find->right_known)
        print_line("control", find->right
                                  ? "the reference answers this case right"
                                  : "the reference answers it wrong, too: please report this case to zerogauge");
    printf("  replay  zerogauge check --case-dir ");
    shell_word(stdout, folder);
    printf(" %s\n", hunt->command);
}

static int write_line(json_t *line, FILE *record)
{
    int rc = line && json_dumpf(line, record, JSON_COMPACT) == 0 && fputc('\n', record) != EOF
                 ? file_flush(record, "hunt.jsonl")
                 : err_set(ERR_IO, "hunt.jsonl: cannot be written");
    json_decref(line);
    return rc;
}

int hunt_find_report(const struct check_hunt *hunt, const struct hunt_find *find, FILE *record)
{
    const struct check_failure *failure = &find->failure;
    char folder[PATH_MAX];
    TRY(find_folder(hunt, find, folder));
    print_find(hunt, find, folder);
    json_t *line = json_pack(
        "{s:s, s:i, s:I, s:I, s:o, s:s, s:s, s:s, s:b, s:s, s:o, s:b, s:i, s:i, s:f, s:o, s:o, s:o, s:o}", "record",
        "find", "index", find->index, "seed", (json_int_t)hunt->setting.seed, "case", (json_int_t)find->number, "drawn",
        text_json(find->note), "aspect", aspect_name(failure->aspect), "verdict", verdict_name(failure->verdict),
        "hint", hint_name(failure->hint), "alone", (int)find->alone, "drawn_size", find->drawn, "size",
        text_json(find->left), "complete", (int)find->shrinking.complete, "candidates", find->shrinking.judged_count,
        "rounds", find->shrinking.round_count, "seconds", find->seconds, "where", text_json(failure->where), "bits",
        text_json(failure->bits), "why", text_json(failure->why), "reference_is_right",
        find->right_known ? json_boolean(find->right) : json_null());
    TRY(write_line(line, record));
    return file_flush(stdout, "the report");
}

int hunt_record_end(const struct check_hunt *hunt, const struct check_hunt_result *result, FILE *record)
{
    json_t *line = json_pack("{s:s, s:s, s:I, s:o, s:I, s:I, s:I, s:i, s:f}", "record", "end", "version", ZG_VERSION,
                             "seed", (json_int_t)hunt->setting.seed, "command", text_json(hunt->command), "drawn",
                             (json_int_t)result->drawn_count, "judged", (json_int_t)result->judged_count, "launches",
                             (json_int_t)result->launch_count, "finds", result->find_count, "seconds", result->seconds);
    return write_line(line, record);
}
