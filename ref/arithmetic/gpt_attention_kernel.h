// SPDX-License-Identifier: Apache-2.0
// Attention whose scores exist one tile at a time: FlashAttention (arXiv 2205.14135), Algorithms 1 and 4, whose words
// stand above the lines. It is also the definition of attention's bits: every place and every order of tiles does these
// operations on each element in this order.
//
// Tiles have ATTENTION_BLOCK rows (queries) and as many keys. A product's element is one chain of fused multiply-adds
// (matmul_kernel.h). Forward, for a row i and each block of keys up to its own, ascending, with o = 0, l = 0 and
// m = -infinity at the beginning:
//
//   s_j = (q_i k_j) / sqrt(head width)    for the block's keys
//   m'  = the largest of m and s_j        over those that i attends to
//   p_j = exp(s_j - m')                   0 for those that it does not attend to
//   c   = exp(m - m')
//   l   = c l + the sum of p_j            ROW_LANES partial sums (gpt_math.h)
//   o   = c o + the sum of p_j v_j        c o begins the chain, keys ascending; p_j as an operand
//
// and after the last block out_i = o x (1 / l), an operand, with the statistics m and 1 / l. Backward, for each block
// of keys and the blocks of rows from its own on, both ascending, with D_i = the sum of dout_i out_i along the row:
//
//   p_ij  = exp(s_ij - m_i) (1 / l_i)           0 where i does not attend to j
//   dv_j  = the sum of p_ij dout_i              one chain over the rows; p_ij as an operand
//   ds_ij = p_ij (dout_i v_j - D_i)             0 where i does not attend to j; then as an operand
//   dq_i  = (the sum of ds_ij k_j) / sqrt(head width)     one chain over the keys
//   dk_j  = (the sum of ds_ij q_i) / sqrt(head width)     one chain over the rows
//
// A chain takes the whole of a block that exists, zeros included. Where heads share keys and values, the chains of dv_j
// and dk_j go over the rows of these heads, one head after the other.
#include "ref/arithmetic/gpt_kernel.h"
#include "ref/arithmetic/matmul_kernel.h"

// One head of one sequence. q, k, v and their gradients lie in rows that are qkv_stride apart, out and its gradient in
// rows that are `stride` apart.
struct attention_head {
    enum dtype dtype;
    size_t length, width, stride, qkv_stride;
    const float *q, *k, *v, *out_gradient;
    float *out, *dq, *dk, *dv;
    float *stats;                      // m and l, or at the end 1 / l, of each row
    float *k_turned, *v_turned, *row;  // scratch: a block's keys and values as columns, and D
    float scale;
    bool first, last;  // of the heads that share keys and values
};

static struct attention_head attention_head_of(const struct attention_shape *shape, size_t s, size_t head,
                                               const void *qkv, const void *out, float *stats, float *scratch)
{
    const struct attention_rows at = attention_rows_of(shape);
    size_t width = shape->width / shape->head_count, first = s * shape->sequence_length;
    const float *row = (const float *)qkv + at.qkv_stride * first;
    const float *key = row + head / at.group * width + at.key_at;
    return (struct attention_head){.dtype = shape->dtype,
                                   .length = shape->sequence_length,
                                   .width = width,
                                   .stride = at.out_stride,
                                   .qkv_stride = at.qkv_stride,
                                   .q = row + head * width,
                                   .k = key,
                                   .v = key + (at.value_at - at.key_at),
                                   .out = (float *)(uintptr_t)out + at.out_stride * first + head * width,
                                   .stats = stats + 2 * (s * shape->head_count + head) * shape->sequence_length,
                                   .k_turned = scratch,
                                   .v_turned = scratch + ATTENTION_BLOCK * width,
                                   .row = scratch + 2 * ATTENTION_BLOCK * width,
                                   .scale = 1.0f / sqrtf((float)width),
                                   .first = head % at.group == 0,
                                   .last = head % at.group == at.group - 1};
}

// out (width x ATTENTION_BLOCK) = the rows as columns; columns without a row are 0.
static void rows_turn(size_t row_count, size_t width, const float *in, size_t stride, float *out)
{
    memset(out, 0, ATTENTION_BLOCK * width * sizeof *out);
    for (size_t r = 0; r < row_count; r++) {
        for (size_t j = 0; j < width; j++)
            out[j * ATTENTION_BLOCK + r] = in[r * stride + j];
    }
}

// The rows [row, row_end) and the keys [key, key_end), and how many of these keys a row attends to.
struct attention_tile {
    size_t row, row_count, key, key_count;
};

static struct attention_tile attention_tile_at(size_t length, size_t row, size_t key)
{
    return (struct attention_tile){row, at_most(length - row, ATTENTION_BLOCK), key,
                                   at_most(length - key, ATTENTION_BLOCK)};
}

static size_t attention_covered(const struct attention_tile *t, size_t r)
{
    return at_most(t->row + r + 1 - t->key, t->key_count);
}

// Of each row of the tile with the keys or values that have been turned: out = x turned.
static void attention_dots(const struct attention_head *h, const struct attention_tile *t, const float *x,
                           size_t stride, const float *turned, float *out)
{
    memset(out, 0, t->row_count * ATTENTION_BLOCK * sizeof *out);
    matmul_add(t->row_count, ATTENTION_BLOCK, h->width, (struct matmul_operand){x + t->row * stride, stride, false},
               (struct matmul_operand){turned, ATTENTION_BLOCK, false}, out, ATTENTION_BLOCK);
}

static void scale_and_round(const struct attention_head *h, size_t row_count, float scale, float *rows, size_t stride)
{
    for (size_t r = 0; r < row_count; r++, rows += stride) {
        for (size_t j = 0; j < h->width; j++)
            rows[j] *= scale;
        kernel_operand_round(h->dtype, h->width, rows, rows);
    }
}

// "On chip, compute m_ij = rowmax(S_ij), P_ij = exp(S_ij - m_ij), l_ij = rowsum(P_ij)", with the maximum so far in the
// place of the block's own; and O_i, which the new maximum scales.
static void softmax_row(const struct attention_head *h, size_t covered, float *s, float *stats, float *o)
{
    float top = stats[0], lane[ROW_LANES] = {0};
    for (size_t j = 0; j < ATTENTION_BLOCK; j++)
        s[j] *= h->scale;
    float most = largest_of(covered, s);
    top = most > top ? most : top;
    for (size_t j = 0; j < ATTENTION_BLOCK; j++)
        s[j] = exp_within(s[j] - top);
    memset(s + covered, 0, (ATTENTION_BLOCK - covered) * sizeof *s);
    LANES_ADD(lane, ATTENTION_BLOCK, s[j]);
    float rescale = exp_within(stats[0] - top);
    stats[0] = top;
    stats[1] = rescale * stats[1] + lanes_sum(lane);
    for (size_t j = 0; j < h->width; j++)
        o[j] *= rescale;
    kernel_operand_round(h->dtype, ATTENTION_BLOCK, s, s);
}

// Algorithm 1 for one head.
static void head_forward(const struct attention_head *h)
{
    // "Initialize O = 0, l = 0, m = -infinity in HBM."
    for (size_t r = 0; r < h->length; r++) {
        memset(h->out + r * h->stride, 0, h->width * sizeof *h->out);
        h->stats[2 * r] = -INFINITY;
        h->stats[2 * r + 1] = 0;
    }
    // "for 1 <= j <= T_c do: Load K_j, V_j"
    for (size_t key = 0; key < h->length; key += ATTENTION_BLOCK) {
        rows_turn(at_most(h->length - key, ATTENTION_BLOCK), h->width, h->k + key * h->qkv_stride, h->qkv_stride,
                  h->k_turned);
        // "for 1 <= i <= T_r do: Load Q_i, O_i, l_i, m_i"; blocks above the diagonal have no score.
        for (size_t row = key; row < h->length; row += ATTENTION_BLOCK) {
            float p[ATTENTION_BLOCK * ATTENTION_BLOCK];
            struct attention_tile t = attention_tile_at(h->length, row, key);
            // "On chip, compute S_ij = tau Q_i K_j^T"
            attention_dots(h, &t, h->q, h->qkv_stride, h->k_turned, p);
            for (size_t r = 0; r < t.row_count; r++)
                softmax_row(h, attention_covered(&t, r), p + r * ATTENTION_BLOCK, h->stats + 2 * (row + r),
                            h->out + (row + r) * h->stride);
            // "Write O_i <- ... + P_ij V_j to HBM"
            matmul_add(t.row_count, h->width, t.key_count, (struct matmul_operand){p, ATTENTION_BLOCK, false},
                       (struct matmul_operand){h->v + key * h->qkv_stride, h->qkv_stride, false},
                       h->out + row * h->stride, h->stride);
        }
    }
    for (size_t r = 0; r < h->length; r++) {
        h->stats[2 * r + 1] = 1.0f / h->stats[2 * r + 1];
        scale_and_round(h, 1, h->stats[2 * r + 1], h->out + r * h->stride, h->stride);
    }
}

static void kernel_attention_forward(const struct attention_shape *shape, const void *qkv, void *out, float *stats,
                                     float *scratch)
{
    for (size_t s = 0; s < shape->sequence_count; s++) {
        for (size_t head = 0; head < shape->head_count; head++) {
            const struct attention_head h = attention_head_of(shape, s, head, qkv, out, stats, scratch);
            head_forward(&h);
        }
    }
}

// "P_ij = diag(l_i)^-1 exp(S_ij - m_i)", and "dS_ij = P_ij o (dP_ij - D_i)" in the place of dP_ij.
static void softmax_row_backward(const struct attention_head *h, size_t covered, const float *stats, float row_sum,
                                 float *restrict s, float *restrict g)
{
    float top = stats[0], inverse = stats[1], scale = h->scale;
    for (size_t j = 0; j < ATTENTION_BLOCK; j++) {
        s[j] = exp_within(s[j] * scale - top) * inverse;
        g[j] = s[j] * (g[j] - row_sum);
    }
    memset(s + covered, 0, (ATTENTION_BLOCK - covered) * sizeof *s);
    memset(g + covered, 0, (ATTENTION_BLOCK - covered) * sizeof *g);
    kernel_operand_round(h->dtype, ATTENTION_BLOCK, s, s);
    kernel_operand_round(h->dtype, ATTENTION_BLOCK, g, g);
}

static void tile_backward(const struct attention_head *h, const struct attention_tile *t)
{
    float p[ATTENTION_BLOCK * ATTENTION_BLOCK], ds[ATTENTION_BLOCK * ATTENTION_BLOCK];
    const size_t stride = h->qkv_stride;
    const struct matmul_operand dout = {h->out_gradient + t->row * h->stride, h->stride, false};
    const struct matmul_operand q = {h->q + t->row * stride, stride, false},
                                k = {h->k + t->key * stride, stride, false};
    // "On chip, compute S_ij = tau Q_i K_j^T" and "dP_ij = dO_i V_j^T"
    attention_dots(h, t, h->q, h->qkv_stride, h->k_turned, p);
    attention_dots(h, t, h->out_gradient, h->stride, h->v_turned, ds);
    for (size_t r = 0; r < t->row_count; r++)
        softmax_row_backward(h, attention_covered(t, r), h->stats + 2 * (t->row + r), h->row[t->row + r],
                             p + r * ATTENTION_BLOCK, ds + r * ATTENTION_BLOCK);
    // "dV_j <- dV_j + P_ij^T dO_i", "dQ_i <- dQ_i + tau dS_ij K_j", "dK_j <- dK_j + tau dS_ij^T Q_i"; tau is last.
    matmul_add(t->key_count, h->width, t->row_count, (struct matmul_operand){p, ATTENTION_BLOCK, true}, dout,
               h->dv + t->key * stride, stride);
    matmul_add(t->row_count, h->width, t->key_count, (struct matmul_operand){ds, ATTENTION_BLOCK, false}, k,
               h->dq + t->row * stride, stride);
    matmul_add(t->key_count, h->width, t->row_count, (struct matmul_operand){ds, ATTENTION_BLOCK, true}, q,
               h->dk + t->key * stride, stride);
}

// Algorithm 4 for one head.
static void head_backward(const struct attention_head *h)
{
    size_t stride = h->qkv_stride;
    // "Initialize dQ = 0, dK = 0, dV = 0"; "compute D_i = rowsum(dO_i o O_i)"
    for (size_t r = 0; r < h->length; r++) {
        const float *out = h->out + r * h->stride, *dout = h->out_gradient + r * h->stride;
        float *const gradients[] = {h->dq, h->dk, h->dv}, lane[ROW_LANES] = {0};
        for (int i = 0; i < (h->first ? 3 : 1); i++)
            memset(gradients[i] + r * stride, 0, h->width * sizeof(float));
        LANES_ADD(lane, h->width, dout[j] * out[j]);
        h->row[r] = lanes_sum(lane);
    }
    // "for 1 <= j <= T_c do: Load K_j, V_j"
    for (size_t key = 0; key < h->length; key += ATTENTION_BLOCK) {
        size_t key_count = at_most(h->length - key, ATTENTION_BLOCK);
        rows_turn(key_count, h->width, h->k + key * stride, stride, h->k_turned);
        rows_turn(key_count, h->width, h->v + key * stride, stride, h->v_turned);
        // "for 1 <= i <= T_r do"
        for (size_t row = key; row < h->length; row += ATTENTION_BLOCK) {
            struct attention_tile t = attention_tile_at(h->length, row, key);
            tile_backward(h, &t);
        }
    }
    scale_and_round(h, h->length, h->scale, h->dq, stride);
    if (!h->last)
        return;
    scale_and_round(h, h->length, h->scale, h->dk, stride);
    scale_and_round(h, h->length, 1.0f, h->dv, stride);
}

static void kernel_attention_backward(const struct attention_shape *shape, const void *qkv, const void *out,
                                      float *stats, const void *out_gradient, void *qkv_gradient, float *scratch)
{
    for (size_t s = 0; s < shape->sequence_count; s++) {
        for (size_t head = 0; head < shape->head_count; head++) {
            struct attention_head h = attention_head_of(shape, s, head, qkv, out, stats, scratch);
            h.out_gradient = (const float *)out_gradient + (h.out - (const float *)out);
            h.dq = (float *)qkv_gradient + (h.q - (const float *)qkv);
            h.dk = (float *)qkv_gradient + (h.k - (const float *)qkv);
            h.dv = (float *)qkv_gradient + (h.v - (const float *)qkv);
            head_backward(&h);
        }
    }
}
