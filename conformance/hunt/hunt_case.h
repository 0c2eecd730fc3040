// SPDX-License-Identifier: Apache-2.0
// A case with its numbers, which can be cut: by steps, ranks, micro-steps, parameters and elements. A case that resumes
// is its two halves.
#pragma once

#include "conformance/cases/case_values.h"

enum { HUNT_PART_MAX = 2 };

struct hunt_case {
    int part_count;                             // 1; 2: the half that saves, and the one that resumes
    struct check_case *parts[HUNT_PART_MAX];    // owned
    struct case_values *values[HUNT_PART_MAX];  // owned; of all steps, also of those that the other half answers
};

// Copies the cases, and makes their numbers by the generator. resume: null for a whole case. ERR_MEMORY.
int hunt_case_open(const struct check_case *first, const struct check_case *resume, struct hunt_case *out);
void hunt_case_close(struct hunt_case *h);  // of a zeroed one, too

// Where what remains comes from: indices, from 0, of steps, micro-steps, ranks (by part) and parameters, and the first
// element of each parameter.
struct hunt_map {
    // rank: a micro-batch
    int step[CASE_STEP_MAX], micro[CASE_ACCUMULATION_MAX], rank[HUNT_PART_MAX][CASE_WORLD_MAX], param[CASE_PARAM_MAX];
    size_t first[CASE_PARAM_MAX];
};

// Everything remains in its place.
void hunt_map_same(struct hunt_map *out);

// Makes the cases `parts` with the numbers of `from`, by the map. A place without a number there gets zero. `exact` is
// computed. *legal: false where CONTRACT.md does not allow the case, or nothing in it could be trained; *out is empty
// then.
int hunt_case_cut(const struct hunt_case *from, const struct check_case parts[], int part_count,
                  const struct hunt_map *map, struct hunt_case *out, bool *legal);

// Makes the case with one more step, which repeats the last one's numbers. *legal as in hunt_case_cut; also false where
// the case has CASE_STEP_MAX steps.
int hunt_case_longer(const struct hunt_case *from, struct hunt_case *out, bool *legal);

// True if CONTRACT.md allows the case, its features make sense together (factor.h), it trains something, and no
// overflow meets the smallest loss scale.
int hunt_case_is_legal(const struct hunt_case *h, bool *legal);

// Sets `exact` of each part to what is so: no permitted order of summation, division or scaling changes a bit of any
// gradient.
int hunt_case_find_exact(struct hunt_case *h);

// Names one half, or a whole case, TOPIC.w2.s1.fp32, with .save or .resume. The topic has at most 50 characters. world:
// of the first half.
void hunt_part_name(struct check_case *c, const char *topic, int world);

// Names the case, or its halves, HUNT_TOPIC.w2.s1.fp32, as the suite does; with .NUMBER behind the topic unless it is
// below 0.
void hunt_case_name(struct hunt_case *h, int number);

// The steps, elements and so on of a case, for people: "2 steps, 2 ranks, 1 tensor, 3 elements, on tensor=2"; out of
// `bytes` bytes.
// Returns out.
const char *hunt_case_text(const struct hunt_case *h, char *out, size_t bytes);
