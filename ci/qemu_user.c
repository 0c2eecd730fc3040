// SPDX-License-Identifier: Apache-2.0
// What qemu-user lacks of the kernel and the tests need, for ci/aarch64, which links it in place of libaio.
#include <libaio.h>

#include <errno.h>
#include <linux/stat.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

// It passes no system call of libaio on: a request is carried out where it is submitted. A context is one thread's at a
// time, as in ref/tier/io_libaio.c.
struct io_context {
    int room, first, count;  // of done, a ring
    struct io_event done[];
};

int io_setup(int depth, io_context_t *out)
{
    if (depth <= 0 || *out)
        return -EINVAL;
    *out = calloc(1, sizeof **out + (size_t)depth * sizeof(struct io_event));
    if (!*out)
        return -ENOMEM;
    (*out)->room = depth;
    return 0;
}

int io_destroy(io_context_t context)
{
    free(context);
    return 0;
}

static long carry_out(const struct iocb *block)
{
    const struct io_iocb_common *c = &block->u.c;
    switch (block->aio_lio_opcode) {
    case IO_CMD_PREAD:
        return pread(block->aio_fildes, c->buf, c->nbytes, c->offset);
    case IO_CMD_PWRITE:
        return pwrite(block->aio_fildes, c->buf, c->nbytes, c->offset);
    default:
        errno = EINVAL;
        return -1;
    }
}

int io_submit(io_context_t context, long count, struct iocb **blocks)
{
    long taken = 0;
    for (; taken < count && context->count < context->room; taken++, context->count++) {
        struct io_event *event = &context->done[(context->first + context->count) % context->room];
        ssize_t result = carry_out(blocks[taken]);
        *event = (struct io_event){
            .data = blocks[taken]->data, .obj = blocks[taken], .res = (unsigned long)(result < 0 ? -errno : result)};
    }
    return taken > 0 || count == 0 ? (int)taken : -EAGAIN;
}

// All that was submitted is done, so that nothing is waited for.
int io_getevents(io_context_t context, long least, long most, struct io_event *out, struct timespec *timeout)
{
    (void)least;
    (void)timeout;
    int count = 0;
    for (; count < most && context->count > 0; count++, context->count--) {
        out[count] = context->done[context->first];
        context->first = (context->first + 1) % context->room;
    }
    return count;
}

// It hands the bit STATX_DIOALIGN back without the values: here a disk's with sectors of 512 bytes.
int statx(int folder, const char *path, int flags, unsigned mask, struct statx *out)
{
    int code = (int)syscall(SYS_statx, folder, path, flags, mask, out);
    if (code == 0 && (out->stx_mask & STATX_DIOALIGN) && out->stx_dio_offset_align == 0)
        out->stx_dio_mem_align = out->stx_dio_offset_align = 512;
    return code;
}
