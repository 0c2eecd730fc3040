// SPDX-License-Identifier: Apache-2.0
// Tiles cut large matrices into layers of their own; function, gradients and initial values stay those of the whole
// model.
#include "ref/model/gpt_test.h"

enum { WIDTH = 21, LAYERS = 2 };

static struct model *make_tiled(size_t tile_count)
{
    struct gpt_shape shape = odd_shape;
    shape.tile_count = tile_count;
    return make(&shape);
}

// The parameter of the whole model that a tiled one is part of, and the index of element i in it.
struct part {
    int whole;
    size_t first, columns, stride;
};

static struct part part_of(const struct model *tiled, int param, const struct model *whole)
{
    const struct model_param *p = &tiled->params[param];
    int block_index, tile;
    char rest[MODEL_NAME_BYTES], name[MODEL_NAME_BYTES + 16];
    if (sscanf(p->name, "h.%d.mlp.tile.%d.%s", &block_index, &tile, rest) != 3)
        return (struct part){param_named(whole, p->name), 0, p->count, p->count};
    snprintf(name, sizeof name, "h.%d.mlp.%s", block_index, rest);
    struct part part = {.whole = param_named(whole, name), .first = (size_t)tile * p->count, .columns = p->count};
    if (strcmp(rest, "c_fc.weight") == 0) {
        part.columns = p->shape[1];
        part.first = (size_t)tile * p->shape[1];
        part.stride = whole->params[part.whole].shape[1];
    }
    return part;
}

static size_t position_of(struct part part, size_t i)
{
    return part.first + i / part.columns * part.stride + i % part.columns;
}

Test(gpt_tiles, layers_and_parameters_have_the_names_and_shapes_of_their_tiles)
{
    struct model *model = make_tiled(4);
    static const char *const layers[] = {"embedding",      "h.0.attn",       "h.0.mlp.tile.0", "h.0.mlp.tile.1",
                                         "h.0.mlp.tile.2", "h.0.mlp.tile.3", "h.1.attn"};
    cr_assert_eq(model->layer_count, 2 + LAYERS * 5);
    cr_assert_eq(model->param_count, 4 + LAYERS * (12 + 3 * 3));
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        cr_assert_str_eq(model->layers[i].name, layers[i]);
    const struct {
        const char *name;
        size_t rows, columns;
        int layer;
    } expected[] = {
        {"h.0.ln_2.bias", 21, 0, 1},
        {"h.0.mlp.tile.0.c_fc.weight", 21, 21, 2},
        {"h.0.mlp.tile.0.c_proj.weight", 21, 21, 2},
        {"h.0.mlp.c_proj.bias", 21, 0, 2},
        {"h.0.mlp.tile.3.c_fc.bias", 21, 0, 5},
        {"h.1.mlp.tile.2.c_proj.weight", 21, 21, 9},
        {"ln_f.weight", 21, 0, 11},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct model_param *p = &model->params[param_named(model, expected[i].name)];
        cr_assert(p->shape[0] == expected[i].rows && p->shape[1] == expected[i].columns, "%s", p->name);
        cr_assert_eq(p->first_layer, expected[i].layer, "%s", p->name);
    }
    // Every parameter is in the list of its first layer; only the tied one is in a second list.
    int listed = 0;
    for (int layer = 0; layer < model->layer_count; layer++)
        for (int i = 0; i < model->layers[layer].param_count; i++, listed++) {
            int param = model->layers[layer].params[i];
            cr_assert(model->params[param].first_layer == layer || (param == 0 && layer == model->layer_count - 1));
        }
    cr_assert_eq(listed, model->param_count + 1);
    gpt_free(model);
}

Test(gpt_tiles, initial_values_are_slices_of_the_whole_matrices)
{
    struct model *whole = make_tiled(1);
    float value[4 * WIDTH * WIDTH], slice[4 * WIDTH * WIDTH];
    for (size_t tiles = 2; tiles <= 4 * WIDTH; tiles++) {
        if (4 * WIDTH % tiles)
            continue;
        struct model *model = make_tiled(tiles);
        cr_assert_eq(model_param_elements(model, true), model_param_elements(whole, true));
        for (int i = 0; i < model->param_count; i++) {
            struct part part = part_of(model, i, whole);
            model_initialise(whole, part.whole, 3, value);
            model_initialise(model, i, 3, slice);
            for (size_t j = 0; j < model->params[i].count; j++)
                cr_assert(slice[j] == value[position_of(part, j)], "%s[%zu] of %zu tiles", model->params[i].name, j,
                          tiles);
        }
        gpt_free(model);
    }
    gpt_free(whole);
}

// A tiled trial with the parameters of a whole one.
static struct trial cut(const struct trial *whole, const struct model *model, bool checkpointing)
{
    struct trial tiled = trial_make_as(model, ODD_SEQUENCES, DTYPE_FP32, plain, checkpointing);
    for (int i = 0; i < model->param_count; i++) {
        struct part part = part_of(model, i, whole->model);
        for (size_t j = 0; j < model->params[i].count; j++)
            ((float *)tiled.params[i])[j] = whole->values[part.whole][position_of(part, j)];
    }
    return tiled;
}

Test(gpt_tiles, a_layer_of_the_mlp_shrinks_with_the_number_of_tiles)
{
    for (size_t tiles = 2; tiles <= 64; tiles *= 2) {
        const struct model *model;
        size_t count = 0;
        cr_assert(model_find_changed("gpt-tiny", &(struct model_changes){.tiling_factor = tiles}, &model) == ERR_NONE,
                  "%s", err_message());
        for (int i = 0; i < model->layers[2].param_count; i++)
            count += model->params[model->layers[2].params[i]].count;
        cr_assert_eq(count, (8 * 64 * 64 + 4 * 64) / tiles + 64, "%zu tiles", tiles);  // and c_proj's bias
    }
}

// Only the order of sums differs. The longest path from a parameter to the loss and back has sums of at most 84
// (4 x width) terms, twice per block and direction, so that 4 x 2 x 84 roundings of 2^-24 bound the difference relative
// to a gradient without cancellation, for which the test takes the tensor's largest gradient.
Test(gpt_tiles, loss_and_gradients_equal_the_whole_models_within_rounding)
{
    const size_t counts[] = {2, 3, 4, 7, 84};
    const double bound = 4 * 2 * 84 * 0x1p-24;
    struct model *model = make_tiled(1);
    struct trial whole = trial_make(model, ODD_SEQUENCES, DTYPE_FP32, plain);
    trial_pass(&whole, 1.0f);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        struct model *tiled_model = make_tiled(counts[c]);
        struct trial tiled = cut(&whole, tiled_model, c % 2 == 1);
        trial_pass(&tiled, 1.0f);
        cr_assert(fabs(model_loss(tiled.run) / model_loss(whole.run) - 1) < bound);
        for (int i = 0; i < tiled_model->param_count; i++) {
            struct part part = part_of(tiled_model, i, model);
            const float *value = tiled.gradients[i].data, *expected = whole.gradients[part.whole].data;
            float largest = 0;
            for (size_t j = 0; j < model->params[part.whole].count; j++)
                largest = fmaxf(largest, fabsf(expected[j]));
            for (size_t j = 0; j < tiled_model->params[i].count; j++) {
                double right = (double)expected[position_of(part, j)];
                cr_assert(fabs((double)value[j] - right) <= bound * largest, "%s[%zu] of %zu tiles: %g, not %g",
                          tiled_model->params[i].name, j, counts[c], (double)value[j], right);
            }
        }
        trial_free(&tiled);
        gpt_free(tiled_model);
    }
    trial_free(&whole);
    gpt_free(model);
}

// gpt-nano with 4 tiles: of the MLP's 32 rows of 64 a run keeps 16 with checkpointing, and the tiles' common input;
// scratch is 48 wide (qkv) and 16 wide instead of 64 and 64, and there is the gradient of the common input. The
// gradients of vectors need 48 places instead of 64.
Test(gpt_tiles, a_run_with_checkpoints_has_memory_for_one_tile)
{
    const struct model *whole, *tiled;
    const size_t rows = 2 * 16;
    cr_assert(model_find("gpt-nano", &whole) == ERR_NONE &&
              model_find_changed("gpt-nano", &(struct model_changes){.tiling_factor = 4}, &tiled) == ERR_NONE);
    cr_assert_eq(model_run_bytes(whole, 2, DTYPE_FP32, true) - model_run_bytes(tiled, 2, DTYPE_FP32, true),
                 (rows * ((64 - 16) - 16 + (64 - 48) + (64 - 16) - 16) + 64 - 48) * sizeof(float));
    size_t checkpoints = 0;
    for (int layer = 0; layer < tiled->layer_count; layer++)
        checkpoints += model_checkpoint_bytes(tiled, layer, 2);
    // The stream at each block and the head, and each block's common input.
    cr_assert_eq(checkpoints, (2 * 2 + 1) * rows * 16 * sizeof(float));
}
