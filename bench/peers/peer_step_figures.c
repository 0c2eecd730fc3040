// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/peer_step.h"

#include "base/err.h"
#include "bench/step/step_peak.h"
#include "ref/arithmetic/matmul.h"

// Square products of each measurement, and the measurements of one call.
enum { SIDE = 2048, SIDE_QUICK = 512, MEASUREMENTS = 3 };

static size_t side_of(const struct peer_options *options)
{
    return options->shared.quick ? SIDE_QUICK : SIDE;
}

int peer_step_multiply(const struct peer_step_start *start, struct bench_samples *gflops)
{
    const struct step_peak_setting setting = {.threads = start->options->world * peer_step_threads(start->options),
                                              .side = side_of(start->options),
                                              .dtype = start->config->precision};
    struct step_peak *peak;
    TRY(matmul_set_bf16(setting.dtype == DTYPE_BF16));
    TRY(step_peak_open(NULL, &setting, &peak));
    int code = ERR_NONE;
    for (int i = -1; i < MEASUREMENTS && code == ERR_NONE; i++) {
        double once;
        code = step_peak_of_square(peak, &once);
        if (code == ERR_NONE && i >= 0)
            gflops->values[gflops->count++] = once;
    }
    step_peak_close(peak);
    return code;
}

// The figures of one side, whose step takes so long.
static json_t *side_json(const struct peer_step_start *start, double step_ms, double square_gflops, double peak_bytes)
{
    size_t sequences = start->config->micro_batch;
    double world = start->options->world, tokens = world * (double)(sequences * start->model->sequence_length);
    double gflops = world * model_flops(start->model, sequences) / step_ms * 1e-6;
    return json_pack("{s:f, s:f, s:I}", "tokens_per_s", tokens / step_ms * 1e3, "share_of_square",
                     gflops / square_gflops, "resident_peak_bytes", (json_int_t)peak_bytes);
}

json_t *peer_step_figures(const struct peer_step_start *start, const struct bench_samples *gflops,
                          const struct peer_step_side *ours, const struct peer_step_side *theirs)
{
    double square_gflops = bench_median(gflops);
    return json_pack("{s:f, s:I, s:o, s:o}", "square_gflops", square_gflops, "square_side",
                     (json_int_t)side_of(start->options), "ours",
                     side_json(start, bench_median(ours->step_ms), square_gflops, ours->peak_bytes), "peers",
                     side_json(start, bench_median(theirs->step_ms), square_gflops, theirs->peak_bytes));
}
