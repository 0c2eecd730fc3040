// SPDX-License-Identifier: Apache-2.0
// For tests: a loop whose body runs once in every build of the kernels that this processor can run.
#ifndef ZG_ISA_TEST_H
#define ZG_ISA_TEST_H

#include "ref/arithmetic/adam.h"

// Sets the first build after `isa` that can run, and returns it; -1 when there is none.
static inline int isa_test_next(int isa)
{
    enum adam_isa found;
    for (isa++; isa < ADAM_ISA_COUNT; isa++)
        if (adam_isa_parse(adam_isa_name((enum adam_isa)isa), &found) == 0) {
            adam_isa_set(found);
            return isa;
        }
    return -1;
}

// for (EACH_ISA(isa)) ...
#define EACH_ISA(isa)                                                                                                  \
    int isa = isa_test_next(-1);                                                                                       \
    isa >= 0;                                                                                                          \
    isa = isa_test_next(isa)

#endif
