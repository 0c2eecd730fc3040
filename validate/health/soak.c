// SPDX-License-Identifier: Apache-2.0
// What a soak keeps: one state for all ranks.
#include "validate/health/soak.h"

#include "base/err.h"
#include "base/json.h"
#include "bench/harness/bench_world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STATE_LIMIT_BYTES = 16 << 20, EVENT_MAX = 100, SAMPLE_MAX = 1000 };

const char *soak_kind(const json_t *event, char out[SOAK_KIND_BYTES])
{
    snprintf(out, SOAK_KIND_BYTES, "%.64s %lld %lld %.64s", json_string_value(json_object_get(event, "host")),
             (long long)json_integer_value(json_object_get(event, "core")),
             (long long)json_integer_value(json_object_get(event, "gpu")),
             json_string_value(json_object_get(event, "operation")));
    return out;
}

bool soak_add_event(struct soak *soak, const struct health_mismatch *m, const char *text)
{
    char kind[SOAK_KIND_BYTES], other[SOAK_KIND_BYTES];
    bool first = true;
    json_t *one,
        *event = json_pack("{s:s, s:i, s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:i, s:i, s:s}", "host", soak->host, "rank",
                           bench_world_rank(), "core", m->core, "operation", m->operation->name, "lane",
                           health_lane_name(m->operation->lane), "round", (json_int_t)m->round, "seed",
                           (json_int_t)m->seed, "element", (json_int_t)m->element, "wrong_bytes",
                           (json_int_t)m->wrong_bytes, "wrong_again", m->again_wrong, "again", m->again, "text", text);
    size_t i;
    if (m->core == HEALTH_CORE_GPU)
        json_object_set_new(event, "gpu", json_integer(m->gpu));
    soak_kind(event, kind);
    json_array_foreach (soak->events, i, one)
        first &= strcmp(soak_kind(one, other), kind) != 0;
    if (first || json_array_size(soak->events) < EVENT_MAX)
        json_array_append(soak->events, event);
    json_decref(event);
    return first;
}

void soak_add_sample(struct soak *soak, double seconds)
{
    static const struct {
        const char *key;
        enum health_counter counter;
    } sensors[] = {{"temperature_c", COUNTER_TEMPERATURE_C},         {"frequency_mhz", COUNTER_FREQUENCY_MHZ},
                   {"gpu_temperature_c", COUNTER_GPU_TEMPERATURE_C}, {"gpu_power_w", COUNTER_GPU_POWER_W},
                   {"gpu_clock_mhz", COUNTER_GPU_CLOCK_MHZ},         {"gpus_slowed", COUNTER_GPU_SLOWED}};
    struct health_counters now;
    health_counters_read(&now);
    health_counters_keep_most(&soak->most, &now);
    json_t *sample = json_pack("{s:f}", "seconds", seconds);
    for (size_t i = 0; i < sizeof sensors / sizeof *sensors; i++)
        if (!isnan(now.values[sensors[i].counter]))
            json_object_set_new(sample, sensors[i].key, json_real(now.values[sensors[i].counter]));
    if (json_array_size(soak->series) >= SAMPLE_MAX)
        for (size_t i = SAMPLE_MAX; i-- > 0;)
            if (i % 2)
                json_array_remove(soak->series, i);
    json_array_append_new(soak->series, sample);
}

// The counters are a host's: its first rank judges them.
static json_t *own_json(const struct soak *soak)
{
    struct health_counters after, most = soak->most;
    char worse[1024] = "";
    health_counters_read(&after);
    health_counters_keep_most(&most, &after);
    if (!bench_world_comm() || bench_world_rank_on_host() == 0)
        health_counters_worse(&soak->before, &most, worse, sizeof worse);
    return json_pack("{s:o, s:O, s:{s:s, s:i, s:I, s:o, s:o}}", "exposure", health_exposure_json(&soak->exposure),
                     "events", soak->events, "host", "host", soak->host, "rank", bench_world_rank(), "cores",
                     (json_int_t)soak->machine.setting.core_count, "counters",
                     health_counters_json(&soak->before, &after), "worse", *worse ? json_string(worse) : json_null());
}

static int add_rank(const json_t *of_rank, struct soak_total *total)
{
    struct health_exposure exposure;
    json_t *host = json_object_get(of_rank, "host");
    TRY(health_exposure_read(json_object_get(of_rank, "exposure"), &exposure));
    if (json_array_size(total->hosts) == 0)
        total->exposure = exposure;
    else
        health_exposure_join(&total->exposure, &exposure);
    total->core_count += (size_t)json_integer_value(json_object_get(host, "cores"));
    json_array_extend(total->events, json_object_get(of_rank, "events"));
    json_array_append(total->hosts, host);
    total->counters = json_object_get(json_array_get(total->hosts, 0), "counters");
    if (json_is_string(json_object_get(host, "worse")))
        json_array_append_new(total->worse, json_pack("{s:O, s:O}", "host", json_object_get(host, "host"), "text",
                                                      json_object_get(host, "worse")));
    return ERR_NONE;
}

int soak_gather(const struct soak *soak, struct soak_total *out)
{
    *out = (struct soak_total){.events = json_array(), .hosts = json_array(), .worse = json_copy(soak->worse)};
    json_t *own = own_json(soak);
    char **texts = NULL, *text = own && bench_world_comm() ? json_dumps(own, 0) : NULL;
    int code = own ? ERR_NONE : err_set(ERR_MEMORY, "no memory for what this soak has seen");
    if (code == ERR_NONE && !bench_world_comm())
        code = add_rank(own, out);
    else if (code == ERR_NONE)
        code = text ? bench_world_gather(text, &texts) : err_set(ERR_MEMORY, "no memory for what this rank has seen");
    for (int rank = 0; texts && rank < bench_world_size(); rank++) {
        json_t *theirs = json_loads(texts[rank], 0, NULL);
        if (code == ERR_NONE)
            code = add_rank(theirs, out);
        json_decref(theirs);
        free(texts[rank]);
    }
    free(texts);
    free(text);
    json_decref(own);
    return code;
}

void soak_total_free(struct soak_total *total)
{
    json_decref(total->events);
    json_decref(total->hosts);
    json_decref(total->worse);
    *total = (struct soak_total){0};
}

json_t *soak_state_json(const struct soak *soak, const struct soak_total *total)
{
    return json_pack("{s:s, s:i, s:s, s:i, s:I, s:I, s:o, s:O, s:O, s:O}", "record", "soak", "schema", 1, "host",
                     soak->host, "ranks", bench_world_size(), "seed", (json_int_t)soak->seed, "cores",
                     (json_int_t)total->core_count, "exposure", health_exposure_json(&total->exposure), "events",
                     total->events, "series", soak->series, "worse", total->worse);
}

// The state replaces the earlier one only when it is complete.
static int write_state(const struct soak *soak, const struct soak_total *total)
{
    json_t *state = soak_state_json(soak, total);
    int code = json_write(soak->state, FILE_REPLACED, state, JSON_INDENT(1));
    json_decref(state);
    return code;
}

int soak_save(const struct soak *soak)
{
    struct soak_total total;
    if (!soak->state)
        return ERR_NONE;
    int code = soak_gather(soak, &total);
    if (code == ERR_NONE && bench_world_rank() == 0)
        code = write_state(soak, &total);
    soak_total_free(&total);
    return code;
}

// A soak that was interrupted goes on where its state ends.
static int read_state(struct soak *soak)
{
    struct stat found;
    char *text;
    size_t bytes;
    json_error_t error;
    if (soak->state)
        TRY(file_check_output(soak->state, FILE_REPLACED));
    if (!soak->state || (stat(soak->state, &found) != 0))
        return ERR_NONE;
    TRY(file_read_text(soak->state, STATE_LIMIT_BYTES, &text, &bytes));
    json_t *state = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error), *exposure = NULL, *events = NULL;
    json_t *series = json_object_get(state, "series");
    free(text);
    const char *record = "";
    json_int_t seed = 0;
    int code = ERR_NONE;
    if (!state)
        code = err_set(ERR_USAGE, "%s:%d: %s", soak->state, error.line, error.text);
    else if (json_unpack_ex(state, &error, 0, "{s:s, s:I, s:o, s:o}", "record", &record, "seed", &seed, "exposure",
                            &exposure, "events", &events) != 0 ||
             strcmp(record, "soak") != 0 || !json_is_array(events))
        code = err_set(ERR_USAGE, "%s: not the state of a soak: move it away, or give another --state", soak->state);
    else if (health_exposure_read(exposure, &soak->exposure) != ERR_NONE)
        code = err_prefix(ERR_USAGE, "%s", soak->state);
    if (code == ERR_NONE) {
        soak->seed = seed;
        soak->earlier_seconds = soak->exposure.seconds;
        json_array_extend(soak->events, events);
        json_array_extend(soak->worse, json_object_get(state, "worse"));
        if (json_is_array(series) && json_array_size(series) <= SAMPLE_MAX)
            json_array_extend(soak->series, series);
    }
    json_decref(state);
    return code;
}

// The other ranks continue with the rounds of rank 0, and count what they see from nothing.
int soak_load(struct soak *soak)
{
    int code = bench_world_rank() == 0 ? read_state(soak) : ERR_NONE;
    struct {
        long long seed;
        uint64_t rounds;
        double seconds;
    } common = {soak->seed, soak->exposure.rounds, soak->earlier_seconds};
    if (code == ERR_NONE && bench_world_comm())
        code = comm_broadcast(bench_world_comm(), &common, sizeof common, 0);
    soak->seed = common.seed;
    soak->exposure.rounds = common.rounds;
    soak->earlier_seconds = common.seconds;
    return code;
}
