// SPDX-License-Identifier: Apache-2.0
// `zerogauge preflight`: half a minute before a job, on each of its nodes: is this machine's arithmetic right on every
// core, and do memory, disk and links carry bytes unchanged, at the rate that the operator asks for? One line a check.
#include "health/health.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/help.h"
#include "bench/harness/bench_world.h"
#include "health/exposure.h"
#include "health/health_options.h"
#include "info/health_counters.h"
#include "ref/arithmetic/random.h"
#include "ref/comm/comm.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHECK_MAX = 16, LINK_BYTES = 16 << 20, LINK_REPEAT = 8, SEED = 20260101 };

struct preflight {
    struct health_options common;
    char *at_least;
    double seconds;
    double memory_gbs, disk_gbs, link_gbs;  // at least; 0: any
    struct health_machine machine;
    struct health_exposure exposure;
    struct health_counters before, after;
    char digests[HEALTH_OPERATION_MAX][33];
    json_t *checks;  // array of {"check", "state": "ok" | "FAIL" | "skip", "text"}
    bool failed;
};

// Appends one check. A check fails once; its first text stays.
static void add(struct preflight *p, const char *check, const char *state, const char *text)
{
    json_array_append_new(p->checks, json_pack("{s:s, s:s, s:s}", "check", check, "state", state, "text", text));
    p->failed |= strcmp(state, "FAIL") == 0;
}

static bool lane_failed(const struct preflight *p, enum health_lane lane)
{
    return p->exposure.events[lane] > 0;
}

// Rounds until the time is over, at least one; ends at the first that finds something.
static int run_rounds(struct preflight *p)
{
    struct health_round_setting *setting = &p->machine.setting;
    double begin = clock_now_s();
    bool wrong = false;
    do {
        struct health_round round;
        setting->round = p->exposure.rounds + 1;
        // The same on every node: their digests are compared.
        setting->seed = random_key(SEED, setting->round) >> 1;
        int code = health_round(setting, &round);
        if (code == ERR_NONE)
            health_exposure_add(&p->exposure, &round, clock_now_s() - begin);
        if (code == ERR_NONE && setting->round == 1)
            memcpy(p->digests, round.digests, sizeof p->digests);
        for (size_t i = 0; i < round.mismatch_count && code == ERR_NONE; i++) {
            char text[2 * HEALTH_TEXT_MAX];
            health_mismatch_text(&round.mismatches[i], text, sizeof text);
            add(p, health_lane_name(round.mismatches[i].operation->lane), "FAIL", text);
            wrong = true;
        }
        health_round_free(&round);
        TRY(code);
    } while (!wrong && !*health_interrupted() && clock_now_s() - begin < p->seconds);
    return *health_interrupted() ? err_set(ERR_USAGE, "interrupted") : ERR_NONE;
}

static void judge_rate(struct preflight *p, enum health_lane lane, double least_gbs)
{
    char text[160];
    const char *name = health_lane_name(lane);
    const struct health_work *work = &p->exposure.work;
    if (lane_failed(p, lane))
        return;
    double seconds = work->moving_seconds[lane] / (double)p->machine.setting.core_count;
    double gbs = seconds > 0 ? (double)work->moved_bytes[lane] * 1e-9 / seconds : 0;
    if (gbs < least_gbs) {
        snprintf(text, sizeof text, "%.2f GB/s, less than the %.2f asked for by --at-least", gbs, least_gbs);
        add(p, name, "FAIL", text);
        return;
    }
    snprintf(text, sizeof text, "%.2f GB came back unchanged, %.2f GB/s with all cores at once",
             (double)work->moved_bytes[lane] * 1e-9, gbs);
    add(p, name, "ok", text);
}

static void judge(struct preflight *p)
{
    char text[320];
    const struct health_round_setting *setting = &p->machine.setting;
    if (!lane_failed(p, HEALTH_COMPUTE)) {
        snprintf(text, sizeof text, "%zu cores have the same bits in %zu operations, %llu rounds", setting->core_count,
                 setting->operation_count, (unsigned long long)p->exposure.rounds);
        add(p, "compute", "ok", text);
    }
    judge_rate(p, HEALTH_MEMORY, p->memory_gbs);
    if (setting->folders)
        judge_rate(p, HEALTH_DISK, p->disk_gbs);
    else
        add(p, "disk", "skip", "no --nvme-path");
    judge_rate(p, HEALTH_COLLECTIVE, 0);
    bool worse = health_counters_worse(&p->before, &p->after, text, sizeof text);
    add(p, "counters", worse ? "FAIL" : "ok", worse ? text : "no error was counted by the kernel meanwhile");
}

// Every rank receives the bytes of all others.
static int run_link(struct preflight *p, struct comm *comm)
{
    int rank = comm_rank(comm), world = comm_world(comm);
    size_t words = LINK_BYTES / sizeof(uint64_t);
    uint64_t *send = malloc(LINK_BYTES), *received = malloc((size_t)world * LINK_BYTES);
    size_t counts[world], offsets[world];
    char text[160];
    if (!send || !received) {
        free(send);
        free(received);
        return err_set(ERR_MEMORY, "out of memory for the links");
    }
    for (int r = 0; r < world; r++) {
        counts[r] = LINK_BYTES / sizeof(float);
        offsets[r] = (size_t)r * LINK_BYTES / sizeof(float);
    }
    for (size_t i = 0; i < words; i++)
        send[i] = random_at((uint64_t)rank, i);
    int code = comm_barrier(comm);
    double begin = clock_now_s();
    for (int i = 0; i < LINK_REPEAT && code == ERR_NONE; i++)
        code = comm_all_gather(comm, send, received, counts, offsets, DTYPE_FP32);
    double gbs = (double)LINK_REPEAT * (world - 1) * LINK_BYTES * 1e-9 / (clock_now_s() - begin);
    size_t wrong = 0;
    for (int r = 0; r < world && code == ERR_NONE; r++)
        for (size_t i = 0; i < words; i++)
            wrong += received[(size_t)r * words + i] != random_at((uint64_t)r, i);
    free(send);
    free(received);
    TRY(code);
    snprintf(text, sizeof text, "%zu of %zu words received from %d ranks are wrong, %.2f GB/s%s", wrong,
             (size_t)world * words, world, gbs, gbs < p->link_gbs ? ", less than asked for by --at-least" : "");
    add(p, "link", wrong || gbs < p->link_gbs ? "FAIL" : "ok", text);
    return ERR_NONE;
}

static json_t *node_json(const struct preflight *p)
{
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    json_t *digests = json_object();
    for (size_t i = 0; i < p->machine.setting.operation_count; i++)
        if (p->machine.operations[i].everywhere)
            json_object_set_new(digests, p->machine.operations[i].name, json_string(p->digests[i]));
    return json_pack("{s:s, s:i, s:s, s:s, s:f, s:O, s:o, s:o, s:o}", "record", "preflight", "schema", 1, "host", host,
                     "verdict", p->failed ? "FAIL" : "ok", "seconds", p->exposure.seconds, "checks", p->checks,
                     "digests", digests, "exposure", health_exposure_json(&p->exposure), "counters",
                     health_counters_json(&p->before, &p->after));
}

// The votes for `digest` of an operation among all nodes.
static size_t votes(json_t *const nodes[], int count, const char *operation, const char *digest)
{
    size_t votes = 0;
    for (int i = 0; i < count; i++) {
        const char *other = json_string_value(json_object_get(json_object_get(nodes[i], "digests"), operation));
        votes += other && *digest && strcmp(other, digest) == 0;
    }
    return votes;
}

// A node whose cores agree with each other may still differ from the other nodes.
static void compare_nodes(json_t *nodes[], int count)
{
    const char *operation;
    json_t *value;
    for (int i = 0; i < count; i++) {
        json_object_foreach (json_object_get(nodes[i], "digests"), operation, value) {
            if (2 * votes(nodes, count, operation, json_string_value(value)) >= (size_t)count)
                continue;
            char text[200];
            snprintf(text, sizeof text, "%s: this node's bits are not those of most nodes", operation);
            json_array_append_new(json_object_get(nodes[i], "checks"),
                                  json_pack("{s:s, s:s, s:s}", "check", "nodes", "state", "FAIL", "text", text));
            json_object_set_new(nodes[i], "verdict", json_string("FAIL"));
        }
    }
}

// Returns whether every node is healthy.
static bool print(json_t *const nodes[], int count, bool json)
{
    bool healthy = true;
    size_t index;
    json_t *check;
    for (int i = 0; i < count; i++) {
        healthy &= strcmp(json_string_value(json_object_get(nodes[i], "verdict")), "ok") == 0;
        if (json) {
            json_dumpf(nodes[i], stdout, 0);
            putchar('\n');
            continue;
        }
        json_array_foreach (json_object_get(nodes[i], "checks"), index, check)
            printf("%-4s %s: %s: %s\n", json_string_value(json_object_get(check, "state")),
                   json_string_value(json_object_get(nodes[i], "host")),
                   json_string_value(json_object_get(check, "check")),
                   json_string_value(json_object_get(check, "text")));
    }
    return healthy;
}

// Rank 0 prints what all ranks found.
static int gather(const struct preflight *p, bool *healthy)
{
    json_t *own = node_json(p);
    char **texts = NULL, *text = json_dumps(own, 0);
    json_t *nodes[1] = {own};
    int code = text ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the report");
    if (code == ERR_NONE && !bench_world_comm())
        *healthy = print(nodes, 1, p->common.json);
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
        compare_nodes(all, count);
        *healthy = print(all, count, p->common.json);
        for (int i = 0; i < count; i++)
            json_decref(all[i]);
    }
    free(text);
    json_decref(own);
    return code == ERR_NONE ? file_flush(stdout, "the report") : code;
}

// "memory=20,disk=0.5,link=1"
static int read_at_least(struct preflight *p)
{
    const struct {
        const char *name;
        double *value;
    } names[] = {{"memory", &p->memory_gbs}, {"disk", &p->disk_gbs}, {"link", &p->link_gbs}};
    for (const char *at = p->at_least; at && *at;) {
        bool known = false;
        for (size_t i = 0; i < sizeof names / sizeof names[0] && !known; i++) {
            size_t length = strlen(names[i].name);
            char *end;
            if (strncmp(at, names[i].name, length) != 0 || at[length] != '=')
                continue;
            *names[i].value = strtod(at + length + 1, &end);
            known =
                end > at + length + 1 && (*end == ',' || *end == '\0') && *names[i].value > 0 && *names[i].value < 1e9;
            at = *end == ',' ? end + 1 : end;
        }
        if (!known)
            return err_set(ERR_USAGE, "--at-least %s: expected memory=GB/s, disk=GB/s, link=GB/s, separated by commas",
                           p->at_least);
    }
    return ERR_NONE;
}

static int parse(int argc, const char **argv, struct preflight *p)
{
    static const char *const examples[] = {
        "zerogauge preflight --nvme-path /mnt/nvme",
        "zerogauge preflight --at-least memory=100,disk=2 --json",
        "srun --ntasks-per-node=1 zerogauge preflight --seconds 10",
        NULL,
    };
    static const struct help help = {
        .usage = "[OPTION...]",
        .text = "Checks a node before a job: every core computes the same bits; memory, a disk and a collective carry "
                "bytes unchanged; the kernel counts no hardware error meanwhile. Under mpirun or srun each node checks "
                "itself, then the links between them are used and their bits compared; give one rank a node. One line "
                "for each check.\n"
                "Exit status: 0 healthy, 1 not, 2 usage or it could not be found out.",
        .examples = examples,
    };
    struct health_options *common = &p->common;
    const struct poptOption options[] = {
        {"seconds", '\0', POPT_ARG_DOUBLE, &p->seconds, 0, "time for rounds of operations (20); one round at least",
         "S"},
        {"nvme-path", '\0', POPT_ARG_ARGV, &common->folders, 0, "also check the disk of this folder; may be repeated",
         "DIR"},
        {"at-least", '\0', POPT_ARG_STRING, &p->at_least, 0,
         "fail below these rates, in GB/s: memory=100,disk=2,link=10", "LIST"},
        {"inject", '\0', POPT_ARG_STRING, &common->flip, 0,
         "flip a bit of this operation on this core, in this round or in all", "OPERATION@CORE[@ROUND]"},
        {"json", '\0', POPT_ARG_NONE, &common->json, 0, "print one line of JSON for each node", NULL},
        HELP_OPTIONS(options, &help) POPT_TABLEEND,
    };
    poptContext context = poptGetContext(NULL, argc, argv, options, 0);
    int code = ERR_NONE, option = poptGetNextOpt(context);
    const char *extra = poptPeekArg(context);
    if (option < -1)
        code = err_set(ERR_USAGE, "%s: %s", poptBadOption(context, POPT_BADOPTION_NOALIAS), poptStrerror(option));
    else if (extra)
        code = err_set(ERR_USAGE, "\"%s\" is not an option; `zerogauge preflight --help` lists them", extra);
    else if (!(p->seconds >= 0 && p->seconds <= 3600))
        code = err_set(ERR_USAGE, "--seconds %g: expected 0 to 3600", p->seconds);
    poptFreeContext(context);
    return code == ERR_NONE ? read_at_least(p) : code;
}

static int run(struct preflight *p, bool *healthy)
{
    TRY(bench_world_join());
    if (bench_world_comm())
        bench_world_take_host(bench_world_rank_on_host() == 0);
    TRY(health_machine_find(&p->common, &p->machine));
    health_watch_signals();
    health_counters_read("", &p->before);
    // A launcher binds each rank to a few cores; the first of a host checks them all.
    bool first = !bench_world_comm() || bench_world_rank_on_host() == 0;
    if (first)
        TRY(run_rounds(p));
    health_counters_read("", &p->after);
    if (first)
        judge(p);
    if (bench_world_comm())
        TRY(run_link(p, bench_world_comm()));
    return gather(p, healthy);
}

int preflight_main(int argc, const char **argv)
{
    struct preflight *p = calloc(1, sizeof *p);
    if (!p)
        return 2;
    *p = (struct preflight){.seconds = 20, .checks = json_array()};
    bool healthy = true;
    int code = parse(argc, argv, p);
    if (code == ERR_NONE)
        code = run(p, &healthy);
    if (code != ERR_NONE)
        fprintf(stderr, "zerogauge preflight: %s\n", err_message());
    bench_world_leave(code);
    json_decref(p->checks);
    free(p->at_least);
    health_options_free(&p->common);
    free(p);
    return code != ERR_NONE ? 2 : healthy ? 0 : 1;
}
