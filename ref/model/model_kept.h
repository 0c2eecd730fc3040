// SPDX-License-Identifier: Apache-2.0
// Models that are made at their first use and kept until the process ends, so that equal names find one model.
#ifndef ZG_MODEL_KEPT_H
#define ZG_MODEL_KEPT_H

#include "ref/model/model.h"

// Finds the model of this name, or makes and keeps it. make's error is returned, and nothing is kept then. Thread-safe.
int model_kept(const char *name, int (*make)(const char *name, struct model **out), const struct model **out);

#endif
