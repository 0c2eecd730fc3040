// SPDX-License-Identifier: Apache-2.0
// Plots for papers: writes data files and scripts, and runs gnuplot on them. Untrusted texts appear only in the data,
// escaped for gnuplot; the scripts are the same for every result.
#include "results/page/result_report.h"

#include "base/err.h"
#include "base/file.h"
#include "base/safe_text.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

// More rows would be illegible.
enum { ROW_MAX = 80 };

static const char limits_script[] =
    "rows = int(system(\"wc -l < limits.dat\"))\n"
    "set terminal svg size 1000, 80 + 24 * rows noenhanced font \"sans-serif,13\" background \"white\"\n"
    "set output \"limits.svg\"\n"
    "set style fill solid 0.8 border\n"
    "set xlabel \"ratio to the baseline, %\"\n"
    "set xrange [0:105<*]\nset bmargin 5\nset yrange [rows - 0.3:-0.7]\nset key outside bottom horizontal\n"
    "set arrow from 100, graph 0 to 100, graph 1 nohead lw 2\n"
    "plot \"limits.dat\" using (50 * $2):1:(50 * $2):(0.3):ytic(4) with boxxyerror lc rgb \"#2b5d8a\" "
    "title \"reached\", \\\n"
    "     \"\" using (100 * $3):1 with points pt 2 lw 2 lc rgb \"#b3181c\" title \"at least\"\n";

static const char spread_script[] =
    "rows = int(system(\"wc -l < limits.dat\"))\n"
    "set terminal svg size 1000, 80 + 24 * rows noenhanced font \"sans-serif,13\" background \"white\"\n"
    "set output \"spread.svg\"\n"
    "set xlabel \"sample / median\"\n"
    "set bmargin 5\nset yrange [rows - 0.3:-0.7]\nset key outside bottom horizontal\n"
    "plot \"spread.dat\" index 0 using 2:1:ytic(3) with points pt 1 lc rgb \"#2b5d8a\" title \"sample\", \\\n"
    "     \"\" index 1 using 2:1:2:3 with xerrorbars pt 0 lw 2 lc rgb \"#b3181c\" title \"10 % to 90 %\"\n";

static size_t row_count(const struct result_view *view)
{
    return view->bench_count < ROW_MAX ? view->bench_count : ROW_MAX;
}

static void put_label(const struct bench_view *bench, FILE *out)
{
    fputs(" \"", out);
    text_gnuplot(out, bench->name);
    fputs(": ", out);
    text_gnuplot(out, bench->text);
    fputs("\"\n", out);
}

static void put_value(double value, FILE *out)
{
    if (isnan(value))
        fputs(" NaN", out);
    else
        fprintf(out, " %.9g", value);
}

static void put_limits(const struct result_view *view, FILE *out)
{
    for (size_t i = 0; i < row_count(view); i++) {
        fprintf(out, "%zu", i);
        put_value(view->benches[i].ratio, out);
        put_value(view->benches[i].at_least, out);
        put_label(&view->benches[i], out);
    }
}

static void put_spread(const struct result_view *view, FILE *out)
{
    for (size_t i = 0; i < row_count(view); i++) {
        const struct bench_view *bench = &view->benches[i];
        const json_t *samples = json_object_get(bench->record, "samples");
        for (size_t k = 0; k < json_array_size(samples); k++) {
            fprintf(out, "%zu %.9g", i, json_number_value(json_array_get(samples, k)) / bench->median);
            put_label(bench, out);
        }
    }
    fputs("\n\n", out);
    for (size_t i = 0; i < row_count(view); i++)
        fprintf(out, "%zu %.9g %.9g\n", i, view->benches[i].p10 / view->benches[i].median,
                view->benches[i].p90 / view->benches[i].median);
}

// gnuplot would also write through a link of that name: nothing may be there.
static int reserve_picture(const char *folder, const char *name)
{
    char path[PATH_MAX];
    FILE *out;
    TRY(file_join(folder, name, path));
    TRY(file_create(path, &out));
    return file_finish(out, path, ERR_NONE);
}

// Runs gnuplot in the folder and waits for it.
static int run_gnuplot(const char *folder, char *script)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    int failed = posix_spawnp(&pid, "gnuplot", &actions, NULL, (char *[]){"gnuplot", "-d", script, NULL}, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed)
        return err_set(ERR_USAGE, "gnuplot cannot be run: %s (Debian: gnuplot-nox); data and scripts are in %s",
                       strerror(failed), folder);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_set(ERR_IO, "gnuplot cannot be waited for: %s", strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(ERR_IO, "gnuplot failed at %s/%s", folder, script);
    return ERR_NONE;
}

int result_svg(const struct result_view *view, const char *folder)
{
    static const struct {
        char *script_name, *data_name, *picture_name;
        const char *script;
        void (*put)(const struct result_view *view, FILE *out);
    } plots[] = {{"limits.gp", "limits.dat", "limits.svg", limits_script, put_limits},
                 {"spread.gp", "spread.dat", "spread.svg", spread_script, put_spread}};
    enum { PLOT_COUNT = sizeof plots / sizeof plots[0] };
    if (view->bench_count == 0)
        return err_set(ERR_USAGE, "%s: has no benchmark to plot", view->file->path);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return err_set(ERR_USAGE, "%s: cannot be created: %s", folder, strerror(errno));
    for (size_t i = 0; i < PLOT_COUNT; i++) {
        char path[PATH_MAX];
        FILE *out;
        TRY(file_join(folder, plots[i].data_name, path));
        TRY(file_create(path, &out));
        plots[i].put(view, out);
        TRY(file_finish(out, path, ERR_NONE));
        TRY(file_join(folder, plots[i].script_name, path));
        TRY(file_create(path, &out));
        fprintf(out, "# gnuplot -d %s\n%s", plots[i].script_name, plots[i].script);
        TRY(file_finish(out, path, ERR_NONE));
        TRY(reserve_picture(folder, plots[i].picture_name));
    }
    for (size_t i = 0; i < PLOT_COUNT; i++)
        TRY(run_gnuplot(folder, plots[i].script_name));
    return ERR_NONE;
}
