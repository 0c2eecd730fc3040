// SPDX-License-Identifier: Apache-2.0
// Digests of what updates write, by which a verified run is compared with unsharded Adam afterwards
// (ref/train/verify_run.c). An operation behind each Adam reads what that wrote; nothing waits for it but what
// overwrites the same memory. A run that is not verified has all other operations, in the same order.
#pragma once

#include "ref/executor/executor.h"
#include "ref/optimizer/optimizer.h"

enum update_digest_of { DIGEST_MASTER, DIGEST_EXP_AVG, DIGEST_EXP_AVG_SQ, DIGEST_PARAMETER, UPDATE_DIGEST_COUNT };

// The dtype in which an update writes it.
enum dtype update_digest_dtype(const struct config *config, enum update_digest_of of);

// Of a shard: the sum of its ranges' hashes.
struct update_digest {
    uint64_t of[UPDATE_DIGEST_COUNT];
};

struct update_digests;

// tier: in whose memory operations leave digests; it outlives them.
int update_digests_open(struct tier *tier, int bucket_count, struct update_digests **out);
void update_digests_close(struct update_digests *digests);  // null-safe

// Issues the digest of elements [from, from + count) of this rank's shard of a bucket, after their update, in the
// memory where Adam ran. parameter: updated, in the model's dtype; null: there are none but the master.
int update_digest_issue(struct optimizer *optimizer, int bucket, size_t from, size_t count, bool speculative,
                        const struct adam_states *states, const void *parameter);

// The bucket's speculative update is its update.
void update_digest_commit(struct update_digests *digests, uint64_t t, int bucket);

// The digest of update t, which must be complete; and the digest of known values: of one state, or of parameters in the
// model's dtype. shard: this rank's shard of them.
struct update_digest update_digest_read(const struct update_digests *digests, uint64_t t, int bucket);
uint64_t update_digest_expect(const struct optimizer *optimizer, int bucket, const void *shard, size_t element_bytes);

// Forgets all updates, none of which is later than t: their digests are read, or a checkpoint made them.
void update_digests_forget(struct update_digests *digests, uint64_t t);
