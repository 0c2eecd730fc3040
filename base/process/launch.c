// SPDX-License-Identifier: Apache-2.0
// The command leads its own process group. This process, as subreaper, also finds processes that leave the group with a
// new session or by losing their parent.
#include "base/process/launch.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/process/launch_gpus.h"
#include "base/process/launch_internal.h"
#include "base/process/launch_sent.h"
#include "base/process/launch_watch.h"
#include "base/size.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SAMPLE_MS = 50,
    SAMPLE_SHARE = 20,  // observation takes at most 1 / SAMPLE_SHARE of the time
    START_FACTOR = 5    // of the time limit, before the first answer
};

// The time of the next observation.
struct pace {
    uint64_t next_ns;
};

struct run {
    const struct launch_setting *setting;
    struct launch_result *out;
    pid_t leader;
    int leader_fd;            // -1 if the system has no pidfd
    int output_fd, error_fd;  // error_fd: may be output_fd
    uint64_t begin_ns;
    uint64_t progress_ns, folder_weight;  // when the watched folder last grew, and to what
    uint64_t first_weight;                // of the folder before the command
    struct process_list before, now, peaks;
    struct sent_counter sent;
    struct pace memory_pace, output_pace;
};

static bool is_due(const struct pace *pace)
{
    return clock_now_ns() >= pace->next_ns;
}

// Schedules a long observation less often.
static void set_next(struct pace *pace, uint64_t begin_ns)
{
    uint64_t end_ns = clock_now_ns(), pause_ns = (end_ns - begin_ns) * SAMPLE_SHARE;
    uint64_t least_ns = (uint64_t)SAMPLE_MS * 1000000u;
    pace->next_ns = end_ns + (pause_ns > least_ns ? pause_ns : least_ns);
}

static uint64_t file_weight(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 ? (uint64_t)status.st_size : 0;
}

static uint64_t output_bytes(struct run *run)
{
    uint64_t bytes = file_weight(run->output_fd);
    bytes += run->error_fd != run->output_fd ? file_weight(run->error_fd) : 0;
    uint64_t below = run->setting->watched_folder ? folder_weight(run->setting->watched_folder) : 0;
    if (below > run->folder_weight)
        run->progress_ns = clock_now_ns();
    run->folder_weight = below;
    return __builtin_add_overflow(bytes, below, &bytes) ? UINT64_MAX : bytes;
}

static int observe_memory(struct run *run, bool *over)
{
    char held[SIZE_TEXT_BYTES], limit[SIZE_TEXT_BYTES];
    uint64_t begin_ns = clock_now_ns();
    TRY(process_scan(&run->now));
    process_mark(&run->now, run->leader, &run->before);
    uint64_t bytes = process_memory(&run->now);
    if (bytes > run->out->peak_memory_bytes)
        run->out->peak_memory_bytes = bytes;
    TRY(process_peaks_add(&run->peaks, &run->now));
    if (run->setting->counts_sent)
        launch_gpus_read(&run->peaks);
    TRY(sent_read(&run->sent, &run->now));
    run->out->sent_bytes = sent_bytes(&run->sent);
    *over = run->setting->memory_limit_bytes && bytes > run->setting->memory_limit_bytes;
    if (*over)
        snprintf(run->out->text, sizeof run->out->text, "was stopped: its processes held %s, the limit is %s",
                 size_short_text(bytes, held), size_short_text(run->setting->memory_limit_bytes, limit));
    set_next(&run->memory_pace, begin_ns);
    return ERR_NONE;
}

static bool observe_output(struct run *run)
{
    char written[SIZE_TEXT_BYTES], limit[SIZE_TEXT_BYTES];
    uint64_t begin_ns = clock_now_ns();
    uint64_t bytes = output_bytes(run), limit_bytes = run->setting->output_limit_bytes;
    bool over = limit_bytes > 0 && bytes > limit_bytes;
    if (over && bytes == UINT64_MAX)
        snprintf(run->out->text, sizeof run->out->text, "was stopped: it nested folders too deep");
    else if (over)
        snprintf(run->out->text, sizeof run->out->text, "was stopped: it had written %s, the limit is %s",
                 size_short_text(bytes, written), size_short_text(limit_bytes, limit));
    set_next(&run->output_pace, begin_ns);
    return over;
}

// True if the leader has ended. Does not reap it, so that its process id stays reserved.
static bool has_ended(struct run *run)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)run->leader, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        return false;
    struct launch_result *out = run->out;
    out->status = info.si_status;
    out->end = info.si_code == CLD_EXITED ? LAUNCH_EXITED : LAUNCH_SIGNALLED;
    if (out->end == LAUNCH_EXITED)
        snprintf(out->text, sizeof out->text, "exited with status %d", out->status);
    else
        snprintf(out->text, sizeof out->text, "was killed by signal %d (%s)", out->status, strsignal(out->status));
    return true;
}

static double seconds_since(uint64_t begin_ns)
{
    return (double)(clock_now_ns() - begin_ns) * 1e-9;
}

static double time_limit(const struct run *run)
{
    bool starts = run->folder_weight <= run->first_weight + FOLDER_NAME_WEIGHT_BYTES;
    return run->setting->time_limit_s * (run->setting->watched_folder && starts ? START_FACTOR : 1);
}

// Returns when the command has ended or exceeds a limit.
static int watch(struct run *run)
{
    const struct launch_setting *setting = run->setting;
    struct launch_result *out = run->out;
    for (;;) {
        bool over = false;
        if (has_ended(run))
            return ERR_NONE;
        if (setting->interrupted && *setting->interrupted) {
            out->end = LAUNCH_INTERRUPTED;
            snprintf(out->text, sizeof out->text, "was interrupted");
            return ERR_NONE;
        }
        if (setting->time_limit_s > 0 && seconds_since(run->progress_ns) > time_limit(run)) {
            out->end = LAUNCH_TIME;
            snprintf(out->text, sizeof out->text,
                     setting->watched_folder ? "timed out: for %g s it wrote nothing new" : "timed out after %g s",
                     time_limit(run));
            return ERR_NONE;
        }
        if (is_due(&run->memory_pace))
            TRY(observe_memory(run, &over));
        if (over) {
            out->end = LAUNCH_MEMORY;
            return ERR_NONE;
        }
        if (is_due(&run->output_pace) && observe_output(run)) {
            out->end = LAUNCH_OUTPUT;
            return ERR_NONE;
        }
        out->sum_of_peaks_bytes = process_peaks_read(&run->peaks);
        if (setting->tick)
            setting->tick(setting->tick_context, seconds_since(run->begin_ns));
        poll(&(struct pollfd){.fd = run->leader_fd, .events = POLLIN}, 1, SAMPLE_MS);
    }
}

static int run_to_end(struct run *run)
{
    TRY(process_scan(&run->before));
    process_keep_children(&run->before);
    if (run->setting->watched_folder)
        run->first_weight = run->folder_weight = folder_weight(run->setting->watched_folder);
    int start_rc = launch_start(run->setting->argv, run->output_fd, run->error_fd, &run->leader);
    if (start_rc != ERR_NONE) {
        unlink(run->setting->output_path);
        if (run->setting->error_path)
            unlink(run->setting->error_path);
        return start_rc;
    }
    run->begin_ns = run->progress_ns = clock_now_ns();
    // glibc has a function for it from 2.36 on; packages are for systems with less.
    run->leader_fd = (int)syscall(SYS_pidfd_open, run->leader, 0);
    int rc = watch(run);
    run->out->seconds = seconds_since(run->begin_ns);
    run->out->sent_is_known = run->sent.fd >= 0;
    int status = 0;
    int end_rc = launch_end(run->leader, &run->before, &status);
    run->out->status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    if (run->leader_fd >= 0)
        close(run->leader_fd);
    if (rc == ERR_NONE && end_rc == ERR_NONE && run->out->end == LAUNCH_EXITED && observe_output(run))
        run->out->end = LAUNCH_OUTPUT;
    return rc != ERR_NONE ? rc : end_rc;
}

static int make_file(const char *path, int *fd)
{
    TRY(file_create(path, fd));
    fcntl(*fd, F_SETFL, O_APPEND);  // standard output and errors may be one file
    return ERR_NONE;
}

static int run_under(struct run *run)
{
    int was_subreaper = 0;
    prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (run->setting->counts_sent)
        sent_open(&run->sent);
    int rc = run_to_end(run);
    sent_close(&run->sent);
    prctl(PR_SET_CHILD_SUBREAPER, was_subreaper);
    process_list_free(&run->before);
    process_list_free(&run->now);
    process_list_free(&run->peaks);
    return rc;
}

int launch(const struct launch_setting *setting, struct launch_result *out)
{
    assert(setting->argv && setting->argv[0] && setting->output_path);
    struct run run = {.setting = setting, .out = out, .sent.fd = -1};
    *out = (struct launch_result){0};
    TRY(make_file(setting->output_path, &run.output_fd));
    run.error_fd = run.output_fd;
    int rc = setting->error_path ? make_file(setting->error_path, &run.error_fd) : ERR_NONE;
    if (rc == ERR_NONE)
        rc = run_under(&run);
    else
        unlink(setting->output_path);
    if (run.error_fd >= 0 && run.error_fd != run.output_fd)
        close(run.error_fd);
    close(run.output_fd);
    return rc;
}

const char *launch_tail(const char *output_path, char *out, size_t bytes)
{
    assert(bytes > 0);
    uint64_t size = 0;
    out[0] = '\0';
    int fd;
    if (file_open_at(AT_FDCWD, output_path, output_path, &fd) != ERR_NONE)
        return out;
    if (file_bytes(fd, output_path, &size) == ERR_NONE) {
        size_t wanted = size < bytes - 1 ? (size_t)size : bytes - 1;
        ssize_t got = pread(fd, out, wanted, (off_t)(size - wanted));
        for (ssize_t i = 0; i < got; i++)
            if (out[i] != '\n' && (out[i] < ' ' || out[i] >= 0x7f))
                out[i] = out[i] == '\t' ? ' ' : '?';
        out[got > 0 ? got : 0] = '\0';
    }
    close(fd);
    // Drops the rest of a line whose start is not in the tail.
    char *line = size > bytes - 1 ? strchr(out, '\n') : NULL;
    if (line && line[1])
        memmove(out, line + 1, strlen(line + 1) + 1);
    size_t length = strlen(out);
    if (length > 0 && out[length - 1] == '\n')
        out[length - 1] = '\0';
    return out;
}

int launch_own_path(char out[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", out, PATH_MAX - 1);
    if (length < 0)
        return err_set(ERR_IO, "/proc/self/exe: %s", strerror(errno));
    out[length] = '\0';
    return ERR_NONE;
}
