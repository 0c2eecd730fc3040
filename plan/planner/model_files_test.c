// SPDX-License-Identifier: Apache-2.0
// The shapes of datasets/models.json: each loads and has the parameter count that its source gives.
#include "plan/planner/plan_model.h"

#include "base/err.h"
#include "plan/papers/paper.h"

#include <criterion/criterion.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct model *find(const char *name)
{
    const struct model *model;
    cr_assert_eq(plan_model_find(name, 1, &model), ERR_NONE, "%s", err_message());
    return model;
}

Test(model_files, every_shape_has_a_source_and_the_parameters_that_it_publishes)
{
    size_t count = 0;
    for (const char *name; (name = plan_model_name(count)); count++) {
        const struct model *model = find(name);
        const char *published = plan_model_parameters(model);
        double value, last_digit, own = (double)model_param_elements(model, false);
        cr_assert_gt(strlen(plan_model_source(model)), 0, "%s", name);
        cr_assert(paper_number(published, &value, &last_digit), "%s: '%s'", name, published);
        // A count with all digits is exact. Others are rounded up or down, and the papers' omit embeddings.
        double allowed = strspn(published, "0123456789") == strlen(published) ? 0 : fmax(last_digit, 0.05 * value);
        cr_assert_leq(fabs(own - value), allowed, "%s has %.0f parameters, published are %s", name, own, published);
    }
    cr_assert_geq(count, 35);
}

Test(model_files, known_counts_are_exact)
{
    static const struct {
        const char *name;
        uint64_t params;
    } known[] = {
        {"gpt2", 124439808}, {"llama-8b", 8030261248}, {"llama2-70b", 68976648192}, {"mixtral-8x7b", 46702792704}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        cr_assert_eq(model_param_elements(find(known[i].name), false), known[i].params, "%s: %" PRIu64, known[i].name,
                     model_param_elements(find(known[i].name), false));
}

Test(model_files, a_model_without_a_file_has_neither_source_nor_published_count)
{
    const struct model *model = find("gpt:layers=2,width=64,heads=2");
    cr_assert_str_eq(plan_model_source(model), "");
    cr_assert_str_eq(plan_model_parameters(model), "");
}
