// SPDX-License-Identifier: Apache-2.0
// The router of a mixture of experts: which experts a token goes to, and with which weights, its gates.
//
//   probabilities   p = softmax(logits) over the experts, in fp32
//   top 1           the expert with the largest p, with p as its gate (Switch Transformers, arXiv 2101.03961,
//                   section 2.1)
//   top 2           the two largest, with gates p1 / (p1 + p2) and p2 / (p1 + p2) (GShard, arXiv 2006.16668, algorithm
//                   1, with the second expert always dispatched)
//
// Of equal probabilities that of the lower index is larger. An expert has slot_count slots for the tokens of one rank's
// micro-batch. Tokens take them in their order, all first choices before all second ones; a token without a slot is
// dropped: this gate is 0, the other one is what it was, and the token passes through the residual stream.
//
// An auxiliary loss may balance the experts (Switch Transformers, equations 4 to 6; GShard's with c_e and m_e):
//
//   L = a x E x the sum over experts of f_i x P_i,  for one rank's micro-batch of T tokens
//   f_i   the part of the tokens whose first choice is expert i, dropped or not; it has no gradient
//   P_i   the mean over tokens of p_i
//
// It adds a x E x f_i / T to the gradient of every p_i.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { ROUTE_TOP_MAX = 2 };

// gates and slots: [rows][top]. A slot is expert x slot_count + position, or -1 - expert for a dropped choice.
struct gpt_routes {
    size_t rows, expert_count, top, slot_count;
    float *probabilities;  // [rows][expert_count]
    float *gates;
    int32_t *slots;
};

// Makes the routes of the router's logits, [rows][expert_count].
void gpt_route(const struct gpt_routes *routes, const float *logits);

// The gates' gradients, 0 for dropped choices, to the logits'.
void gpt_route_back(const struct gpt_routes *routes, const float *gate_gradients, float *logit_gradients);

// Adds the gradient of the auxiliary loss with coefficient a, times the loss scale, to the logits'.
void gpt_route_balance(const struct gpt_routes *routes, float scaled_coefficient, float *logit_gradients);
