// SPDX-License-Identifier: Apache-2.0
// What all nodes of a preflight found, as lines of text and of JSON.
#include "validate/health/preflight.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "bench/harness/bench_world.h"

#include <stdlib.h>
#include <string.h>

static json_t *node_json(const struct preflight *p)
{
    char host[256], started[CLOCK_UTC_BYTES];
    preflight_host(host);
    clock_utc_text(p->started_s, started);
    json_t *digests = json_object();
    for (size_t i = 0; i < p->machine.setting.operation_count; i++)
        json_object_set_new(digests, p->machine.operations[i].name, json_string(p->digests[i]));
    return json_pack("{s:s, s:i, s:s, s:s, s:s, s:f, s:O, s:o, s:o, s:o}", "record", "preflight", "schema", 1, "host",
                     host, "started", started, "verdict", p->failed ? "FAIL" : "ok", "seconds", p->exposure.seconds,
                     "checks", p->checks, "digests", digests, "exposure", health_exposure_json(&p->exposure),
                     "counters", health_counters_json(&p->before, &p->after));
}

// The votes for `digest` of an operation. *cast: those for any; a rank that did not run it, which has an empty digest,
// casts none.
static size_t votes(json_t *const nodes[], int count, const char *operation, const char *digest, size_t *cast)
{
    size_t votes = 0;
    *cast = 0;
    for (int i = 0; i < count; i++) {
        const char *other = json_string_value(json_object_get(json_object_get(nodes[i], "digests"), operation));
        *cast += other && *other;
        votes += other && strcmp(other, digest) == 0;
    }
    return votes;
}

void preflight_compare(json_t *nodes[], int count)
{
    const char *operation;
    json_t *value;
    for (int i = 0; i < count; i++) {
        json_object_foreach (json_object_get(nodes[i], "digests"), operation, value) {
            const char *digest = json_string_value(value);
            size_t cast, own = *digest ? votes(nodes, count, operation, digest, &cast) : 0;
            if (!*digest || 2 * own > cast)
                continue;
            char text[200];
            snprintf(text, sizeof text, "%s: this node's bits are %s", operation,
                     2 * own < cast ? "not those of most nodes" : "those of one half of the nodes alone");
            preflight_fail(nodes[i], "nodes", text);
        }
    }
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static bool is_ok(const json_t *node)
{
    return strcmp(text_of(node, "verdict"), "ok") == 0;
}

// The checks of a node in a state, or all; returns how many these are.
static size_t print_checks(const json_t *node, const char *state, bool prints)
{
    size_t index, count = 0;
    json_t *check;
    json_array_foreach (json_object_get(node, "checks"), index, check) {
        if (state && strcmp(text_of(check, "state"), state) != 0)
            continue;
        count++;
        if (prints)
            printf("%-4s %s: %s: %s\n", text_of(check, "state"), text_of(node, "host"), text_of(check, "check"),
                   text_of(check, "text"));
    }
    return count;
}

// Of one node every check; of several what failed, and how many did not.
static void print_lines(json_t *const nodes[], int count)
{
    size_t ok = 0, failed = 0, skipped = 0;
    int healthy = 0;
    for (int i = 0; i < count; i++) {
        failed += print_checks(nodes[i], count == 1 ? NULL : "FAIL", true);
        ok += print_checks(nodes[i], "ok", false);
        skipped += print_checks(nodes[i], "skip", false);
        healthy += is_ok(nodes[i]);
    }
    if (count == 1)
        return;
    printf("%d of %d nodes are ok: %zu checks ok, %zu FAIL, %zu skipped%s", healthy, count, ok, failed, skipped,
           healthy < count ? "; not ok:" : "\n");
    for (int i = 0; i < count; i++)
        if (!is_ok(nodes[i]))
            printf(" %s%s", text_of(nodes[i], "host"), ++healthy < count ? "," : "\n");
}

static void print_json(json_t *const nodes[], int count, FILE *out)
{
    for (int i = 0; i < count; i++) {
        json_dumpf(nodes[i], out, 0);
        fputc('\n', out);
    }
}

static int report(const struct preflight *p, json_t *const nodes[], int count, bool *healthy)
{
    struct file_output file;
    *healthy = true;
    TRY(p->history ? preflight_history(p, nodes, count) : ERR_NONE);
    for (int i = 0; i < count; i++)
        *healthy &= is_ok(nodes[i]);
    if (p->common.json)
        print_json(nodes, count, stdout);
    else
        print_lines(nodes, count);
    TRY(file_flush(stdout, "the report"));
    if (!p->save)
        return ERR_NONE;
    TRY(file_output_open(p->save, FILE_REPLACED, &file));
    print_json(nodes, count, file.out);
    return file_output_close(&file, ERR_NONE);
}

int preflight_gather(const struct preflight *p, bool *healthy)
{
    json_t *own = node_json(p);
    char **texts = NULL, *text = json_dumps(own, 0);
    json_t *nodes[1] = {own};
    int code = text ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the report");
    if (code == ERR_NONE && !bench_world_comm())
        code = report(p, nodes, 1, healthy);
    else if (code == ERR_NONE)
        code = bench_world_gather(text, &texts);
    int count = texts ? bench_world_size() : 0;
    if (texts) {
        json_t *all[count];
        for (int i = 0; i < count; i++) {
            all[i] = json_loads(texts[i], 0, NULL);
            free(texts[i]);
        }
        free(texts);
        preflight_compare(all, count);
        code = report(p, all, count, healthy);
        for (int i = 0; i < count; i++)
            json_decref(all[i]);
    }
    free(text);
    json_decref(own);
    return code;
}

void preflight_report_alone(const struct preflight *p)
{
    json_t *own = node_json(p);
    if (p->common.json) {
        print_json(&own, 1, stdout);
    } else {
        size_t failed = print_checks(own, "FAIL", true);
        printf("%s by itself: %zu checks ok, %zu FAIL\n", text_of(own, "host"), print_checks(own, "ok", false), failed);
    }
    fflush(stdout);
    json_decref(own);
}
