// SPDX-License-Identifier: Apache-2.0
#include "gpt.h"

#include "dtype.h"
#include "err.h"
#include "gpt_math.h"
#include "random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// Sizes that are no powers of two and no multiples of a vector, and so few tokens that some repeat in a micro-batch.
static const struct gpt_shape odd_shape = {
    .layer_count = 2, .width = 21, .head_count = 3, .sequence_length = 5, .vocabulary = 11};
enum { ODD_SEQUENCES = 3 };

// A whole pass over a model with everything that belongs to it.
struct trial {
    const struct model *model;
    struct model_run *run;
    struct model_batch batch;
    uint16_t *tokens;
    float **values; // the parameters in fp32, representable in the run's dtype
    void **params;
    struct model_gradient *gradients;
};

typedef void *memory_source(size_t bytes, void *context);

// context: how many bytes after a multiple of 64 the memory begins; NULL: none.
static void *plain_memory(size_t bytes, void *context)
{
    size_t offset = context ? *(const size_t *)context : 0;
    return (char *)aligned_alloc(64, (bytes + offset + 64) / 64 * 64) + offset;
}

// Memory whose last byte is the last of a page, and nothing may touch the page after it.
static void *edge_memory(size_t bytes, void *context)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page * page;
    char *start = mmap(NULL, pages + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(start != MAP_FAILED);
    cr_assert(mprotect(start + pages, page, PROT_NONE) == 0);
    (void)context;
    return start + pages - bytes;
}

static struct trial trial_make(const struct model *model, size_t sequence_count, enum dtype dtype,
                               memory_source *source, void *context)
{
    struct trial trial = {.model = model};
    size_t params = (size_t)model->param_count, length = model->sequence_length;
    const struct gpt_shape *shape = model->shape;
    cr_assert(model_run_open(model, sequence_count, dtype, NULL, &trial.run) == ERR_NONE, "%s", err_message());
    trial.values = calloc(params, sizeof *trial.values);
    trial.params = calloc(params, sizeof *trial.params);
    trial.gradients = calloc(params, sizeof *trial.gradients);
    for (int i = 0; i < model->param_count; i++) {
        size_t count = model->params[i].count;
        trial.values[i] = malloc(count * sizeof(float));
        model_initialise(model, i, 7, trial.values[i]);
        // Away from the initial values, where biases are 0 and norms do nothing.
        for (size_t j = 0; j < count; j++)
            trial.values[i][j] += 0.2f * random_normal(random_at((uint64_t)i, j));
        trial.params[i] = source(count * dtype_bytes(dtype), context);
        dtype_narrow(dtype, trial.values[i], trial.params[i], count);
        dtype_widen(dtype, trial.params[i], trial.values[i], count);
        trial.gradients[i].data = source(count * dtype_bytes(dtype), context);
        memset(trial.gradients[i].data, 0xff, count * dtype_bytes(dtype));
    }
    trial.tokens = source(sequence_count * (length + 1) * sizeof *trial.tokens, NULL);
    for (size_t i = 0; i < sequence_count * (length + 1); i++)
        trial.tokens[i] = (uint16_t)random_below(random_at(99, i), shape->vocabulary);
    trial.batch = (struct model_batch){.tokens = trial.tokens, .sequence_count = sequence_count, .step = 1};
    return trial;
}

static void trial_forward(struct trial *trial)
{
    for (int unit = 0; unit < trial->model->unit_count; unit++)
        cr_assert(model_forward(trial->run, unit, &trial->batch, (const void *const *)trial->params) == ERR_NONE);
}

static void trial_backward(struct trial *trial, float loss_scale)
{
    for (int unit = trial->model->unit_count - 1; unit >= 0; unit--) {
        trial->gradients[0].accumulate = unit == 0;
        cr_assert(model_backward(trial->run, unit, &trial->batch, (const void *const *)trial->params, trial->gradients,
                                 loss_scale) == ERR_NONE);
    }
}

static void trial_pass(struct trial *trial, float loss_scale)
{
    trial_forward(trial);
    trial_backward(trial, loss_scale);
}

static size_t gradient_bytes(const struct trial *trial, int param)
{
    return trial->model->params[param].count * dtype_bytes(trial->run->dtype);
}

static void cr_same_gradients(const struct trial *a, const struct trial *b)
{
    for (int i = 0; i < a->model->param_count; i++)
        cr_assert(memcmp(a->gradients[i].data, b->gradients[i].data, gradient_bytes(a, i)) == 0, "%s differs",
                  a->model->params[i].name);
}

static struct model *make(const struct gpt_shape *shape)
{
    struct model *model;
    cr_assert(gpt_make("gpt-test", shape, &model) == ERR_NONE, "%s", err_message());
    return model;
}

// The loss once more, in double, with loops as in a textbook and nothing shared with the model but the order of its
// parameters.
struct reference {
    const struct gpt_shape *shape;
    double **params;
    double x[8][32]; // position, channel
};

static void reference_norm(const double *in, size_t width, const double *weight, const double *bias, double *out)
{
    double mean = 0, variance = 0;
    for (size_t j = 0; j < width; j++)
        mean += in[j] / (double)width;
    for (size_t j = 0; j < width; j++)
        variance += (in[j] - mean) * (in[j] - mean) / (double)width;
    for (size_t j = 0; j < width; j++)
        out[j] = (in[j] - mean) / sqrt(variance + 1e-5) * weight[j] + bias[j];
}

static void reference_linear(const double *in, size_t in_width, const double *weight, const double *bias,
                             size_t out_width, double *out)
{
    for (size_t j = 0; j < out_width; j++) {
        out[j] = bias[j];
        for (size_t i = 0; i < in_width; i++)
            out[j] += in[i] * weight[i * out_width + j];
    }
}

static void reference_attention(struct reference *r, double **p)
{
    size_t width = r->shape->width, heads = r->shape->head_count, head_width = width / heads;
    double normed[32], qkv[8][96], mixed[32], out[32];
    for (size_t t = 0; t < r->shape->sequence_length; t++) {
        reference_norm(r->x[t], width, p[0], p[1], normed);
        reference_linear(normed, width, p[2], p[3], 3 * width, qkv[t]);
    }
    for (size_t t = 0; t < r->shape->sequence_length; t++) {
        for (size_t h = 0; h < heads; h++) {
            double score[8], sum = 0;
            for (size_t u = 0; u <= t; u++) {
                score[u] = 0;
                for (size_t j = h * head_width; j < (h + 1) * head_width; j++)
                    score[u] += qkv[t][j] * qkv[u][width + j];
                score[u] = exp(score[u] / sqrt((double)head_width));
                sum += score[u];
            }
            for (size_t j = h * head_width; j < (h + 1) * head_width; j++) {
                mixed[j] = 0;
                for (size_t u = 0; u <= t; u++)
                    mixed[j] += score[u] / sum * qkv[u][2 * width + j];
            }
        }
        reference_linear(mixed, width, p[4], p[5], width, out);
        for (size_t j = 0; j < width; j++)
            r->x[t][j] += out[j];
    }
}

static void reference_mlp(struct reference *r, double **p)
{
    size_t width = r->shape->width;
    double normed[32], hidden[128], out[32];
    for (size_t t = 0; t < r->shape->sequence_length; t++) {
        reference_norm(r->x[t], width, p[6], p[7], normed);
        reference_linear(normed, width, p[8], p[9], 4 * width, hidden);
        for (size_t j = 0; j < 4 * width; j++) {
            double x = hidden[j];
            hidden[j] = 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
        }
        reference_linear(hidden, 4 * width, p[10], p[11], width, out);
        for (size_t j = 0; j < width; j++)
            r->x[t][j] += out[j];
    }
}

static double reference_loss(struct reference *r, const struct model_batch *batch)
{
    size_t width = r->shape->width, length = r->shape->sequence_length;
    double loss = 0, **last = r->params + 2 + 12 * r->shape->layer_count;
    for (size_t s = 0; s < batch->sequence_count; s++) {
        const uint16_t *tokens = batch->tokens + s * (length + 1);
        for (size_t t = 0; t < length; t++) {
            for (size_t j = 0; j < width; j++)
                r->x[t][j] = r->params[0][tokens[t] * width + j] + r->params[1][t * width + j];
        }
        for (size_t layer = 0; layer < r->shape->layer_count; layer++) {
            reference_attention(r, r->params + 2 + 12 * layer);
            reference_mlp(r, r->params + 2 + 12 * layer);
        }
        for (size_t t = 0; t < length; t++) {
            double normed[32], sum = 0, right = 0;
            reference_norm(r->x[t], width, last[0], last[1], normed);
            for (size_t v = 0; v < r->shape->vocabulary; v++) {
                double logit = 0;
                for (size_t j = 0; j < width; j++)
                    logit += normed[j] * r->params[0][v * width + j];
                sum += exp(logit);
                right = v == tokens[t + 1] ? logit : right;
            }
            loss += (log(sum) - right) / (double)(length * batch->sequence_count);
        }
    }
    return loss;
}

static struct reference reference_make(const struct trial *trial)
{
    struct reference r = {.shape = trial->model->shape};
    r.params = calloc((size_t)trial->model->param_count, sizeof *r.params);
    for (int i = 0; i < trial->model->param_count; i++) {
        size_t count = trial->model->params[i].count;
        r.params[i] = malloc(count * sizeof(double));
        for (size_t j = 0; j < count; j++)
            r.params[i][j] = (double)trial->values[i][j];
    }
    return r;
}

// The central difference of the loss along a direction in one tensor: +1 or -1 for every element, or for one alone.
static double difference(struct reference *r, const struct trial *trial, int param, const double *direction)
{
    const double h = 1e-4;
    size_t count = trial->model->params[param].count;
    double loss[2];
    for (int side = 0; side < 2; side++) {
        for (size_t j = 0; j < count; j++)
            r->params[param][j] = (double)trial->values[param][j] + (side ? -h : h) * direction[j];
        loss[side] = reference_loss(r, &trial->batch);
    }
    for (size_t j = 0; j < count; j++)
        r->params[param][j] = (double)trial->values[param][j];
    return (loss[0] - loss[1]) / (2 * h);
}

Test(gpt, loss_agrees_with_a_plain_loop_in_double)
{
    struct trial trial = trial_make(make(&odd_shape), ODD_SEQUENCES, DTYPE_FP32, plain_memory, NULL);
    struct reference reference = reference_make(&trial);
    trial_forward(&trial);
    double expected = reference_loss(&reference, &trial.batch);
    cr_assert(fabs(model_loss(trial.run) - expected) < 2e-6 * expected, "%.9f, not %.9f", model_loss(trial.run),
              expected);
}

Test(gpt, gradients_agree_with_central_differences_in_double)
{
    struct trial trial = trial_make(make(&odd_shape), ODD_SEQUENCES, DTYPE_FP32, plain_memory, NULL);
    struct reference reference = reference_make(&trial);
    trial_pass(&trial, 1.0f);
    for (int i = 0; i < trial.model->param_count; i++) {
        size_t count = trial.model->params[i].count;
        const float *gradient = trial.gradients[i].data;
        double *direction = calloc(count, sizeof *direction), largest = 0, along = 0, sum = 0;
        for (size_t j = 0; j < count; j++)
            largest = fmax(largest, fabs((double)gradient[j]));
        cr_assert(largest > 1e-5, "%s has no gradient", trial.model->params[i].name);
        for (size_t j = 0; j < count; j += 1 + count / 7) {
            direction[j] = 1;
            double expected = difference(&reference, &trial, i, direction);
            direction[j] = 0;
            cr_assert(fabs(gradient[j] - expected) <= 1e-4 * fabs(expected) + 1e-5 * largest, "%s[%zu]: %.9g, not %.9g",
                      trial.model->params[i].name, j, (double)gradient[j], expected);
        }
        // And all elements at once, with random signs: a mistake in any one of them shows.
        for (size_t j = 0; j < count; j++) {
            direction[j] = random_at(5, j) & 1 ? 1 : -1;
            along += direction[j] * (double)gradient[j];
            sum += fabs((double)gradient[j]);
        }
        double expected = difference(&reference, &trial, i, direction);
        cr_assert(fabs(along - expected) <= 1e-5 * sum, "%s: %.9g along a direction, not %.9g",
                  trial.model->params[i].name, along, expected);
    }
}

Test(gpt, gradients_in_16_bits_are_the_fp32_gradients_rounded)
{
    const enum dtype halves[] = {DTYPE_BF16, DTYPE_FP16};
    struct model *model = make(&odd_shape);
    for (int d = 0; d < 2; d++) {
        struct trial half = trial_make(model, ODD_SEQUENCES, halves[d], plain_memory, NULL);
        struct trial wide = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain_memory, NULL);
        for (int i = 0; i < model->param_count; i++)
            memcpy(wide.params[i], half.values[i], model->params[i].count * sizeof(float));
        trial_pass(&half, 8.0f);
        trial_pass(&wide, 8.0f);
        cr_assert(model_loss(half.run) == model_loss(wide.run));
        for (int i = 1; i < model->param_count; i++) { // wte is a sum of two roundings
            char rounded[gradient_bytes(&half, i)];
            dtype_narrow(halves[d], wide.gradients[i].data, rounded, model->params[i].count);
            cr_assert(memcmp(rounded, half.gradients[i].data, sizeof rounded) == 0, "%s in %s", model->params[i].name,
                      dtype_name(halves[d]));
        }
    }
}

// The head alone, the embedding alone, and both in one place.
Test(gpt, a_tied_gradient_is_the_heads_part_plus_the_embeddings_part_in_every_dtype)
{
    struct model *model = make(&odd_shape);
    for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
        struct trial trial = trial_make(model, ODD_SEQUENCES, dtype, plain_memory, NULL);
        size_t count = model->params[0].count;
        char head[count * 4], both[count * 4];
        float embedding[count];
        trial_pass(&trial, 1.0f);
        memcpy(both, trial.gradients[0].data, gradient_bytes(&trial, 0));

        struct trial wide = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain_memory, NULL);
        for (int i = 0; i < model->param_count; i++)
            memcpy(wide.params[i], trial.values[i], model->params[i].count * sizeof(float));
        trial_forward(&wide);
        for (int unit = model->unit_count - 1; unit >= 0; unit--) {
            model_backward(wide.run, unit, &wide.batch, (const void *const *)wide.params, wide.gradients, 1.0f);
            if (unit == model->unit_count - 1)
                dtype_narrow(dtype, wide.gradients[0].data, head, count);
        }
        memcpy(embedding, wide.gradients[0].data, sizeof embedding);
        dtype_accumulate(dtype, head, DTYPE_FP32, embedding, count);
        cr_assert(memcmp(head, both, gradient_bytes(&trial, 0)) == 0, "%s", dtype_name(dtype));
    }
}

Test(gpt, gradients_that_are_not_wanted_change_no_other)
{
    struct model *model = make(&odd_shape);
    struct trial all = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain_memory, NULL);
    struct trial some = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain_memory, NULL);
    trial_pass(&all, 1.0f);
    for (int parity = 0; parity < 2; parity++) {
        for (int i = 0; i < model->param_count; i++)
            some.gradients[i].data = i % 2 == parity ? NULL : malloc(gradient_bytes(&all, i));
        trial_pass(&some, 1.0f);
        for (int i = 0; i < model->param_count; i++)
            cr_assert(!some.gradients[i].data ||
                          memcmp(some.gradients[i].data, all.gradients[i].data, gradient_bytes(&all, i)) == 0,
                      "%s", model->params[i].name);
    }
}

Test(gpt, a_power_of_two_as_loss_scale_scales_every_gradient_exactly)
{
    struct trial plain = trial_make(make(&odd_shape), ODD_SEQUENCES, DTYPE_FP32, plain_memory, NULL);
    struct trial scaled = trial_make(plain.model, ODD_SEQUENCES, DTYPE_FP32, plain_memory, NULL);
    trial_pass(&plain, 1.0f);
    trial_pass(&scaled, 1024.0f);
    cr_assert(model_loss(plain.run) == model_loss(scaled.run));
    for (int i = 0; i < plain.model->param_count; i++) {
        const float *a = plain.gradients[i].data, *b = scaled.gradients[i].data;
        for (size_t j = 0; j < plain.model->params[i].count; j++)
            cr_assert(a[j] * 1024.0f == b[j], "%s[%zu]", plain.model->params[i].name, j);
    }
}

static void *caller_run(void *trial)
{
    for (int i = 0; i < 3; i++)
        trial_pass(trial, 1.0f);
    return NULL;
}

// Different threads, places in memory and neighbours; shapes that take OpenBLAS through its small and large kernels.
Test(gpt, concurrent_callers_at_any_alignment_get_the_bits_of_a_lone_one)
{
    const struct gpt_shape shapes[] = {odd_shape, {2, 64, 4, 64, 256}, {1, 256, 4, 128, 256}};
    for (int s = 0; s < 3; s++) {
        for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
            struct model *model = make(&shapes[s]);
            struct trial lone = trial_make(model, 2, dtype, plain_memory, NULL);
            trial_pass(&lone, 1.0f);
            struct trial callers[4];
            pthread_t threads[4];
            for (size_t t = 0; t < 4; t++) {
                size_t offset = (2 * t + 1) * dtype_bytes(dtype) * (t == 3 ? 3 : 1);
                callers[t] = trial_make(model, 2, dtype, plain_memory, &offset);
                cr_assert(pthread_create(&threads[t], NULL, caller_run, &callers[t]) == 0);
            }
            for (int t = 0; t < 4; t++) {
                pthread_join(threads[t], NULL);
                cr_same_gradients(&callers[t], &lone);
            }
        }
    }
}

// Parameters and tokens are read-only, everything ends at the edge of a page that nothing may touch, and the working
// memory has exactly the size it was given and holds NaN.
Test(gpt, a_pass_stays_inside_its_memory_and_reads_nothing_that_was_not_written)
{
    const struct gpt_shape shapes[] = {odd_shape, {2, 64, 4, 64, 256}, {1, 48, 3, 17, 50}};
    for (int s = 0; s < 3; s++) {
        for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
            struct model *model = make(&shapes[s]);
            struct trial plain = trial_make(model, 3, dtype, plain_memory, NULL);
            struct trial edge = trial_make(model, 3, dtype, edge_memory, NULL);
            size_t bytes = model_run_bytes(model, 3, dtype), page = (size_t)sysconf(_SC_PAGESIZE);
            free(edge.run->memory);
            edge.run->memory = edge_memory(bytes, NULL);
            memset(edge.run->memory, 0xff, bytes);
            for (int i = 0; i < model->param_count; i++) {
                size_t size = model->params[i].count * dtype_bytes(dtype);
                char *start = (char *)((uintptr_t)edge.params[i] / page * page);
                cr_assert(mprotect(start, (size_t)((char *)edge.params[i] + size - start), PROT_READ) == 0);
            }
            trial_pass(&plain, 1.0f);
            trial_pass(&edge, 1.0f);
            cr_same_gradients(&edge, &plain);
            cr_assert(model_loss(edge.run) == model_loss(plain.run));
        }
    }
}

Test(gpt, an_overflow_inside_the_model_shows_in_the_gradients)
{
    struct model *model = make(&odd_shape);
    for (int param = 0; param < model->param_count; param++) {
        struct trial trial = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain_memory, NULL);
        ((float *)trial.params[param])[0] = INFINITY;
        if (param == 0) // the row of a token that does occur
            ((float *)trial.params[param])[trial.tokens[0] * odd_shape.width] = INFINITY;
        trial_pass(&trial, 1.0f);
        bool finite = true;
        for (int i = 0; i < model->param_count; i++) {
            for (size_t j = 0; j < model->params[i].count; j++)
                finite = finite && isfinite(((float *)trial.gradients[i].data)[j]);
        }
        cr_assert(!finite, "an infinity in %s is lost", model->params[param].name);
    }
}

Test(gpt, a_token_outside_the_vocabulary_is_refused)
{
    struct trial trial = trial_make(make(&odd_shape), ODD_SEQUENCES, DTYPE_FP32, plain_memory, NULL);
    trial.tokens[ODD_SEQUENCES * 6 - 1] = 11;
    cr_assert(model_forward(trial.run, 0, &trial.batch, (const void *const *)trial.params) == ERR_USAGE);
    cr_assert(strstr(err_message(), "token 11"), "%s", err_message());
}

Test(gpt, a_shape_that_cannot_be_is_refused)
{
    const struct gpt_shape bad[] = {
        {1, 10, 3, 4, 5}, {1, 0, 1, 4, 5}, {1, 4, 0, 4, 5}, {1, 4, 2, 0, 5}, {1, 4, 2, 4, 70000}};
    struct model *model;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert(gpt_make("bad", &bad[i], &model) == ERR_USAGE, "shape %zu", i);
}

Test(gpt, exponential_is_within_two_ulp)
{
    double worst = 0;
    for (uint32_t bits = 0; bits < 0x42ae0000; bits += 997) {
        for (int sign = 0; sign < 2; sign++) {
            float x;
            memcpy(&x, &bits, sizeof x);
            x = sign ? -x : x;
            double expected = exp((double)x);
            double ulp = ldexp(1.0, ilogb(expected) - 23);
            worst = fmax(worst, fabs((double)exp_within(x) - expected) / ulp);
        }
    }
    cr_assert(worst <= 2.0, "%.3f ulp", worst);
    cr_assert(exp_within(0.0f) == 1.0f);
    cr_assert(exp_within(1000.0f) == exp_within(87.0f) && exp_within(INFINITY) == exp_within(87.0f));
    cr_assert(exp_within(-INFINITY) == exp_within(-87.0f) && exp_within(-87.0f) > 0);
    cr_assert(isnan(exp_within(NAN)) && isnan(exp_within(-NAN)));
}

static char *licence_text(size_t *bytes)
{
    static char text[1 << 14];
    FILE *file = fopen(ZG_SOURCE_DIR "/LICENSE", "rb");
    cr_assert(file != NULL);
    *bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    return text;
}

// Plain Adam, 60 steps; the text is the licence, which is always there. 5.55 is the entropy of 256 equal bytes.
Test(gpt, loss_falls_on_text)
{
    const struct model *model;
    cr_assert(model_find("gpt-nano", &model) == ERR_NONE);
    struct trial trial = trial_make(model, 8, DTYPE_FP32, plain_memory, NULL);
    size_t bytes, length = model->sequence_length;
    const char *text = licence_text(&bytes);
    float *m[model->param_count], *v[model->param_count];
    for (int i = 0; i < model->param_count; i++) {
        model_initialise(model, i, 1, trial.params[i]);
        m[i] = calloc(model->params[i].count, sizeof(float));
        v[i] = calloc(model->params[i].count, sizeof(float));
    }
    double first = 0, last = 0;
    for (int step = 1; step <= 60; step++) {
        for (size_t s = 0; s < 8; s++) {
            size_t from = random_below(random_at((uint64_t)step, s), bytes - length);
            for (size_t t = 0; t <= length; t++)
                trial.tokens[s * (length + 1) + t] = (unsigned char)text[from + t];
        }
        trial_pass(&trial, 1.0f);
        last = model_loss(trial.run);
        first = step == 1 ? last : first;
        for (int i = 0; i < model->param_count; i++) {
            float *p = trial.params[i], *g = trial.gradients[i].data;
            for (size_t j = 0; j < model->params[i].count; j++) {
                m[i][j] = 0.9f * m[i][j] + 0.1f * g[j];
                v[i][j] = 0.95f * v[i][j] + 0.05f * g[j] * g[j];
                float m_hat = m[i][j] / (1 - powf(0.9f, (float)step)), v_hat = v[i][j] / (1 - powf(0.95f, (float)step));
                p[j] -= 0.01f * m_hat / (sqrtf(v_hat) + 1e-8f);
            }
        }
    }
    cr_assert(fabs(first - 5.545) < 0.05, "loss begins at %.3f", first);
    cr_assert(last < 3.3, "loss ends at %.3f", last);
}
