// SPDX-License-Identifier: Apache-2.0
// Reads of states on NVMe do not wait until the step is decided. Adam must know the norm of all gradients, but the
// states do not depend on it. So those of the first sub-groups that the next forward needs are read into buffers during
// the end of backward, and when the step is decided the first layers are updated immediately.
//
// Nothing but their updates uses the buffers until then. Where that cannot be kept, because the step is skipped or the
// norm needs buffers to read gradients, they are dropped, and the states are read again.
#pragma once

#include "ref/optimizer/optimizer.h"

// Reads states of the buckets that are updated first before the step is decided, as far as there are buffers. The
// caller gives the buckets in the order of updates, until *more is false.
int optimizer_read_ahead(struct optimizer *optimizer, int bucket, bool *more);

// True if a bucket's states can be read ahead: they are on NVMe, are updated after the decision, and transfers may
// overlap.
bool optimizer_reads_ahead(const struct optimizer *optimizer, int bucket);

// True if states of the bucket, which is not updated yet, have been read ahead.
bool optimizer_has_ahead(const struct optimizer *optimizer, int bucket);
