// SPDX-License-Identifier: Apache-2.0
#include "cli/process_limits.h"

#include "base/err.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

// A rank has a text, a trace, files of its checkpoint, swap files and pipes open; frames hold paths and small tables.
enum { OPEN_FILES_LEAST = 64, STACK_BYTES_LEAST = 1 << 20, STACK_BYTES_USUAL = 8 << 20 };

static int raise_limit(__rlimit_resource_t resource, rlim_t least, rlim_t wanted, rlim_t *out)
{
    struct rlimit limit;
    getrlimit(resource, &limit);
    if (limit.rlim_cur < wanted && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        setrlimit(resource, &limit);
    }
    *out = limit.rlim_cur;
    return limit.rlim_cur < least ? ERR_USAGE : ERR_NONE;
}

// A file that is opened later must not become standard output because that is closed.
static void keep_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int process_limits_prepare(void)
{
    keep_standard_descriptors();
    rlim_t limit;
    pthread_attr_t threads;
    signal(SIGXFSZ, SIG_IGN);
    if (raise_limit(RLIMIT_NOFILE, OPEN_FILES_LEAST, OPEN_FILES_LEAST, &limit) != ERR_NONE)
        return err_set(ERR_USAGE, "the limit of open files is %llu; at least %d are needed: raise it with `ulimit -n`",
                       (unsigned long long)limit, OPEN_FILES_LEAST);
    if (raise_limit(RLIMIT_STACK, STACK_BYTES_LEAST, STACK_BYTES_USUAL, &limit) != ERR_NONE)
        return err_set(ERR_USAGE,
                       "the limit of the stack is %llu KiB; at least %d KiB are needed: raise it with "
                       "`ulimit -s`",
                       (unsigned long long)limit / 1024, STACK_BYTES_LEAST / 1024);
    // The C library took the default of new threads from the limit at the start.
    size_t bytes;
    pthread_getattr_default_np(&threads);
    pthread_attr_getstacksize(&threads, &bytes);
    if (bytes < STACK_BYTES_LEAST && pthread_attr_setstacksize(&threads, STACK_BYTES_USUAL) == 0)
        pthread_setattr_default_np(&threads);
    pthread_attr_destroy(&threads);
    return ERR_NONE;
}
