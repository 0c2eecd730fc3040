// SPDX-License-Identifier: Apache-2.0
// The parts of checking an answer. Folders and files are opened one below the other without following links, so that
// an entry that is swapped while it is read cannot lead out of the answer.
#pragma once

#include "conformance/contract/answer.h"
#include "conformance/contract/answer_layout.h"

enum { ANSWER_NO_RANK = -1 };

// Checks the name, type and size of every entry of the folder, and reads none. Fills in kind, has_seen and has_usage.
int answer_check_entries(struct answer *answer);

// Opens the folder of the answer (ANSWER_NO_RANK), or of a rank in it. path has room for PATH_MAX bytes and gets its
// name. answer_close_folder closes it, unless the answer keeps it.
int answer_open_folder(const struct answer *answer, int rank, char *path, int *fd);
void answer_close_folder(const struct answer *answer, int fd);

// A file of the answer with its header checked against the case.
struct answer_file {
    struct safetensors file;
    struct answer_layout layout;
    const struct safetensors_tensor **found;  // by entry of the layout; null: not there
    struct answer_step scalars;               // of a step's file: t, skipped, ... ; no arrays
    char *bytes;                              // of the whole file, which is closed; null: it is open
};

// rank-R/step-K.safetensors, or step-K.safetensors for ANSWER_NO_RANK. Files whose data is no more than held_bytes_max
// are read as a whole. like: such a file whose header is likely the same, and is then not parsed again; may be null.
int answer_file_open(const struct answer *answer, int step, int rank, const struct answer_file *like,
                     size_t held_bytes_max, struct answer_file *out);
void answer_file_close(struct answer_file *file);

// Reads a tensor of floats, widened to fp32: [tensor->count].
int answer_file_tensor(const struct answer_file *file, const struct safetensors_tensor *tensor, float *out);

// Parses usage.json; messages call it `name`. usage: [world]; numbers that the text leaves out are UINT64_MAX.
int answer_usage_parse(const char *name, const char *text, size_t bytes, int world, struct answer_usage usage[]);

// By enum usage_kind and enum usage_purpose: the keys of usage.json.
extern const char *const answer_usage_kinds[USAGE_KIND_COUNT];
extern const char *const answer_usage_purposes[USAGE_PURPOSE_COUNT];
