// SPDX-License-Identifier: Apache-2.0
#include "bench/storage/swap_states.h"

#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// The states in the order in which a sub-group's are read and written, and the keys of their random values.
static const char *const STATE_NAMES[SWAP_BUFFERS_MIN] = {"fp32 master parameters", "exp_avg", "exp_avg_sq"};
enum { GRADIENT_KEY = SWAP_BUFFERS_MIN, OUTGOING_KEY };

static float *address_of(const struct swap_states *states, int state)
{
    float *const addresses[SWAP_BUFFERS_MIN] = {states->placement.master, states->placement.exp_avg,
                                                states->placement.exp_avg_sq};
    return addresses[state];
}

// Draws a different value for every element, so that a misplaced block shows; second moments are not negative.
static void draw(int key, size_t first, size_t count, int threads, float *out)
{
    static const float deviations[] = {0.02f, 1e-3f, 1e-6f, 1e-3f, 1};
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < count; i++) {
        float value = deviations[key] * random_normal(random_at((uint64_t)key + 1, first + i));
        out[i] = key == 2 && value < 0 ? -value : value;
    }
}

// bf16 parameters and gradients are on the host.
static int load_config(struct swap_states *s)
{
    static const char *const set[] = {"zerogauge.offload_gradient.device=cpu",
                                      "zero_optimization.offload_param.device=cpu"};
    const struct swap_setting *setting = &s->setting;
    const struct config_options options = {
        .world = 1,
        .set = set,
        .set_count = sizeof set / sizeof set[0],
        .nvme_paths = setting->paths,
        .nvme_path_count = (size_t)setting->path_count,
    };
    TRY(config_load_preset("zero_infinity", &options, &s->config, NULL));
    s->config.sub_group_size = setting->sub_group_count;
    s->config.offload_optimizer.buffer_count = (size_t)setting->buffer_count;
    return ERR_NONE;
}

static void make_model(struct swap_states *s)
{
    static const int first[] = {0};
    s->param = (struct model_param){.name = "weight",
                                    .shape = {s->setting.count},
                                    .shape_rank = 1,
                                    .count = s->setting.count,
                                    .used = true,
                                    .layer_count = 1};
    s->layer = (struct model_layer){"layer", first, 1};
    s->model = (struct model){.name = "one tensor",
                              .params = &s->param,
                              .param_count = 1,
                              .layers = &s->layer,
                              .layer_count = 1,
                              .group_count = 1,
                              .sequence_length = 1};
}

static int open_nvme(struct swap_states *s)
{
    const struct swap_setting *setting = &s->setting;
    if (setting->inject)
        inject_begin(&s->inject, setting->inject);
    const struct tier_nvme_setting nvme = {
        .paths = setting->paths,
        .path_count = setting->path_count,
        .aio = setting->aio,
        .buffered = setting->buffered,
        .checksum = setting->checksum,
        .inject = setting->inject ? &s->inject : NULL,
    };
    return tier_nvme_open(&nvme, &s->ledger, &s->nvme);
}

static int allocate_states(struct swap_states *s)
{
    static const enum ledger_kind kinds[SWAP_BUFFERS_MIN] = {KIND_MASTER, KIND_OPTIMIZER, KIND_OPTIMIZER};
    size_t bytes = s->setting.count * sizeof(float);
    void *addresses[SWAP_BUFFERS_MIN];
    for (int i = 0; i < SWAP_BUFFERS_MIN; i++) {
        if (!s->setting.on_nvme) {
            TRY(tier_allocate(s->tier, TIER_HOST, kinds[i], STATE_NAMES[i], bytes, 0, &addresses[i]));
            continue;
        }
        TRY(tier_nvme_allocate(s->nvme, kinds[i], STATE_NAMES[i], bytes, 0, &addresses[i]));
        TRY(tier_nvme_allocate(s->nvme, KIND_STAGING, "spare bytes", bytes, 0, &s->spare[i]));
    }
    s->placement = (struct placement){
        .in_norm = true,
        .gradient_tier = TIER_HOST,
        .optimizer_tier = s->setting.on_nvme ? TIER_NVME : TIER_HOST,
        .parameter_tier = TIER_HOST,
        .master = addresses[0],
        .exp_avg = addresses[1],
        .exp_avg_sq = addresses[2],
    };
    TRY(tier_allocate(s->tier, TIER_HOST, KIND_GRADIENT, "gradients", bytes / 2, 0, &s->placement.gradient_shard));
    return tier_allocate(s->tier, TIER_HOST, KIND_PARAMETER, "parameters", bytes / 2, 0, &s->placement.parameter);
}

static int open_optimizer(struct swap_states *s)
{
    struct optimizer *o = &s->optimizer;
    *o = (struct optimizer){
        .model = &s->model,
        .config = &s->config,
        .layout = &s->layout,
        .placements = &s->placement,
        .ranks = comm_world(s->comm),
        .move = {s->executor, &s->ledger, s->nvme},
        .tier = s->tier,
        .threads = s->setting.threads,
    };
    int buffers = s->setting.on_nvme ? s->setting.buffer_count : 0;
    TRY(optimizer_open(o));
    TRY(buffer_pool_open(s->tier, TIER_HOST, "optimizer buffers", optimizer_buffer_bytes(o), buffers,
                         &o->host_buffers));
    return buffer_pool_open(s->tier, TIER_HOST, "outgoing buffers", optimizer_buffer_bytes(o),
                            s->setting.on_nvme ? SWAP_BUFFERS_MIN : 0, &s->outgoing);
}

// Returns the elements of the sub-group that begins at `from`.
static size_t length_at(const struct swap_states *s, size_t from)
{
    size_t length = optimizer_sub_group_count(&s->optimizer, 0);
    return s->setting.count - from < length ? s->setting.count - from : length;
}

static int fill_state(struct swap_states *s, int state)
{
    struct buffer_pool *buffers = &s->optimizer.host_buffers;
    for (size_t from = 0, length; from < s->setting.count; from += length) {
        length = length_at(s, from);
        float *to = s->setting.on_nvme ? (float *)buffer_pool_take(buffers) : address_of(s, state) + from;
        draw(state, from, length, s->setting.threads, to);
        if (!s->setting.on_nvme)
            continue;
        size_t bytes = move_bytes(TIER_NVME, TIER_HOST, length * sizeof(float));
        TRY(tier_nvme_write(s->nvme, address_of(s, state) + from, to, bytes));
        TRY(tier_nvme_write(s->nvme, (float *)s->spare[state] + from, to, bytes));
    }
    return ERR_NONE;
}

static int fill(struct swap_states *s)
{
    for (int state = 0; state < SWAP_BUFFERS_MIN; state++)
        TRY(fill_state(s, state));
    float *room = malloc(length_at(s, 0) * sizeof *room);
    if (!room)
        return err_set(ERR_MEMORY, "no memory for a sub-group of gradients");
    for (size_t from = 0, length; from < s->setting.count; from += length) {
        length = length_at(s, from);
        draw(GRADIENT_KEY, from, length, s->setting.threads, room);
        dtype_narrow(DTYPE_BF16, room, (uint16_t *)s->placement.gradient_shard + from, length);
    }
    free(room);
    memset(s->placement.parameter, 0, s->setting.count * sizeof(uint16_t));
    for (int i = 0; i < s->outgoing.count; i++)
        draw(OUTGOING_KEY, 0, s->outgoing.buffer_bytes / sizeof(float), s->setting.threads,
             buffer_pool_take(&s->outgoing));
    return ERR_NONE;
}

static int open_all(struct swap_states *s)
{
    TRY(load_config(s));
    make_model(s);
    const struct layout_rule rule = {.shards = 1};
    TRY(layout_open(&s->model, &rule, &s->layout));
    TRY(comm_local_open(1, &s->comm));
    TRY(tier_open(&s->ledger, &(struct tier_setting){0}, &s->tier));
    if (s->setting.on_nvme)
        TRY(open_nvme(s));
    TRY(executor_open((struct executor_schedule){EXECUTOR_OVERLAP, 0}, 0, s->tier, NULL, NULL, &s->executor));
    TRY(allocate_states(s));
    TRY(open_optimizer(s));
    return fill(s);
}

int swap_states_open(const struct swap_setting *setting, struct swap_states *out)
{
    assert(setting->count > 0 && setting->threads > 0);
    assert(!setting->on_nvme || setting->buffer_count >= SWAP_BUFFERS_MIN);
    *out = (struct swap_states){.setting = *setting};
    int code = open_all(out);
    if (code != ERR_NONE)
        swap_states_close(out);
    return code;
}

void swap_states_close(struct swap_states *states)
{
    executor_close(states->executor);
    optimizer_close(&states->optimizer);
    tier_nvme_close(states->nvme);
    tier_close(states->tier);
    layout_close(&states->layout);
    if (states->comm)
        comm_close(states->comm);
    *states = (struct swap_states){0};
}

int swap_states_transfer(struct swap_states *s)
{
    assert(s->setting.on_nvme);
    const struct move *move = &s->optimizer.move;
    for (size_t from = 0, length; from < s->setting.count; from += length) {
        length = length_at(s, from);
        for (int state = 0; state < SWAP_BUFFERS_MIN; state++) {
            struct location here = {TIER_HOST, buffer_pool_take(&s->optimizer.host_buffers)};
            struct location there = {TIER_NVME, address_of(s, state) + from};
            TRY(move_copy(move, "read", here, there, length * sizeof(float), NULL));
            struct location spare = {TIER_NVME, (float *)s->spare[state] + from};
            struct location outgoing = {TIER_HOST, buffer_pool_take(&s->outgoing)};
            TRY(move_copy(move, "write", spare, outgoing, length * sizeof(float), NULL));
        }
    }
    return executor_wait(s->executor);
}

size_t swap_states_bytes(const struct swap_states *states)
{
    return SWAP_BUFFERS_MIN * move_bytes(TIER_HOST, TIER_NVME, states->setting.count * sizeof(float));
}

// *out: a state's elements from `from` on, read into a buffer if they are on NVMe.
static int state_at(const struct swap_states *s, int state, size_t from, size_t length, const float **out)
{
    *out = address_of(s, state) + from;
    if (!s->setting.on_nvme)
        return ERR_NONE;
    float *buffer = (float *)s->optimizer.host_buffers.memory;
    TRY(tier_nvme_read(s->nvme, *out, buffer, move_bytes(TIER_HOST, TIER_NVME, length * sizeof(float))));
    *out = buffer;
    return ERR_NONE;
}

static int compare(const char *name, const void *a, const void *b, size_t from, size_t length, size_t element_bytes)
{
    if (memcmp(a, b, length * element_bytes) == 0)
        return ERR_NONE;
    for (size_t i = 0;; i++) {
        uint32_t x = 0, y = 0;
        memcpy(&x, (const char *)a + i * element_bytes, element_bytes);
        memcpy(&y, (const char *)b + i * element_bytes, element_bytes);
        if (x != y)
            return err_set(ERR_CHECK, "%s[%zu] is 0x%08" PRIx32 ", updated in memory 0x%08" PRIx32, name, from + i, x,
                           y);
    }
}

int swap_states_compare(const struct swap_states *a, const struct swap_states *b)
{
    assert(a->setting.count == b->setting.count);
    for (int state = 0; state < SWAP_BUFFERS_MIN; state++)
        for (size_t from = 0, length; from < a->setting.count; from += length) {
            const float *x, *y;
            length = length_at(a, from);
            TRY(state_at(a, state, from, length, &x));
            TRY(state_at(b, state, from, length, &y));
            TRY(compare(STATE_NAMES[state], x, y, from, length, sizeof *x));
        }
    return compare("parameter", a->placement.parameter, b->placement.parameter, 0, a->setting.count, sizeof(uint16_t));
}
