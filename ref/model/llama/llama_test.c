// SPDX-License-Identifier: Apache-2.0
// A Llama's loss and gradients against an independent loss in double; the names, sizes and refusals of Llamas.
#include "ref/model/gpt_reference_test.h"
#include "ref/model/llama/llama.h"

#include "ref/arithmetic/llama_math.h"

enum { SEQUENCES = ODD_SEQUENCES, LENGTH = 7, WIDEST = 32 };

// Sizes that share few divisors with a vector; heads of 6 channels.
static const struct llama_sizes shapes[] = {{2, 24, 4, 1, 13, 11, LENGTH},
                                            {2, 24, 4, 2, 29, 11, LENGTH},
                                            {2, 24, 4, 4, 13, 11, LENGTH},
                                            {1, 10, 1, 1, 7, 5, LENGTH}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static struct model *llama(const struct llama_sizes *sizes)
{
    struct model *model;
    cr_assert(llama_make("llama-test", sizes, &model) == ERR_NONE, "%s", err_message());
    return model;
}

// Textbook loops; of the model they share the order of the parameters alone.
static void norm(const double *in, size_t width, const double *weight, double *out)
{
    double square = 0;
    for (size_t j = 0; j < width; j++)
        square += in[j] * in[j] / (double)width;
    for (size_t j = 0; j < width; j++)
        out[j] = in[j] / sqrt(square + 1e-5) * weight[j];
}

// out = W in
static void linear(const double *in, size_t in_width, const double *weight, size_t out_width, double *out)
{
    for (size_t i = 0; i < out_width; i++) {
        out[i] = 0;
        for (size_t j = 0; j < in_width; j++)
            out[i] += weight[i * in_width + j] * in[j];
    }
}

// x cos + rotate_half(x) sin, with rotate_half(x) = (-x_2, x_1) of the halves of a head.
static void rotate(double *head, size_t width, size_t position)
{
    for (size_t j = 0; j < width / 2; j++) {
        double angle = (double)position * pow(10000, -2.0 * (double)j / (double)width);
        double low = head[j], high = head[j + width / 2];
        head[j] = low * cos(angle) - high * sin(angle);
        head[j + width / 2] = high * cos(angle) + low * sin(angle);
    }
}

static void attention(struct reference *r, const struct llama_sizes *z, size_t s, double **p)
{
    size_t head_width = z->width / z->heads, kv_width = z->kv_heads * head_width, shared = z->heads / z->kv_heads;
    double n[WIDEST], q[LENGTH][WIDEST], k[LENGTH][WIDEST], v[LENGTH][WIDEST], mixed[WIDEST], out[WIDEST];
    for (size_t t = 0; t < LENGTH; t++) {
        norm(r->x[s][t], z->width, p[7], n);
        linear(n, z->width, p[0], z->width, q[t]);
        linear(n, z->width, p[1], kv_width, k[t]);
        linear(n, z->width, p[2], kv_width, v[t]);
        for (size_t h = 0; h < z->heads; h++)
            rotate(q[t] + h * head_width, head_width, t);
        for (size_t h = 0; h < z->kv_heads; h++)
            rotate(k[t] + h * head_width, head_width, t);
    }
    for (size_t t = 0; t < LENGTH; t++) {
        for (size_t h = 0; h < z->heads; h++) {
            const double *of_q = q[t] + h * head_width;
            double weight[LENGTH], sum = 0;
            for (size_t u = 0; u <= t; u++) {
                double score = 0;
                for (size_t j = 0; j < head_width; j++)
                    score += of_q[j] * k[u][h / shared * head_width + j];
                sum += weight[u] = exp(score / sqrt((double)head_width));
            }
            for (size_t j = 0; j < head_width; j++) {
                mixed[h * head_width + j] = 0;
                for (size_t u = 0; u <= t; u++)
                    mixed[h * head_width + j] += weight[u] / sum * v[u][h / shared * head_width + j];
            }
        }
        linear(mixed, z->width, p[3], z->width, out);
        for (size_t j = 0; j < z->width; j++)
            r->x[s][t][j] += out[j];
    }
}

static void mlp(const struct llama_sizes *z, double *x, double **p)
{
    double n[WIDEST], gate[WIDEST], up[WIDEST], out[WIDEST];
    norm(x, z->width, p[8], n);
    linear(n, z->width, p[4], z->hidden, gate);
    linear(n, z->width, p[5], z->hidden, up);
    for (size_t j = 0; j < z->hidden; j++)
        up[j] *= gate[j] / (1 + exp(-gate[j]));
    linear(up, z->hidden, p[6], z->width, out);
    for (size_t j = 0; j < z->width; j++)
        x[j] += out[j];
}

static double loss_of(struct reference *r, const struct model *model, const struct model_batch *batch)
{
    const struct llama_sizes *z = llama_sizes_of(model);
    double loss = 0, **last = r->params + 1 + 9 * z->layers;
    for (size_t s = 0; s < SEQUENCES; s++) {
        const uint16_t *tokens = batch->tokens + s * (LENGTH + 1);
        for (size_t t = 0; t < LENGTH; t++)
            memcpy(r->x[s][t], r->params[0] + tokens[t] * z->width, z->width * sizeof(double));
        for (double **p = r->params + 1; p < last; p += 9) {
            attention(r, z, s, p);
            for (size_t t = 0; t < LENGTH; t++)
                mlp(z, r->x[s][t], p);
        }
        for (size_t t = 0; t < LENGTH; t++) {
            double n[WIDEST], logits[WIDEST], sum = 0;
            norm(r->x[s][t], z->width, last[0], n);
            linear(n, z->width, last[1], z->vocabulary, logits);
            for (size_t i = 0; i < z->vocabulary; i++)
                sum += exp(logits[i]);
            loss += (log(sum) - logits[tokens[t + 1]]) / (LENGTH * SEQUENCES);
        }
    }
    return loss;
}

Test(llama, loss_and_gradients_agree_with_plain_loops_in_double)
{
    for (int i = 0; i < SHAPES; i++) {
        struct model *model = llama(&shapes[i]);
        cr_loss(model, loss_of);
        cr_gradients(model, loss_of);
        llama_free(model);
    }
}

Test(llama, rotary_tables_have_the_cosines_and_sines_of_the_c_library)
{
    const size_t length = 5000, width = 64;
    float *cosines = malloc(length * width / 2 * sizeof *cosines), *sines = malloc(length * width / 2 * sizeof *sines);
    rotary_fill(length, width, cosines, sines);
    for (size_t i = 0; i < length * width / 2; i++) {
        double angle = (double)(i / 32) * pow(10000, -2.0 * (double)(i % 32) / 64);
        cr_assert(fabs((double)cosines[i] - cos(angle)) < 0x1p-24 && fabs((double)sines[i] - sin(angle)) < 0x1p-24,
                  "%zu: %.9g, %.9g", i, (double)cosines[i], (double)sines[i]);
    }
    free(cosines);
    free(sines);
}

Test(llama, parameters_have_the_names_and_shapes_of_transformers)
{
    const struct model *model = find("llama:layers=3,width=48,heads=4,kv_heads=2,hidden=40,vocabulary=300");
    const struct {
        const char *name;
        size_t rows, columns;
    } expected[] = {{"model.embed_tokens.weight", 300, 48},
                    {"model.layers.0.self_attn.q_proj.weight", 48, 48},
                    {"model.layers.0.self_attn.k_proj.weight", 24, 48},
                    {"model.layers.0.self_attn.v_proj.weight", 24, 48},
                    {"model.layers.0.self_attn.o_proj.weight", 48, 48},
                    {"model.layers.0.mlp.gate_proj.weight", 40, 48},
                    {"model.layers.0.mlp.up_proj.weight", 40, 48},
                    {"model.layers.0.mlp.down_proj.weight", 48, 40},
                    {"model.layers.0.input_layernorm.weight", 48, 0},
                    {"model.layers.0.post_attention_layernorm.weight", 48, 0},
                    {"model.layers.1.self_attn.q_proj.weight", 48, 48}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        cr_expect_str_eq(model->params[i].name, expected[i].name);
        cr_expect_eq(model->params[i].shape[0], expected[i].rows, "%s", expected[i].name);
        cr_expect_eq(model->params[i].shape[1], expected[i].columns, "%s", expected[i].name);
    }
    cr_expect_str_eq(model->params[model->param_count - 2].name, "model.norm.weight");
    cr_expect_str_eq(model->params[model->param_count - 1].name, "lm_head.weight");
    cr_expect_eq(find("llama:layers=3"), find("llama:layers=3"));
    cr_expect_eq(model_param_elements(find("llama-160m"), true), 162417408);
    cr_expect_eq(model_flops(find("llama-160m"), 1),
                 3.0 * 1024 * (2.0 * (162417408 - 25 * 768 - 32000 * 768) + 12 * 4.0 * 1024 * 768));
}

Test(llama, initial_values_depend_on_seed_and_index_alone)
{
    const struct model *model = find("llama-tiny"), *longer = find("llama-tiny:length=32,layers=5");
    for (int i = 0; i < 9; i++) {
        size_t bytes = model->params[i].count * sizeof(float);
        float *a = malloc(bytes), *b = malloc(bytes);
        cr_assert_eq(model_initialise(model, i, 3, a), ERR_NONE);
        cr_assert_eq(model_initialise(longer, i, 3, b), ERR_NONE);
        cr_expect_arr_eq(a, b, bytes, "%s", model->params[i].name);
        cr_assert_eq(model_initialise(longer, i, 4, b), ERR_NONE);
        cr_expect(model->params[i].shape_rank == 1 || memcmp(a, b, bytes) != 0, "%s", model->params[i].name);
        free(a);
        free(b);
    }
}

Test(llama, what_it_has_not_is_refused_by_name)
{
    cr_name_is_refused("llama:tiles=2", "has no 'tiles'");
    cr_name_is_refused("llama-tiny:rank=4", "has no 'rank'");
    cr_name_is_refused("llama-tiny:blocks=2", "has no 'blocks'");
    cr_name_is_refused("llama:experts=4", "has no 'experts'");
    cr_name_is_refused("llama:layers", "expected layers=NUMBER");
    cr_name_is_refused("llama:layers=0", "expected layers=NUMBER");
    cr_name_is_refused("llama:width=64,width=64", "width is given twice");
    cr_name_is_refused("llama:width=65", "even width of each head");
    cr_name_is_refused("llama:width=20,heads=4", "even width of each head");
    cr_name_is_refused("llama:kv_heads=3", "4 heads cannot share 3 kv_heads");
    cr_name_is_refused("llama:vocabulary=70000", "vocabulary of at most 65536");
    cr_name_is_refused("llama:hidden=300000", "hidden is 300000");
    const struct model *model;
    cr_expect_eq(model_find_changed("llama-tiny", &(struct model_changes){.tiling_factor = 2}, &model), ERR_USAGE);
    cr_expect(strstr(err_message(), "no large layers to cut into 2 tiles"), "%s", err_message());
    cr_expect_eq(model_find_changed("llama-tiny", &(struct model_changes){.lora = "rank=8"}, &model), ERR_USAGE);
    cr_expect(strstr(err_message(), "has no 'rank'"), "%s", err_message());
}

Test(llama, a_token_outside_the_vocabulary_is_refused)
{
    struct model *model = llama(&shapes[0]);
    cr_token_is_refused(model);
    llama_free(model);
}
