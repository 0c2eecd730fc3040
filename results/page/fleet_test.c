// SPDX-License-Identifier: Apache-2.0
// A fleet of copies of a published record, in which some hosts differ: exactly these are named, each with its reason.
#include "results/page/fleet_test.h"

#include <sys/resource.h>
#include <sys/stat.h>

enum { CASE_COUNT = 6, LINE_MAX_COUNT = CASE_COUNT + 3 };

static struct result_file published;
static const json_t *cases[CASE_COUNT];

static void setup(void)
{
    size_t count = 0;
    sample_folder_make();
    cr_assert_eq(result_open(ZG_SOURCE_DIR "/results/published/amd-epyc-2-threads-2026-11-25.jsonl", &published), 0);
    for (size_t i = 0; i < published.line_count && count < CASE_COUNT; i++) {
        const char *name = json_string_value(json_object_get(published.lines[i], "name"));
        if (json_object_get(published.lines[i], "yardstick") && strcmp(name, "adam") == 0)
            cases[count++] = published.lines[i];
    }
    cr_assert_eq(count, CASE_COUNT);
}

static void teardown(void)
{
    result_close(&published);
    sample_folder_remove();
}

TestSuite(fleet, .init = setup, .fini = teardown);

// How a host's run differs from the others; all 0: not at all.
struct special {
    double factor;                    // of the times of the second case
    const char *processor, *vbios;    // other ones
    bool misses, forged, unfinished;  // the third case; its median is edited; without an end
    bool interrupted;
};

static json_t *run_record(const struct special *special, int day)
{
    json_t *run = json_deep_copy(published.run), *machine = json_object_get(run, "machine");
    json_t *gpu = json_loads(SAMPLE_GPU, 0, NULL);
    if (special->vbios)
        json_object_set_new(gpu, "vbios", json_string(special->vbios));
    if (special->processor)
        json_object_set_new(machine, "processor", json_string(special->processor));
    json_object_set_new(machine, "gpus", json_pack("[o]", gpu));
    json_object_set_new(run, "program", json_string("bench"));
    json_object_set_new(run, "level", json_null());
    json_object_set_new(run, "started", json_sprintf("2026-11-%02dT00:00:00Z", day));
    json_object_set_new(run, "command", json_pack("[s, s, s, s, s]", "zerogauge", "bench", "adam", "--isa", "avx2"));
    return run;
}

// Writes a host's run of a day. Figures of hosts differ by up to 2 %.
static void write_run(int host, int day, struct special special)
{
    const char *lines[LINE_MAX_COUNT + 1] = {0};
    char name[64];
    size_t count = 0;
    json_t *run = run_record(&special, day), *end = json_loads(SAMPLE_END, 0, NULL);
    lines[count++] = json_dumps(run, JSON_COMPACT);
    for (int i = 0; i < CASE_COUNT; i++) {
        json_t *record = json_deep_copy(cases[i]);
        sample_scale(record, (1 + 0.001 * ((host + 7 * i) % 20)) * (i == 1 && special.factor > 0 ? special.factor : 1));
        if (i == 2 && special.forged)
            json_object_set_new(record, "median",
                                json_real(0.5 * json_number_value(json_object_get(record, "median"))));
        if (i != 2 || !special.misses)
            lines[count++] = json_dumps(record, JSON_COMPACT);
        json_decref(record);
    }
    json_object_set_new(end, "verdict", json_null());
    if (special.interrupted) {
        json_object_set_new(end, "status", json_string("interrupted"));
        json_object_set_new(end, "verdict", json_string("INCOMPLETE"));
    }
    if (!special.unfinished)
        lines[count++] = json_dumps(end, JSON_COMPACT);
    snprintf(name, sizeof name, "node%04d", host);
    mkdir(sample_path(name), 0700);
    snprintf(name, sizeof name, "node%04d/%d.jsonl", host, day);
    sample_write(name, lines);
    for (size_t i = 0; i < count; i++)
        free((char *)(uintptr_t)lines[i]);
    json_decref(run);
    json_decref(end);
}

// Files of later days have the earlier names.
static void write_preflight(int host, int day, const char *digest, const char *verdict, const char *state)
{
    char name[64], line[1024];
    snprintf(name, sizeof name, "node%04d/preflight%d.json", host, 9 - day);
    int bytes = snprintf(line, sizeof line,
                         "{\"record\":\"preflight\",\"host\":\"node%04d\",\"started\":\"2026-11-%02dT00:00:00Z\","
                         "\"verdict\":\"%s\",\"checks\":[{\"check\":"
                         "\"compute\",\"state\":\"%s\",\"text\":\"core 3\"}],\"digests\":{\"Adam\":\"%s\"}}\n",
                         host, day, verdict, state, digest);
    sample_put(name, line, (size_t)bytes);
}

Test(fleet, of_a_thousand_hosts_those_that_differ_are_named)
{
    static const struct expected expected[] = {
        {"node0204", "pull", "digest", "Adam: its bits are as on 1 of 1000 hosts"},
        {"node0101", "look at", "slow", "takes 1.60 times as long as the median of 998 hosts"},
        {"node0305", "not measured", "missing", ": not measured, as 997 hosts of its kind did"},
        {"node0406", "look at", "unverified missing", "node0406/1.jsonl:4: median: is "},
        {"node0502", "look at", "slow", "takes 2.0"},
        {"node0607", "look at", "firmware", "VBIOS 97.01: only 1 of 999 hosts of its hardware have it"},
        {"node0903", "pull", "slow", "takes 3."},
    };
    enum { HOSTS = 1000 };
    struct special specials[HOSTS] = {[101] = {.factor = 1.6}, [305] = {.misses = true},   [406] = {.forged = true},
                                      [502] = {.factor = 2},   [607] = {.vbios = "97.01"}, [903] = {.factor = 3}};
    char page[PATH_MAX], other[PATH_MAX];
    for (int host = 0; host < HOSTS; host++) {
        write_run(host, 1, specials[host]);
        write_preflight(host, 1, host == 204 ? "ba" : "ab", "ok", "ok");
    }
    write_run(903, 2, specials[903]);
    strcpy(page, sample_path("page.html"));
    strcpy(other, sample_path("other.html"));
    char *text = fleet(1, page), *again = fleet(1, other);
    expect_named(text, HOSTS, expected, sizeof expected / sizeof *expected);
    cr_expect(strstr(text, "\"deviations\":5.9"), "1.6 times the median, in tenths of it above");
    cr_expect(strstr(text, "\"times\":2,\"runs\":2"), "node0903 was slow twice");
    cr_expect(strstr(text, "\"next\":\"zerogauge bench adam --out again.jsonl\""));
    cr_expect_str_eq(text, again);
    char *pages[2];
    size_t bytes;
    cr_assert_eq(file_read_text(page, 16 << 20, &pages[0], &bytes), ERR_NONE);
    cr_assert_eq(file_read_text(other, 16 << 20, &pages[1], &bytes), ERR_NONE);
    cr_expect_str_eq(pages[0], pages[1]);
    cr_expect(strstr(pages[0], "993 of 1000 in service") && strstr(pages[0], ">node0903<"));
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%d hosts: %ld KiB\n", HOSTS, usage.ru_maxrss);
    free(pages[0]);
    free(pages[1]);
    free(text);
    free(again);
}

Test(fleet, a_host_is_compared_with_its_own_kind)
{
    static const struct expected expected[] = {
        {"node0012", "pull", "preflight", "compute: core 3"},
        {"node0013", "look at", "unverified", "verdict is not that of its checks"},
        {"node0014", "not measured", "incomplete missing", "node0014/1.jsonl: has no end: the run failed"},
    };
    // Six slow machines of another model, and one of a third, which has no peers.
    for (int host = 0; host < 15; host++)
        write_run(host, 1,
                  (struct special){.factor = host >= 5 && host < 12 ? 2.5 : 1,
                                   .processor = host >= 5 && host < 11 ? "B"
                                                : host == 11           ? "C"
                                                                       : NULL,
                                   .unfinished = host == 14});
    write_preflight(12, 1, "ab", "FAIL", "FAIL");
    write_preflight(13, 1, "ab", "ok", "FAIL");
    char *text = fleet(1, NULL);
    expect_named(text, 15, expected, sizeof expected / sizeof *expected);
    free(text);
}

Test(fleet, a_host_that_was_slow_once_is_not_pulled)
{
    static const struct expected expected[] = {{"node0003", "look at", "slow", "takes 2."}};
    for (int host = 0; host < 8; host++)
        for (int day = 1; day <= 3; day++)
            write_run(host, day,
                      (struct special){.factor = (host == 3 && day == 3) || (host == 5 && day == 1) ? 2 : 1});
    char *text = fleet(1, NULL);
    expect_named(text, 8, expected, 1);
    cr_expect(strstr(text, "\"times\":1,\"runs\":3"), "%s", text);
    free(text);
}

// The latest preflight counts, in whatever order their files are read.
Test(fleet, preflights_of_a_host_are_taken_by_their_time)
{
    static const struct expected expected[] = {{"node0001", "pull", "preflight", "compute: core 3"}};
    for (int host = 0; host < 3; host++) {
        write_run(host, 1, (struct special){0});
        write_preflight(host, 1, "ab", host == 0 ? "FAIL" : "ok", host == 0 ? "FAIL" : "ok");
        write_preflight(host, 2, "ab", host == 1 ? "FAIL" : "ok", host == 1 ? "FAIL" : "ok");
    }
    char *text = fleet(1, NULL);
    expect_named(text, 3, expected, 1);
    cr_expect(strstr(text, "\"times\":1,\"runs\":2"), "%s", text);
    free(text);
}

// The last host lacks two programs, of which the first is said; the one before has a run that was interrupted. Of a
// host's files that are no records the first one is said, although the second is opened beside it and is small.
Test(fleet, what_is_missing_or_not_whole_has_the_command_that_measures_it)
{
    static char large[8 << 20];
    static const struct expected expected[] = {
        {"h", "look at", "unverified missing", "h/a.jsonl:1: "},
        {"node0004", "not measured", "incomplete missing", "the run was interrupted"},
        {"node0005", "not measured", "missing", "of `bench adam`, as 5 hosts do"}};
    for (int host = 0; host < 6; host++) {
        char name[32], soak[96];
        int bytes = snprintf(soak, sizeof soak, "{\"record\":\"soak\",\"host\":\"node%04d\",\"events\":[]}\n", host);
        snprintf(name, sizeof name, "soak%d.json", host);
        if (host < 5)
            write_run(host, 1, (struct special){.interrupted = host == 4});
        else
            mkdir(sample_path("node0005"), 0700);
        write_preflight(host, 1, "ab", "ok", "ok");
        if (host < 4)
            sample_put(name, soak, (size_t)bytes);
    }
    mkdir(sample_path("h"), 0700);
    sample_put("h/a.jsonl", large, sizeof large);
    sample_put("h/b.jsonl", "x", 1);
    char *text = fleet(1, NULL);
    expect_named(text, 7, expected, 3);
    expect_next(text, "node0004", "zerogauge bench adam --out again.jsonl");
    expect_next(text, "node0005", "zerogauge bench adam --out again.jsonl");
    free(text);
}

// The second host had a wrong result, the third's counts of errors grew.
Test(fleet, a_soak_names_the_hosts_of_its_findings)
{
    static const struct expected expected[] = {{"node0001", "pull", "arithmetic", "soak: GPU 1: 3 words"},
                                               {"node0002", "look at", "invalid", "soak: counters: NVLink errors: 4"}};
    static const char soak[] =
        "{\"record\":\"soak\",\"host\":\"node0000\",\"events\":[{\"host\":\"node0001\",\"text\":\"GPU 1: "
        "3 words\"}],\"worse\":[{\"host\":\"node0002\",\"text\":\"NVLink errors: 4\"}]}\n";
    for (int host = 0; host < 3; host++)
        write_run(host, 1, (struct special){0});
    sample_put("soak.json", soak, sizeof soak - 1);
    char *text = fleet(1, NULL);
    expect_named(text, 3, expected, 2);
    free(text);
}

// Nanoseconds of an exchange with the others, of each of five hosts; the fourth is slow.
Test(fleet, hosts_of_a_launcher_are_named_by_their_record)
{
    static const struct expected expected[] = {{"rack3", "look at", "slow", "world=5 (us): takes 3.00"}};
    struct special none = {0};
    const char *lines[8] = {0};
    json_t *run = run_record(&none, 1), *end = json_loads(SAMPLE_END, 0, NULL);
    json_object_set_new(run, "command", json_pack("[s, s, s, s]", "zerogauge", "bench", "links", "--quick"));
    json_object_set_new(end, "verdict", json_null());
    lines[0] = json_dumps(run, JSON_COMPACT);
    for (int rank = 0; rank < 5; rank++) {
        double time = rank == 3 ? 30 : 10;
        char host[8];
        snprintf(host, sizeof host, "rack%d", rank);
        json_t *record =
            json_pack("{s:s, s:s, s:{s:s, s:i, s:i, s:s, s:i}, s:[f, f, f], s:f, s:f, s:f, s:s, s:b, s:i, s:f, s:b, "
                      "s:n, s:n}",
                      "record", "bench", "name", "links", "case", "lane", "ping", "rank", rank, "world", 5, "host",
                      host, "hosts", 5, "samples", time, time, time, "median", time, "p10", time, "p90", time, "unit",
                      "us", "lower_is_better", 1, "items", 1, "elapsed_s", 1.0, "verified", 1, "yardstick", "ratio");
        lines[1 + rank] = json_dumps(record, JSON_COMPACT);
        json_decref(record);
    }
    lines[6] = json_dumps(end, JSON_COMPACT);
    sample_write("links.jsonl", lines);
    json_decref(run);
    json_decref(end);
    char *text = fleet(1, NULL);
    expect_named(text, 5, expected, 1);
    free(text);
}

Test(fleet, sound_hosts_and_none)
{
    for (int host = 0; host < 3; host++)
        write_run(host, 1, (struct special){0});
    sample_put("machine.json", "{}", 2);
    char *text = fleet(0, NULL);
    expect_named(text, 3, NULL, 0);
    free(text);
    const char *argv[] = {"report", "--fleet", ZG_SOURCE_DIR "/results/findings", NULL};
    cr_expect_eq(report_main(3, argv), 2);
    const char *both[] = {"report", "--fleet", sample_folder, "--verify", NULL};
    cr_expect_eq(report_main(4, both), 2);
}
