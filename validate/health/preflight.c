// SPDX-License-Identifier: Apache-2.0
#include "validate/health/preflight.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "bench/harness/bench_world.h"
#include "ref/arithmetic/random.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A rank sends LINK_BYTES, or less in a large world, where it receives LINK_RECEIVED_BYTES at most.
enum { LINK_BYTES = 16 << 20, LINK_RECEIVED_BYTES = 512 << 20, LINK_REPEAT = 8, SINCE_LIMIT_BYTES = 64 << 20 };

static void own_host(char host[256])
{
    memset(host, 0, 256);
    (void)gethostname(host, 255);
}

// A line for each node; this host's, or null.
static json_t *find_own_line(char *text)
{
    char host[256], *rest;
    own_host(host);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        json_t *node = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        const char *record = json_string_value(json_object_get(node, "record"));
        const char *name = json_string_value(json_object_get(node, "host"));
        if (record && strcmp(record, "preflight") == 0 && name && strcmp(name, host) == 0)
            return node;
        json_decref(node);
    }
    return NULL;
}

int preflight_since(struct preflight *p)
{
    char *text, host[256];
    size_t bytes;
    own_host(host);
    TRY(file_read_text(p->since, SINCE_LIMIT_BYTES, &text, &bytes));
    json_t *node = find_own_line(text);
    free(text);
    int code =
        node ? health_counters_from_json(json_object_get(node, "counters"), &p->before)
             : err_set(ERR_USAGE, "--since %s: no line of `preflight --save` about this host, %s", p->since, host);
    if (code != ERR_NONE && node)
        code = err_prefix(ERR_USAGE, "--since %s", p->since);
    json_decref(node);
    return code;
}

void preflight_add(struct preflight *p, const char *check, const char *state, const char *text)
{
    json_array_append_new(p->checks, json_pack("{s:s, s:s, s:s}", "check", check, "state", state, "text", text));
    p->failed |= strcmp(state, "FAIL") == 0;
}

// Every rank receives the bytes of all others.
int preflight_link(struct preflight *p, struct comm *comm)
{
    int rank = comm_rank(comm), world = comm_world(comm);
    size_t most = LINK_RECEIVED_BYTES / (size_t)world;
    size_t words = (most < LINK_BYTES ? most : LINK_BYTES) / sizeof(uint64_t), bytes = words * sizeof(uint64_t);
    uint64_t *send = malloc(bytes), *received = malloc((size_t)world * bytes);
    size_t counts[world], offsets[world];
    char text[160];
    if (!send || !received) {
        free(send);
        free(received);
        return err_set(ERR_MEMORY, "out of memory for the links");
    }
    for (int r = 0; r < world; r++) {
        counts[r] = bytes / sizeof(float);
        offsets[r] = (size_t)r * counts[r];
    }
    for (size_t i = 0; i < words; i++)
        send[i] = random_at((uint64_t)rank, i);
    int code = comm_barrier(comm);
    double begin = clock_now_s();
    for (int i = 0; i < LINK_REPEAT && code == ERR_NONE; i++)
        code = comm_all_gather(comm, send, received, counts, offsets, DTYPE_FP32);
    double gbs = (double)LINK_REPEAT * (world - 1) * (double)bytes * 1e-9 / (clock_now_s() - begin);
    size_t wrong = 0;
    for (int r = 0; r < world && code == ERR_NONE; r++)
        for (size_t i = 0; i < words; i++)
            wrong += received[(size_t)r * words + i] != random_at((uint64_t)r, i);
    free(send);
    free(received);
    TRY(code);
    snprintf(text, sizeof text, "%zu of %zu words received from %d ranks are wrong, %.2f GB/s%s", wrong,
             (size_t)world * words, world, gbs, gbs < p->link_gbs ? ", less than asked for by --at-least" : "");
    preflight_add(p, "link", wrong || gbs < p->link_gbs ? "FAIL" : "ok", text);
    return ERR_NONE;
}

static json_t *node_json(const struct preflight *p)
{
    char host[256];
    own_host(host);
    json_t *digests = json_object();
    for (size_t i = 0; i < p->machine.setting.operation_count; i++)
        json_object_set_new(digests, p->machine.operations[i].name, json_string(p->digests[i]));
    return json_pack("{s:s, s:i, s:s, s:s, s:f, s:O, s:o, s:o, s:o}", "record", "preflight", "schema", 1, "host", host,
                     "verdict", p->failed ? "FAIL" : "ok", "seconds", p->exposure.seconds, "checks", p->checks,
                     "digests", digests, "exposure", health_exposure_json(&p->exposure), "counters",
                     health_counters_json(&p->before, &p->after));
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
            json_array_append_new(json_object_get(nodes[i], "checks"),
                                  json_pack("{s:s, s:s, s:s}", "check", "nodes", "state", "FAIL", "text", text));
            json_object_set_new(nodes[i], "verdict", json_string("FAIL"));
        }
    }
}

static void print_lines(json_t *const nodes[], int count)
{
    size_t index;
    json_t *check;
    for (int i = 0; i < count; i++)
        json_array_foreach (json_object_get(nodes[i], "checks"), index, check)
            printf("%-4s %s: %s: %s\n", json_string_value(json_object_get(check, "state")),
                   json_string_value(json_object_get(nodes[i], "host")),
                   json_string_value(json_object_get(check, "check")),
                   json_string_value(json_object_get(check, "text")));
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
    for (int i = 0; i < count; i++)
        *healthy &= strcmp(json_string_value(json_object_get(nodes[i], "verdict")), "ok") == 0;
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
