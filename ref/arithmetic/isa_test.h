// SPDX-License-Identifier: Apache-2.0
// For tests: a loop that runs its body with every build of the kernels that this processor supports.
#pragma once

#include "ref/arithmetic/isa.h"

// Chooses the first supported build after `isa` and returns it, or -1 if there is none.
static inline int isa_test_next(int isa)
{
    enum isa found;
    for (isa++; isa < ISA_COUNT; isa++)
        if (isa_parse(isa_name((enum isa)isa), &found) == 0) {
            isa_set(found);
            return isa;
        }
    return -1;
}

// for (EACH_ISA(isa)) ...
#define EACH_ISA(isa)                                                                                                  \
    int isa = isa_test_next(-1);                                                                                       \
    isa >= 0;                                                                                                          \
    isa = isa_test_next(isa)
