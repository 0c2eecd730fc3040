// SPDX-License-Identifier: Apache-2.0
// Where backward makes gradients: in buffers of the device, or where full gradients are kept.
#include "ref/stage/stage_internal.h"

#include "base/err.h"

#include <assert.h>

static void point_gradients(struct stage *stage, int bucket, int layer, void *full)
{
    const struct bucket *b = &stage->layout.buckets[bucket];
    size_t element_bytes = dtype_bytes(stage->setting.config->precision);
    for (int i = 0; i < b->param_count; i++)
        stage->gradients[b->params[i]] = (struct model_gradient){
            .data = (char *)full + stage->layout.offset_of[b->params[i]] * element_bytes,
            .accumulate = b->tied && layer != b->high_layer,
        };
}

static int open_gradient_buffers(struct stage *stage, int layer)
{
    int bucket;
    for (int next = 0; stage_next_bucket(stage, layer, &next, &bucket);) {
        if (stage->layout.buckets[bucket].frozen)
            continue;
        void *buffer = buffer_cache_use(&stage->gradient_buffers, bucket);
        if (!buffer)
            buffer = buffer_cache_acquire(&stage->gradient_buffers, bucket);
        point_gradients(stage, bucket, layer, buffer);
    }
    return ERR_NONE;
}

int stage_open_gradients(struct stage *stage, int layer)
{
    if (stage->has_gradient_buffers)
        return open_gradient_buffers(stage, layer);
    size_t element_bytes = dtype_bytes(stage->setting.config->precision);
    int bucket;
    for (int next = 0; stage_next_bucket(stage, layer, &next, &bucket);) {
        const struct bucket *b = &stage->layout.buckets[bucket];
        if (!b->frozen)
            point_gradients(stage, bucket, layer, stage->full_gradients + b->offset * element_bytes);
    }
    return ERR_NONE;
}

void *stage_close_gradient_buffer(struct stage *stage, int bucket)
{
    void *buffer = buffer_cache_use(&stage->gradient_buffers, bucket);
    assert(buffer);
    buffer_cache_release(&stage->gradient_buffers, bucket);
    return buffer;
}
