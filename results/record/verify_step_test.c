// SPDX-License-Identifier: Apache-2.0
// report --verify recomputes the tokens/s and the predicted efficiency of a step.
#include "results/record/record_verify.h"

#include "results/record/record_test.h"

TestSuite(verify_step, .init = sample_folder_make, .fini = sample_folder_remove);

// Steps of 500, 400, 600 ms on two ranks with 4 sequences of 128 tokens: 2048 tokens/s. 40 operations a rank at 100 a
// second: 0.8 measured. 10 bytes at 40 a second, ait 4: efficiency 160 / 260; 8 at 20, ait 5: one half.
#define STEP                                                                                                           \
    "{\"record\":\"bench\",\"name\":\"step\",\"case\":{\"preset\":\"zero3\",\"world\":2,\"sequences_a_rank\":4,"       \
    "\"sequence_tokens\":128},\"samples\":[500,400,600],\"median\":500,\"p10\":420,\"p90\":580,"                       \
    "\"unit\":\"ms_per_step\",\"lower_is_better\":true,\"items\":1,\"elapsed_s\":4,\"verified\":true,"                 \
    "\"yardstick\":null,\"ratio\":null,\"detail\":{\"tokens_per_s\":2048,\"efficiency\":{\"flops_a_rank\":40,"         \
    "\"peak_flops_per_s\":100,\"predicted\":0.380952,\"measured\":0.8,\"difference\":0.419048,"                        \
    "\"params_and_gradients\":{\"bytes\":10,\"bytes_per_s\":40,\"flops_per_byte\":4,\"efficiency\":0.615385},"         \
    "\"activations\":{\"bytes\":8,\"bytes_per_s\":20,\"flops_per_byte\":5,\"efficiency\":0.5}}}}"
#define END                                                                                                            \
    "{\"record\":\"end\",\"status\":\"complete\",\"verdict\":null,\"reasons\":[],\"elapsed_s\":20,"                    \
    "\"other_load\":0.02,\"lines\":2,\"digest\":\"0123456789abcdef0123456789abcdef\"}"

#define FLOPS                                                                                                          \
    "{\"record\":\"bench\",\"name\":\"step_flops\",\"case\":{},\"samples\":[50],\"median\":50,\"p10\":50,\"p90\":50,"  \
    "\"unit\":\"GFLOP/s\",\"lower_is_better\":false,\"items\":1,\"elapsed_s\":4,\"verified\":true,\"yardstick\":null," \
    "\"ratio\":null,\"detail\":{\"square_gflops\":80,\"square_side\":7,\"share_of_square\":0.625}}"

// Of a file with this line, one place of which is edited.
static char *refusals_in(const char *line, const char *from, const char *to)
{
    static const char run[] = SAMPLE_RUN;
    char *text, measured[sizeof run], edited[4096];
    const char *program = strstr(run, "\"trial\""), *at = strstr(line, from);
    struct result_file file;
    size_t bytes, count;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert_not_null(at, "%s", from);
    snprintf(measured, sizeof measured, "%.*s\"bench\"%s", (int)(program - run), run, program + strlen("\"trial\""));
    snprintf(edited, sizeof edited, "%.*s%s%s", (int)(at - line), line, to, at + strlen(from));
    const char *const lines[] = {measured, edited, END, NULL};
    cr_assert_eq(result_open(sample_write("a", lines), &file), ERR_NONE, "%s", err_message());
    cr_assert_eq(record_verify(&file, out, &count), ERR_NONE);
    result_close(&file);
    fclose(out);
    return text;
}

static char *refusals_of(const char *from, const char *to)
{
    return refusals_in(STEP, from, to);
}

Test(verify_step, the_share_of_a_square_is_recomputed)
{
    char *text = refusals_in(FLOPS, "625", "6250");
    cr_expect_str_empty(text);
    free(text);
    text = refusals_in(FLOPS, "625", "62");
    cr_expect(strstr(text, "detail.share_of_square: is 0.62, expected 0.625"), "%s", text);
    free(text);
}

Test(verify_step, an_unedited_step_verifies)
{
    char *text = refusals_of("zero3", "zero1");
    cr_expect_str_empty(text);
    free(text);
    // Nothing moves: nothing is lost.
    text = refusals_of(",\"activations\":{\"bytes\":8,\"bytes_per_s\":20,\"flops_per_byte\":5,\"efficiency\":0.5}", "");
    cr_expect(strstr(text, "detail.efficiency.predicted: is 0.380952, expected 0.61538"), "%s", text);
    free(text);
}

Test(verify_step, every_figure_is_recomputed)
{
    static const struct {
        const char *from, *to, *refusal;
    } edits[] = {
        {"\"tokens_per_s\":2048", "\"tokens_per_s\":2049", "detail.tokens_per_s: is 2049, expected 2048"},
        {"\"world\":2", "\"world\":4", "detail.tokens_per_s: is 2048, expected 4096"},
        {"0.615385", "0.62", "params_and_gradients.efficiency: is 0.62, expected 0.61538"},
        {"\"flops_per_byte\":5", "\"flops_per_byte\":6", "activations.flops_per_byte: is 6, expected 5"},
        {"\"bytes_per_s\":20", "\"bytes_per_s\":30", "activations.efficiency: is 0.5, expected 0.6"},
        {"\"predicted\":0.380952", "\"predicted\":0.391", "detail.efficiency.predicted: is 0.391, expected 0.3809"},
        {"\"measured\":0.8", "\"measured\":0.7", "detail.efficiency.measured: is 0.7, expected 0.8"},
        {"\"difference\":0.419048", "\"difference\":0.42", "detail.efficiency.difference: is 0.42, expected 0.419"},
        {"\"peak_flops_per_s\":100,", "", "params_and_gradients.efficiency: is 0.615385, expected 1"},
    };
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        char *text = refusals_of(edits[i].from, edits[i].to);
        cr_expect(strstr(text, edits[i].refusal), "%s: expected %s", text, edits[i].refusal);
        free(text);
    }
}
