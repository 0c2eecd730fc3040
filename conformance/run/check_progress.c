// SPDX-License-Identifier: Apache-2.0
#include "conformance/run/check_progress.h"

#include "base/clock.h"
#include "base/terminal.h"

#include <dirent.h>
#include <stdio.h>

enum { BAR_WIDTH = 20, COUNTED_MIN = 5 };

static const double bar_pause_s = 0.2, line_pause_s = 10, told_s = 1;  // told_s: from when on a pace is one

const char *check_progress_text(const struct check_progress *progress, size_t answered, double seconds, bool bar,
                                char out[CHECK_PROGRESS_BYTES])
{
    size_t all = progress->all_count, done = answered < all ? answered : all;
    size_t filled = all > 0 ? done * BAR_WIDTH / all : 0;
    char left[40] = "", drawn[BAR_WIDTH + 4] = "";
    if (done >= COUNTED_MIN && seconds >= told_s)
        snprintf(left, sizeof left, ", %.0f s left", seconds * (double)(all - done) / (double)done);
    if (bar)
        snprintf(drawn, sizeof drawn, "[%.*s] ", BAR_WIDTH,
                 &"####################--------------------"[BAR_WIDTH - filled]);
    snprintf(out, CHECK_PROGRESS_BYTES, "%s%zu of %zu case%s, %d rank%s%s", drawn, done, all, all == 1 ? "" : "s",
             progress->world, progress->world == 1 ? "" : "s", left);
    return out;
}

// The names in a folder of answers: cases that are answered, or begun.
static size_t count_names(const char *path)
{
    size_t count = 0;
    DIR *folder = path ? opendir(path) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

void check_progress_tick(void *context, double seconds)
{
    struct check_progress *progress = context;
    char text[CHECK_PROGRESS_BYTES];
    bool bar = terminal_shows_progress();
    double now_s = clock_now_s();
    (void)seconds;
    if (now_s - progress->shown_s < (bar ? bar_pause_s : line_pause_s))
        return;
    progress->shown_s = now_s;
    size_t answered = progress->done_count + count_names(progress->answers);
    check_progress_text(progress, answered, now_s - progress->begin_s, bar, text);
    if (bar)
        terminal_progress("%s", text);
    else
        fprintf(stderr, "zerogauge check: %s\n", text);
}

void check_progress_end(void)
{
    terminal_progress("%s", "");
}
