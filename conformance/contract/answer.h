// SPDX-License-Identifier: Apache-2.0
// An answer: the folder that an implementation fills for a case. It is untrusted: all of it is checked against the case
// before anything is used, and an error names the file, the tensor and the reason.
#pragma once

#include "conformance/cases/case.h"

enum answer_kind { ANSWER_STATES, ANSWER_UNSUPPORTED, ANSWER_REFUSED };
enum { ANSWER_TEXT_BYTES = 512 };

enum usage_kind { USAGE_PARAM, USAGE_GRAD, USAGE_OPTIMIZER, USAGE_MASTER, USAGE_PADDING, USAGE_KIND_COUNT };
enum usage_purpose { USAGE_REDUCE, USAGE_GATHER, USAGE_PURPOSE_COUNT };

// One rank's row of usage.json; UINT64_MAX where the file has no number.
struct answer_usage {
    uint64_t held_bytes[USAGE_KIND_COUNT];
    uint64_t sent_bytes[USAGE_PURPOSE_COUNT], calls[USAGE_PURPOSE_COUNT];
};

// One step in memory: arrays by parameter, [count], owned. NULL for what the answer leaves out, and for tied
// parameters. Muon's momentum is in exp_avg.
struct answer_step {
    float *param[CASE_PARAM_MAX], *exp_avg[CASE_PARAM_MAX], *exp_avg_sq[CASE_PARAM_MAX], *grad[CASE_PARAM_MAX];
    uint64_t t;
    bool skipped;  // false where the case has no overflow check
    bool has_loss_scale, has_norm, has_grad, has_loss, has_tokens;
    double loss_scale, norm, loss;
    uint64_t tokens;  // that the step divided by
};

struct answer {
    enum answer_kind kind;
    char text[ANSWER_TEXT_BYTES];  // of unsupported.txt or refused.txt, printable
    const struct check_case *c;
    char *folder;
    bool has_seen, has_usage;
    struct answer_files *files;                 // owned: those that are open or in memory
    int *folder_fds;                            // its own and the ranks', while all files are opened; or null
    struct answer_usage usage[CASE_WORLD_MAX];  // by rank
};

// Checks the whole folder, and keeps small files in memory. ERR_USAGE: malformed, with the file and the reason; ERR_IO.
// The case must outlive the answer.
int answer_open(const struct check_case *c, const char *folder, struct answer *out);
void answer_close(struct answer *answer);

// Reads a step's file, which answer_open has checked. Steps case_first_step .. case_last_step.
int answer_read_step(const struct answer *answer, int step, struct answer_step *out);
void answer_step_close(struct answer_step *step);

// The parameter as the forward of (step, micro) used it on a rank that holds it, widened to fp32: [case_part_count].
// Tied uses are read under their own name. Only if has_seen. One thread at a time reads an answer.
int answer_read_seen(const struct answer *answer, int step, int rank, int micro, int param, float *out);

// Writing an answer, for the reference and for plug-ins. Each call makes one file; the folder must exist.
// seen: [accumulation][param], in the case's precision; on a mesh the rank's parts, and NULL for what it does not hold.
int answer_write_step(const struct check_case *c, const char *folder, int step, const struct answer_step *state);
int answer_write_seen(const struct check_case *c, const char *folder, int step, int rank,
                      const void *const *const seen[CASE_ACCUMULATION_MAX]);
int answer_write_usage(const struct check_case *c, const char *folder, const struct answer_usage usage[]);
int answer_write_text(const char *folder, enum answer_kind kind, const char *text);
