// SPDX-License-Identifier: Apache-2.0
// Sequence parallelism (Megatron-LM; Korthikanti et al., arXiv:2205.05198, section 4.2.2): between the products that
// tensor parallelism cuts, in layer norms, residuals and the biases of c_proj, each of T ranks has 1/T of the stream's
// rows. They are gathered before a product whose columns are cut, and a sum of products is scattered: as many bytes as
// the sum over ranks that both replace. Backward gathers where forward scatters and scatters where it gathers. It also
// gathers the norms' outputs again, which no rank keeps.
//
// A sequence of L positions has as many blocks of consecutive positions as products have, B. The rows of a micro-batch
// are in token order, [sequence][position]. The stream's rows are in stream order, [block][sequence][position], so
// that the rows of a rank, those of its B/T blocks, follow each other.
//
// A gradient that is a sum over the stream's rows is made in each block as any sum over rows (gpt_math.h), in stream
// order; the B sums are folded as the products' are (gpt_cut.c), a balanced tree. Layer norms, the biases of c_proj and
// what adapters add to the stream are computed block by block on one rank as well, and all else as without sequence
// parallelism: so bits depend neither on T nor, but for these sums, on sequence parallelism.
#include "ref/model/gpt_cut.h"

#include "base/err.h"
#include "ref/comm/comm.h"

static size_t block_rows(const struct gpt_pass *pass)
{
    return pass->stream_rows / pass->blocks;
}

size_t pass_token_row(const struct gpt_pass *pass, size_t r)
{
    if (!pass->sequence_parallel)
        return r;
    size_t length = pass->shape->sequence_length, run = length / pass->shape->product_blocks;
    size_t block = pass->part * pass->blocks + r / block_rows(pass), within = r % block_rows(pass);
    return within / run * length + block * run + within % run;
}

// Copies the rows of `count` blocks from `first` on, in stream order, from or to their places among all rows in token
// order.
static void copy_blocks(const struct gpt_pass *pass, size_t first, size_t count, float *stream, float *tokens,
                        size_t width, bool to_stream)
{
    size_t length = pass->shape->sequence_length, run = length / pass->shape->product_blocks;
    for (size_t block = first; block < first + count; block++)
        for (size_t sequence = 0; sequence < pass->run->sequence_count; sequence++, stream += run * width) {
            float *token = tokens + (sequence * length + block * run) * width;
            memcpy(to_stream ? stream : token, to_stream ? token : stream, run * width * sizeof *stream);
        }
}

// Gathers the stream's rows of all parts to at.slices.
static float *gather(const struct gpt_pass *pass, const float *own)
{
    struct model_run *run = pass->run;
    float *all = pass->memory + pass->at.slices;
    size_t bytes = pass->stream_rows * pass->width * sizeof *own;
    if (run->code == ERR_NONE)
        run->code = run->tensor_comm ? comm_all_gather_equal(run->tensor_comm, own, all, bytes) : pass_alone(pass);
    return all;
}

const void *pass_all_rows(const struct gpt_pass *pass, const void *own, float *all)
{
    if (!pass->sequence_parallel)
        return own;
    float *stream = pass->parts > 1 ? gather(pass, own) : (float *)(uintptr_t)own;
    copy_blocks(pass, 0, pass->shape->product_blocks, stream, all, pass->width, false);
    return all;
}

const void *pass_own_rows(const struct gpt_pass *pass, const void *all, size_t width)
{
    float *own = pass->memory + pass->at.partials;
    if (!pass->sequence_parallel)
        return all;
    copy_blocks(pass, pass->part * pass->blocks, pass->blocks, own, (float *)(uintptr_t)all, width, true);
    return own;
}

// Each part receives its rows of all partial sums, and folds them.
static int scatter(const struct gpt_pass *pass, const float *slices, float *sum, size_t width)
{
    struct comm *comm = pass->run->tensor_comm;
    size_t counts[pass->parts], offsets[pass->parts];
    for (size_t i = 0; i < pass->parts; i++) {
        counts[i] = pass->stream_rows * width;
        offsets[i] = i * counts[i];
    }
    TRY(comm_all_to_all(comm, slices, counts, offsets, sum, counts, offsets, DTYPE_FP32));
    pass_fold_tree(sum, pass->parts, counts[0]);
    return ERR_NONE;
}

float *pass_scatter_parts(const struct gpt_pass *pass, size_t width)
{
    struct model_run *run = pass->run;
    float *sum = pass->memory + pass->at.partials, *slices = pass->memory + pass->at.slices;
    if (!pass->sequence_parallel)
        return pass_sum_parts(pass, pass->rows * width);
    copy_blocks(pass, 0, pass->shape->product_blocks, slices, sum, width, true);
    if (pass->parts == 1)
        return slices;
    if (run->code == ERR_NONE)
        run->code = run->tensor_comm ? scatter(pass, slices, sum, width) : pass_alone(pass);
    return sum;
}

// A layer norm's gradients of weight and bias as a sum over blocks; `blocks.in` has the gradient of the norm's output.
struct norm_sum {
    struct gpt_blocks blocks;  // first member: the tree's
    const float *norm_in, *norm_stats;
};

static void make_norm_gradient(const struct gpt_pass *pass, const struct gpt_blocks *s, size_t block,
                               struct gpt_result out)
{
    const struct norm_sum *sum = (const struct norm_sum *)s;
    size_t rows = block_rows(pass), first = block * rows, width = pass->width;
    layernorm_backward(rows, width, sum->norm_in + first * width, sum->norm_stats + 2 * first, pass->dtype,
                       pass->weights[s->index], (const float *)s->in + first * width,
                       pass->memory + pass->at.gradient + first * width, out.data, NULL);
}

void pass_norm_back_blocks(const struct gpt_pass *pass, int index, const float *in, const float *stats,
                           const void *out_gradient)
{
    const struct norm_sum sum = {{make_norm_gradient, index, out_gradient, pass->width, 1, true}, in, stats};
    size_t width = pass->width;
    pass_sum_own(pass, &sum.blocks, 1, 2 * width);
    if (!pass_wants(pass, index))
        return;
    const float *vectors = pass_sum_parts(pass, 2 * width);
    pass_hand_over(pass, index, vectors);
    pass_hand_over(pass, index + 1, vectors + width);
}

static void make_bias_gradient(const struct gpt_pass *pass, const struct gpt_blocks *s, size_t block,
                               struct gpt_result out)
{
    size_t rows = block_rows(pass);
    rows_sum(rows, pass->width, pass->dtype, (const float *)s->in + block * rows * pass->width, out.data, NULL);
}

void pass_bias_gradient_blocks(const struct gpt_pass *pass, int index, const void *stream)
{
    const struct gpt_blocks sum = {make_bias_gradient, index, stream, pass->width, 1, true};
    if (!pass_wants(pass, index))
        return;
    pass_sum_own(pass, &sum, 1, pass->width);
    pass_hand_over(pass, index, pass_sum_parts(pass, pass->width));
}
