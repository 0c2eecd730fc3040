// SPDX-License-Identifier: Apache-2.0
#include "conformance/run/hunt_script.h"

#include "base/err.h"

bool hunt_script_can(const struct hunt_case *h, const char *upstream)
{
    (void)h;
    return upstream && false;
}

int hunt_script(const struct hunt_case *h, const char *upstream, const struct check_failure *failure, FILE *out)
{
    (void)h, (void)upstream, (void)failure, (void)out;
    return ERR_NONE;
}
