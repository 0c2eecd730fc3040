// SPDX-License-Identifier: Apache-2.0
#include "ref/stage/order.h"

#include "base/err.h"

#include <stdlib.h>

void order_close(struct order *order)
{
    free(order->bundles);
    *order = (struct order){0};
}

int order_ask(struct order *order, int bundle)
{
    size_t place = order->at++;
    if (order->complete && place < order->count && order->bundles[place] == bundle)
        return ERR_NONE;
    if (order->complete) {
        order->complete = false;
        order->count = place;
        order->changes++;
    }
    if (place == order->capacity) {
        size_t capacity = 2 * order->capacity + 64;
        int *bundles = realloc(order->bundles, capacity * sizeof *bundles);
        if (!bundles)
            return err_set(ERR_MEMORY, "no memory to record the order of %zu layers", capacity);
        order->bundles = bundles;
        order->capacity = capacity;
    }
    order->bundles[place] = bundle;
    order->count = place + 1;
    return ERR_NONE;
}

void order_restart(struct order *order)
{
    // A step that asks for less than the one before is an order of its own.
    if (order->complete && order->at < order->count)
        order->changes++;
    order->count = order->at;
    order->at = 0;
    order->complete = true;
}

int order_at(const struct order *order, size_t place)
{
    return order->complete && place < order->count ? order->bundles[place] : -1;
}
