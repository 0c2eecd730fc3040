// SPDX-License-Identifier: Apache-2.0
// ZeRO in one file: data-parallel training in which optimizer states, gradients and parameters are partitioned over the
// ranks, and every weight stays, bit by bit, that of unsharded Adam. To be read from top to bottom, beside the papers:
//
//     ZeRO              arXiv:1910.02054   Rajbhandari et al.: the stages, their memory, their communication
//     ZeRO-Offload      arXiv:2101.06840   Ren et al.: the optimizer on the host
//     ZeRO-Infinity     arXiv:2104.07857   Rajbhandari et al.: the optimizer states on NVMe
//     Adam, AdamW       arXiv:1412.6980, arXiv:1711.05101   Kingma and Ba; Loshchilov and Hutter
//     Mixed precision   arXiv:1710.03740   Micikevicius et al.: fp32 master weights, loss scaling
//     PyTorch FSDP      arXiv:2304.11277   Zhao et al.: the third stage in another system's words
//
//     cc -O2 zero.c -lpthread -lm && ./a.out [TEXT]
// trains a small language model on this source (or the file TEXT) on 3 ranks at every stage. It prints the loss, what a
// rank holds and sends beside the paper's formulas, and that every weight and moment is bitwise that of unsharded Adam;
// if one is not, it names the first and exits with status 1.
// What this is not: fast, or a library. Ranks are threads, collectives are copies, nothing overlaps: no streams, no
// prefetching, no buckets. The host's memory is the same memory, and NVMe a temporary file, which pread and pwrite
// reach through the page cache. 16-bit numbers are kept and sent as fp32 numbers of the same value; bytes are counted
// as the format's. Times measured here are not ZeRO's.
//
// The bits depend on no compiler or optimization: a fused multiply-add is written fmaf, and sums have an order.
// Compilers must not fuse others: plain x86-64 has no instruction for it; elsewhere, and with -march=native, gcc needs
// -ffp-contract=off (or -std=c17), while clang obeys the pragma below. With -DZERO_PLUGIN this is a shared object for
// `zerogauge check --plugin`, which judges the same stages (section 12).
#define _POSIX_C_SOURCE 200809L  // fileno, ftruncate, pread, pwrite, pthread_barrier_t
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    errno ? perror(what) : (void)fprintf(stderr, "zero.c: %s\n", what);
    exit(1);
}

// Zeros; one more than asked for, as a tensor may be empty.
static float *floats(size_t count)
{
    float *memory = calloc(count + 1, sizeof *memory);
    must(memory, "calloc");
    return memory;
}

// --- 1. Number formats -----------------------------------------------------------------------------------------------

enum dtype { FP32, BF16, FP16 };
static const size_t bytes_of[] = {4, 2, 2};

union number {
    float value;
    uint32_t bits;
};

// To nearest, ties to even.
static float round_to(enum dtype dtype, float x)
{
    union number n = {.value = x};
    int exponent;
    if (dtype == FP32 || !isfinite(x))
        return x;
    if (dtype == BF16) {  // the upper half of an fp32
        n.bits = (n.bits + 0x7fff + (n.bits >> 16 & 1)) & 0xffff0000;
        return n.value;
    }
    frexpf(x, &exponent);  // fp16 has 11 bits, none below 2^-24, and nothing from 65520 on
    exponent = exponent - 11 > -24 ? exponent - 11 : -24;
    n.value = ldexpf(rintf(ldexpf(x, -exponent)), exponent);
    return fabsf(n.value) < 65536 ? n.value : copysignf(INFINITY, x);
}

// --- 2. Adam ---------------------------------------------------------------------------------------------------------
// Algorithm 1 of its paper, and Algorithm 2 of AdamW's, operation by operation as PyTorch computes them on a CPU:
// scalars in double, rounded once. No element needs another one: that is why Adam can be partitioned at all.

struct group {
    const double *lr;  // lr[step - 1]
    double beta1, beta2, eps, weight_decay;
    bool decoupled, bias_correction;  // decoupled: AdamW; otherwise weight_decay is Adam's, L2
};

struct adam {
    float take1, beta2, take2, root_bias2, eps, step_size, l2, shrink;
};

static struct adam adam_begin(const struct group *group, int step, uint64_t t)
{
    double lr = group->lr[step - 1], beta1 = group->beta1, beta2 = group->beta2, decay = group->weight_decay;
    double bias1 = group->bias_correction ? 1 - pow(beta1, (double)t) : 1;
    double bias2 = group->bias_correction ? 1 - pow(beta2, (double)t) : 1;
    return (struct adam){.take1 = (float)(1 - beta1),
                         .beta2 = (float)beta2,
                         .take2 = (float)(1 - beta2),
                         .root_bias2 = (float)sqrt(bias2),
                         .eps = (float)group->eps,
                         .step_size = (float)(lr / bias1),
                         .l2 = group->decoupled ? 0 : (float)decay,
                         .shrink = group->decoupled ? (float)(1 - lr * decay) : 1};
}

static void adam_element(const struct adam *a, float g, float *p, float *m, float *v)
{
    if (a->l2 != 0)
        g = fmaf(*p, a->l2, g);
    *p *= a->shrink;
    *m = a->take1 < 0.5f ? fmaf(a->take1, g - *m, *m) : fmaf(a->take1 - 1, g - *m, g);  // beta1 m + (1 - beta1) g
    *v = fmaf(a->take2 * g, g, *v * a->beta2);                                          // beta2 v + (1 - beta2) g^2
    *p += -a->step_size * *m / (sqrtf(*v) / a->root_bias2 + a->eps);
}

// --- 3. Loss scale and clipping --------------------------------------------------------------------------------------
// "Mixed Precision Training", section 3.2: the loss is multiplied by S, so that small gradients survive fp16; gradients
// are divided by S before the update. A dynamic S is halved, and the step skipped, when a gradient overflows; after a
// window of clean steps it is doubled. These are DeepSpeed's rules.

struct scaler {
    bool dynamic;
    double scale, min_scale;
    uint64_t window, hysteresis;  // clean steps before S is doubled; overflows before it is halved
    uint64_t clean, left;         // clean steps since an overflow; overflows before S is halved
};

static void scaler_advance(struct scaler *s, bool overflow)
{
    if (!s->dynamic)
        return;
    if (overflow && s->left > 1) {
        s->left--;
    } else if (overflow) {
        s->scale = fmax(s->scale / 2, s->min_scale);
    } else if (s->clean > 0 && s->clean % s->window == 0) {
        s->scale *= 2;
        s->left = s->hysteresis;
    }
    s->clean = overflow ? 0 : s->clean + 1;
}

// Pascanu et al., arXiv:1211.5063, Algorithm 1, as PyTorch rounds it. max_norm 0: no clipping.
static float clip_coefficient(double norm, double max_norm)
{
    float coefficient = 1.0f / ((float)norm + 1e-6f) * (float)max_norm;
    return max_norm > 0 && coefficient < 1 ? coefficient : 1;
}

// --- 4. The model states, and how they are partitioned ---------------------------------------------------------------
// Of Psi parameters (ZeRO, section 3.1): "an fp16 copy of the parameters and the gradients [...]. In addition, it needs
// to hold the optimizer states: an fp32 copy of the parameters, momentum and variance", K = 4 + 4 + 4 bytes each.

enum state { PARAM, GRAD, MASTER, EXP_AVG, EXP_AVG_SQ, STATES };

// Every tensor is padded with zeros to a multiple of N_d and cut in N_d equal shards. Zeros stay zeros under Adam, and
// add nothing to a norm. A whole state has all shards of every tensor, a partitioned one this rank's:
//
//     whole         | tensor 0: shard 0 | shard 1 | shard 2 .00 | tensor 1: shard 0 | shard 1 | ...
//     partitioned   | tensor 0: shard r | tensor 1: shard r | ...

struct tensor {
    size_t count;
    int group;
    size_t start;         // where it begins in all tensors laid end to end, unpadded
    size_t shard, whole;  // elements, padded: of a shard, of all N_d
    size_t at, whole_at;  // where it begins in a partitioned state, in a whole one
};

// ZeRO-Offload keeps the partitioned optimizer states in the host's memory, beside the processor that updates them;
// ZeRO-Infinity on NVMe. Nothing is computed on the way: no tier changes a bit.
enum tier { DEVICE, HOST, NVME };

struct store {
    enum tier tier;
    size_t count;   // elements, padding included
    float *memory;  // [count] on DEVICE and HOST
    FILE *file;     // [count] floats on NVME: nameless, and this rank's alone
};

static void store_move(const struct store *s, bool write, size_t at, float *values, size_t count)
{
    size_t bytes = count * sizeof *values;
    off_t offset = (off_t)(at * sizeof *values);
    if (s->tier == NVME && write)
        must(pwrite(fileno(s->file), values, bytes, offset) == (ssize_t)bytes, "pwrite");
    else if (s->tier == NVME)
        must(pread(fileno(s->file), values, bytes, offset) == (ssize_t)bytes, "pread");
    else
        memcpy(write ? s->memory + at : values, write ? values : s->memory + at, bytes);
}

// --- 5. Ranks and their collectives ----------------------------------------------------------------------------------

enum { RANKS = 64, TENSORS = 64, SUB_GROUP = 256 };  // at most: in a job; elements that Adam updates at once

struct rank {  // one process of the papers
    struct job *job;
    const struct stage *stage;
    int id, step;
    struct store states[STATES];
    struct scaler scaler;
    uint64_t t;  // updates applied
    bool skipped;
    float divisor, coefficient;  // ranks x micro-steps x loss scale; of clipping
    double norm, loss;
    uint64_t sent_bytes;
};

struct job {  // all ranks agree on it
    const struct stage *stage;
    int ranks, accumulation;  // N_d; micro-steps in a step
    enum dtype precision;     // of parameters and gradients, kept or sent
    enum tier optimizer_tier;
    double max_norm;
    bool checks_overflow;
    struct scaler scaler;
    int tensor_count;
    struct tensor tensors[TENSORS];  // in the order of the forward
    struct group groups[TENSORS];
    size_t shards;  // elements of a shard of every tensor
    struct rank rank[RANKS];
    void (*body)(struct rank *);  // every rank runs it
    pthread_barrier_t barrier;
    float *shown[RANKS];
};

// A buffer has N_d pieces; piece r is rank r's. Ranks show each other their buffers between two barriers.
// Before: each rank has its own piece, in its place. After: each has all of them.
static void all_gather(struct rank *r, float *whole, size_t piece)
{
    r->job->shown[r->id] = whole;
    pthread_barrier_wait(&r->job->barrier);
    for (size_t from = 0; from < (size_t)r->job->ranks; from++)
        if (r->job->shown[from] != whole)
            memcpy(whole + from * piece, r->job->shown[from] + from * piece, piece * sizeof *whole);
    pthread_barrier_wait(&r->job->barrier);
    r->sent_bytes += (uint64_t)(r->job->ranks - 1) * piece * bytes_of[r->job->precision];
}

// Before: each rank has a whole buffer. After: its own piece is the sum of all ranks' such pieces, the others are as
// they were. A sum is added in fp32, ranks ascending, and rounded once.
static void reduce_scatter(struct rank *r, float *whole, size_t piece)
{
    r->job->shown[r->id] = whole;
    pthread_barrier_wait(&r->job->barrier);
    for (size_t k = (size_t)r->id * piece; k < (size_t)(r->id + 1) * piece; k++) {
        float sum = 0;
        for (int from = 0; from < r->job->ranks; from++)
            sum += r->job->shown[from][k];
        whole[k] = round_to(r->job->precision, sum);
    }
    pthread_barrier_wait(&r->job->barrier);
    r->sent_bytes += (uint64_t)(r->job->ranks - 1) * piece * bytes_of[r->job->precision];
}

// ZeRO, section 7.1: "State-of-art implementation of all-reduce uses a two-step approach, where the first step is a
// reduce-scatter operation [...]. The next step is an all-gather operation".
static void all_reduce(struct rank *r, float *whole, size_t piece)
{
    reduce_scatter(r, whole, piece);
    all_gather(r, whole, piece);
}

// --- 6. The stages ---------------------------------------------------------------------------------------------------
// A stage is four functions: how a layer takes a tensor; where the gradient goes that backward has made of it; which
// collective reduces gradients before the update; which one publishes parameters after it.

struct stage {
    const char *name, *formula;  // of the bytes that a rank holds for each parameter
    bool partitions[STATES];
    void (*take)(struct rank *, const struct tensor *, float *whole);
    void (*made)(struct rank *, const struct tensor *, float *whole);
    void (*reduce)(struct rank *, float *whole, size_t shard), (*publish)(struct rank *, float *whole, size_t shard);
};

// Data parallelism (section 2.1): "model parameters are replicated on each device." Section 7.1: "gradients across all
// data parallel processes are averaged at the end of the backward propagation before computing the updates for the next
// step. The averaging is performed using an all-reduce communication collective." Until then micro-steps add up.
static void take_replica(struct rank *r, const struct tensor *t, float *whole)
{
    memcpy(whole, r->states[PARAM].memory + t->whole_at, t->whole * sizeof *whole);
}

static void accumulate(struct rank *r, float *sum, const float *grad, size_t count)
{
    for (size_t k = 0; k < count; k++)
        sum[k] = round_to(r->job->precision, sum[k] + grad[k]);
}

static void accumulate_whole(struct rank *r, const struct tensor *t, float *whole)
{
    accumulate(r, r->states[GRAD].memory + t->whole_at, whole, t->whole);
}

// P_os (section 5.1): "we group the optimizer states into N_d equal partitions, such that the i-th data parallel
// process only updates the optimizer states corresponding to the i-th partition." So of the reduced gradient it needs
// its own shard: half an all-reduce. "We perform an all-gather across the data parallel process at the end of each
// training step to get the fully updated parameters across all data parallel process." Both are in the table below.

// P_os+g (section 5.2): "as each gradient of each layer becomes available during the backward propagation, we only
// reduce them on the data parallel process responsible for updating the corresponding parameters. After the reduction
// we no longer need the gradients and their memory can be released. [...] Effectively this is a Reduce-Scatter
// operation". So ranks are added up in every micro-step, and micro-steps after that: in P_os it is the other way about.
static void reduce_scatter_made(struct rank *r, const struct tensor *t, float *whole)
{
    reduce_scatter(r, whole, t->shard);
    accumulate(r, r->states[GRAD].memory + t->at, whole + (size_t)r->id * t->shard, t->shard);
}

// P_os+g+p (section 5.3): "each process only stores the parameters corresponding to its partition. When the parameters
// outside of its partition are required for forward and backward propagation, they are received from the appropriate
// data parallel process". Section 7.2.2: "we reschedule the parameter all-gather by spreading it across the entire
// forward propagation, and discarding the parameters once they have been used. Note however that this all-gather needs
// to happen once again for the backward propagation in the reverse order." FSDP says unshard and reshard.
static void take_gathered(struct rank *r, const struct tensor *t, float *whole)
{
    memcpy(whole + (size_t)r->id * t->shard, r->states[PARAM].memory + t->at, t->shard * sizeof *whole);
    all_gather(r, whole, t->shard);
}

// clang-format off
static const struct stage stages[] = {
    //                                      PARAM  GRAD   MASTER EXP_AVG, _SQ
    {"data parallel",     "2 + 2 + K",     {false, false, false, false, false},
        take_replica,  accumulate_whole,    all_reduce,     NULL},
    {"ZeRO-1 (P_os)",     "2 + 2 + K/N_d", {false, false, true,  true,  true},
        take_replica,  accumulate_whole,    reduce_scatter, all_gather},
    {"ZeRO-2 (P_os+g)",   "2 + (2+K)/N_d", {false, true,  true,  true,  true},
        take_replica,  reduce_scatter_made, NULL,           all_gather},
    {"ZeRO-3 (P_os+g+p)", "(2+2+K)/N_d",   {true,  true,  true,  true,  true},
        take_gathered, reduce_scatter_made, NULL,           NULL},
};
// clang-format on

// --- 7. What a model sees of a stage ---------------------------------------------------------------------------------

// [count] A tensor, for a layer to compute with and then to free.
static float *take(struct rank *r, int tensor)
{
    float *whole = floats(r->job->tensors[tensor].whole);
    r->stage->take(r, &r->job->tensors[tensor], whole);
    return whole;
}

// [count] A tensor's gradient, rounded to the model's precision.
static void give(struct rank *r, int tensor, const float *grad)
{
    const struct tensor *t = &r->job->tensors[tensor];
    float *whole = floats(t->whole);
    for (size_t k = 0; k < t->count; k++)
        whole[k] = round_to(r->job->precision, grad[k]);
    r->stage->made(r, t, whole);
    free(whole);
}

// --- 8. The step -----------------------------------------------------------------------------------------------------

// A collective on every tensor of a state that all ranks have whole; null: none.
static void on_whole(struct rank *r, enum state state, void (*collective)(struct rank *, float *, size_t))
{
    for (int i = 0; collective && i < r->job->tensor_count; i++)
        collective(r, r->states[state].memory + r->job->tensors[i].whole_at, r->job->tensors[i].shard);
}

// Where the shard of rank `owner` begins in what this rank has of a state.
static size_t shard_at(const struct rank *r, enum state state, const struct tensor *t, int owner)
{
    return r->stage->partitions[state] ? t->at : t->whole_at + (size_t)owner * t->shard;
}

// The norm of the mean gradient counts every element once: each rank adds the squares of its own shards, in fp64, and
// all ranks add these sums in one order. An inf or NaN in any shard makes it inf or NaN on all ranks.
static double global_norm(struct rank *r)
{
    double sum = 0, squares[RANKS] = {0};
    for (const struct tensor *t = r->job->tensors; t < r->job->tensors + r->job->tensor_count; t++)
        for (size_t k = 0; k < t->shard; k++) {
            double mean = r->states[GRAD].memory[shard_at(r, GRAD, t, r->id) + k] / r->divisor;
            squares[r->id] += mean * mean;
        }
    all_gather(r, (float *)squares, sizeof *squares / sizeof(float));
    for (int from = 0; from < r->job->ranks; from++)
        sum += squares[from];
    return sqrt(sum);
}

// Adam on one shard, a sub-group at once: states come from their tier, and go back. "the mixed-precision optimizer
// keeps an fp32 copy of the parameters as well as an fp32 copy of all the other optimizer states" (section 3.1): that
// copy, the master, is updated; forward and backward use it rounded.
static void update_shard(struct rank *r, const struct tensor *t, int owner)
{
    struct adam adam = adam_begin(&r->job->groups[t->group], r->step, r->t);
    float g[SUB_GROUP], s[3][SUB_GROUP];  // s: MASTER, EXP_AVG, EXP_AVG_SQ
    for (size_t n, k = 0; k < t->shard; k += n) {
        n = t->shard - k < SUB_GROUP ? t->shard - k : SUB_GROUP;
        store_move(&r->states[GRAD], false, shard_at(r, GRAD, t, owner) + k, g, n);
        for (int i = 0; i < 3; i++)
            store_move(&r->states[MASTER + i], false, shard_at(r, MASTER, t, owner) + k, s[i], n);
        for (size_t j = 0; j < n; j++)
            adam_element(&adam, g[j] / r->divisor * r->coefficient, &s[0][j], &s[1][j], &s[2][j]);
        for (int i = 0; i < 3; i++)
            store_move(&r->states[MASTER + i], true, shard_at(r, MASTER, t, owner) + k, s[i], n);
        for (size_t j = 0; j < n; j++)
            s[0][j] = round_to(r->job->precision, s[0][j]);
        store_move(&r->states[PARAM], true, shard_at(r, PARAM, t, owner) + k, s[0], n);
    }
}

// Before the first micro-step's forward, and after the last one's backward. All ranks have the same norm: so all skip
// the step, or none. The mean is a single division, by the loss scale that the gradients were made with.
static void begin_step(struct rank *r, int step)
{
    r->step = step;
    memset(r->states[GRAD].memory, 0, r->states[GRAD].count * sizeof(float));
}

static void end_step(struct rank *r)
{
    const struct job *job = r->job;
    on_whole(r, GRAD, job->stage->reduce);
    r->divisor = (float)(job->ranks * job->accumulation * r->scaler.scale);
    r->norm = global_norm(r);
    r->skipped = job->checks_overflow && !isfinite(r->norm);
    scaler_advance(&r->scaler, r->skipped);
    if (r->skipped)
        return;
    r->coefficient = clip_coefficient(r->norm, job->max_norm);
    r->t++;
    for (int i = 0; i < job->tensor_count; i++)
        for (int owner = 0; owner < job->ranks; owner++)
            if (owner == r->id || !r->stage->partitions[MASTER])
                update_shard(r, &job->tensors[i], owner);
    on_whole(r, PARAM, job->stage->publish);
}

// --- 9. A job --------------------------------------------------------------------------------------------------------

static void job_open(struct job *job)
{
    size_t ranks = (size_t)job->ranks, start = 0;
    for (struct tensor *t = job->tensors; t < job->tensors + job->tensor_count; t++) {
        t->shard = (t->count + ranks - 1) / ranks;
        t->whole = t->shard * ranks;
        t->at = job->shards;
        t->whole_at = t->at * ranks;
        t->start = start;
        job->shards += t->shard;
        start += t->count;
    }
    pthread_barrier_init(&job->barrier, NULL, (unsigned)job->ranks);
    for (int i = 0; i < job->ranks * STATES; i++) {
        struct rank *r = &job->rank[i / STATES];
        struct store *s = &r->states[i % STATES];
        r->job = job;
        r->stage = job->stage;
        r->id = i / STATES;
        r->scaler = job->scaler;
        s->count = job->stage->partitions[i % STATES] ? job->shards : job->shards * ranks;
        s->tier = i % STATES < MASTER ? DEVICE : job->optimizer_tier;
        if (s->tier != NVME)
            s->memory = floats(s->count);
        else
            must((s->file = tmpfile()) && ftruncate(fileno(s->file), (off_t)(s->count * sizeof(float))) == 0, "NVMe");
    }
}

static void job_close(struct job *job)
{
    for (int i = 0; i < job->ranks * STATES; i++) {
        struct store *s = &job->rank[i / STATES].states[i % STATES];
        free(s->memory);
        if (s->file)
            fclose(s->file);
    }
    pthread_barrier_destroy(&job->barrier);
}

// Reads or writes values[count], a tensor of a state: all that this rank has of it, or only the shard that it owns.
static void move_tensor(struct rank *r, bool write, bool own, enum state state, const struct tensor *t, float *values)
{
    for (int owner = own ? r->id : 0; owner < (own ? r->id + 1 : r->job->ranks); owner++) {
        size_t begin = (size_t)owner * t->shard, end = begin + t->shard < t->count ? begin + t->shard : t->count;
        if (begin < end && (owner == r->id || !r->stage->partitions[state]))
            store_move(&r->states[state], write, shard_at(r, state, t, owner), values + begin, end - begin);
    }
}

static void *run_rank(void *rank)
{
    struct rank *r = rank;
    r->job->body(r);
    return NULL;
}

// All ranks at once.
static void run(struct job *job, void (*body)(struct rank *))
{
    pthread_t threads[RANKS];
    job->body = body;
    for (int i = 0; i < job->ranks; i++)
        must(pthread_create(&threads[i], NULL, run_rank, &job->rank[i]) == 0, "pthread_create");
    for (int i = 0; i < job->ranks; i++)
        pthread_join(threads[i], NULL);
}

#ifndef ZERO_PLUGIN
// --- 10. A model -----------------------------------------------------------------------------------------------------
// A neural bigram: logits = OUT relu(EMBED[byte]), both tensors [BYTES][WIDTH]. Layers take their tensors and give
// their gradients; backward takes again what forward has freed.

enum { EMBED, OUT, MODEL, BYTES = 256, WIDTH = 13, BATCH = 24, STEPS = 40, COUNT = BYTES * WIDTH, PSI = MODEL * COUNT };
static unsigned char text[1 << 17];
static size_t text_bytes;

// The mean loss of bytes[1 .. BATCH], each predicted from the one before. Gradients are scaled.
static double forward_backward(struct rank *r, const unsigned char *bytes)
{
    float h[BATCH][WIDTH], p[BATCH][BYTES], dh[BATCH][WIDTH] = {0}, grads[MODEL][COUNT] = {0};
    float *embed = take(r, EMBED);
    double loss = 0;
    for (int n = 0; n < BATCH; n++)
        for (int i = 0; i < WIDTH; i++)
            h[n][i] = fmaxf(embed[bytes[n] * WIDTH + i], 0);
    free(embed);
    float *out = take(r, OUT);
    for (int n = 0; n < BATCH; n++) {
        float sum = 0;
        for (int b = 0; b < BYTES; b++) {
            float logit = 0;
            for (int i = 0; i < WIDTH; i++)
                logit += out[b * WIDTH + i] * h[n][i];
            sum += p[n][b] = expf(logit);
        }
        for (int b = 0; b < BYTES; b++)
            p[n][b] /= sum;
        loss -= log((double)p[n][bytes[n + 1]]) / BATCH;
    }
    free(out);
    out = take(r, OUT);  // backward begins
    for (int n = 0; n < BATCH; n++)
        for (int b = 0; b < BYTES; b++) {
            float d = (p[n][b] - (b == bytes[n + 1] ? 1 : 0)) * (float)(r->scaler.scale / BATCH);  // of the logit
            for (int i = 0; i < WIDTH; i++) {
                grads[OUT][b * WIDTH + i] += d * h[n][i];
                dh[n][i] += d * out[b * WIDTH + i];
            }
        }
    free(out);
    give(r, OUT, grads[OUT]);
    embed = take(r, EMBED);
    for (int n = 0; n < BATCH; n++)
        for (int i = bytes[n] * WIDTH, j = 0; j < WIDTH; i++, j++)
            grads[EMBED][i] += embed[i] > 0 ? dh[n][j] : 0;
    free(embed);
    give(r, EMBED, grads[EMBED]);
    return loss;
}

static const unsigned char *batch_of(const struct job *job, int step, int micro, int rank)
{
    size_t batch = (size_t)(((step - 1) * job->accumulation + micro) * job->ranks + rank);
    return text + batch * BATCH % (text_bytes - BATCH);
}

static void train_step(struct rank *r)
{
    begin_step(r, r->step + 1);
    r->loss = 0;
    for (int micro = 0; micro < r->job->accumulation; micro++)
        r->loss += forward_backward(r, batch_of(r->job, r->step, micro, r->id));
    end_step(r);
}

// --- 11. Unsharded Adam, and the comparison --------------------------------------------------------------------------
// One thread, whole tensors, plain loops: the definition that the stages are held against. It shares with them the
// model, the formats, Adam on one element, and the rules of section 3.

static struct unsharded {
    struct rank rank;                                  // with a stage of its own, which knows no other rank
    float states[STATES][PSI], made[2][3][PSI], *now;  // made: by micro-step and rank; now: one of these
} un;

static void take_unsharded(struct rank *r, const struct tensor *t, float *whole)
{
    (void)r;
    memcpy(whole, un.states[PARAM] + t->start, t->count * sizeof *whole);
}

static void keep_unsharded(struct rank *r, const struct tensor *t, float *whole)
{
    (void)r;
    memcpy(un.now + t->start, whole, t->count * sizeof *whole);
}

static const struct stage unsharded = {.take = take_unsharded, .made = keep_unsharded};

// The order of a floating-point sum is part of its definition: micro-steps first, or, of partitioned gradients, ranks.
static float unsharded_sum(const struct job *job, int i)
{
    bool ranks_first = job->stage->partitions[GRAD];
    int outer = ranks_first ? job->accumulation : job->ranks, inner = ranks_first ? job->ranks : job->accumulation;
    float sum = 0;
    for (int a = 0; a < outer; a++) {
        float part = 0;
        for (int b = 0; b < inner; b++)
            part = ranks_first ? part + un.made[a][b][i] : round_to(job->precision, part + un.made[b][a][i]);
        sum = ranks_first ? round_to(job->precision, sum + round_to(job->precision, part)) : sum + part;
    }
    return round_to(job->precision, sum);
}

static void unsharded_step(struct job *job, int step)
{
    struct rank *r = &un.rank;
    r->divisor = (float)(job->ranks * job->accumulation * r->scaler.scale);
    for (int i = 0; i < job->ranks * job->accumulation; i++) {
        un.now = un.made[i / job->ranks][i % job->ranks];
        forward_backward(r, batch_of(job, step, i / job->ranks, i % job->ranks));
    }
    for (int i = 0; i < PSI; i++)
        un.states[GRAD][i] = unsharded_sum(job, i) / r->divisor;
    // The order of the squares is part of it, too: shard by shard, of 1/N_d of each tensor.
    double norm = 0, parts[RANKS] = {0};
    for (int i = 0, shard = (COUNT + job->ranks - 1) / job->ranks; i < PSI; i++)
        parts[i % COUNT / shard] += (double)un.states[GRAD][i] * (double)un.states[GRAD][i];
    for (int rank = 0; rank < job->ranks; rank++)
        norm += parts[rank];
    norm = sqrt(norm);
    scaler_advance(&r->scaler, !isfinite(norm));
    if (!isfinite(norm))
        return;
    struct adam adam = adam_begin(&job->groups[0], step, ++r->t);
    float coefficient = clip_coefficient(norm, job->max_norm);
    for (int i = 0; i < PSI; i++) {
        adam_element(&adam, un.states[GRAD][i] * coefficient, &un.states[MASTER][i], &un.states[EXP_AVG][i],
                     &un.states[EXP_AVG_SQ][i]);
        un.states[PARAM][i] = round_to(job->precision, un.states[MASTER][i]);
    }
}

// Every weight and moment of every rank that has it.
static void compare(struct rank *r)
{
    static const char *const names[STATES] = {"parameter", "gradient", "master", "exp_avg", "exp_avg_sq"};
    for (int state = 0; state < STATES; state++) {
        float ours[PSI], *right = un.states[state];
        memcpy(ours, right, sizeof ours);
        for (int i = 0; i < MODEL && state != GRAD; i++)
            move_tensor(r, false, false, (enum state)state, &r->job->tensors[i], ours + i * COUNT);
        for (int k = 0; k < PSI; k++)
            if (memcmp(&ours[k], &right[k], sizeof *ours) != 0) {
                printf("  %s: DIFFERENT in step %d, rank %d, %s %d: %a, unsharded Adam %a\n", r->job->stage->name,
                       r->step, r->id, names[state], k, (double)ours[k], (double)right[k]);
                exit(1);
            }
    }
}

static void run_stage(const struct job *settings, const struct stage *stage)
{
    static struct job job;
    double first = 0, last = 0, skipped = 0, held[3] = {0}, formula = 0;
    job = *settings;
    job.stage = stage;
    job_open(&job);
    un = (struct unsharded){.rank = {.job = &job, .stage = &unsharded, .scaler = job.scaler}};
    for (uint32_t i = 0, random = 1; i < PSI; i++) {
        random = random * 1664525 + 1013904223;
        un.states[MASTER][i] = ((float)(random >> 8) * 0x1p-24f - 0.5f) * 0.5f;
        un.states[PARAM][i] = round_to(job.precision, un.states[MASTER][i]);
    }
    for (int i = 0; i < MODEL * job.ranks; i++) {
        struct rank *r = &job.rank[i / MODEL];
        move_tensor(r, true, false, MASTER, &job.tensors[i % MODEL], un.states[MASTER] + i % MODEL * COUNT);
        move_tensor(r, true, false, PARAM, &job.tensors[i % MODEL], un.states[PARAM] + i % MODEL * COUNT);
    }
    for (int step = 1; step <= STEPS; step++) {
        unsharded_step(&job, step);
        run(&job, train_step);
        skipped += job.rank[0].skipped;
        last = 0;
        for (struct rank *r = job.rank; r < job.rank + job.ranks; r++) {
            compare(r);
            last += r->loss / (job.ranks * job.accumulation);
        }
        first = step == 1 ? last : first;
    }
    for (int i = 0; i < STATES; i++) {
        double bytes = (double)bytes_of[i < MASTER ? job.precision : FP32];
        held[job.rank[0].states[i].tier] += (double)job.rank[0].states[i].count * bytes / PSI;
        formula += bytes / (stage->partitions[i] ? job.ranks : 1);
    }
    printf("  %-18s %.3f -> %.3f %6.0f %9.3f %6.3f %6.3f    %-14s= %6.3f %6.2f\n", stage->name, first, last, skipped,
           held[DEVICE], held[HOST], held[NVME], stage->formula, formula,
           (double)job.rank[0].sent_bytes / STEPS / PSI / (double)bytes_of[job.precision] * job.ranks /
               (job.ranks - 1));
    must(last < first && held[DEVICE] + held[HOST] + held[NVME] < formula * 1.01,
         "the loss does not fall, or more is held than the formula says");
    job_close(&job);
}

static void run_stages(const char *name, enum dtype precision, int accumulation, enum tier tier, double scale)
{
    static double lr[STEPS];
    struct job job = {.ranks = 3, .accumulation = accumulation, .precision = precision, .optimizer_tier = tier};
    job.tensors[EMBED].count = job.tensors[OUT].count = COUNT;
    job.max_norm = 0.25;
    job.checks_overflow = true;
    job.scaler = (struct scaler){scale > 1, scale, 1, 10, 1, 0, 1};
    job.groups[0] = (struct group){lr, 0.9, 0.99, 1e-8, 0.01, true, true};
    job.tensor_count = MODEL;
    for (int i = 0; i < STEPS; i++)
        lr[i] = 0.02 / (1 + 0.02 * i);
    printf("%s\n", name);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        run_stage(&job, &stages[i]);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : __FILE__;
    FILE *file = fopen(path, "rb");
    must(file, path);
    text_bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    must(text_bytes > 2 * BATCH, path);
    printf("Psi = %d, N_d = 3, K = 12. Bytes that a rank holds for each parameter; elements sent, x N_d / (N_d - 1) / "
           "Psi\n"
           "  stage                   loss   skipped  device   host   NVMe    formula (fp32: 4 for 2)   sent\n",
           PSI);
    run_stages("fp32", FP32, 1, DEVICE, 1);
    run_stages("bf16, fp32 master weights, 2 micro-steps, dynamic loss scale", BF16, 2, DEVICE, 1024);
    run_stages("the same, with the optimizer on the host (ZeRO-Offload)", BF16, 2, HOST, 1024);
    run_stages("the same, with the optimizer's states on NVMe, here a file (ZeRO-Infinity)", BF16, 2, NVME, 1024);
    run_stages("fp16, and a loss scale that begins too high", FP16, 2, DEVICE, 0x1p24);
    printf("Every weight and moment, in every step and on every rank, has the bits of unsharded Adam.\n");
}
#else
// --- 12. The plug-in -------------------------------------------------------------------------------------------------
// The stages before the suite: its model is a linear loss, whose gradients it gives.
#include "contract.h"

struct judged {
    struct job job;  // first: a rank's job is a struct judged
    const struct zerogauge_case *c;
    float *values[RANKS];  // all tensors end to end: first as forward has used them, and then their gradients
};

static float load(enum dtype dtype, const void *array, size_t k)
{
    union number n = {.bits = dtype == FP32 ? ((const uint32_t *)array)[k] : ((const uint16_t *)array)[k]};
    int exponent = (int)(n.bits >> 10 & 31), fraction = (int)(n.bits & 1023);
    n.bits <<= dtype == BF16 ? 16 : 0;
    if (dtype != FP16)
        return n.value;
    float size = ldexpf((float)(fraction + (exponent ? 1024 : 0)), (exponent ? exponent : 1) - 25);
    return copysignf(exponent < 31 ? size : fraction ? NAN : INFINITY, n.bits & 0x8000 ? -1 : 1);
}

// x is a number of the format, and finite in fp16.
static void save(enum dtype dtype, void *array, size_t k, float x)
{
    union number n = {.value = x}, size = {.value = fabsf(x)};
    uint32_t fp16 = size.value < 0x1p-14f ? (uint32_t)(size.value * 0x1p24f) : (size.bits - 0x38000000) >> 13;
    if (dtype == FP32)
        ((uint32_t *)array)[k] = n.bits;
    else
        ((uint16_t *)array)[k] = (uint16_t)(dtype == BF16 ? n.bits >> 16 : fp16 | (n.bits >> 16 & 0x8000));
}

static int plugin_open(const struct zerogauge_case *c, const float *const initial[], void **context)
{
    bool refused = c->gradient_clipping < 0 || (c->loss_scale && !(c->scale > 0)) ||
                   (c->loss_scale == ZEROGAUGE_SCALE_DYNAMIC && c->scale_window == 0);
    bool declined = c->world > RANKS || c->param_count > TENSORS || c->phase || c->delayed_update || c->offload_param ||
                    c->communication_dtype != c->precision || c->accumulation_dtype != c->precision;
    for (const struct zerogauge_group *g = c->groups; g < c->groups + c->group_count; g++)
        refused |= !(g->beta1 >= 0 && g->beta1 < 1 && g->beta2 >= 0 && g->beta2 < 1);
    for (int i = 0; i < c->param_count; i++)
        declined |= c->params[i].frozen || c->params[i].tied_to >= 0;
    if (refused || declined) {
        snprintf(c->message, c->message_bytes, "%s",
                 refused ? "out of range: a clip threshold, loss scale, window or beta"
                         : "no tied or frozen tensors, resuming, delay, offloaded parameters or second format");
        return refused ? ZEROGAUGE_REFUSED : ZEROGAUGE_UNSUPPORTED;
    }
    struct judged *x = (struct judged *)floats(sizeof *x / sizeof(float));
    x->c = c;
    // clang-format off
    x->job = (struct job){
        .stage = &stages[c->stage], .ranks = c->world, .accumulation = c->accumulation,
        .precision = (enum dtype)c->precision, .optimizer_tier = (enum tier)c->offload_optimizer,
        .max_norm = c->gradient_clipping, .checks_overflow = c->overflow_check, .tensor_count = c->param_count,
        .scaler = {c->loss_scale == ZEROGAUGE_SCALE_DYNAMIC, c->loss_scale ? c->scale : 1, c->min_scale,
                   c->scale_window, c->scale_hysteresis, 0, c->scale_hysteresis}};
    // clang-format on
    for (const struct zerogauge_group *g = c->groups; g < c->groups + c->group_count; g++)
        x->job.groups[g - c->groups] =
            (struct group){g->lr, g->beta1, g->beta2, g->eps, g->weight_decay, g->decoupled, g->bias_correction};
    for (int i = 0; i < c->param_count; i++)
        x->job.tensors[i] = (struct tensor){.count = c->params[i].count, .group = c->params[i].group};
    job_open(&x->job);
    for (int i = 0; i < c->param_count * c->world; i++) {
        struct rank *r = &x->job.rank[i % c->world];
        move_tensor(r, true, false, MASTER, &x->job.tensors[i / c->world], (float *)initial[i / c->world]);
        move_tensor(r, true, false, PARAM, &x->job.tensors[i / c->world], (float *)initial[i / c->world]);
    }
    for (int i = 0; i < c->world; i++)
        x->values[i] = floats(x->job.shards * (size_t)c->world);
    *context = x;
    return ZEROGAUGE_OK;
}

static void plugin_forward(struct rank *r)
{
    for (int i = 0; i < r->job->tensor_count; i++) {
        float *whole = take(r, i), *seen = ((struct judged *)r->job)->values[r->id] + r->job->tensors[i].start;
        memcpy(seen, whole, r->job->tensors[i].count * sizeof *whole);
        free(whole);
    }
}

static void plugin_backward(struct rank *r)
{
    const struct judged *x = (struct judged *)r->job;
    for (int i = r->job->tensor_count - 1; i >= 0; i--) {
        free(take(r, i));
        if (x->c->params[i].used)
            give(r, i, x->values[r->id] + r->job->tensors[i].start);
    }
}

// All ranks go forward in the call for the first of them, and backward in the call for the last.
static int plugin_gradients(void *context, int32_t step, int32_t micro, int32_t rank, const void *const gradients[],
                            void *const seen[])
{
    struct judged *x = context;
    struct job *job = &x->job;
    for (int i = 0; i < job->ranks && micro + rank == 0; i++)
        begin_step(&job->rank[i], step);
    if (rank == 0)
        run(job, plugin_forward);
    for (int i = 0; i < job->tensor_count; i++)
        for (size_t at = job->tensors[i].start, k = 0; k < job->tensors[i].count; k++) {
            if (seen[i])
                save(job->precision, seen[i], k, x->values[rank][at + k]);
            float scale = (float)job->rank[rank].scaler.scale;
            x->values[rank][at + k] = gradients[i] ? scale * load(job->precision, gradients[i], k) : 0;
        }
    if (rank == job->ranks - 1)
        run(job, plugin_backward);
    return ZEROGAUGE_OK;
}

static int plugin_step(void *context, int32_t step, struct zerogauge_outcome *out)
{
    const struct rank *r = ((struct job *)context)->rank;
    (void)step;
    run(context, end_step);
    *out = (struct zerogauge_outcome){r->t, r->scaler.scale, r->norm, r->skipped, !r->skipped};
    return ZEROGAUGE_OK;
}

static int plugin_read(void *context, int32_t state, int32_t param, float *out)
{
    static const enum state states[] = {MASTER, EXP_AVG, EXP_AVG_SQ, GRAD};
    struct job *job = context;
    for (int i = 0; i < job->ranks; i++)
        move_tensor(&job->rank[i], false, true, states[state], &job->tensors[param], out);
    for (size_t k = 0; state == ZEROGAUGE_GRAD && k < job->tensors[param].count; k++)
        out[k] /= job->rank->divisor;
    return ZEROGAUGE_OK;
}

static void plugin_close(void *context)
{
    struct judged *x = context;
    for (int i = 0; i < x->job.ranks; i++)
        free(x->values[i]);
    job_close(&x->job);
    free(x);
}

const struct zerogauge_implementation *zerogauge_implementation(void)
{
    // clang-format off
    static const struct zerogauge_implementation table = {
        .contract = ZEROGAUGE_CONTRACT, .struct_bytes = sizeof table, .name = "zero.c", .version = "1",
        .open = plugin_open, .gradients = plugin_gradients, .step = plugin_step, .read = plugin_read,
        .close = plugin_close, .gives_seen = 1};
    // clang-format on
    return &table;
}
#endif
