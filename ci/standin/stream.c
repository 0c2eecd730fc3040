// SPDX-License-Identifier: Apache-2.0
// Streams are queues; an event is a place in one.
#include "ci/standin/standin.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct entry {
    struct standin_work work;
    bool (*is_ready)(void *what, bool waits);  // null: always
    struct entry *next;
};

// Streams are never freed, so that the use of one that was destroyed is found.
struct CUstream_st {
    pthread_mutex_t lock;  // recursive: work of the stream may wait for an event of its own
    struct entry *first, **last;
    uint64_t added_count, done_count;
    int device;
    bool is_open, is_late;
    cudaGraph_t capture;
    struct CUstream_st *next;
};

struct CUevent_st {
    cudaStream_t stream;  // null: not recorded
    uint64_t place;       // the number of entries of the stream, this one included
    struct timespec at;
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUstream_st *streams;

static cudaStream_t open_stream(int device)
{
    cudaStream_t stream = calloc(1, sizeof *stream);
    pthread_mutexattr_t recursive;
    if (!stream)
        return NULL;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&stream->lock, &recursive);
    stream->last = &stream->first;
    stream->device = device;
    stream->is_open = true;
    pthread_mutex_lock(&list_lock);
    stream->is_late = !streams || !streams->is_late;
    stream->next = streams;
    streams = stream;
    pthread_mutex_unlock(&list_lock);
    return stream;
}

bool standin_stream_is_open(cudaStream_t stream)
{
    pthread_mutex_lock(&list_lock);
    cudaStream_t found = streams;
    while (found && found != stream)
        found = found->next;
    bool is_open = found && found->is_open;
    pthread_mutex_unlock(&list_lock);
    return is_open;
}

int standin_stream_device(cudaStream_t stream)
{
    return stream->device;
}

static cudaStream_t default_stream(void)
{
    enum { DEVICE_MAX = 16 };
    static cudaStream_t of_device[DEVICE_MAX];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int device = standin_device();
    if (device >= DEVICE_MAX)
        standin_die("more than %d devices", DEVICE_MAX);
    pthread_mutex_lock(&lock);
    if (!of_device[device])
        of_device[device] = open_stream(device);
    pthread_mutex_unlock(&lock);
    return of_device[device];
}

// The stream that a handle means, which is open.
static cudaStream_t stream_of(cudaStream_t handle)
{
    cudaStream_t stream = handle ? handle : default_stream();
    if (!standin_stream_is_open(stream))
        standin_die("a stream is used that was destroyed");
    return stream;
}

cudaGraph_t *standin_capture_of(cudaStream_t handle)
{
    return &stream_of(handle)->capture;
}

cudaError_t standin_enqueue_when(cudaStream_t handle, struct standin_work work,
                                 bool (*is_ready)(void *what, bool waits))
{
    cudaStream_t stream = stream_of(handle);
    if (stream->capture)
        return standin_capture_add(stream->capture, work, is_ready);
    if (!handle && standin_capture_forbids(cudaErrorStreamCaptureImplicit))
        return cudaErrorStreamCaptureImplicit;
    struct entry *entry = malloc(sizeof *entry);
    if (!entry)
        return standin_status(cudaErrorMemoryAllocation);
    *entry = (struct entry){.work = work, .is_ready = is_ready};
    pthread_mutex_lock(&stream->lock);
    *stream->last = entry;
    stream->last = &entry->next;
    stream->added_count++;
    pthread_mutex_unlock(&stream->lock);
    return cudaSuccess;
}

cudaError_t standin_enqueue(cudaStream_t stream, struct standin_work work)
{
    return standin_enqueue_when(stream, work, NULL);
}

// Runs the stream's work up to a place in its queue; without a wait only what is ready.
static void run_to(cudaStream_t stream, uint64_t place, bool waits)
{
    pthread_mutex_lock(&stream->lock);
    const char *late_us = stream->is_late ? getenv("ZG_STANDIN_LATE_US") : NULL;
    bool works = false;
    while (stream->first && stream->done_count < place) {
        struct entry *entry = stream->first;
        if (entry->is_ready && !entry->is_ready(entry->work.what, waits))
            break;
        if (!works && late_us)
            usleep((useconds_t)atoi(late_us));
        if (!works)
            standin_memory_open();
        works = true;
        stream->first = entry->next;
        if (!stream->first)
            stream->last = &stream->first;
        stream->done_count++;
        entry->work.run(entry->work.what);
        free(entry);
    }
    if (works)
        standin_memory_close();
    pthread_mutex_unlock(&stream->lock);
}

cudaError_t cudaDeviceSynchronize(void)
{
    if (standin_capture_forbids(cudaErrorStreamCaptureUnsupported))
        return cudaErrorStreamCaptureUnsupported;
    pthread_mutex_lock(&list_lock);
    cudaStream_t stream = streams;
    pthread_mutex_unlock(&list_lock);
    for (; stream; stream = stream->next)
        run_to(stream, UINT64_MAX, true);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    (void)flags;
    *out = standin_refuses(__func__) ? NULL : open_stream(standin_device());
    return standin_status(*out ? cudaSuccess : cudaErrorMemoryAllocation);
}

// A device would complete what is left, but nobody could know when.
static void expect_no_work(cudaStream_t stream, const char *when)
{
    pthread_mutex_lock(&stream->lock);
    uint64_t left = stream->added_count - stream->done_count;
    pthread_mutex_unlock(&stream->lock);
    if (left > 0)
        standin_die("nobody waited for the last %llu operations of a stream when %s", (unsigned long long)left, when);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
    cudaStream_t stream = stream_of(handle);
    expect_no_work(stream, "it was destroyed");
    if (stream->capture)
        standin_die("a stream is destroyed that is captured");
    pthread_mutex_lock(&list_lock);
    stream->is_open = false;
    pthread_mutex_unlock(&list_lock);
    return cudaSuccess;
}

__attribute__((destructor)) static void end(void)
{
    for (cudaStream_t stream = streams; stream; stream = stream->next)
        expect_no_work(stream, "the process ended");
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    cudaStream_t stream = stream_of(handle);
    if (stream->capture)
        return standin_capture_refuse(stream->capture);
    run_to(stream, UINT64_MAX, true);
    return cudaSuccess;
}

// Who asks again and again waits: the first answer is that there is work, which then runs as far as it is ready.
cudaError_t cudaStreamQuery(cudaStream_t handle)
{
    cudaStream_t stream = stream_of(handle);
    if (stream->capture)
        return standin_capture_refuse(stream->capture);
    pthread_mutex_lock(&stream->lock);
    bool works = stream->first != NULL;
    run_to(stream, UINT64_MAX, false);
    pthread_mutex_unlock(&stream->lock);
    return works ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    *out = calloc(1, sizeof **out);
    return standin_status(*out ? cudaSuccess : cudaErrorMemoryAllocation);
}

static void reach(void *what)
{
    cudaEvent_t event = what;
    clock_gettime(CLOCK_MONOTONIC, &event->at);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle)
{
    cudaStream_t stream = stream_of(handle);
    if (stream->capture)
        standin_die("an event of a captured stream is not modelled");
    pthread_mutex_lock(&stream->lock);
    cudaError_t status = standin_enqueue(stream, (struct standin_work){reach, event, NULL});
    event->stream = stream;
    event->place = stream->added_count;
    pthread_mutex_unlock(&stream->lock);
    return status;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    if (event->stream)
        run_to(event->stream, event->place, true);
    return cudaSuccess;
}

static bool is_reached(cudaEvent_t event)
{
    if (!event->stream)
        return true;
    pthread_mutex_lock(&event->stream->lock);
    bool reached = event->stream->done_count >= event->place;
    pthread_mutex_unlock(&event->stream->lock);
    return reached;
}

struct event_wait {
    cudaStream_t stream;
    uint64_t place;
};

static void wait_for_event(void *what)
{
    struct event_wait *wait = what;
    run_to(wait->stream, wait->place, true);
    free(wait);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    if (!event->stream)
        return cudaSuccess;
    struct event_wait *wait = malloc(sizeof *wait);
    if (!wait)
        return standin_status(cudaErrorMemoryAllocation);
    *wait = (struct event_wait){event->stream, event->place};
    return standin_enqueue(stream, (struct standin_work){wait_for_event, wait, NULL});
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    if (!begin->stream || !end->stream)
        return standin_status(cudaErrorInvalidResourceHandle);
    if (!is_reached(begin) || !is_reached(end))
        return standin_status(cudaErrorNotReady);
    *ms = (float)((double)(end->at.tv_sec - begin->at.tv_sec) * 1e3 +
                  (double)(end->at.tv_nsec - begin->at.tv_nsec) * 1e-6);
    return cudaSuccess;
}
