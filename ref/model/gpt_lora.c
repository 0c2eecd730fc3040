// SPDX-License-Identifier: Apache-2.0
// The adapters of a block's modules (lora.h), forward and backward:
//
//   u = s x A^T          dx += du A     du = s dy B
//   y += u B^T           dA = du^T x    dB = dy^T u
//
// u and du are operands (gpt_math.h). Backward recomputes u.
#include "ref/model/gpt_pass.h"

#include "ref/model/lora.h"

const char *const gpt_modules[MODULE_COUNT + 1] = {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj", NULL};

// The index of a module's A in the layer's list, -1 if it has no adapters.
static int index_of(const struct gpt_pass *pass, enum gpt_module module)
{
    const struct lora *lora = &pass->shape->lora;
    int index = BLOCK_PARAMS;
    for (int i = 0; i < (int)module; i++)
        index += lora_adapts(lora, gpt_modules[i]) ? 2 : 0;
    return lora_adapts(lora, gpt_modules[module]) ? index : -1;
}

static struct gpt_result low_rank(const struct gpt_pass *pass, size_t at)
{
    return (struct gpt_result){.data = pass->memory + at, .width = pass->shape->lora.rank, .is_operand = true};
}

static void compute_u(const struct gpt_pass *pass, int a, const void *in, size_t in_width)
{
    pass_scaled_product(pass, lora_scale(&pass->shape->lora), pass->rows, in_width,
                        (struct matmul_operand){in, in_width, false},
                        (struct matmul_operand){pass->weights[a], in_width, true}, low_rank(pass, pass->at.low));
}

void pass_adapt(const struct gpt_pass *pass, enum gpt_module module, const void *in, size_t in_width,
                struct gpt_result out)
{
    int a = index_of(pass, module);
    size_t rank = pass->shape->lora.rank;
    if (a < 0)
        return;
    compute_u(pass, a, in, in_width);
    out.add = true;
    pass_product(pass, pass->rows, rank, (struct matmul_operand){pass->memory + pass->at.low, rank, false},
                 (struct matmul_operand){pass->weights[a + 1], rank, true}, out);
}

void pass_adapt_back(const struct gpt_pass *pass, enum gpt_module module, const void *out_gradient, size_t out_width,
                     struct gpt_result in_gradient)
{
    int a = index_of(pass, module);
    size_t rank = pass->shape->lora.rank;
    if (a < 0)
        return;
    pass_scaled_product(pass, lora_scale(&pass->shape->lora), pass->rows, out_width,
                        (struct matmul_operand){out_gradient, out_width, false},
                        (struct matmul_operand){pass->weights[a + 1], rank, false},
                        low_rank(pass, pass->at.low_gradient));
    in_gradient.add = true;
    pass_product(pass, pass->rows, rank, (struct matmul_operand){pass->memory + pass->at.low_gradient, rank, false},
                 (struct matmul_operand){pass->weights[a], in_gradient.width, false}, in_gradient);
}

void pass_adapt_gradients(const struct gpt_pass *pass, enum gpt_module module, const void *in, size_t in_width,
                          const void *out_gradient, size_t out_width)
{
    int a = index_of(pass, module);
    size_t rank = pass->shape->lora.rank;
    if (a < 0)
        return;
    compute_u(pass, a, in, in_width);
    pass_weight_gradient(pass, a, pass->memory + pass->at.low_gradient, rank, in, in_width);
    pass_weight_gradient(pass, a + 1, out_gradient, out_width, pass->memory + pass->at.low, rank);
}
