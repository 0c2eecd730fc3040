// SPDX-License-Identifier: Apache-2.0
// What one launch makes together has the bits of its parts: norms, biases and sums over rows, which are rounded or
// added where they belong, both tables' gradients of an embedding, and a loss with its gradient. nvcc's host
// compilation anywhere, and a GPU where there is one.
#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/dtype.h"
#include "ref/arithmetic/gpt_math.h"
#include "ref/arithmetic/random.h"
#include "base/err.h"
#include "ref/cuda/cuda_lane.h"
#include "ref/cuda/isa_host.h"
#include "ref/cuda/tier_cuda.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>

// PLACES: of sums over rows in one step, more than one launch adds.
enum { BYTES = 1 << 20, HERE, THERE, PLACES = 23 };

// Two memories with the same arrays at the same offsets; elements there have their format, and here they are floats.
struct both {
    const struct isa_kernels *kernels;
    char *here, *there, *back;
    size_t used;
};

static bool open_both(struct both *b, bool is_gpu)
{
    const char *absent = is_gpu ? cuda_lane_absent() : NULL;
    void *there;
    if (absent) {
        printf("TEST SKIPPED: %s\n", absent);
        return false;
    }
    *b = (struct both){.kernels = is_gpu ? &isa_cuda : &isa_host, .here = malloc(BYTES), .back = malloc(BYTES)};
    if (is_gpu) {
        cr_assert_eq(cuda_accelerator.enter(0), ERR_NONE, "%s", err_message());
        cr_assert_eq(cuda_accelerator.allocate(BYTES, &there), ERR_NONE, "%s", err_message());
        cr_assert_eq(accelerator_claim(&cuda_accelerator, there, BYTES), ERR_NONE);
    } else {
        there = malloc(BYTES);
    }
    b->there = there;
    return true;
}

static void close_both(struct both *b, bool is_gpu)
{
    if (is_gpu) {
        accelerator_disclaim(b->there);
        cr_assert_eq(cuda_accelerator.release(b->there), ERR_NONE);
    } else {
        free(b->there);
    }
    free(b->here);
    free(b->back);
}

// Values in both memories, rounded to dtype; `wide` says that they are floats here. Returns their offset, which is odd
// in elements where `shift` is.
static size_t array(struct both *b, enum dtype dtype, bool wide, size_t count, size_t shift)
{
    size_t at = b->used + shift * dtype_bytes(dtype), own = b->used + shift * sizeof(float);
    float *values = malloc((count + 1) * sizeof *values);
    b->used = (b->used + (count + shift + 1) * sizeof(float) + 63) / 64 * 64;
    cr_assert_leq(b->used, BYTES);
    for (size_t i = 0; i < count; i++)
        values[i] = random_normal(random_at(own, i));
    isa_scalar.operand_round(dtype, count, values, values);
    isa_scalar.narrow(dtype, values, b->back, count);
    cr_assert_eq(bytes_copy(b->there + at, b->back, count * dtype_bytes(dtype)), ERR_NONE);
    if (wide)
        memcpy(b->here + at, values, count * sizeof *values);
    else
        memcpy(b->here + at, b->back, count * dtype_bytes(dtype));
    free(values);
    return at;
}

// The same elements in both: an array that has its format here, too, unless it is `wide` here.
static void expect_same(struct both *b, enum dtype dtype, bool wide, size_t at, size_t count, const char *what)
{
    char *found = b->back, *expected = malloc((count + 1) * sizeof(float));
    cr_assert_eq(accelerator_wait(), ERR_NONE, "%s", err_message());
    cr_assert_eq(bytes_copy(found, b->there + at, count * dtype_bytes(dtype)), ERR_NONE);
    memcpy(expected, b->here + at, count * (wide ? sizeof(float) : dtype_bytes(dtype)));
    if (wide)
        isa_scalar.narrow(dtype, (float *)(b->here + at), expected, count);
    for (size_t i = 0; i < count * dtype_bytes(dtype); i++)
        cr_assert_eq(found[i], expected[i], "%s in %s: byte %zu of %zu elements", what, dtype_name(dtype), i, count);
    free(expected);
}

#define FLOATS(memory, at) ((float *)((memory) + (at)))

// Rows that end a block of the sum, begin one, and are one alone; widths above a load, with a rest, and prime.
static const size_t SHAPES[][2] = {{1, 1}, {64, 8}, {65, 12}, {131, 7}, {200, 33}, {128, 68}};

// All together, or where the table has no entry for that, one after the other.
static void try_stream(const struct isa_kernels *k, size_t rows, size_t width, enum dtype dtype, float *gradient,
                       float *sums, const struct stream_parts *p)
{
    if (k->stream_backward) {
        k->stream_backward(rows, width, dtype, gradient, sums, p);
        return;
    }
    if (p->norm.is_first)
        memset(gradient, 0, rows * width * sizeof *gradient);
    if (p->norm.in)
        k->layernorm_backward(rows, width, p->norm.in, p->norm.stats, dtype, p->norm.weight, p->norm.out_gradient,
                              gradient, sums, p->norm.places);
    if (p->rounded != gradient)
        k->operand_round(dtype, rows * width, gradient, p->rounded);
    k->rows_sum(rows, width, dtype, p->rounded, sums, &p->place);
    if (p->again.in)
        k->layernorm_apply(rows, width, p->again.in, p->again.stats, dtype, p->again.weight, p->again.bias,
                           p->again.out);
    if (p->other)
        k->rows_sum(rows, p->other_width, dtype, p->other, sums, &p->other_place);
}

static void try_places(struct both *b, size_t rows, size_t width, enum dtype dtype, bool adds, size_t shift)
{
    b->used = 0;
    const size_t all = rows * width, in = array(b, DTYPE_FP32, true, all, 0), wide = array(b, dtype, true, all, 0);
    const size_t middle = array(b, DTYPE_FP32, true, all, 0), in_gradient = array(b, DTYPE_FP32, true, all, 0);
    const size_t out_gradient = array(b, dtype, true, all, 0);
    const size_t stats = array(b, DTYPE_FP32, true, 2 * rows, 0);
    const size_t weight = array(b, dtype, true, width, 0), bias = array(b, dtype, true, width, 0);
    const size_t value = array(b, dtype, true, all, 0), slope = array(b, dtype, true, all, 0);
    const size_t rounded = array(b, dtype, true, all, 0), normed = array(b, dtype, true, all, 0);
    const size_t others = array(b, dtype, true, width + 1, 0), began = array(b, dtype, true, rows * (width + 1), 0);
    const size_t sums = array(b, DTYPE_FP32, true, 2 * width + 1, 0), sum = array(b, DTYPE_FP32, true, all, 0);
    const size_t again = array(b, dtype, true, all, 0), wider = array(b, dtype, false, width + 1, shift);
    const bool in_place = dtype == DTYPE_FP32 && adds, is_first = shift;
    size_t places[PLACES];
    for (int i = 0; i < PLACES; i++)
        places[i] = array(b, dtype, false, width, shift);
    for (int where = HERE; where <= THERE; where++) {
        const struct isa_kernels *k = where == HERE ? &isa_scalar : b->kernels;
        char *m = where == HERE ? b->here : b->there;
        struct sum_place to[PLACES];
        for (int i = 0; i < PLACES; i++)
            to[i] = (struct sum_place){dtype, adds, m + places[i]};
        const struct norm_biases biases = {rows, width + 1, m + others, m + weight, m + began, FLOATS(m, sum)};
        if (where == THERE) {
            k->layernorm_biases(rows, width, FLOATS(m, in), FLOATS(m, stats), dtype, m + weight, m + bias, m + value,
                                &biases);
        } else {
            k->layernorm_forward(rows, width, FLOATS(m, in), FLOATS(m, stats), dtype, m + weight, m + bias, m + value);
            k->bias_rows(rows, width + 1, dtype, m + others, m + began);
            k->bias_add(rows, width, FLOATS(m, in), dtype, m + weight, FLOATS(m, sum));
        }
        const struct stream_parts parts = {
            {FLOATS(m, in), FLOATS(m, stats), m + weight, m + out_gradient, is_first, {to[0], to[1]}},
            m + (in_place ? in_gradient : rounded),
            to[3],
            {FLOATS(m, middle), FLOATS(m, stats), m + weight, m + bias, m + again},
            m + began,
            width + 1,
            {dtype, adds, m + wider}};
        try_stream(k, rows, width, dtype, FLOATS(m, in_gradient), FLOATS(m, sums), &parts);
        k->gelu_backward(rows, width, m + wide, m + slope, dtype, m + bias, m + value, m + slope, FLOATS(m, sums),
                         &to[2]);
        const struct stream_parts plain = {.rounded = m + normed,
                                           .place = to[4],
                                           .again = {.in = NULL},
                                           .other = in_place ? m + began : NULL,
                                           .other_width = width,
                                           .other_place = to[5]};
        try_stream(k, rows, width, dtype, FLOATS(m, in), FLOATS(m, sums), &plain);
        for (size_t i = 6; i < PLACES; i++)
            k->rows_sum(1 + (rows - 1) * i / PLACES, width, dtype, m + value, FLOATS(m, sums), &to[i]);
        if (where == THERE)
            k->sums_finish();
    }
    static const char *const names[] = {"a norm's weight", "a norm's bias", "a GELU's bias", "a sum of rows"};
    for (int i = 0; i < PLACES; i++)
        expect_same(b, dtype, false, places[i], width, names[i < 3 ? i : 3]);
    expect_same(b, DTYPE_FP32, true, in_gradient, all, "a norm's input");
    expect_same(b, dtype, true, value, all, "a GELU");
    expect_same(b, dtype, true, began, rows * (width + 1), "rows of a bias");
    expect_same(b, DTYPE_FP32, true, sum, all, "a bias added");
    expect_same(b, dtype, false, wider, width + 1, "another sum of rows");
    expect_same(b, dtype, true, rounded, all, "a rounded sum");
    expect_same(b, dtype, true, normed, all, "a rounded stream");
    expect_same(b, dtype, true, again, all, "a norm made again");
    expect_same(b, dtype, true, slope, all, "a GELU's slope");
}

// One launch for loss and gradient, and one for each, leave the same rows.
static void try_loss(struct both *b, size_t rows, size_t width, enum dtype dtype)
{
    const size_t stride = width + 3;
    uint16_t tokens[300];
    for (size_t i = 0; i <= rows; i++)
        tokens[i] = (uint16_t)(random_at(3, i) % width);
    const struct token_rows list = {tokens, 1, rows};
    b->used = 0;
    const size_t logits = array(b, dtype, true, rows * stride, 0), stats = array(b, DTYPE_FP32, true, 2 * rows, 0);
    // Below every exponential, which takes the place of a maximum in shared memory.
    for (size_t i = 0; i < rows * stride; i++)
        FLOATS(b->here, logits)[i] -= 50;
    isa_scalar.operand_round(dtype, rows * stride, FLOATS(b->here, logits), FLOATS(b->here, logits));
    isa_scalar.narrow(dtype, FLOATS(b->here, logits), b->back, rows * stride);
    cr_assert_eq(bytes_copy(b->there + logits, b->back, rows * stride * dtype_bytes(dtype)), ERR_NONE);
    double loss = isa_scalar.crossentropy_forward(&list, width, stride, FLOATS(b->here, logits), FLOATS(b->here, stats),
                                                  0, dtype);
    isa_scalar.crossentropy_backward(&list, width, stride, FLOATS(b->here, stats), 0.37f, dtype,
                                     FLOATS(b->here, logits));
    double together = b->kernels->crossentropy_forward(&list, width, stride, b->there + logits, FLOATS(b->there, stats),
                                                       0.37f, dtype);
    cr_expect_eq(loss, together, "%zu rows of %zu: %a and %a", rows, width, loss, together);
    expect_same(b, DTYPE_FP32, true, stats, 2 * rows, "a loss' rows");
    expect_same(b, dtype, true, logits, rows * stride, "a loss' gradient");
}

// Tokens below and above those of the table, one that no row has, others at the same address, more rows than a team has
// threads, and more columns than these sum together.
static void try_embedding(struct both *b, size_t sequences, size_t length, size_t width, enum dtype dtype, bool adds)
{
    enum { FIRST = 2, COUNT = 6, ABSENT = 4 };
    uint16_t tokens[300];
    for (size_t i = 0; i < sequences * (length + 1); i++)
        tokens[i] = (uint16_t)(random_at(5, i) % 9 + (random_at(5, i) % 9 >= ABSENT));
    const struct token_rows list = {tokens, sequences, length};
    const size_t counts[] = {COUNT * width, length * width};
    b->used = 0;
    const size_t in = array(b, DTYPE_FP32, true, sequences * length * width, 0),
                 sums = array(b, DTYPE_FP32, true, counts[length > COUNT], 0),
                 tables[] = {array(b, dtype, false, counts[0], 0), array(b, dtype, false, counts[1], adds)};
    for (int where = HERE; where <= THERE; where++) {
        char *m = where == HERE ? b->here : b->there;
        const struct sum_place places[] = {{dtype, adds, m + tables[0]}, {dtype, adds, m + tables[1]}},
                               tokens_alone[] = {places[0], {0}}, positions_alone[] = {{0}, places[1]};
        const struct sum_place *const each[] = {places, tokens_alone, positions_alone};
        for (size_t i = 0; i < (adds ? 3 : 1); i++) {
            tokens[0] = (uint16_t)(FIRST + i);
            (where == HERE ? &isa_scalar : b->kernels)
                ->embedding_backward(&list, width, FIRST, COUNT, FLOATS(m, in), FLOATS(m, sums), each[i]);
        }
    }
    expect_same(b, dtype, false, tables[0], counts[0], "a table of tokens");
    expect_same(b, dtype, false, tables[1], counts[1], "a table of positions");
}

static void try_all(bool is_gpu)
{
    static const size_t embeddings[][3] = {{0, 3, 5}, {1, 1, 1}, {3, 70, 12}, {2, 33, 799}};
    static const size_t losses[][2] = {{1, 1}, {5, 61}, {67, 40}, {131, 97}, {3, 9001}};
    struct both b;
    if (!open_both(&b, is_gpu))
        return;
    for (int dtype = 0; dtype < 3; dtype++) {
        for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++)
            for (int i = 0; i < 4; i++)
                try_places(&b, SHAPES[s][0], SHAPES[s][1], (enum dtype)dtype, i % 2, (size_t)i / 2);
        for (size_t s = 0; s < sizeof losses / sizeof *losses; s++)
            try_loss(&b, losses[s][0], losses[s][1], (enum dtype)dtype);
        for (size_t s = 0; s < 2 * sizeof embeddings / sizeof *embeddings; s++)
            try_embedding(&b, embeddings[s / 2][0], embeddings[s / 2][1], embeddings[s / 2][2], (enum dtype)dtype,
                          s % 2);
    }
    close_both(&b, is_gpu);
}

Test(gpt_step_cuda, parts_of_a_launch_as_nvcc_compiles_them_for_the_host)
{
    try_all(false);
}

Test(gpt_step_cuda, parts_of_a_launch_gpu)
{
    try_all(true);
}
