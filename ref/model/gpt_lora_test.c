// SPDX-License-Identifier: Apache-2.0
// A GPT with adapters against the plain GPT whose matrices have the adapters added: W + (alpha / rank) (B A)^T.
#include "ref/model/gpt_test.h"
#include "ref/model/lora/lora.h"

static const char *const targets[] = {"all-linear", "c_attn", "attn.c_proj", "mlp.c_fc+mlp.c_proj", "c_proj"};
static const int adapter_counts[] = {8, 2, 2, 4, 4};  // matrices, over two blocks
enum { TARGETS = sizeof targets / sizeof *targets };

static struct model *make_adapted(const char *names)
{
    struct gpt_shape shape = odd_shape;
    shape.lora = (struct lora){.rank = 3, .alpha = 5};
    strcpy(shape.lora.targets, names);
    return make(&shape);
}

// The A of a matrix, -1 if it has none; B follows it.
static int adapter_of(const struct model *model, const char *weight)
{
    char name[MODEL_NAME_BYTES];
    snprintf(name, sizeof name, "%.*s.lora_A.weight", (int)(strlen(weight) - strlen(".weight")), weight);
    return param_named(model, name);
}

// Gives the plain model the adapted model's values, merged.
static void merge(const struct trial *adapted, const struct trial *whole)
{
    const float scale = 5.0f / 3.0f;
    for (int i = 0; i < whole->model->param_count; i++) {
        const struct model_param *param = &whole->model->params[i];
        size_t out_width = param->shape[1];
        int a = adapter_of(adapted->model, param->name);
        float *value = whole->params[i];
        memcpy(value, adapted->values[param_named(adapted->model, param->name)], param->count * sizeof *value);
        for (size_t j = 0; a >= 0 && j < param->count; j++)
            for (size_t k = 0; k < 3; k++)
                value[j] += scale * adapted->values[a + 1][j % out_width * 3 + k] *
                            adapted->values[a][k * param->shape[0] + j / out_width];
    }
}

// By the chain rule from the gradient of the merged matrix: dA[k][i] = s sum_o dW[i][o] B[o][k], dB[o][k] = s sum_i
// dW[i][o] A[k][i].
static void expect_gradients(const struct trial *adapted, int a, const float *merged, size_t in_width, size_t out_width)
{
    const double scale = 5.0 / 3.0;
    for (int is_b = 0; is_b < 2; is_b++) {
        const struct model_param *param = &adapted->model->params[a + is_b];
        const float *gradient = adapted->gradients[a + is_b].data;
        for (size_t j = 0; j < param->count; j++) {
            size_t k = is_b ? j % 3 : j / in_width;
            double expected = 0, size = 0;
            for (size_t other = 0; other < (is_b ? in_width : out_width); other++) {
                size_t i = is_b ? other : j % in_width, o = is_b ? j / 3 : other;
                double factor =
                    (double)(is_b ? adapted->values[a][k * in_width + i] : adapted->values[a + 1][o * 3 + k]);
                expected += scale * (double)merged[i * out_width + o] * factor;
                size += fabs(scale * (double)merged[i * out_width + o] * factor);
            }
            cr_assert(fabs((double)gradient[j] - expected) <= 2e-5 * size + 1e-9, "%s[%zu]: %.9g, not %.9g",
                      param->name, j, (double)gradient[j], expected);
        }
    }
}

Test(gpt_lora, loss_and_gradients_are_those_of_the_merged_matrices)
{
    for (int t = 0; t < TARGETS; t++) {
        struct model *model = make_adapted(targets[t]), *merged = make(&odd_shape);
        struct trial adapted = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain);
        struct trial whole = trial_make(merged, ODD_SEQUENCES, DTYPE_FP32, plain);
        merge(&adapted, &whole);
        trial_pass(&adapted, 1.0f);
        trial_pass(&whole, 1.0f);
        double loss = model_loss(adapted.run), expected = model_loss(whole.run);
        cr_assert(fabs(loss - expected) < 2e-6 * expected, "%s: %.9f, not %.9f", targets[t], loss, expected);
        int adapters = 0;
        for (int i = 0; i < merged->param_count; i++) {
            const struct model_param *param = &merged->params[i];
            int a = adapter_of(model, param->name);
            if (a < 0)
                continue;
            expect_gradients(&adapted, a, whole.gradients[i].data, param->shape[0], param->shape[1]);
            adapters++;
        }
        cr_assert_eq(adapters, adapter_counts[t], "%s", targets[t]);
        trial_free(&adapted);
        trial_free(&whole);
        gpt_free(model);
        gpt_free(merged);
    }
}

Test(gpt_lora, checkpointing_changes_no_bit_in_any_dtype)
{
    struct model *model = make_adapted("all-linear");
    cr_checkpoints_suffice(model);
    gpt_free(model);
}

// Training begins with the function of the base: same initial values, B zero, A not, and each A another.
Test(gpt_lora, training_begins_with_the_base)
{
    struct model *model = make_adapted("all-linear"), *base = make(&odd_shape);
    float values[2][4096], last[4096] = {0};
    for (int i = 0; i < model->param_count; i++) {
        const struct model_param *param = &model->params[i];
        bool is_a = strstr(param->name, "lora_A"), is_b = strstr(param->name, "lora_B");
        model_initialise(model, i, 7, values[0]);
        cr_assert_eq(param->frozen, !is_a && !is_b, "%s", param->name);
        if (!is_a && !is_b) {
            model_initialise(base, param_named(base, param->name), 7, values[1]);
            cr_assert(memcmp(values[0], values[1], param->count * sizeof(float)) == 0, "%s", param->name);
            continue;
        }
        float bound = 1.0f / sqrtf((float)param->shape[1]);
        double sum = 0, squares = 0;
        for (size_t j = 0; j < param->count; j++) {
            cr_assert(is_a ? fabsf(values[0][j]) <= bound : values[0][j] == 0.0f, "%s", param->name);
            sum += (double)values[0][j] / (double)bound;
            squares += (double)values[0][j] / (double)bound * ((double)values[0][j] / (double)bound);
        }
        if (is_b)
            continue;
        cr_assert(fabs(sum / (double)param->count) < 0.3 && fabs(squares / (double)param->count - 1.0 / 3) < 0.15, "%s",
                  param->name);
        cr_assert(memcmp(values[0], last, 63 * sizeof(float)) != 0, "%s", param->name);
        memcpy(last, values[0], sizeof last);
    }
    gpt_free(model);
    gpt_free(base);
}

Test(gpt_lora, names_and_shapes_are_pefts)
{
    const struct model *model = find("gpt-nano:rank=4,targets=c_attn+mlp.c_proj");
    static const struct {
        const char *name;
        size_t rows, columns;
    } expected[] = {{"h.1.attn.c_attn.lora_A.weight", 4, 16},
                    {"h.1.attn.c_attn.lora_B.weight", 48, 4},
                    {"h.1.mlp.c_proj.lora_A.weight", 4, 64},
                    {"h.1.mlp.c_proj.lora_B.weight", 16, 4}};
    for (int i = 0; i < 4; i++) {
        int param = param_named(model, expected[i].name);
        cr_assert_geq(param, 0, "%s", expected[i].name);
        cr_expect_eq(model->params[param].shape[0], expected[i].rows, "%s", expected[i].name);
        cr_expect_eq(model->params[param].shape[1], expected[i].columns, "%s", expected[i].name);
    }
    cr_expect_eq(model_param_elements(model, true), 2 * (4 * (16 + 48) + 4 * (64 + 16)));
    const struct lora *lora = &((const struct gpt_shape *)model->shape)->lora;
    cr_expect_eq(lora->alpha, 4, "alpha is the rank unless given");
}

Test(gpt_lora, a_bad_adapter_is_refused_with_its_error)
{
    cr_name_is_refused("gpt:rank=0", "rank=0: expected a whole number from 1 to 4096");
    cr_name_is_refused("gpt:rank=4097", "rank=4097: expected");
    cr_name_is_refused("gpt:rank=x", "rank=x: expected");
    cr_name_is_refused("gpt:rank=4,rank=4", "rank is given twice");
    cr_name_is_refused("gpt:alpha=4", "alpha needs rank=NUMBER");
    cr_name_is_refused("gpt:targets=c_attn", "targets needs rank=NUMBER");
    cr_name_is_refused("gpt:rank=4,targets=", "targets=: expected names");
    cr_name_is_refused("gpt:rank=4,targets=q_proj+v_proj",
                       "no module is called \"q_proj\": expected attn.c_attn, attn.c_proj, ");
    cr_name_is_refused("gpt:rank=4,targets=c_attn+", "no module is called \"\"");
    cr_name_is_refused("gpt:rank=4,targets=attn", "no module is called \"attn\"");
    cr_name_is_refused("gpt:rank=4,tiles=2", "tiles and adapters");
    cr_name_is_refused("linear:rank=4,targets=d",
                       "no module is called \"d\": expected tied, b.empty, b.frozen, c, e, or all-linear");
    cr_name_is_refused("linear:rank=4,depth=3", "unknown key 'depth'");
    cr_name_is_refused("linear:", "unknown key ''");
}

// The base of linear models is frozen, and each matrix's adapters are in the layer that first uses it.
Test(gpt_lora, linear_models_have_adapters_too)
{
    const struct model *model = find("linear:rank=2,targets=tied+b.empty+e");
    cr_expect_eq(model->param_count, 15 + 6);
    cr_expect_eq(model_param_elements(model, true), 2 * (40 + 25) + 2 * (0 + 5) + 2 * (10 + 10));
    int a = param_named(model, "tied.lora_A.weight"), seen = 0;
    for (int layer = 0; layer < model->layer_count; layer++)
        for (int i = 0; i < model->layers[layer].param_count; i++)
            seen += model->layers[layer].params[i] == a;
    cr_expect_eq(seen, 1, "a tied matrix has one pair of adapters");
    cr_expect_eq(model, find("linear:rank=2,targets=tied+b.empty+e"));
}
