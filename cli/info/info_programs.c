// SPDX-License-Identifier: Apache-2.0
#include "cli/info/info.h"

#include "base/safe_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *package, *enables;
    bool has_version;  // answers --version quickly
} programs[] = {
    {"bible", "bible-kjv", "the default text of train; without it, --text FILE", false},
    {"chromium", "chromium", "tests of the pages of report in a browser", false},
    {"fio", "fio", "the baseline of bench nvme; without it, --no-fio", true},
    {"mpirun", "openmpi-bin", "ranks as processes, on one host or several", true},
    {"python3", "python3", "adapters of the suite in Python", true},
    {"srun", "slurm-client", "ranks as processes of a Slurm job", true},
};
enum { PROGRAM_COUNT = sizeof programs / sizeof programs[0] };

// The next line without its end; JSON's null if there is none.
static json_t *line_json(FILE *pipe)
{
    char line[512];
    if (!pipe || !fgets(line, sizeof line, pipe))
        return json_null();
    line[strcspn(line, "\n")] = '\0';
    return line[0] ? text_json(line) : json_null();
}

// The shell finds the program as for a user who types its name.
static json_t *program_json(int index)
{
    char command[256];
    const char *name = programs[index].name;
    snprintf(command, sizeof command, "exec 2>/dev/null </dev/null; command -v %s%s%s%s", name,
             programs[index].has_version ? " && timeout 5 " : "", programs[index].has_version ? name : "",
             programs[index].has_version ? " --version" : "");
    FILE *pipe = popen(command, "r");
    json_t *path = line_json(pipe), *version = line_json(pipe);
    if (pipe)
        pclose(pipe);
    return json_pack("{s:s, s:o, s:o, s:s, s:s}", "name", name, "path", path, "version", version, "package",
                     programs[index].package, "enables", programs[index].enables);
}

json_t *info_programs(void)
{
    json_t *list = json_array();
    for (int i = 0; i < PROGRAM_COUNT; i++)
        json_array_append_new(list, program_json(i));
    return list;
}
