// SPDX-License-Identifier: Apache-2.0
// A run, and where it differs from unsharded Adam a second one that tells where.
#include "ref/train/train_internal.h"

#include "base/err.h"
#include "ref/arithmetic/accelerator.h"
#include "ref/arithmetic/matmul.h"
#include "ref/train/train_checkpoint.h"

#include <stdlib.h>

// Digests tell the step and bucket of a difference. The same steps once more, now with a wait and a whole comparison
// after each, tell the element; if they are equal, the difference is one of the schedule.
static int locate_difference(const struct train_setting *setting, uint64_t step, struct train_result *result)
{
    struct train_setting again = *setting;
    struct train_checkpoints checkpoints;
    struct train_result located = {0};
    again.verify = TRAIN_VERIFY_EACH;
    again.steps = step;
    again.trace = NULL;
    again.logs = NULL;
    again.progress = NULL;
    again.observe = NULL;
    if (setting->checkpoints) {
        checkpoints = *setting->checkpoints;
        checkpoints.saves = false;
        again.checkpoints = &checkpoints;
    }
    if (setting->comm)
        comm_count_in(setting->comm, NULL);
    int rc = train_run_once(&again, &located, &step);
    if (located.difference.found)
        result->difference = located.difference;
    else
        result->difference.schedule = true;
    free(located.step_ns);
    return rc;
}

int train_run(const struct train_setting *setting, struct train_result *out)
{
    uint64_t difference_step;
    *out = (struct train_result){.param_elements = model_param_elements(setting->model, false)};
    TRY(matmul_set_bf16(train_multiplies_bf16(setting)));
    if (setting->accelerator && setting->accelerator->choose_products)
        setting->accelerator->choose_products(setting->library_products);
    TRY(train_run_once(setting, out, &difference_step));
    // The faults on purpose of a second run would be others.
    if (setting->verify != TRAIN_VERIFY || difference_step == 0 || setting->inject.fault_count > 0)
        return ERR_NONE;
    return locate_difference(setting, difference_step, out);
}
