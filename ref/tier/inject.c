// SPDX-License-Identifier: Apache-2.0
#include "ref/tier/inject.h"

#include "base/err.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SECTOR_BYTES = 512 };

static const char *const kind_names[INJECT_KIND_COUNT] = {
    [INJECT_EIO] = "nvme:eio",   [INJECT_SHORT] = "nvme:short",   [INJECT_TORN] = "nvme:torn",
    [INJECT_DIE] = "die",        [INJECT_ENOSPC] = "nvme:enospc", [INJECT_DELAY] = "nvme:delay",
    [INJECT_FLIP] = "nvme:flip", [INJECT_KILL] = "kill"};

// Parses the digits at *text and advances *text beyond them.
static bool parse_number(const char **text, uint64_t *out)
{
    if (!isdigit((unsigned char)**text))
        return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(*text, &end, 10);
    *text = end;
    *out = value;
    return errno == 0;
}

static bool parse_fault(const char **text, struct inject_fault *out)
{
    uint64_t rank = 0;
    if (strncmp(*text, "rank:", 5) == 0) {
        *text += 5;
        if (!parse_number(text, &rank) || rank > 1 << 20 || *(*text)++ != ':')
            return false;
        out->kind = INJECT_DIE;
    } else {
        out->kind = 0;
    }
    out->rank = (int)rank;
    bool of_rank = out->kind == INJECT_DIE;
    for (int kind = of_rank ? INJECT_DIE : 0; kind < (of_rank ? INJECT_KIND_COUNT : INJECT_DIE); kind++) {
        size_t length = strlen(kind_names[kind]);
        if (strncmp(*text, kind_names[kind], length) != 0 || (*text)[length] != '@')
            continue;
        *text += length + 1;
        out->kind = (enum inject_kind)kind;
        return parse_number(text, &out->at) && out->at > 0;
    }
    return false;
}

int inject_parse(const char *text, struct inject_plan *plan)
{
    for (const char *rest = text;; rest++) {
        struct inject_fault fault;
        if (!parse_fault(&rest, &fault) || (*rest != '\0' && *rest != ','))
            return err_set(ERR_USAGE,
                           "--inject %s: expected nvme:FAULT@K with FAULT eio, short, torn, enospc, delay or flip and "
                           "K the number of a request, from 1; or rank:R:die@STEP or rank:R:kill@STEP",
                           text);
        if (plan->fault_count == INJECT_FAULT_MAX)
            return err_set(ERR_USAGE, "--inject %s: more than %d faults", text, INJECT_FAULT_MAX);
        plan->faults[plan->fault_count++] = fault;
        if (*rest == '\0')
            return ERR_NONE;
    }
}

static int check_death(const struct inject_fault *fault, int world, uint64_t step_count)
{
    const char *kind = kind_names[fault->kind];
    if (world == 0)
        return err_set(ERR_USAGE, "--inject rank:%d:%s@%" PRIu64 ": no rank can leave here", fault->rank, kind,
                       fault->at);
    if (fault->rank >= world)
        return err_set(ERR_USAGE, "--inject rank:%d:%s@%" PRIu64 ": the last rank is %d", fault->rank, kind, fault->at,
                       world - 1);
    if (fault->at > step_count)
        return err_set(ERR_USAGE, "--inject rank:%d:%s@%" PRIu64 ": the last step is %" PRIu64, fault->rank, kind,
                       fault->at, step_count);
    return ERR_NONE;
}

int inject_check(const struct inject_plan *plan, int world, uint64_t step_count, bool uses_nvme)
{
    for (int i = 0; i < plan->fault_count; i++) {
        const struct inject_fault *fault = &plan->faults[i];
        if (fault->kind >= INJECT_DIE)
            TRY(check_death(fault, world, step_count));
        else if (!uses_nvme)
            return err_set(ERR_USAGE, "--inject %s@%" PRIu64 ": nothing is on NVMe", kind_names[fault->kind],
                           fault->at);
    }
    return ERR_NONE;
}

uint64_t inject_death_step(const struct inject_plan *plan, int rank, enum inject_kind kind)
{
    uint64_t step = 0;
    for (int i = 0; i < plan->fault_count; i++) {
        const struct inject_fault *fault = &plan->faults[i];
        if (fault->kind == kind && fault->rank == rank && (step == 0 || fault->at < step))
            step = fault->at;
    }
    return step;
}

void inject_begin(struct inject *inject, const struct inject_plan *plan)
{
    inject->plan = *plan;
    inject->request_count = 0;
    inject->done = 0;
}

// Returns true to one caller only, which then provokes fault i.
static bool claim_fault(struct inject *inject, int i)
{
    uint32_t bit = UINT32_C(1) << i;
    return !(atomic_fetch_or(&inject->done, bit) & bit);
}

bool inject_takes_space(struct inject *inject)
{
    uint64_t next = inject->request_count + 1;
    for (int i = 0; i < inject->plan.fault_count; i++)
        if (inject->plan.faults[i].kind == INJECT_ENOSPC && next >= inject->plan.faults[i].at && claim_fault(inject, i))
            return true;
    return false;
}

// Counts a request and takes the fault that is due; INJECT_KIND_COUNT: none.
static enum inject_kind fault_of(struct inject *inject, bool write)
{
    uint64_t number = atomic_fetch_add(&inject->request_count, 1) + 1;
    for (int i = 0; i < inject->plan.fault_count; i++) {
        const struct inject_fault *fault = &inject->plan.faults[i];
        bool of_writes = fault->kind == INJECT_TORN || fault->kind == INJECT_ENOSPC;
        if (fault->kind < INJECT_DIE && (of_writes ? write && number >= fault->at : number == fault->at) &&
            claim_fault(inject, i))
            return fault->kind;
    }
    return INJECT_KIND_COUNT;
}

struct inject_queue {
    struct io_queue queue;
    struct inject *inject;
    struct io_queue *inner;
    int inner_count;             // requests in flight in the inner queue
    struct io_request **failed;  // requests that fail before they reach it
    int failed_count;
    struct passage {
        bool seen;  // counted, but not taken by the kernel yet
        enum inject_kind fault;
        size_t bytes;  // as requested
    } passages[];      // one for each slot
};

// Half of the bytes, rounded down to sectors.
static size_t half(size_t bytes)
{
    return bytes / 2 / SECTOR_BYTES * SECTOR_BYTES;
}

// Flips one bit in the first 4 KiB of the request in its file: a high bit of an exponent, in fp32 and 16-bit formats,
// so that no rounding hides it. Returns 0 or -errno.
static int flip(const struct io_request *request)
{
    enum { FLIPPED_BYTE = 1367, FLIPPED_BIT = 0x40 };
    unsigned char *block = aligned_alloc(IO_ALIGNMENT, IO_ALIGNMENT);
    if (!block)
        return -ENOMEM;
    off_t offset = (off_t)(request->offset / IO_ALIGNMENT * IO_ALIGNMENT);
    ssize_t moved = pread(request->file, block, IO_ALIGNMENT, offset);
    if (moved == IO_ALIGNMENT) {
        block[FLIPPED_BYTE] ^= FLIPPED_BIT;
        moved = pwrite(request->file, block, IO_ALIGNMENT, offset);
    }
    int code = moved == IO_ALIGNMENT ? 0 : moved < 0 ? -errno : -EIO;
    free(block);
    return code;
}

// Applies a fault before the engine gets the request. Returns 0, or the -errno with which the request ends immediately.
static int fault_before(struct io_request *request, enum inject_kind fault)
{
    switch (fault) {
    case INJECT_EIO:
        return -EIO;
    case INJECT_ENOSPC:
        return -ENOSPC;
    case INJECT_SHORT:
    case INJECT_TORN:
        request->bytes = half(request->bytes);
        return 0;
    case INJECT_DELAY:
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
        return 0;
    case INJECT_FLIP:
        return request->write ? 0 : flip(request);
    default:
        return 0;
    }
}

// Applies a fault after the request has ended.
static void fault_after(struct io_request *request, const struct passage *passage)
{
    bool whole = request->result == (int64_t)request->bytes;
    request->bytes = passage->bytes;
    if (!whole)
        return;
    if (passage->fault == INJECT_TORN)
        request->result = (int64_t)request->bytes;
    int code = passage->fault == INJECT_FLIP && request->write ? flip(request) : 0;
    if (code < 0)
        request->result = code;
}

static int inject_submit(struct io_queue *queue, struct io_request *const requests[], int count)
{
    struct inject_queue *own = (struct inject_queue *)queue;
    for (int i = 0; i < count; i++) {
        struct io_request *request = requests[i];
        struct passage *passage = &own->passages[request->slot];
        int code = 0;
        if (!passage->seen) {
            *passage = (struct passage){true, fault_of(own->inject, request->write), request->bytes};
            code = fault_before(request, passage->fault);
        }
        if (code < 0) {
            request->result = code;
            own->failed[own->failed_count++] = request;
        } else {
            int taken = own->inner->engine->submit(own->inner, &request, 1);
            if (taken <= 0)
                return i > 0 ? i : taken;
            own->inner_count++;
        }
        passage->seen = false;
    }
    return count;
}

static int inject_reap(struct io_queue *queue, int least, struct io_request *done[], int most)
{
    struct inject_queue *own = (struct inject_queue *)queue;
    int count = 0;
    while (count < most && own->failed_count > 0)
        done[count++] = own->failed[--own->failed_count];
    if (count == most || own->inner_count == 0)
        return count;
    int got = own->inner->engine->reap(own->inner, least > count ? least - count : 0, done + count, most - count);
    if (got < 0)
        return count > 0 ? count : got;
    for (int i = count; i < count + got; i++)
        fault_after(done[i], &own->passages[done[i]->slot]);
    own->inner_count -= got;
    return count + got;
}

static void inject_close(struct io_queue *queue)
{
    struct inject_queue *own = (struct inject_queue *)queue;
    if (!own)
        return;
    io_queue_close(own->inner);
    free(own->failed);
    free(own);
}

static const struct io_engine inject_engine = {"inject", NULL, inject_submit, inject_reap, inject_close};

int inject_queue_open(struct inject *inject, const struct io_engine *engine, int depth, struct io_queue **out)
{
    assert(inject && depth > 0);
    struct inject_queue *own = calloc(1, sizeof *own + (size_t)depth * sizeof own->passages[0]);
    struct io_request **failed = calloc((size_t)depth, sizeof(struct io_request *));
    int code = own && failed ? engine->open(depth, &own->inner) : err_set(ERR_MEMORY, "out of memory for an I/O queue");
    if (code != ERR_NONE) {
        free(own);
        free(failed);
        return code;
    }
    own->queue.engine = &inject_engine;
    own->inject = inject;
    own->failed = failed;
    *out = &own->queue;
    return ERR_NONE;
}
