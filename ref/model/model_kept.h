// SPDX-License-Identifier: Apache-2.0
// What families of models share that are found by name, such as gpt:layers=2,width=16: the numbers in a name; and
// models that are made at their first use and kept until the process ends, so that equal names find one model.
#pragma once

#include "ref/model/model.h"

// A key whose number is a size_t, `at` bytes into a struct of sizes.
struct model_key {
    const char *name;
    size_t at;
};

// Parses KEY=NUMBER of `length` characters of a model's name into *sizes. *seen has a bit for each key given so far.
// *found is false, and nothing is done, if the key is none of these. ERR_USAGE: no number from 1, or a key given twice.
int model_key_parse(const char *name, const char *text, size_t length, const struct model_key *keys, int key_count,
                    unsigned *seen, void *sizes, bool *found);

// Finds the model of this name, or makes and keeps it. make's error is returned, and nothing is kept then. Thread-safe.
int model_kept(const char *name, int (*make)(const char *name, struct model **out), const struct model **out);
