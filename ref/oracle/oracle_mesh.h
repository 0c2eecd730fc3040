// SPDX-License-Identifier: Apache-2.0
// Sums over the ranks of a mesh, as unsharded training makes them. They extend the two definitions of oracle.h.
//
// On a mesh of R replicas of S shards, rank r being in group g = r / S, a sum over ranks has two levels, whose order no
// framework's documentation states and which the collectives of HSDP and MiCS imply:
//   stage 1            G_g = ((A_gS + A_gS+1) + ...) over the group's ranks, rounded to the communication dtype; then
//                      G = ((G_0 + G_1) + ...) over groups
//   stages 2 and 3     R_m,g = ((g_gS,m + g_gS+1,m) + ...) over the group's ranks, rounded to the communication dtype;
//                      G_g = ((R_1,g + R_2,g) + ...) in the accumulation dtype, or R_1,g if there is one micro-step;
//                      then G = ((G_0 + G_1) + ...) over groups
// The sum over groups is one over ranks: terms in the communication dtype, folded in fp32, rounded once. R = 1 is the
// plain stage. S = 1 is data parallelism: a group of one exchanges nothing and so rounds nothing.
//
// With experts cut over E ranks, rank r being in expert group g = r / E, a gradient of an expert is made where the
// tokens of a group meet:
//   S_m,g = ((g_gE,m + g_gE+1,m) + ...) over the group's ranks, folded in fp32, rounded to the model's dtype
// S_m,g is then the gradient of "rank" g in the definitions above, for N/E ranks, and with replicas for R replicas of
// S/E shards. E = 1 is the plain stage. All ranks' gradients are in the sum, which the update divides by their number.
#pragma once

#include <stdint.h>

struct oracle;

// Makes every trainable tensor's sum over ranks and micro-steps, and adds each rank's losses to losses[world].
int oracle_sum_gradients(struct oracle *o, uint64_t step, double losses[]);
