// SPDX-License-Identifier: Apache-2.0
// Any text as a file of published statements: it is refused with a message, or each has a verdict; what is written down
// of one follows or not, and never both. Plans are not run: their numbers follow from the query's text alone.
#include "plan/claims/claim.h"
#include "base/err.h"
#include "plan/planner/plan_print.h"
#include "plan/planner/plan_texts.h"
#include "plan/claims/query.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct plan_text plan_claim_texts[] = {{0}};
static const char paper[] = "{\"paper\":\"p\",\"source\":\"s\",\"equations\":[{\"equation\":\"e\",\"title\":\"t\","
                            "\"formula\":\"2 * a\"}],\"tables\":[{\"table\":\"t\",\"title\":\"t\",\"columns\":["
                            "{\"column\":\"c\"}],\"rows\":[{\"row\":\"r\",\"printed\":[\"7.6B\"]}]}]}";
const struct plan_text plan_paper_texts[] = {{"p", paper, sizeof paper - 1}, {0}};

int query_plan_number(const struct strict_object *plan, const char *path, double *out)
{
    int world;
    TRY(strict_int(plan, "world", 1, 100000, &world));
    *out = world + (double)strlen(path);
    return ERR_NONE;
}

int plan_print_record(json_t *record, FILE *out)
{
    (void)record, (void)out;
    abort();
}

static int look(const struct claim *claim, void *context)
{
    (void)context;
    if (claim->verdict >= CLAIM_NONE || strlen(claim->statement) >= sizeof claim->statement)
        abort();
    if (claim->follows && claim->stored != CLAIM_NONE && claim->stored != claim->verdict)
        abort();
    if (claim->verdict == CLAIM_TRUE_UNDER && !*claim->condition)
        abort();
    return ERR_NONE;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    int rc = claim_each_of("fuzz", (const char *)data, size, look, NULL);
    if (rc != ERR_NONE && err_message()[0] == '\0')
        abort();
    return 0;
}
