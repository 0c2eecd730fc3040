// SPDX-License-Identifier: Apache-2.0
// Draws the links between hosts that `bench links` measured: a map of all pairs for each lane, and what is slow.
#include "results/page/html_part.h"

#include "base/err.h"
#include "base/html_page.h"
#include "base/safe_text.h"
#include "base/statistics.h"
#include "results/limits/link_map.h"
#include "results/page/result_text.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Side of a cell and width of the labels, in units of the drawing. Labels of more hosts would overlap.
enum { CELL = 10, LABEL = 90, LABELLED_MAX = 64, SHOWN = 20 };

// The results of one lane: the ranks of the hosts, ascending as in the file.
struct lane {
    const char *name;
    json_t *settings;  // that all of them share; owned
    size_t count;
    const json_t *records[STATISTICS_COUNT_MAX];
    struct link_host hosts[STATISTICS_COUNT_MAX];
    struct link_map map;
};

static bool is_link(const struct bench_view *bench)
{
    const json_t *of_case = json_object_get(bench->record, "case"), *detail = json_object_get(bench->record, "detail");
    const json_t *rank = json_object_get(of_case, "rank");
    return strcmp(bench->name, "links") == 0 && json_is_integer(rank) && json_integer_value(rank) >= 0 &&
           json_integer_value(rank) <= INT_MAX && json_is_object(json_object_get(detail, "us_with"));
}

static json_t *shared_settings(const json_t *settings)
{
    json_t *others = json_copy((json_t *)(uintptr_t)settings);
    json_object_del(others, "rank");
    json_object_del(others, "host");
    return others;
}

// Takes the results of first's lane, from `first` on, and marks them as taken.
static void lane_take(const struct result_view *view, size_t first, bool *taken, struct lane *lane)
{
    const json_t *of_first = json_object_get(view->benches[first].record, "case");
    *lane = (struct lane){.name = view_text(of_first, "lane"), .settings = shared_settings(of_first)};
    for (size_t i = first; i < view->bench_count && lane->count < STATISTICS_COUNT_MAX; i++) {
        const struct bench_view *bench = &view->benches[i];
        const json_t *of_case = json_object_get(bench->record, "case");
        if (taken[i] || !is_link(bench))
            continue;
        json_t *settings = shared_settings(of_case);
        if (json_equal(settings, lane->settings)) {
            taken[i] = true;
            lane->records[lane->count] = bench->record;
            lane->hosts[lane->count++] =
                (struct link_host){view_text(of_case, "host"), (int)view_number(of_case, "rank")};
        }
        json_decref(settings);
    }
}

// Times that are no positive numbers, and ranks that are not in the file, are left out.
static int lane_fill(struct lane *lane)
{
    TRY(link_map_open(lane->count, &lane->map));
    for (size_t i = 0; i < lane->count; i++) {
        const json_t *times = json_object_get(json_object_get(lane->records[i], "detail"), "us_with");
        for (size_t other = 0; other < lane->count; other++) {
            char rank[16];
            snprintf(rank, sizeof rank, "%d", lane->hosts[other].rank);
            double time = view_number(times, rank);
            if (other != i && time > 0 && isfinite(time))
                link_map_add(&lane->map, i, other, time);
        }
    }
    link_map_judge(&lane->map);
    return ERR_NONE;
}

// The fastest link of the lane; infinite: none.
static double least_of(const struct link_map *map)
{
    double least = INFINITY;
    for (size_t i = 0; i < map->count * map->count; i++)
        least = fmin(least, map->times[i]);
    return least;
}

// From a pale blue at the centre, or faster, to a dark red at eight times as long.
static void put_cell(const struct lane *lane, size_t row, size_t column, double centre, FILE *out)
{
    double time = link_map_time(&lane->map, row, column);
    char number[NUMBER_TEXT_BYTES];
    if (isnan(time))
        return;
    double share = fmin(fmax(log2(time / centre) / 3, 0), 1);
    // A frame lies within its cell, so that no neighbour covers it.
    fprintf(out, "<rect x=\"%zu.5\" y=\"%zu.5\" width=\"%d\" height=\"%d\" fill=\"rgb(%.0f,%.0f,%.0f)\"", column * CELL,
            row * CELL, CELL - 1, CELL - 1, 214 - 75 * share, 226 - 200 * share, 240 - 210 * share);
    fputs(link_map_is_slow(&lane->map, row, column) ? " stroke=\"#1c1c1c\">" : " stroke=\"#ffffff\">", out);
    html_format(out, "title", "%s (rank %d) and %s (rank %d): %s us", lane->hosts[row].name, lane->hosts[row].rank,
                lane->hosts[column].name, lane->hosts[column].rank, number_text(time, number));
    fputs("</rect>\n", out);
}

static void put_map(const struct lane *lane, FILE *out)
{
    size_t side = lane->count * CELL;
    double centre = isnan(lane->map.centre) ? least_of(&lane->map) : lane->map.centre;
    int label = lane->count <= LABELLED_MAX ? LABEL : 0;
    fprintf(out,
            "<svg class=\"links\" viewBox=\"%d 0 %zu %zu\" style=\"max-width:%zupx\" role=\"img\" font-size=\"7\">\n",
            -label, side + (size_t)label, side, 2 * (side + (size_t)label));
    for (size_t row = 0; row < lane->count; row++) {
        if (label > 0) {
            fprintf(out, "<text x=\"-3\" y=\"%zu\" text-anchor=\"end\">", row * CELL + CELL - 3);
            text_markup(out, lane->hosts[row].name);
            fputs("</text>\n", out);
        }
        for (size_t column = 0; column < lane->count; column++)
            put_cell(lane, row, column, centre, out);
    }
    fputs("</svg>\n", out);
}

static void put_lane(const struct lane *lane, FILE *out)
{
    char texts[SHOWN][LINK_TEXT_BYTES], number[NUMBER_TEXT_BYTES], *settings = settings_text(lane->settings);
    html_format(out, "h3", "%s", settings ? settings : lane->name);
    put_map(lane, out);
    size_t found = link_map_texts(&lane->map, lane->hosts, lane->name, texts, SHOWN);
    if (!isnan(lane->map.centre))
        html_format(out, "p", "%zu hosts, median %s us; %s", lane->count, number_text(lane->map.centre, number),
                    found == 0 ? "no link is slow" : "slow are:");
    fputs(found > 0 ? "<ul>\n" : "", out);
    for (size_t i = 0; i < found && i < SHOWN; i++)
        html_element(out, "li", texts[i]);
    if (found > SHOWN)
        html_format(out, "li", "and %zu more", found - SHOWN);
    fputs(found > 0 ? "</ul>\n" : "", out);
    free(settings);
}

void html_links(const struct result_view *view, FILE *out)
{
    bool any = false, *taken = calloc(view->bench_count + 1, sizeof *taken);
    struct lane *lane = calloc(1, sizeof *lane);
    for (size_t i = 0; taken && lane && i < view->bench_count; i++) {
        if (taken[i] || !is_link(&view->benches[i]))
            continue;
        if (!any)
            fputs(
                "<h2>Links between hosts</h2>\n<p class=\"faint\">The median time of an exchange of each pair, darker "
                "for longer: dark red takes eight times as long as the median of the hosts, or more. A black frame "
                "marks a slow link.</p>\n",
                out);
        any = true;
        lane_take(view, i, taken, lane);
        if (lane_fill(lane) == ERR_NONE)
            put_lane(lane, out);
        link_map_close(&lane->map);
        json_decref(lane->settings);
    }
    free(lane);
    free(taken);
}
