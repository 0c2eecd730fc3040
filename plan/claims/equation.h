// SPDX-License-Identifier: Apache-2.0
// The papers' own equations by name, for quantities that only their analytic models define, such as the efficiency at a
// bandwidth. Everything else comes from dry runs of the stages.
#ifndef ZG_EQUATION_H
#define ZG_EQUATION_H

#include <stddef.h>

enum { EQUATION_ARGUMENT_MAX = 6 };

struct equation {
    const char *name;  // "infinity-6": the paper, and the equation's number or name in it
    double (*value)(const double arguments[]);
    const char *arguments[EQUATION_ARGUMENT_MAX + 1];  // in the order of `value`'s argument; null at the end
};

// Null when there is none of this name.
const struct equation *equation_find(const char *name);

// The equations in order; null past the end.
const struct equation *equation_at(size_t index);

#endif
