// SPDX-License-Identifier: Apache-2.0
// Adam in turn with a peer's. The setting has "step", "params", "threads", the hyperparameters, and "bytes": param,
// exp_avg and exp_avg_sq in fp32, then the gradient, in fp32 for an update and in bf16 for a whole step. Every step is
// the 1000th, with the same gradient. {"do":"state"} asks for the resulting param, exp_avg, exp_avg_sq and, for a whole
// step, the bf16 copy.
#include "bench/adam/adam_case.h"
#include "bench/harness/streams.h"
#include "bench/peers/bench_peer.h"

#include "ref/optimizer/clip.h"
#include "base/err.h"
#include "conformance/unsharded/recipe_row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A turn takes at least this long.
enum { TURN_NS = 50000000 };

enum { STEP = 1000, CHUNK_BYTES = 4 << 20, CALLS_MAX = 256, ROWS_MAX = 32 };

// So large that no gradient is clipped: implementations compute the norm but agree on the coefficient.
#define MAX_NORM 1e9

struct run {
    struct adam_arrays arrays;
    struct adam_step step;
    int threads;
    bool whole;
    size_t calls, made;                       // steps per turn; so far
    size_t different;                         // the peer's parameters that differ from ours
    float expected[ROWS_MAX][ARRAYS_PERIOD];  // the first parameters by each recipe of the suite
    bool possible[ROWS_MAX];                  // all of the peer's parameters follow that recipe
};

static int step_run(void *context)
{
    struct run *run = context;
    for (size_t i = 0; i < run->calls; i++) {
        if (run->whole)
            run->step.grad_coefficient =
                clip_coefficient(CLIP_DEEPSPEED, adam_case_norm(&run->step, run->threads), MAX_NORM);
        adam_update_parallel(&run->step, run->threads);
    }
    run->made += run->calls;
    return ERR_NONE;
}

static int open_step(const struct recipe *recipe, size_t count, struct run *run)
{
    TRY(adam_arrays_open(count, run->threads, &run->arrays));
    struct adam_arrays *arrays = &run->arrays;
    run->step = (struct adam_step){.recipe = recipe,
                                   .grad = arrays->grad,
                                   .grad_dtype = run->whole ? DTYPE_BF16 : DTYPE_FP32,
                                   .grad_divisor = 1,
                                   .grad_coefficient = 1,
                                   .param = arrays->param,
                                   .exp_avg = arrays->exp_avg,
                                   .exp_avg_sq = arrays->exp_avg_sq,
                                   .model_params = run->whole ? arrays->model_params : NULL,
                                   .model_dtype = DTYPE_BF16,
                                   .count = count,
                                   .tensor_count = count};
    struct recipe_state state = {0};
    return recipe_begin_step(recipe, &ADAM_ARRAYS_HYPER, STEP, &state, &run->step.scalars);
}

// Chooses the steps per turn so that a sample is long enough, then restores the initial state.
static int choose_calls(struct run *run)
{
    const struct bench_work work = {.name = "adam", .run = step_run, .context = run};
    adam_arrays_fill(&run->arrays, run->step.grad_dtype);
    for (run->calls = 1; run->calls < CALLS_MAX; run->calls *= 2) {
        uint64_t first_ns, ns;
        TRY(bench_time(&work, &first_ns));
        TRY(bench_time(&work, &ns));
        if (ns >= TURN_NS)
            break;
    }
    run->made = 0;
    adam_arrays_fill(&run->arrays, run->step.grad_dtype);
    return ERR_NONE;
}

static int send_setting(const struct run *run, struct peer *peer)
{
    const struct adam_arrays *arrays = &run->arrays;
    size_t count = arrays->count, grad_bytes = count * dtype_bytes(run->step.grad_dtype);
    TRY(peer_send_line(peer, json_pack("{s:s, s:s, s:I, s:i, s:i, s:f, s:[f, f], s:f, s:f, s:I}", "part", "adam",
                                       "step", run->whole ? "whole" : "update", "params", (json_int_t)count, "threads",
                                       run->threads, "t", STEP, "lr", ADAM_ARRAYS_HYPER.lr, "betas",
                                       ADAM_ARRAYS_HYPER.beta1, ADAM_ARRAYS_HYPER.beta2, "eps", ADAM_ARRAYS_HYPER.eps,
                                       "weight_decay", ADAM_ARRAYS_HYPER.weight_decay, "bytes",
                                       (json_int_t)(3 * count * sizeof(float) + grad_bytes))));
    TRY(peer_send(peer, arrays->param, count * sizeof(float)));
    TRY(peer_send(peer, arrays->exp_avg, count * sizeof(float)));
    TRY(peer_send(peer, arrays->exp_avg_sq, count * sizeof(float)));
    TRY(peer_send(peer, arrays->grad, grad_bytes));
    return peer_ready(peer);
}

// Computes the first elements by each recipe of the conformance suite that treats all elements of a tensor alike.
static int expect_rows(struct run *run, const struct adam_arrays *first)
{
    const struct recipe_step step = {.lr = ADAM_ARRAYS_HYPER.lr,
                                     .beta1 = ADAM_ARRAYS_HYPER.beta1,
                                     .beta2 = ADAM_ARRAYS_HYPER.beta2,
                                     .eps = ADAM_ARRAYS_HYPER.eps,
                                     .weight_decay = ADAM_ARRAYS_HYPER.weight_decay,
                                     .decoupled = ADAM_ARRAYS_HYPER.decoupled,
                                     .bias_correction = ADAM_ARRAYS_HYPER.bias_correction,
                                     .t = STEP};
    float grads[ARRAYS_PERIOD];
    dtype_widen(run->step.grad_dtype, first->grad, grads, first->count);
    for (int r = 0; r < ROWS_MAX && adam_recipe_at(r); r++) {
        const struct adam_recipe *row = adam_recipe_at(r);
        struct recipe_scalars scalars;
        run->possible[r] = adam_recipe_does(row, true) && !adam_recipe_has_tail(row);
        if (!run->possible[r])
            continue;
        row->begin(&step, &scalars);
        for (size_t i = 0; i < first->count; i++) {
            float p = first->param[i], m = first->exp_avg[i], v = first->exp_avg_sq[i];
            for (size_t made = 0; made < run->made; made++)
                row->element(&scalars, row->body, grads[i], &p, &m, &v);
            run->expected[r][i] = p;
        }
    }
    return ERR_NONE;
}

// The initial state repeats a period of values, so a second set of arrays of one period holds all of it.
static int expect(struct run *run)
{
    struct adam_arrays first;
    TRY(adam_arrays_open(run->arrays.count < ARRAYS_PERIOD ? run->arrays.count : ARRAYS_PERIOD, 1, &first));
    adam_arrays_fill(&first, run->step.grad_dtype);
    int code = expect_rows(run, &first);
    adam_arrays_close(&first);
    return code;
}

static void compare_params(struct run *run, const float *theirs, size_t start, size_t count)
{
    for (size_t i = 0; i < count; i++)
        run->different += memcmp(&run->arrays.param[start + i], &theirs[i], sizeof *theirs) != 0;
    for (int r = 0; r < ROWS_MAX; r++)
        for (size_t i = 0; i < count && run->possible[r]; i++)
            run->possible[r] = memcmp(&run->expected[r][(start + i) % ARRAYS_PERIOD], &theirs[i], sizeof *theirs) == 0;
}

// Returns the recipe that the peer's parameters follow: ours, or if any differs, another one of the suite; null: none.
static const char *peer_recipe(const struct run *run)
{
    if (run->different == 0)
        return recipe_name(run->step.recipe);
    for (int r = 0; r < ROWS_MAX; r++)
        if (run->possible[r])
            return adam_recipe_name(adam_recipe_at(r));
    return NULL;
}

static int compare_array(struct run *run, struct peer *peer, const char *name, const void *ours, size_t bytes)
{
    char *chunk = malloc(CHUNK_BYTES);
    int code = chunk ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a chunk of the peer's state");
    for (size_t at = 0; at < bytes && code == ERR_NONE; at += CHUNK_BYTES) {
        size_t length = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        code = peer_receive(peer, chunk, length);
        if (code == ERR_NONE && ours == run->arrays.param)
            compare_params(run, (float *)(void *)chunk, at / sizeof(float), length / sizeof(float));
        else if (code == ERR_NONE && memcmp((const char *)ours + at, chunk, length) != 0)
            code = err_set(ERR_CHECK,
                           "%s differs within bytes %zu to %zu after %zu steps; does the peer compute "
                           "--recipe %s?",
                           name, at, at + length, run->made, recipe_name(run->step.recipe));
    }
    free(chunk);
    return code;
}

// Verifies our elements against a replay, and the peer's against ours.
static int verify(struct run *run, struct peer *peer)
{
    const struct adam_arrays *arrays = &run->arrays;
    size_t bytes = arrays->count * sizeof(float);
    json_t *answer;
    TRY(adam_arrays_check(arrays, &run->step, run->made));
    TRY(expect(run));
    TRY(peer_ask(peer, json_pack("{s:s}", "do", "state"), &answer));
    json_decref(answer);
    TRY(compare_array(run, peer, "param", arrays->param, bytes));
    TRY(compare_array(run, peer, "exp_avg", arrays->exp_avg, bytes));
    TRY(compare_array(run, peer, "exp_avg_sq", arrays->exp_avg_sq, bytes));
    if (run->whole)
        TRY(compare_array(run, peer, "copy", arrays->model_params, bytes / 2));
    if (!peer_recipe(run))
        return err_set(ERR_CHECK,
                       "%zu of %zu parameters differ after %zu steps and follow no known recipe; does the "
                       "peer compute --recipe %s?",
                       run->different, arrays->count, run->made, recipe_name(run->step.recipe));
    return ERR_NONE;
}

// The streams of an update without its arithmetic, moved in the way that is fastest here: the limit of both sides. It
// changes no bit of them.
static double copy_ns_per_param(const struct run *run)
{
    enum { TRIALS = 5 };
    static const volatile uint32_t mask = 0;  // volatile, so that the compiler keeps loads and stores
    const struct adam_arrays *arrays = &run->arrays;
    struct streams streams = {.param = arrays->param,
                              .exp_avg = arrays->exp_avg,
                              .exp_avg_sq = arrays->exp_avg_sq,
                              .grad = arrays->grad,
                              .grad_dtype = run->step.grad_dtype,
                              .count = arrays->count,
                              .past_cache = true};
    struct bench_samples taken[STREAMS_WAY_COUNT] = {0};
    for (int trial = 0; trial < TRIALS * STREAMS_WAY_COUNT; trial++) {
        struct bench_samples *of_way = &taken[trial % STREAMS_WAY_COUNT];
        streams.way = (enum streams_way)(trial % STREAMS_WAY_COUNT);
        uint64_t begin_ns = clock_now_ns();
        streams_step(&streams, mask, run->threads, run->calls);
        of_way->values[of_way->count++] = (double)(clock_now_ns() - begin_ns);
    }
    double least = INFINITY;
    for (int way = 0; way < STREAMS_WAY_COUNT; way++)
        least = fmin(least, bench_median(&taken[way]));
    return least / (double)(arrays->count * run->calls);
}

static int measure(struct run *run, const struct peer_options *options, struct peer *peer)
{
    struct bench_samples ours, theirs;
    const struct bench_work work = {.name = "adam", .run = step_run, .context = run};
    uint64_t begin_ns = clock_now_ns();
    TRY(choose_calls(run));
    TRY(send_setting(run, peer));
    double items = (double)(run->arrays.count * run->calls);
    TRY(peer_alternate(&work, peer, &options->shared, run->calls, items, &ours, &theirs));
    double copy_ns = run->whole ? NAN : copy_ns_per_param(run);
    TRY(verify(run, peer));
    struct bench_record record = {
        .name = "peer",
        .description = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:i}", "part", "adam", "peer",
                                 options->label ? options->label : peer->name, "step", run->whole ? "whole" : "update",
                                 "recipe", recipe_name(run->step.recipe), "grad", dtype_name(run->step.grad_dtype),
                                 "params", (json_int_t)run->arrays.count, "threads", run->threads),
        .detail = json_pack("{s:I, s:I, s:s, s:o}", "steps_compared", (json_int_t)run->made, "params_different",
                            (json_int_t)run->different, "peer_recipe", peer_recipe(run), "copy_ns_per_param",
                            isnan(copy_ns) ? json_null() : json_real(copy_ns)),
        .unit = "ns_per_param",
        .lower_is_better = true,
        .items = items,
        .begin_ns = begin_ns,
        .samples = &ours,
        .baseline_name = peer->name,
        .baseline = &theirs};
    return bench_print(&options->shared, &record);
}

int peer_adam(const struct peer_options *options, struct peer *peer)
{
    struct bench_options shared = options->shared;
    const struct recipe *recipe = recipe_find(options->recipe ? options->recipe : "torch-cpu");
    const char *step = options->step ? options->step : "update";
    if (!recipe)
        return err_set(ERR_USAGE, "unknown recipe \"%s\"", options->recipe);
    if (strcmp(step, "update") != 0 && strcmp(step, "whole") != 0)
        return err_set(ERR_USAGE, "--step %s: expected update or whole", step);
    // 1 GiB, in quick runs as well: in a cache, of which some have 260 MiB and more, the two sides compare otherwise.
    bench_default_sizes(&shared, (const size_t[]){64u << 20}, 1);
    bench_default_repeat(&shared, 11, 11, 2);
    if (shared.size_count != 1 || shared.thread_count > 1)
        return err_set(ERR_USAGE, "--sizes and --threads: give one of each, because the peer has one state");
    struct peer_options complete = *options;
    complete.shared = shared;
    static struct run run;
    run = (struct run){.whole = strcmp(step, "whole") == 0,
                       .threads = shared.thread_count ? shared.threads[0] : bench_thread_count()};
    int code = open_step(recipe, shared.sizes[0], &run);
    if (code == ERR_NONE)
        code = measure(&run, &complete, peer);
    adam_arrays_close(&run.arrays);
    return code;
}
