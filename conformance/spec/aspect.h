// SPDX-License-Identifier: Apache-2.0
// The aspects of an answer, as SPEC.md names them.
#pragma once

// The parts of an answer that a check looks at.
enum aspect {
    ASPECT_ANSWER,    // it is there and well-formed
    ASPECT_STATE,     // param, exp_avg, exp_avg_sq and t, against unsharded Adam
    ASPECT_GRADIENT,  // grad, against unsharded Adam
    ASPECT_NORM,
    ASPECT_LOSS,      // loss and tokens, against the definition
    ASPECT_DECISION,  // skipped, loss_scale, t
    ASPECT_SEEN,      // the parameter as each forward used it, on every rank
    ASPECT_SAME,      // its twins of the same stage and world end every step in the same bits
    ASPECT_STAGES,    // so do its twins of another stage
    ASPECT_WORLDS,    // and of another world
    ASPECT_LAYOUTS,   // and of another mesh
    ASPECT_REPEAT,    // a case given twice is answered twice alike
    ASPECT_RULE,      // one rule explains all answers
    ASPECT_UPDATE,    // Muon's updates of matrices, against Newton-Schulz in double
    ASPECT_MOMENTS,   // the recipe that explains the states keeps moments in fp32; a finding only where it does not
    ASPECT_MEMORY,    // model states held, by kind
    ASPECT_PADDING,   // bytes held beyond them
    ASPECT_TRAFFIC,   // bytes sent, by purpose
    ASPECT_CALLS,     // collectives
    ASPECT_REFUSAL,
    ASPECT_COUNT
};

const char *aspect_name(enum aspect aspect);  // "state"
