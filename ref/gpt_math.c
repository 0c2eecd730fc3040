// SPDX-License-Identifier: Apache-2.0
// Matrix products go to OpenBLAS; all else is loops over a row that the compiler turns into vectors. A sum over a row
// is kept in LANES partial sums, element i in lane i mod LANES, which are then folded by halves: one order for all
// vector widths.
#include "gpt_math.h"

#include <cblas.h>
#include <math.h>
#include <pthread.h>

enum { LANES = 16 };

static void blas_prepare(void)
{
    openblas_set_num_threads(1);
}

void matmul_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, blas_prepare);
}

void matmul(size_t m, size_t n, size_t k, float alpha, struct matmul_operand a, struct matmul_operand b, float beta,
            float *c, size_t c_stride)
{
    cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
                (blasint)m, (blasint)n, (blasint)k, alpha, a.data, (blasint)a.stride, b.data, (blasint)b.stride, beta,
                c, (blasint)c_stride);
}

// lane[j mod LANES] += term, an expression in j, for j = 0 .. count - 1.
#define LANES_ADD(lane, count, term)                                                                                   \
    do {                                                                                                               \
        size_t whole_ = (count) / LANES * LANES;                                                                       \
        for (size_t first_ = 0; first_ < whole_; first_ += LANES) {                                                    \
            for (size_t l_ = 0; l_ < LANES; l_++) {                                                                    \
                size_t j = first_ + l_;                                                                                \
                lane[l_] += (term);                                                                                    \
            }                                                                                                          \
        }                                                                                                              \
        for (size_t j = whole_; j < (count); j++)                                                                      \
            lane[j - whole_] += (term);                                                                                \
    } while (0)

static float lanes_sum(float lane[LANES])
{
    for (int half = LANES / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    }
    return lane[0];
}

void bias_add(size_t row_count, size_t width, const float *in, const float *bias, float *out)
{
    for (size_t r = 0; r < row_count; r++) {
        for (size_t j = 0; j < width; j++)
            out[r * width + j] = in ? in[r * width + j] + bias[j] : bias[j];
    }
}

void rows_sum(size_t row_count, size_t width, const float *restrict in, float *restrict out)
{
    for (size_t j = 0; j < width; j++)
        out[j] = 0.0f;
    for (size_t r = 0; r < row_count; r++) {
        for (size_t j = 0; j < width; j++)
            out[j] += in[r * width + j];
    }
}

void layernorm_stats(size_t row_count, size_t width, const float *in, float *stats)
{
    for (size_t r = 0; r < row_count; r++, in += width, stats += 2) {
        float lane[LANES] = {0};
        LANES_ADD(lane, width, in[j]);
        float mean = lanes_sum(lane) / (float)width;
        float square[LANES] = {0};
        LANES_ADD(square, width, (in[j] - mean) * (in[j] - mean));
        stats[0] = mean;
        stats[1] = 1.0f / sqrtf(lanes_sum(square) / (float)width + 1e-5f);
    }
}

void layernorm_apply(size_t row_count, size_t width, const float *restrict in, const float *stats,
                     const float *restrict weight, const float *restrict bias, float *restrict out)
{
    for (size_t r = 0; r < row_count; r++, in += width, out += width) {
        float mean = stats[2 * r], rstd = stats[2 * r + 1];
        for (size_t j = 0; j < width; j++)
            out[j] = (in[j] - mean) * rstd * weight[j] + bias[j];
    }
}

void layernorm_backward(size_t row_count, size_t width, const float *restrict in, const float *stats,
                        const float *restrict weight, const float *restrict out_gradient, float *restrict in_gradient,
                        float *restrict weight_gradient, float *restrict bias_gradient)
{
    for (size_t j = 0; j < width; j++)
        weight_gradient[j] = bias_gradient[j] = 0.0f;
    for (size_t r = 0; r < row_count; r++, in += width, out_gradient += width, in_gradient += width) {
        float mean = stats[2 * r], rstd = stats[2 * r + 1];
        float plain[LANES] = {0}, along[LANES] = {0};
        LANES_ADD(plain, width, out_gradient[j] * weight[j]);
        LANES_ADD(along, width, out_gradient[j] * weight[j] * ((in[j] - mean) * rstd));
        float plain_mean = lanes_sum(plain) / (float)width, along_mean = lanes_sum(along) / (float)width;
        for (size_t j = 0; j < width; j++) {
            float normal = (in[j] - mean) * rstd;
            weight_gradient[j] += out_gradient[j] * normal;
            bias_gradient[j] += out_gradient[j];
            in_gradient[j] += rstd * (out_gradient[j] * weight[j] - plain_mean - normal * along_mean);
        }
    }
}

// 0.5 (1 + tanh(u)) is the logistic function of 2u, so GELU is x / (1 + exp(-2u)) with 2u = x (GELU_A + GELU_B x^2):
// no tanh, and no cancellation where it is near -1.
#define GELU_A 1.5957691216f
#define GELU_B 0.0713548163f

void gelu_forward(size_t count, const float *restrict in, float *restrict out)
{
    for (size_t i = 0; i < count; i++) {
        float x = in[i];
        out[i] = x / (1.0f + exp_within(-x * (GELU_A + GELU_B * (x * x))));
    }
}

void gelu_backward(size_t count, const float *restrict in, float *restrict out, float *restrict gradient)
{
    for (size_t i = 0; i < count; i++) {
        float x = in[i], square = x * x;
        float e = exp_within(-x * (GELU_A + GELU_B * square));
        float logistic = 1.0f / (1.0f + e);
        out[i] = x / (1.0f + e);
        gradient[i] *= logistic + x * logistic * (e * logistic) * (GELU_A + 3.0f * GELU_B * square);
    }
}

// row becomes its exponentials relative to its largest element; *largest and the returned sum are as found.
static float exponentials(size_t count, float *row, float *largest)
{
    float top[LANES];
    for (size_t l = 0; l < LANES; l++)
        top[l] = row[0];
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t l = 0; l < LANES; l++)
            top[l] = row[i + l] > top[l] ? row[i + l] : top[l];
    }
    for (size_t l = 0; i + l < count; l++)
        top[l] = row[i + l] > top[l] ? row[i + l] : top[l];
    float most = top[0];
    for (size_t l = 1; l < LANES; l++)
        most = top[l] > most ? top[l] : most;
    for (size_t j = 0; j < count; j++)
        row[j] = exp_within(row[j] - most);
    float lane[LANES] = {0};
    LANES_ADD(lane, count, row[j]);
    *largest = most;
    return lanes_sum(lane);
}

// "Causal": row i of the scores knows the positions 0 .. i; the others become 0.
static void softmax_causal(size_t length, float *scores)
{
    for (size_t i = 0; i < length; i++) {
        float *row = scores + i * length;
        float largest;
        float inverse = 1.0f / exponentials(i + 1, row, &largest);
        for (size_t j = 0; j <= i; j++)
            row[j] *= inverse;
        memset(row + i + 1, 0, (length - i - 1) * sizeof *row);
    }
}

// gradient of the softmax's output becomes that of its input: p (g - sum(p g)).
static void softmax_causal_backward(size_t length, const float *restrict softmax, float *restrict gradient)
{
    for (size_t i = 0; i < length; i++, softmax += length, gradient += length) {
        float lane[LANES] = {0};
        LANES_ADD(lane, i + 1, softmax[j] * gradient[j]);
        float common = lanes_sum(lane);
        for (size_t j = 0; j <= i; j++)
            gradient[j] = softmax[j] * (gradient[j] - common);
        memset(gradient + i + 1, 0, (length - i - 1) * sizeof *gradient);
    }
}

// scores = softmax(q k^T / sqrt(head width)) of one head of one sequence.
static void attention_scores(size_t length, size_t head_width, struct matmul_operand q, struct matmul_operand k,
                             float *scores)
{
    k.transposed = true;
    matmul(length, length, head_width, 1.0f / sqrtf((float)head_width), q, k, 0.0f, scores, length);
    softmax_causal(length, scores);
}

void attention_forward(const struct attention_shape *shape, const float *qkv, float *out, float *scores)
{
    size_t length = shape->sequence_length, width = shape->width, head_width = width / shape->head_count;
    for (size_t s = 0; s < shape->sequence_count; s++, qkv += length * 3 * width, out += length * width) {
        for (size_t head = 0; head < width; head += head_width) {
            struct matmul_operand q = {qkv + head, 3 * width, false}, k = {qkv + width + head, 3 * width, false};
            struct matmul_operand v = {qkv + 2 * width + head, 3 * width, false}, p = {scores, length, false};
            attention_scores(length, head_width, q, k, scores);
            matmul(length, head_width, length, 1.0f, p, v, 0.0f, out + head, width);
        }
    }
}

void attention_backward(const struct attention_shape *shape, const float *qkv, const float *out_gradient,
                        float *qkv_gradient, float *scores, float *scores_gradient)
{
    size_t length = shape->sequence_length, width = shape->width, head_width = width / shape->head_count;
    float scale = 1.0f / sqrtf((float)head_width);
    for (size_t s = 0; s < shape->sequence_count; s++) {
        for (size_t head = 0; head < width; head += head_width) {
            struct matmul_operand q = {qkv + head, 3 * width, false}, k = {qkv + width + head, 3 * width, false};
            struct matmul_operand v = {qkv + 2 * width + head, 3 * width, true};
            struct matmul_operand p_transposed = {scores, length, true}, o = {out_gradient + head, width, false};
            struct matmul_operand ds = {scores_gradient, length, false},
                                  ds_transposed = {scores_gradient, length, true};
            attention_scores(length, head_width, q, k, scores);
            matmul(length, head_width, length, 1.0f, p_transposed, o, 0.0f, qkv_gradient + 2 * width + head, 3 * width);
            matmul(length, length, head_width, 1.0f, o, v, 0.0f, scores_gradient, length);
            softmax_causal_backward(length, scores, scores_gradient);
            matmul(length, head_width, length, scale, ds, k, 0.0f, qkv_gradient + head, 3 * width);
            matmul(length, head_width, length, scale, ds_transposed, q, 0.0f, qkv_gradient + width + head, 3 * width);
        }
        qkv += length * 3 * width;
        qkv_gradient += length * 3 * width;
        out_gradient += length * width;
    }
}

double crossentropy_forward(size_t row_count, size_t width, float *logits, const uint16_t *target)
{
    double total = 0.0;
    for (size_t r = 0; r < row_count; r++, logits += width) {
        double right = logits[target[r]];
        float largest, sum = exponentials(width, logits, &largest);
        float inverse = 1.0f / sum;
        for (size_t j = 0; j < width; j++)
            logits[j] *= inverse;
        total += log(sum) + largest - right;
    }
    return total;
}

void crossentropy_backward(size_t row_count, size_t width, float *softmax, const uint16_t *target, float scale)
{
    for (size_t r = 0; r < row_count; r++, softmax += width) {
        softmax[target[r]] -= 1.0f;
        for (size_t j = 0; j < width; j++)
            softmax[j] *= scale;
    }
}
