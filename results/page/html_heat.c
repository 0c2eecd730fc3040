// SPDX-License-Identifier: Apache-2.0
// Draws storage results by block size and depth: one map for each set of the other settings.
#include "results/page/html_part.h"

#include "base/html_page.h"
#include "results/page/result_text.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { AXIS_MAX = 32, MAP_MAX = 64 };
static const char *const block_key = "block_bytes", *const depth_key = "depth";

// Results whose cases differ only in block and depth. settings: those that they share; owned.
struct heat_map {
    const char *name, *unit;
    json_t *settings;
    json_int_t blocks[AXIS_MAX], depths[AXIS_MAX];
    int block_count, depth_count;
    const struct bench_view *cells[AXIS_MAX][AXIS_MAX];  // by block, then depth
};

// The index of a value on an axis, to which a new value is appended; -1: the axis is full.
static int axis_index(json_int_t *axis, int *count, json_int_t value)
{
    for (int i = 0; i < *count; i++)
        if (axis[i] == value)
            return i;
    if (*count == AXIS_MAX)
        return -1;
    axis[*count] = value;
    return (*count)++;
}

static json_t *other_settings(const json_t *settings)
{
    json_t *others = json_copy((json_t *)(uintptr_t)settings);
    json_object_del(others, block_key);
    json_object_del(others, depth_key);
    return others;
}

// The map that a case belongs to, possibly a new one; null: there are too many.
static struct heat_map *map_of(struct heat_map *maps, int *count, const struct bench_view *bench)
{
    json_t *others = other_settings(json_object_get(bench->record, "case"));
    for (int i = 0; i < *count; i++) {
        if (strcmp(maps[i].name, bench->name) == 0 && strcmp(maps[i].unit, bench->unit) == 0 &&
            json_equal(maps[i].settings, others)) {
            json_decref(others);
            return &maps[i];
        }
    }
    if (*count == MAP_MAX) {
        json_decref(others);
        return NULL;
    }
    maps[*count] = (struct heat_map){.name = bench->name, .unit = bench->unit, .settings = others};
    return &maps[(*count)++];
}

static void add(struct heat_map *maps, int *count, const struct bench_view *bench)
{
    const json_t *settings = json_object_get(bench->record, "case");
    const json_t *block = json_object_get(settings, block_key), *depth = json_object_get(settings, depth_key);
    if (!json_is_integer(block) || !json_is_integer(depth))
        return;
    struct heat_map *map = map_of(maps, count, bench);
    if (!map)
        return;
    int row = axis_index(map->blocks, &map->block_count, json_integer_value(block));
    int column = axis_index(map->depths, &map->depth_count, json_integer_value(depth));
    if (row >= 0 && column >= 0)
        map->cells[row][column] = bench;
}

static double most_of(const struct heat_map *map)
{
    double most = 0;
    for (int i = 0; i < map->block_count; i++)
        for (int j = 0; j < map->depth_count; j++)
            if (map->cells[i][j])
                most = fmax(most, map->cells[i][j]->median);
    return most;
}

// The order of an axis by value.
static void order_of(const json_int_t *axis, int count, int *order)
{
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && axis[order[at - 1]] > axis[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

// From white to a blue dark enough for white letters.
static void put_cell(const struct bench_view *bench, double most, FILE *out)
{
    char number[NUMBER_TEXT_BYTES];
    if (!bench) {
        fputs("<td></td>", out);
        return;
    }
    double share = bench->median / most;
    fprintf(out, "<td style=\"background:rgb(%.0f,%.0f,%.0f);color:%s\">%s", 238 - 206 * share, 243 - 163 * share,
            248 - 106 * share, share > 0.55 ? "#ffffff" : "#1c1c1c", number_text(bench->median, number));
    if (!isnan(bench->ratio))
        fprintf(out, "<br/>%.3g %%", 100 * bench->ratio);
    fputs("</td>", out);
}

static void put_map(const struct heat_map *map, FILE *out)
{
    int rows[AXIS_MAX], columns[AXIS_MAX];
    char *text = settings_text(map->settings), number[NUMBER_TEXT_BYTES];
    double most = most_of(map);
    order_of(map->blocks, map->block_count, rows);
    order_of(map->depths, map->depth_count, columns);
    html_format(out, "h3", "%s: %s", map->name, text ? text : "");
    fputs("\n<div class=\"scroll\"><table class=\"heat\"><thead><tr>", out);
    html_element(out, "th", map->unit);
    for (int j = 0; j < map->depth_count; j++)
        fprintf(out, "<th>depth %lld</th>", (long long)map->depths[columns[j]]);
    fputs("</tr></thead><tbody>\n", out);
    for (int i = 0; i < map->block_count; i++) {
        fprintf(out, "<tr><th>%s</th>", bytes_text((double)map->blocks[rows[i]], number));
        for (int j = 0; j < map->depth_count; j++)
            put_cell(map->cells[rows[i]][columns[j]], most, out);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
    free(text);
}

void html_heat(const struct result_view *view, FILE *out)
{
    struct heat_map *maps = calloc(MAP_MAX, sizeof *maps);
    int count = 0;
    bool any = false;
    for (size_t i = 0; maps && i < view->bench_count; i++)
        add(maps, &count, &view->benches[i]);
    for (int i = 0; i < count; i++) {
        // A single row or column would only repeat the bars.
        if (maps[i].block_count > 1 && maps[i].depth_count > 1) {
            if (!any)
                fputs("<h2>Storage by block size and depth</h2>\n<p class=\"faint\">Medians; below them the ratio "
                      "to the baseline.</p>\n",
                      out);
            any = true;
            put_map(&maps[i], out);
        }
        json_decref(maps[i].settings);
    }
    free(maps);
}
