// SPDX-License-Identifier: Apache-2.0
// How parameters are cut over ranks. A bundle is what travels together: some parameters laid end to end, padded to a
// multiple of the shares, and cut in that many equal shares; rank r owns share r. Padding is never sent, never read
// and never updated; it only makes the shares equal.
//
// Bundles are made in the order in which backward completes gradients. Small units are bundled while they fit the
// bucket; a unit larger than the bucket is a bundle of its own, and its collectives are cut in pieces (exchange.h).
// A tied parameter, whose gradient stays open from its last use to its first, is a bundle of its own. Frozen and
// persistent parameters never share a bundle with others. Optimizer groups may: a share is updated piece by piece.
#ifndef ZG_SHARD_H
#define ZG_SHARD_H

#include "ref/model/model.h"

#include <stdbool.h>
#include <stddef.h>

struct bundle {
    const int *params;      // indices, in the order in which they lie
    int param_count;
    size_t count;           // elements of the parameters
    size_t padded_count;    // a multiple of the number of shares
    size_t share_count;     // padded_count / shares
    size_t offset;          // where it begins among all padded bundles
    size_t share_offset;    // where a rank's share begins among all its shares
    int low_unit, high_unit;  // the units that use it
    int owner;              // the rank whose share is the whole bundle, unpadded; -1: it is cut
    bool frozen, tied, persistent;
};

struct layout {
    int shares;             // of every trainable bundle, and of frozen ones if those are cut
    int bundle_count;       // trainable ones first
    int trainable_count;
    struct bundle *bundles;
    size_t padded_count, share_count;                      // of all bundles
    size_t trainable_padded_count, trainable_share_count;  // of the trainable ones
    int *params;            // owns every bundle's list
    int *bundle_of;         // by parameter
    size_t *offset_of;      // by parameter: its first element in its bundle
};

struct layout_rule {
    int shares;                    // 1: nothing is cut
    bool cut_frozen;               // frozen bundles are cut, too (else they have one share: everybody's)
    bool merge_units;              // a bundle may hold several units
    size_t bucket_count;           // elements a merged bundle may have
    size_t persistence_threshold;  // parameters of at most this many elements are persistent; 0: none
    size_t persistence_budget;     // elements that may be persistent in all
    bool whole_owners;             // nothing is cut: bundles go to the ranks in turn
};

int layout_open(const struct model *model, const struct layout_rule *rule, struct layout *out);
void layout_close(struct layout *layout);

// Real elements, without padding, of a rank's share: the last shares may have fewer, or none.
size_t bundle_share_real(const struct bundle *bundle, int rank);

// The same with padding: what the rank has room for; and where its share begins in the whole bundle.
size_t bundle_share_room(const struct bundle *bundle, int rank);
size_t bundle_share_begin(const struct bundle *bundle, int rank);

// Whether the bundle has one share, which every rank holds.
bool bundle_is_everybodys(const struct bundle *bundle);

// The part of one parameter that lies in one share.
struct piece {
    int param;
    size_t param_index;  // its first element, in the parameter
    size_t share_index;  // the same element, in the share
    size_t count;
};

// The pieces of a rank's share, in order; *next starts as 0. False when there are no more. Empty parameters have none.
bool bundle_next_piece(const struct layout *layout, const struct model *model, int bundle, int rank, int *next,
                       struct piece *out);

#endif
