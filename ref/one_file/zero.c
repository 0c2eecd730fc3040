// SPDX-License-Identifier: Apache-2.0
// ZeRO in one file: data-parallel training in which optimizer states, gradients and parameters are partitioned over the
// ranks, and every weight stays, bit by bit, that of unsharded Adam.
//
//     cc -O2 -ffp-contract=off zero.c -lpthread -lm && ./a.out
//
// trains a small language model on this source on 3 ranks at every stage, and prints the loss, and what a rank holds
// and sends next to the paper's formulas. Two files include this one: zero_unsharded.c compares each weight and moment
// with unsharded Adam, zero_plugin.c puts sections 1 to 11 before the conformance suite.
//
//      1  Model states     what is partitioned, and how       ZeRO (arXiv:1910.02054), section 3.1
//      2  Ranks            what a rank holds
//      3  The stages       a table of four rows               ZeRO, sections 5 and 7; FSDP (arXiv:2304.11277)
//      4  Collectives      all-gather, reduce-scatter         ZeRO, section 7.1
//      5  Layers           what they call of a stage
//      6  Number formats   fp32, bf16, fp16
//      7  Adam             of one element, alone              Adam (arXiv:1412.6980), AdamW (arXiv:1711.05101)
//      8  Loss scale       and clipping                       Mixed Precision Training (arXiv:1710.03740)
//      9  Tiers            device, host, NVMe                 ZeRO-Offload (2101.06840), -Infinity (2104.07857)
//     10  The step         norm, update of shards
//     11  A job            its states; running all ranks
//     12  A model          the loop over layers
//     13  Training         every stage, on every tier
//
// It is no library, and not fast: ranks are threads, collectives are copies, and nothing overlaps. The host's memory is
// the same memory, and NVMe a temporary file behind the page cache. 16-bit numbers are kept and sent as fp32 numbers of
// the same value; bytes are counted as the format's. The bits depend on no compiler or optimization: sums have an
// order, a fused multiply-add is written fmaf, and -ffp-contract=off keeps compilers from fusing others.
#define _POSIX_C_SOURCE 200809L  // fileno, ftruncate, pread, pwrite, pthread_barrier_t
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// --- 1. Model states -------------------------------------------------------------------------------------------------
// Of Psi parameters (ZeRO, section 3.1): "an fp16 copy of the parameters and the gradients [...]. In addition, it needs
// to hold the optimizer states: an fp32 copy of the parameters, momentum and variance", K = 4 + 4 + 4 bytes each.
enum state { PARAM, GRAD, MASTER, EXP_AVG, EXP_AVG_SQ, STATES };
enum dtype { FP32, BF16, FP16 };
static const size_t bytes_of[] = {4, 2, 2};

// Every tensor is padded with zeros to a multiple of N_d and cut in N_d equal shards. Zeros stay zeros under Adam, and
// add nothing to a norm. A full state has all shards of every tensor, a partitioned one this rank's:
//
//     full          | tensor 0: shard 0 | shard 1 | shard 2 .00 | tensor 1: shard 0 | shard 1 | ...
//     partitioned   | tensor 0: shard r | tensor 1: shard r | ...

struct tensor {
    size_t count, group;  // elements, without padding; index of its hyperparameters
    size_t start;         // where it begins in all tensors end to end, without padding
    size_t shard, full;   // elements, with padding: of a shard, of all N_d
    size_t at;            // where it begins in a partitioned state; in a full one, at N_d x at
};

// --- 2. Ranks --------------------------------------------------------------------------------------------------------
enum { RANKS = 64, TENSORS = 64 };  // at most
enum tier { DEVICE, HOST, NVME };

struct store {  // one state of one rank
    enum tier tier;
    size_t count;   // elements, with padding
    float *memory;  // [count] on DEVICE and HOST
    FILE *file;     // [count] floats on NVME: nameless, and this rank's alone
};

struct hyperparameters {
    const double *lr;  // lr[step - 1]
    double beta1, beta2, eps, weight_decay;
    bool decoupled, bias_correction;  // decoupled: AdamW; otherwise weight_decay is Adam's, L2
};

struct loss_scale {
    bool dynamic;
    double scale, min_scale;
    uint64_t window, hysteresis;  // clean steps before it is doubled; overflows before it is halved
    uint64_t clean, left;         // clean steps since an overflow; overflows before it is halved
};

struct rank {  // one process of the papers
    struct job *job;
    const struct stage *stage;
    size_t id, step;
    struct store states[STATES];
    struct loss_scale loss_scale;
    uint64_t t, sent_bytes;  // updates applied; by collectives
    bool skipped;
    float divisor, clip;  // of gradients: N_d x micro-steps x loss scale; the factor of clipping
    double norm, loss;
};

struct job {  // all ranks agree on it
    const struct stage *stage;
    size_t N_d, accumulation, tensor_count;  // ranks; micro-steps in a step
    enum dtype precision;                    // of parameters and gradients, kept or sent
    enum tier optimizer_tier;
    double max_norm;  // 0: no clipping
    bool checks_overflow;
    struct loss_scale loss_scale;
    struct tensor tensors[TENSORS];  // in the order of the forward
    struct hyperparameters groups[TENSORS];
    struct rank ranks[RANKS];
    void (*body)(struct rank *);  // every rank runs it
    pthread_barrier_t barrier;
    float *buffers[RANKS];  // of the collective under way
};

// --- 3. The stages ---------------------------------------------------------------------------------------------------
// A stage says which states are partitioned, and has four verbs. Of each layer, gather_layer fills full[t->full] with
// parameters before forward and before backward; reduce_layer takes from full[t->full] the gradient that backward
// leaves there. At the end of the step, collectives on every tensor: reduce_step before the update, on gradients;
// gather_step after it, on parameters; null: none.
struct stage {
    const char *name, *formula;  // of the bytes that a rank holds for each parameter
    bool partitions[STATES];
    void (*gather_layer)(struct rank *r, const struct tensor *t, float *full);
    void (*reduce_layer)(struct rank *r, const struct tensor *t, float *full);
    void (*reduce_step)(struct rank *r, float *full, size_t shard);
    void (*gather_step)(struct rank *r, float *full, size_t shard);
};

// full[N_d][shard], section 4. Before all_gather, rank r has shard r; after it, all of them. After reduce_scatter, rank
// r has in shard r the sum over ranks; after all_reduce, every rank has all sums.
static void all_gather(struct rank *r, float *full, size_t shard);
static void reduce_scatter(struct rank *r, float *full, size_t shard);
static void all_reduce(struct rank *r, float *full, size_t shard);
static float round_to(enum dtype dtype, float x);  // section 6

// Where the shard of rank `owner` begins in a state of this rank, which has it.
static size_t shard_at(const struct rank *r, enum state state, const struct tensor *t, size_t owner)
{
    return r->stage->partitions[state] ? t->at : r->job->N_d * t->at + owner * t->shard;
}

// Data parallelism (section 2.1): "model parameters are replicated on each device." Section 7.1: "gradients across all
// data parallel processes are averaged at the end of the backward propagation before computing the updates for the next
// step. The averaging is performed using an all-reduce communication collective." Until then micro-steps add up.
static void copy_full(struct rank *r, const struct tensor *t, float *full)
{
    memcpy(full, r->states[PARAM].memory + shard_at(r, PARAM, t, 0), t->full * sizeof *full);
}

static void accumulate(const struct rank *r, float *sum, const float *gradient, size_t count)
{
    for (size_t k = 0; k < count; k++)
        sum[k] = round_to(r->job->precision, sum[k] + gradient[k]);
}

static void accumulate_full(struct rank *r, const struct tensor *t, float *full)
{
    accumulate(r, r->states[GRAD].memory + shard_at(r, GRAD, t, 0), full, t->full);
}

// P_os (section 5.1): "we group the optimizer states into N_d equal partitions, such that the i-th data parallel
// process only updates the optimizer states corresponding to the i-th partition." So of the reduced gradient it needs
// its own shard: half an all-reduce. "We perform an all-gather across the data parallel process at the end of each
// training step to get the fully updated parameters across all data parallel process." Both are in the table below.

// P_os+g (section 5.2): "as each gradient of each layer becomes available during the backward propagation, we only
// reduce them on the data parallel process responsible for updating the corresponding parameters. After the reduction
// we no longer need the gradients and their memory can be released. [...] Effectively this is a Reduce-Scatter
// operation". So ranks are added up in every micro-step, and micro-steps after that: in P_os it is the other way about.
static void reduce_scatter_layer(struct rank *r, const struct tensor *t, float *full)
{
    reduce_scatter(r, full, t->shard);
    accumulate(r, r->states[GRAD].memory + shard_at(r, GRAD, t, r->id), full + r->id * t->shard, t->shard);
}

// P_os+g+p (section 5.3): "each process only stores the parameters corresponding to its partition. When the parameters
// outside of its partition are required for forward and backward propagation, they are received from the appropriate
// data parallel process". Section 7.2.2: "we reschedule the parameter all-gather by spreading it across the entire
// forward propagation, and discarding the parameters once they have been used. Note however that this all-gather needs
// to happen once again for the backward propagation in the reverse order." FSDP says unshard and reshard.
static void all_gather_layer(struct rank *r, const struct tensor *t, float *full)
{
    const float *own = r->states[PARAM].memory + shard_at(r, PARAM, t, r->id);
    memcpy(full + r->id * t->shard, own, t->shard * sizeof *full);
    all_gather(r, full, t->shard);
}

// clang-format off
static const struct stage stages[] = {
    //                     bytes            PARAM  GRAD   MASTER EXP_AVG, _SQ
    //   gather_layer      reduce_layer          reduce_step     gather_step
    {"data parallel",     "2 + 2 + K",     {false, false, false, false, false},
        copy_full,         accumulate_full,      all_reduce,     NULL},
    {"ZeRO-1 (P_os)",     "2 + 2 + K/N_d", {false, false, true,  true,  true},
        copy_full,         accumulate_full,      reduce_scatter, all_gather},
    {"ZeRO-2 (P_os+g)",   "2 + (2+K)/N_d", {false, true,  true,  true,  true},
        copy_full,         reduce_scatter_layer, NULL,           all_gather},
    {"ZeRO-3 (P_os+g+p)", "(2+2+K)/N_d",   {true,  true,  true,  true,  true},
        all_gather_layer,  reduce_scatter_layer, NULL,           NULL},
};
// clang-format on

// --- 4. Collectives --------------------------------------------------------------------------------------------------
// Ranks show each other their buffers between two barriers.
static void all_gather(struct rank *r, float *full, size_t shard)
{
    struct job *job = r->job;
    job->buffers[r->id] = full;
    pthread_barrier_wait(&job->barrier);
    for (size_t from = 0; from < job->N_d; from++)
        if (from != r->id)
            memcpy(full + from * shard, job->buffers[from] + from * shard, shard * sizeof *full);
    pthread_barrier_wait(&job->barrier);
    r->sent_bytes += (job->N_d - 1) * shard * bytes_of[job->precision];
}

// A sum is added in fp32, ranks ascending, and rounded once. Other ranks' shards stay as they are.
static void reduce_scatter(struct rank *r, float *full, size_t shard)
{
    struct job *job = r->job;
    job->buffers[r->id] = full;
    pthread_barrier_wait(&job->barrier);
    for (size_t k = r->id * shard; k < (r->id + 1) * shard; k++) {
        float sum = 0;
        for (size_t from = 0; from < job->N_d; from++)
            sum += job->buffers[from][k];
        full[k] = round_to(job->precision, sum);
    }
    pthread_barrier_wait(&job->barrier);
    r->sent_bytes += (job->N_d - 1) * shard * bytes_of[job->precision];
}

// ZeRO, section 7.1: "State-of-art implementation of all-reduce uses a two-step approach, where the first step is a
// reduce-scatter operation [...]. The next step is an all-gather operation".
static void all_reduce(struct rank *r, float *full, size_t shard)
{
    reduce_scatter(r, full, shard);
    all_gather(r, full, shard);
}

// --- 5. Layers -------------------------------------------------------------------------------------------------------
static void check(bool ok, const char *call)
{
    if (!ok) {
        perror(call);
        exit(1);
    }
}

// Zeros; one more than asked for, as a tensor may be empty.
static float *floats(size_t count)
{
    float *memory = calloc(count + 1, sizeof *memory);
    check(memory, "calloc");
    return memory;
}

// [count] A layer's parameters, to compute with. The layer frees them: at stage 3, no rank has all of them then.
static float *gather_layer(struct rank *r, const struct tensor *t)
{
    float *full = floats(t->full);
    r->stage->gather_layer(r, t, full);
    return full;
}

// gradient[count] of a layer, as its backward has computed it: is rounded to the model's precision, and padded.
static void reduce_layer(struct rank *r, const struct tensor *t, const float *gradient)
{
    float *full = floats(t->full);
    for (size_t k = 0; k < t->count; k++)
        full[k] = round_to(r->job->precision, gradient[k]);
    r->stage->reduce_layer(r, t, full);
    free(full);
}

// --- 6. Number formats -----------------------------------------------------------------------------------------------
union number {
    float value;
    uint32_t bits;
};

// To nearest, ties to even.
static float round_to(enum dtype dtype, float x)
{
    union number n = {.value = x};
    if (dtype == FP32 || !isfinite(x))
        return x;
    if (dtype == BF16) {  // the upper half of an fp32
        n.bits = (n.bits + 0x7fff + (n.bits >> 16 & 1)) & 0xffff0000;
        return n.value;
    }
    int exponent;  // fp16 has 11 bits, none below 2^-24, and nothing from 65520 on
    frexpf(x, &exponent);
    int last_bit = exponent - 11 > -24 ? exponent - 11 : -24;
    n.value = ldexpf(rintf(ldexpf(x, -last_bit)), last_bit);
    return fabsf(n.value) < 65536 ? n.value : copysignf(INFINITY, x);
}

// --- 7. Adam ---------------------------------------------------------------------------------------------------------
// Algorithm 1 of its paper, and Algorithm 2 of AdamW's, operation by operation as PyTorch computes them on a CPU:
// scalars in double, rounded once. No element needs another one: that is why Adam can be partitioned at all.
struct adam {  // the scalars of a step
    float one_minus_beta1, beta2, one_minus_beta2, root_bias2, eps, step_size;
    float l2, shrink;  // weight decay: added to the gradient by Adam; a factor of the weight by AdamW
};

static struct adam adam_begin(const struct hyperparameters *h, size_t step, uint64_t t)
{
    double lr = h->lr[step - 1];
    double bias1 = h->bias_correction ? 1 - pow(h->beta1, (double)t) : 1;
    double bias2 = h->bias_correction ? 1 - pow(h->beta2, (double)t) : 1;
    return (struct adam){.one_minus_beta1 = (float)(1 - h->beta1),
                         .beta2 = (float)h->beta2,
                         .one_minus_beta2 = (float)(1 - h->beta2),
                         .root_bias2 = (float)sqrt(bias2),
                         .eps = (float)h->eps,
                         .step_size = (float)(lr / bias1),
                         .l2 = h->decoupled ? 0 : (float)h->weight_decay,
                         .shrink = h->decoupled ? (float)(1 - lr * h->weight_decay) : 1};
}

static void adam_element(const struct adam *a, float g, float *p, float *m, float *v)
{
    if (a->l2 != 0)
        g = fmaf(*p, a->l2, g);
    *p *= a->shrink;
    if (a->one_minus_beta1 < 0.5f)  // m = beta1 m + (1 - beta1) g, as torch.lerp computes it
        *m = fmaf(a->one_minus_beta1, g - *m, *m);
    else
        *m = fmaf(a->one_minus_beta1 - 1, g - *m, g);
    *v = fmaf(a->one_minus_beta2 * g, g, *v * a->beta2);  // v = beta2 v + (1 - beta2) g^2
    *p += -a->step_size * *m / (sqrtf(*v) / a->root_bias2 + a->eps);
}

// --- 8. Loss scale and clipping --------------------------------------------------------------------------------------
// "Mixed Precision Training", section 3.2: the loss is multiplied by S, so that small gradients survive fp16; gradients
// are divided by S before the update. A dynamic S is halved, and the step skipped, when a gradient overflows; after a
// window of clean steps it is doubled. These are DeepSpeed's rules.
static void loss_scale_advance(struct loss_scale *s, bool overflow)
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
static float clip_factor(double norm, double max_norm)
{
    float factor = 1.0f / ((float)norm + 1e-6f) * (float)max_norm;
    return max_norm > 0 && factor < 1 ? factor : 1;
}

// --- 9. Tiers --------------------------------------------------------------------------------------------------------
// ZeRO-Offload keeps the partitioned optimizer states in the memory of the host, whose processor updates them;
// ZeRO-Infinity on NVMe. Nothing is computed on the way: no tier changes a bit.
enum direction { READ, WRITE };  // from the tier into values, from values to the tier

static void store_move(const struct store *s, enum direction direction, size_t at, float *values, size_t count)
{
    size_t bytes = count * sizeof *values;
    off_t offset = (off_t)(at * sizeof *values);
    if (s->tier == NVME && direction == READ)
        check(pread(fileno(s->file), values, bytes, offset) == (ssize_t)bytes, "pread");
    else if (s->tier == NVME)
        check(pwrite(fileno(s->file), values, bytes, offset) == (ssize_t)bytes, "pwrite");
    else if (direction == READ)
        memcpy(values, s->memory + at, bytes);
    else
        memcpy(s->memory + at, values, bytes);
}

static bool has_shard(const struct rank *r, enum state state, size_t owner)
{
    return owner == r->id || !r->stage->partitions[state];
}

// tensor[count]: the shard of rank `owner` in it, as this rank has it in a state; nothing, if it does not.
static void move_shard(struct rank *r, enum direction direction, enum state state, const struct tensor *t, size_t owner,
                       float *tensor)
{
    size_t begin = owner * t->shard, end = begin + t->shard < t->count ? begin + t->shard : t->count;
    if (begin < end && has_shard(r, state, owner))
        store_move(&r->states[state], direction, shard_at(r, state, t, owner), tensor + begin, end - begin);
}

// --- 10. The step ----------------------------------------------------------------------------------------------------
// A stage's collective on every tensor of a state that all ranks have in full; null: none.
static void collective_step(struct rank *r, enum state state, void (*collective)(struct rank *, float *, size_t))
{
    const struct tensor *t = r->job->tensors, *end = t + r->job->tensor_count;
    for (; collective && t < end; t++)
        collective(r, r->states[state].memory + shard_at(r, state, t, 0), t->shard);
}

// The norm of the mean gradient counts every element once: each rank adds the squares of its own shards, in fp64, and
// all ranks add these sums in one order. An inf or NaN in any shard makes it inf or NaN on all ranks.
static double global_norm(struct rank *r)
{
    double sum = 0, squares[RANKS] = {0};
    for (size_t i = 0; i < r->job->tensor_count; i++) {
        const struct tensor *t = &r->job->tensors[i];
        const float *gradient = r->states[GRAD].memory + shard_at(r, GRAD, t, r->id);
        for (size_t k = 0; k < t->shard; k++) {
            double mean = gradient[k] / r->divisor;
            squares[r->id] += mean * mean;
        }
    }
    all_gather(r, (float *)squares, sizeof *squares / sizeof(float));
    for (size_t from = 0; from < r->job->N_d; from++)
        sum += squares[from];
    return sqrt(sum);
}

// Adam on one shard: each sub-group's states are read from their tier and written back. "the mixed-precision optimizer
// keeps an fp32 copy of the parameters as well as an fp32 copy of all the other optimizer states" (section 3.1): that
// copy, the master, is updated; forward and backward use it rounded.
static void update_shard(struct rank *r, const struct tensor *t, size_t owner)
{
    enum { SUB_GROUP = 256 };
    struct adam adam = adam_begin(&r->job->groups[t->group], r->step, r->t);
    float s[STATES][SUB_GROUP];
    for (size_t k = 0; k < t->shard; k += SUB_GROUP) {
        size_t n = t->shard - k < SUB_GROUP ? t->shard - k : SUB_GROUP;
        for (enum state state = GRAD; state < STATES; state++)
            store_move(&r->states[state], READ, shard_at(r, state, t, owner) + k, s[state], n);
        for (size_t j = 0; j < n; j++) {
            float mean = s[GRAD][j] / r->divisor * r->clip;
            adam_element(&adam, mean, &s[MASTER][j], &s[EXP_AVG][j], &s[EXP_AVG_SQ][j]);
            s[PARAM][j] = round_to(r->job->precision, s[MASTER][j]);
        }
        for (enum state state = PARAM; state < STATES; state++)
            if (state != GRAD)
                store_move(&r->states[state], WRITE, shard_at(r, state, t, owner) + k, s[state], n);
    }
}

static void begin_step(struct rank *r, size_t step)
{
    r->step = step;
    memset(r->states[GRAD].memory, 0, r->states[GRAD].count * sizeof(float));
}

// After the last micro-step's backward. All ranks have the same norm: so all skip the step, or none. The mean is a
// single division, by the loss scale that the gradients were made with.
static void end_step(struct rank *r)
{
    const struct job *job = r->job;
    collective_step(r, GRAD, r->stage->reduce_step);
    r->divisor = (float)((double)(job->N_d * job->accumulation) * r->loss_scale.scale);
    r->norm = global_norm(r);
    r->skipped = job->checks_overflow && !isfinite(r->norm);
    loss_scale_advance(&r->loss_scale, r->skipped);
    if (r->skipped)
        return;
    r->clip = clip_factor(r->norm, job->max_norm);
    r->t++;
    for (size_t i = 0; i < job->tensor_count; i++)
        for (size_t owner = 0; owner < job->N_d; owner++)
            if (has_shard(r, MASTER, owner))
                update_shard(r, &job->tensors[i], owner);
    collective_step(r, PARAM, r->stage->gather_step);
}

// --- 11. A job -------------------------------------------------------------------------------------------------------
static void store_open(struct store *s, enum tier tier, size_t count)
{
    *s = (struct store){.tier = tier, .count = count};
    if (tier == NVME)
        check((s->file = tmpfile()) && !ftruncate(fileno(s->file), (off_t)(count * sizeof(float))), "temporary file");
    else
        s->memory = floats(count);
}

// Of a job, the settings and each tensor's count and group are given.
static void job_open(struct job *job)
{
    size_t start = 0, shards = 0;
    for (size_t i = 0; i < job->tensor_count; i++) {
        struct tensor *t = &job->tensors[i];
        t->start = start;
        t->shard = (t->count + job->N_d - 1) / job->N_d;
        t->full = t->shard * job->N_d;
        t->at = shards;
        start += t->count;
        shards += t->shard;
    }
    for (size_t id = 0; id < job->N_d; id++) {
        struct rank *r = &job->ranks[id];
        *r = (struct rank){.job = job, .stage = job->stage, .id = id, .loss_scale = job->loss_scale};
        for (enum state state = PARAM; state < STATES; state++)
            store_open(&r->states[state], state < MASTER ? DEVICE : job->optimizer_tier,
                       job->stage->partitions[state] ? shards : shards * job->N_d);
    }
    pthread_barrier_init(&job->barrier, NULL, (unsigned)job->N_d);
}

static void job_close(struct job *job)
{
    for (size_t id = 0; id < job->N_d; id++)
        for (enum state state = PARAM; state < STATES; state++) {
            free(job->ranks[id].states[state].memory);
            if (job->ranks[id].states[state].file)
                fclose(job->ranks[id].states[state].file);
        }
    pthread_barrier_destroy(&job->barrier);
}

static void *run_rank(void *rank)
{
    ((struct rank *)rank)->job->body(rank);
    return NULL;
}

static void run(struct job *job, void (*body)(struct rank *))
{
    pthread_t threads[RANKS];
    job->body = body;
    for (size_t id = 0; id < job->N_d; id++)
        check(!(errno = pthread_create(&threads[id], NULL, run_rank, &job->ranks[id])), "pthread_create");
    for (size_t id = 0; id < job->N_d; id++)
        pthread_join(threads[id], NULL);
}

// --- 12. A model -----------------------------------------------------------------------------------------------------
// A byte predicts the next one. Layer l has one tensor, weight[widths[l]][widths[l + 1]]: y = x weight. The input is
// one-hot, so the first layer is an embedding; a layer reads its input through relu; the last outputs are logits.
enum { BYTES = 256, WIDTH = 13, LAYERS = 4, BATCH = 24, PSI = 2 * BYTES * WIDTH + (LAYERS - 2) * WIDTH * WIDTH };
static const size_t widths[LAYERS + 1] = {BYTES, WIDTH, WIDTH, WIDTH, BYTES};
static unsigned char text[1 << 17];
static size_t text_bytes;

static void layer_forward(size_t layer, const float *weight, float x[][BYTES], float y[][BYTES])
{
    size_t in = widths[layer], out = widths[layer + 1];
    for (size_t n = 0; n < BATCH; n++)
        for (size_t i = 0; i < in; i++)
            if (x[n][i] > 0)
                for (size_t o = 0; o < out; o++)
                    y[n][o] += x[n][i] * weight[i * out + o];
}

static void layer_backward(size_t layer, const float *weight, float x[][BYTES], float dy[][BYTES], float dx[][BYTES],
                           float *dweight)
{
    size_t in = widths[layer], out = widths[layer + 1];
    for (size_t n = 0; n < BATCH; n++)
        for (size_t i = 0; i < in; i++)
            if (x[n][i] > 0)
                for (size_t o = 0; o < out; o++) {
                    dx[n][i] += weight[i * out + o] * dy[n][o];
                    dweight[i * out + o] += x[n][i] * dy[n][o];
                }
}

// The mean cross-entropy of logits[n] and next[n]; dlogits: its gradient, times the loss scale.
static double softmax_loss(float logits[][BYTES], const unsigned char *next, double scale, float dlogits[][BYTES])
{
    double loss = 0;
    for (size_t n = 0; n < BATCH; n++) {
        float sum = 0;
        for (size_t b = 0; b < BYTES; b++)
            sum += expf(logits[n][b]);
        for (size_t b = 0; b < BYTES; b++) {
            float p = expf(logits[n][b]) / sum, wanted = b == next[n] ? 1 : 0;
            dlogits[n][b] = (p - wanted) * (float)(scale / BATCH);
        }
        loss -= log((double)(expf(logits[n][next[n]]) / sum)) / BATCH;
    }
    return loss;
}

// A micro-step of one rank: the loss of bytes[1 .. BATCH], each predicted from the one before. At stage 3, this is when
// a rank has full parameters: of one layer, between gather_layer and free.
static double forward_backward(struct rank *r, size_t step, size_t micro, size_t rank)
{
    size_t batch = ((step - 1) * r->job->accumulation + micro) * r->job->N_d + rank;
    const unsigned char *bytes = text + batch * BATCH % (text_bytes - BATCH);
    float x[LAYERS + 1][BATCH][BYTES] = {0}, dx[LAYERS + 1][BATCH][BYTES] = {0};  // x[l]: the input of layer l
    for (size_t n = 0; n < BATCH; n++)
        x[0][n][bytes[n]] = 1;
    for (size_t layer = 0; layer < LAYERS; layer++) {
        float *weight = gather_layer(r, &r->job->tensors[layer]);
        layer_forward(layer, weight, x[layer], x[layer + 1]);
        free(weight);
    }
    double loss = softmax_loss(x[LAYERS], bytes + 1, r->loss_scale.scale, dx[LAYERS]);
    for (size_t layer = LAYERS; layer-- > 0;) {
        float *weight = gather_layer(r, &r->job->tensors[layer]), gradient[PSI] = {0};
        layer_backward(layer, weight, x[layer], dx[layer + 1], dx[layer], gradient);
        free(weight);
        reduce_layer(r, &r->job->tensors[layer], gradient);
    }
    return loss;
}

static void train_step(struct rank *r)
{
    begin_step(r, r->step + 1);
    r->loss = 0;
    for (size_t micro = 0; micro < r->job->accumulation; micro++)
        r->loss += forward_backward(r, r->step, micro, r->id) / (double)r->job->accumulation;
    end_step(r);
}

// --- 13. Training ----------------------------------------------------------------------------------------------------
enum { N_D = 3, STEPS = 40 };
static void (*watch)(struct job *);  // is called after each step, and before the first; null: nobody watches

// Between all[PSI], every tensor end to end, and this rank, which has a part of it.
static void move_all(struct rank *r, enum direction direction, enum state state, float *all)
{
    for (size_t layer = 0; layer < LAYERS; layer++)
        for (size_t owner = 0; owner < N_D; owner++)
            move_shard(r, direction, state, &r->job->tensors[layer], owner, all + r->job->tensors[layer].start);
}

static void initialize(struct rank *r)
{
    float masters[PSI], params[PSI];
    for (size_t i = 0; i < PSI; i++) {
        masters[i] = (float)((uint32_t)i * 2654435769u >> 8) * 0x1p-24f - 0.5f;
        params[i] = round_to(r->job->precision, masters[i]);
    }
    move_all(r, WRITE, MASTER, masters);
    move_all(r, WRITE, PARAM, params);
}

// A stage, and its row of the table: the losses, bytes and traffic of rank 0.
static void run_stage(struct job *job)
{
    const struct rank *r = &job->ranks[0];
    double first = 0, held[3] = {0}, formula = 0;
    job_open(job);
    for (size_t step = 0; step <= STEPS; step++) {
        run(job, step > 0 ? train_step : initialize);
        if (step == 1)
            first = r->loss;
        if (watch)
            watch(job);
    }
    for (enum state state = PARAM; state < STATES; state++) {
        double bytes = (double)bytes_of[state < MASTER ? job->precision : FP32];
        held[r->states[state].tier] += (double)r->states[state].count * bytes / PSI;
        formula += bytes / (job->stage->partitions[state] ? N_D : 1);
    }
    double sent = (double)(r->sent_bytes / bytes_of[job->precision]) / STEPS / PSI * N_D / (N_D - 1);
    printf("  %-18s %.3f -> %.3f %6d %9.3f %6.3f %6.3f    %-14s= %6.3f %6.2f\n", job->stage->name, first, r->loss,
           STEPS - (int)r->t, held[DEVICE], held[HOST], held[NVME], job->stage->formula, formula, sent);
    job_close(job);
}

static void run_stages(const char *name, enum dtype precision, size_t accumulation, enum tier tier, double scale)
{
    static double lr[STEPS];
    for (size_t i = 0; i < STEPS; i++)
        lr[i] = 0.02 / (1 + 0.02 * (double)i);
    static struct job job;
    job = (struct job){.N_d = N_D, .accumulation = accumulation, .precision = precision, .optimizer_tier = tier};
    job.max_norm = 0.25;
    job.checks_overflow = true;
    job.loss_scale = (struct loss_scale){scale > 1, scale, .min_scale = 1, .window = 10, .hysteresis = 1, .left = 1};
    job.groups[0] = (struct hyperparameters){lr, 0.9, 0.99, 1e-8, 0.01, .decoupled = true, .bias_correction = true};
    job.tensor_count = LAYERS;
    for (size_t layer = 0; layer < LAYERS; layer++)
        job.tensors[layer].count = widths[layer] * widths[layer + 1];
    printf("%s\n", name);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        job.stage = &stages[i];
        run_stage(&job);
    }
}

static void train(void)
{
    FILE *file = fopen(__FILE__, "rb");
    check(file, __FILE__);
    text_bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    printf(
        "Psi = %d, N_d = %d, K = 12. Of rank 0: bytes held for each parameter; elements sent x N_d / (N_d - 1) / Psi\n"
        "  stage                   loss   skipped  device   host   NVMe    formula (fp32: 4 for 2)   sent\n",
        PSI, N_D);
    run_stages("fp32", FP32, 1, DEVICE, 1);
    run_stages("bf16, fp32 master weights, 2 micro-steps, dynamic loss scale", BF16, 2, DEVICE, 1024);
    run_stages("the same, with the optimizer on the host (ZeRO-Offload)", BF16, 2, HOST, 1024);
    run_stages("the same, with the optimizer's states on NVMe, here a file (ZeRO-Infinity)", BF16, 2, NVME, 1024);
    run_stages("fp16, and a loss scale that begins too high", FP16, 2, DEVICE, 0x1p24);
}

#ifndef ZERO_INCLUDED
int main(void)
{
    train();
}
#endif
