// SPDX-License-Identifier: Apache-2.0
#include "base/help.h"

#include <stdlib.h>

void help_print_examples(const char *const examples[], FILE *out)
{
    fprintf(out, "\nExamples:\n");
    for (const char *const *line = examples; *line; line++)
        fprintf(out, "  %s\n", *line);
}

void help_print(poptContext context, enum poptCallbackReason reason, const struct poptOption *option,
                const char *argument, const void *examples)
{
    (void)reason, (void)option, (void)argument;
    poptPrintHelp(context, stdout, 0);
    help_print_examples(examples, stdout);
    poptFreeContext(context);
    exit(0);
}
