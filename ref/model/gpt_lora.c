// SPDX-License-Identifier: Apache-2.0
// The adapters of a block's modules (lora.h), forward and backward:
//
//   u = s x A^T          dx += du A     du = s dy B
//   y += u B^T           dA = du^T x    dB = dy^T u
//
// u and du are operands (gpt_math.h). Backward recomputes u.
//
// With blocks (gpt_cut.h) an adapter is cut as its module is. Of a module whose columns are cut, A is whole on every
// rank and B has the rows of the rank's columns: du is a sum over blocks. Of one whose rows are cut, A has the columns
// of the rank's rows and B is whole: u is a sum over blocks. All other products are made by each rank alone.
#include "ref/model/gpt_cut.h"
#include "ref/model/gpt_pass.h"

#include "ref/model/lora/lora.h"

const char *const gpt_modules[MODULE_COUNT + 1] = {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj", NULL};

void gpt_module_widths(const struct gpt_shape *shape, enum gpt_module module, size_t *in_width, size_t *out_width)
{
    size_t width = shape->width;
    *in_width = module == MODULE_OUT ? 4 * width : width;
    *out_width = module == MODULE_QKV ? 3 * width : module == MODULE_FC ? 4 * width : width;
}

// A module's adapter in one pass.
struct adapter {
    int a;                 // index of A in the layer's list, B's is the next; -1: there is none
    bool sums_u, sums_du;  // over blocks: of the columns of A, or of the rows of B
    size_t in_blocks;      // of the columns of A,
    size_t out_blocks;     // and of the rows of B, that this rank has; 1 as well if they are whole
    size_t runs;           // of rows that a block has of B
};

static struct adapter adapter_of(const struct gpt_pass *pass, enum gpt_module module)
{
    const struct gpt_shape *shape = pass->shape;
    bool is_cut = pass_is_cut(pass), by_column = module == MODULE_QKV || module == MODULE_FC;
    struct adapter adapter = {.a = BLOCK_PARAMS, .runs = module == MODULE_QKV ? 3 : 1};
    if (shape->experts.count > 0)
        adapter.a = ROUTER_WEIGHT + 1 + (int)gpt_experts_held(pass->run->model) * EXPERT_PARAMS;
    for (int i = 0; i < (int)module; i++)
        adapter.a += lora_adapts(&shape->lora, gpt_modules[i]) ? 2 : 0;
    if (!lora_adapts(&shape->lora, gpt_modules[module]))
        adapter.a = -1;
    adapter.sums_u = is_cut && !by_column;
    adapter.sums_du = is_cut && by_column;
    adapter.in_blocks = adapter.sums_u ? pass->blocks : 1;
    adapter.out_blocks = adapter.sums_du ? adapter.runs * pass->blocks : 1;
    return adapter;
}

static struct gpt_result low_rank(const struct gpt_pass *pass, size_t at)
{
    return (struct gpt_result){.data = pass->memory + at, .width = pass->shape->lora.rank, .is_operand = true};
}

// A block's columns of x and of A.
static void make_u(const struct gpt_pass *pass, const struct gpt_blocks *s, size_t block, struct gpt_result out)
{
    size_t k = s->width / pass->blocks;
    pass_scaled_product(pass, lora_scale(&pass->shape->lora), pass->rows, k,
                        pass_operand(pass, s->in, block * k, s->width, false),
                        pass_operand(pass, pass->weights[s->index], block * k, s->width, true), out);
}

static void compute_u(const struct gpt_pass *pass, const struct adapter *adapter, const void *in, size_t in_width)
{
    struct gpt_result u = low_rank(pass, pass->at.low);
    if (adapter->sums_u) {
        pass_sum_into(pass, &(struct gpt_blocks){make_u, adapter->a, in, in_width, 1, false}, u);
        return;
    }
    pass_scaled_product(pass, lora_scale(&pass->shape->lora), pass->rows, in_width,
                        (struct matmul_operand){in, in_width, false},
                        (struct matmul_operand){pass->weights[adapter->a], in_width, true}, u);
}

// out += u op(W), of the stream's rows: with sequence parallelism block by block.
static void add_to_stream(const struct gpt_pass *pass, size_t low, struct matmul_operand weight, struct gpt_result out)
{
    size_t blocks = pass->sequence_parallel ? pass->blocks : 1, rank = pass->shape->lora.rank;
    size_t rows = pass->stream_rows / blocks;
    const void *own = pass_own_rows(pass, pass->memory + low, rank);
    for (size_t block = 0; block < blocks; block++)
        pass_product(pass, rows, rank, pass_operand(pass, own, block * rows * rank, rank, false), weight,
                     (struct gpt_result){.data = (float *)out.data + block * rows * out.width,
                                         .width = out.width,
                                         .add = true,
                                         .is_operand = out.is_operand});
}

void pass_adapt(const struct gpt_pass *pass, enum gpt_module module, const void *in, size_t in_width,
                struct gpt_result out)
{
    const struct adapter adapter = adapter_of(pass, module);
    size_t rank = pass->shape->lora.rank, n = out.width / adapter.out_blocks;
    if (adapter.a < 0)
        return;
    compute_u(pass, &adapter, in, in_width);
    out.add = true;
    if (adapter.sums_u) {
        add_to_stream(pass, pass->at.low, pass_operand(pass, pass->weights[adapter.a + 1], 0, rank, true), out);
        return;
    }
    for (size_t column = 0; column < out.width; column += n)
        pass_product(pass, pass->rows, rank, (struct matmul_operand){pass->memory + pass->at.low, rank, false},
                     pass_operand(pass, pass->weights[adapter.a + 1], column * rank, rank, true),
                     pass_columns(pass, out, column, n));
}

// A block's columns of dy and rows of B.
static void make_u_gradient(const struct gpt_pass *pass, const struct gpt_blocks *s, size_t block,
                            struct gpt_result out)
{
    size_t k = s->width / (s->runs * pass->blocks), rank = pass->shape->lora.rank;
    for (size_t column = block * k; column < s->width; column += k * pass->blocks) {
        pass_scaled_product(pass, lora_scale(&pass->shape->lora), pass->rows, k,
                            pass_operand(pass, s->in, column, s->width, false),
                            pass_operand(pass, pass->weights[s->index], column * rank, rank, false), out);
        out.add = true;
    }
}

static void compute_u_gradient(const struct gpt_pass *pass, const struct adapter *adapter, const void *out_gradient,
                               size_t out_width)
{
    struct gpt_result du = low_rank(pass, pass->at.low_gradient);
    if (adapter->sums_du) {
        const struct gpt_blocks blocks = {make_u_gradient, adapter->a + 1, out_gradient,
                                          out_width,       adapter->runs,  false};
        pass_sum_into(pass, &blocks, du);
        return;
    }
    pass_scaled_product(pass, lora_scale(&pass->shape->lora), pass->rows, out_width,
                        (struct matmul_operand){out_gradient, out_width, false},
                        (struct matmul_operand){pass->weights[adapter->a + 1], du.width, false}, du);
}

void pass_adapt_back(const struct gpt_pass *pass, enum gpt_module module, const void *out_gradient, size_t out_width,
                     struct gpt_result in_gradient)
{
    const struct adapter adapter = adapter_of(pass, module);
    size_t rank = pass->shape->lora.rank, n = in_gradient.width / adapter.in_blocks;
    if (adapter.a < 0)
        return;
    compute_u_gradient(pass, &adapter, out_gradient, out_width);
    in_gradient.add = true;
    if (adapter.sums_du) {
        add_to_stream(pass, pass->at.low_gradient,
                      pass_operand(pass, pass->weights[adapter.a], 0, in_gradient.width, false), in_gradient);
        return;
    }
    for (size_t column = 0; column < in_gradient.width; column += n)
        pass_product(pass, pass->rows, rank, (struct matmul_operand){pass->memory + pass->at.low_gradient, rank, false},
                     pass_operand(pass, pass->weights[adapter.a], column, in_gradient.width, false),
                     pass_columns(pass, in_gradient, column, n));
}

// dA or dB: left^T right, whose rows or columns are in blocks.
static void make_gradient(const struct gpt_pass *pass, int index, const void *left, size_t left_width,
                          size_t row_blocks, const void *right, size_t right_width, size_t column_blocks)
{
    if (!pass_is_cut(pass)) {
        pass_weight_product(pass, index, left_width, (struct matmul_operand){left, left_width, true}, right,
                            right_width);
        return;
    }
    float *target = pass_gradient(pass, index);
    pass_block_gradient(pass, left, left_width, row_blocks, right, right_width, column_blocks, target);
    pass_hand_over(pass, index, target);
}

void pass_adapt_gradients(const struct gpt_pass *pass, enum gpt_module module, const void *in, size_t in_width,
                          const void *out_gradient, size_t out_width)
{
    const struct adapter adapter = adapter_of(pass, module);
    size_t rank = pass->shape->lora.rank;
    if (adapter.a < 0)
        return;
    compute_u(pass, &adapter, in, in_width);
    make_gradient(pass, adapter.a, pass->memory + pass->at.low_gradient, rank, 1, in, in_width, adapter.in_blocks);
    make_gradient(pass, adapter.a + 1, out_gradient, out_width, adapter.out_blocks, pass->memory + pass->at.low, rank,
                  1);
}
