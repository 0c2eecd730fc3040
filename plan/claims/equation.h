// SPDX-License-Identifier: Apache-2.0
// The papers' own equations, by name: what only their analytic models define, such as the efficiency at a bandwidth.
// What the stages themselves say, run dry, is not here.
#ifndef ZG_EQUATION_H
#define ZG_EQUATION_H

#include <stddef.h>

enum { EQUATION_ARGUMENT_MAX = 6 };

struct equation {
    const char *name;  // "infinity-6": the paper, and its own number or what it is called there
    const char *arguments[EQUATION_ARGUMENT_MAX + 1];  // in the order of `value`'s argument; null at the end
    const char *text;                                  // as the paper writes it, and the unit of what follows
    double (*value)(const double arguments[]);
};

// Null when there is none of this name.
const struct equation *equation_find(const char *name);

// The equations in order; null past the end.
const struct equation *equation_at(size_t index);

#endif
