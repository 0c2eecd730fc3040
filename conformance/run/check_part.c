// SPDX-License-Identifier: Apache-2.0
// A part of the suite's cases: those of a level, of a name, of a requirement. And the files of one.
#include "conformance/run/check.h"
#include "base/digest.h"
#include "conformance/cases/case_mesh.h"
#include "base/err.h"
#include "ref/arithmetic/random.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void check_whole_name(const struct check_case *c, char out[CASE_NAME_BYTES])
{
    snprintf(out, CASE_NAME_BYTES, "%s", c->name);
    char *end = strrchr(out, '.');
    if (c->phase != PHASE_WHOLE && end)
        *end = '\0';
}

static bool is_selected(const struct check_part *part, const struct check_case *c)
{
    char name[CASE_NAME_BYTES];
    bool matches = !part->case_patterns, serves = !part->requirements;
    if (case_options(c) & ~part->options)
        return false;
    check_whole_name(c, name);
    for (int i = 0; part->case_patterns && part->case_patterns[i] && !matches; i++)
        matches = fnmatch(part->case_patterns[i], name, FNM_EXTMATCH) == 0 ||
                  fnmatch(part->case_patterns[i], c->name, FNM_EXTMATCH) == 0;
    for (int i = 0; part->requirements && part->requirements[i] && !serves; i++)
        serves = requirement_covers(requirement_find(part->requirements[i]), c->name);
    return matches && serves;
}

// A visit of the suite that passes on what is selected.
struct sieve {
    const struct check_part *part;
    int (*visit)(void *context, const struct check_case *c);
    void *context;
    size_t count;
};

static int pass_on(void *context, const struct check_case *c)
{
    struct sieve *sieve = context;
    if (!is_selected(sieve->part, c))
        return ERR_NONE;
    sieve->count++;
    return sieve->visit(sieve->context, c);
}

// True if one of the requirements is about cases where factors meet, or none is asked for.
static bool asks_meetings(const struct check_part *part)
{
    bool asks = !part->requirements;
    for (int i = 0; part->requirements && part->requirements[i] && !asks; i++) {
        const struct requirement *requirement = requirement_find(part->requirements[i]);
        asks = requirement_covers(requirement, "pair-001") || requirement_covers(requirement, "meet-001");
    }
    return asks;
}

int check_cases(const struct check_part *part, int (*visit)(void *context, const struct check_case *c), void *context)
{
    struct sieve sieve = {.part = part, .visit = visit, .context = context};
    for (int i = 0; part->requirements && part->requirements[i]; i++)
        if (!requirement_find(part->requirements[i]))
            return err_set(ERR_USAGE, "there is no requirement %s; conformance/SPEC.md lists them",
                           part->requirements[i]);
    struct suite_choice choice = part->choice;
    choice.leaves_meetings = !asks_meetings(part);
    TRY(suite_cases(&choice, pass_on, &sieve));
    if (sieve.count > 0)
        return ERR_NONE;
    const char *first = part->requirements ? part->requirements[0] : NULL;
    if (!part->case_patterns)
        return err_set(ERR_USAGE, "no case of this level serves %s", first);
    return err_set(ERR_USAGE, "no case of this level%s%s is called \"%s\"%s; --list names all",
                   first ? " that serves " : "", first ? first : "", part->case_patterns[0],
                   part->case_patterns[1] ? ", or as the other patterns say" : "");
}

int check_values(const struct check_source *source, const struct check_case *c, struct case_values **out)
{
    return source ? source->values(source->context, c, out) : case_values_open(c, out);
}

static int write_by(int (*write)(const struct check_case *, const struct case_values *, const char *),
                    const struct check_source *source, const struct check_case *c, const char *folder)
{
    struct case_values *values;
    TRY(check_values(source, c, &values));
    int rc = write(c, values, folder);
    case_values_close(values);
    return rc;
}

int check_write_case(const struct check_case *c, const char *folder)
{
    return write_by(case_write, NULL, c, folder);
}

int check_ask_case(const struct check_source *source, const struct check_case *c, const char *folder)
{
    return write_by(case_write_untold, source, c, folder);
}

static int digest_below(const char *folder, const char *name, char digest[FILE_DIGEST_BYTES])
{
    char path[PATH_MAX];
    int fd;
    TRY(file_join(folder, name, path));
    TRY(file_open_at(AT_FDCWD, path, path, &fd));
    int rc = file_digest(fd, path, digest);
    close(fd);
    return rc;
}

int check_digest_order(const char *folder, char digest[FILE_DIGEST_BYTES])
{
    return digest_below(folder, "order.json", digest);
}

int check_digest_case(const struct check_case *c, const char *folder, char digest[FILE_DIGEST_BYTES])
{
    char own[PATH_MAX], name[32], one[FILE_DIGEST_BYTES];
    uint64_t sum[2] = {0};
    TRY(file_join(folder, c->name, own));
    for (int i = -2; i <= case_last_step(c); i++) {
        if (i >= 0 && i < case_first_step(c))
            continue;
        snprintf(name, sizeof name, "grads-%d.safetensors", i);
        TRY(digest_below(own, i == -2 ? "case.json" : i == -1 ? "init.safetensors" : name, one));
        unsigned long long high, low;
        sscanf(one, "%16llx%16llx", &high, &low);
        sum[0] = random_key(sum[0], high);
        sum[1] = random_key(sum[1], low);
    }
    digest_text((XXH128_hash_t){.high64 = sum[0], .low64 = sum[1]}, digest);
    return ERR_NONE;
}
