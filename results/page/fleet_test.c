// SPDX-License-Identifier: Apache-2.0
// A fleet of copies of a published record, in which some hosts differ: exactly these are named, each with its reason.
#include "results/page/result_report.h"

#include "bench/harness/printed_test.h"
#include "conformance/cases/schema_valid_test.h"
#include "results/record/record_test.h"

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

// Returns the report's lines, which the caller frees.
static char *fleet(int expected_status, const char *page)
{
    const char *argv[] = {"report", "--fleet", sample_folder, page ? "--html" : NULL, page, NULL};
    struct printed printed = printed_begin();
    int status = report_main(page ? 5 : 3, argv);
    char *text = printed_end(printed);
    cr_expect_eq(status, expected_status, "%d: %.2000s", status, text);
    return text;
}

struct expected {
    const char *host, *verdict, *what, *text;  // all reasons; a text in the first
};

// Each line is as the schema says; the hosts that are not in service are these, in this order.
static void expect_named(const char *text, size_t host_count, const struct expected *expected, size_t count)
{
    json_t *schema = json_load_file(ZG_SOURCE_DIR "/results/record/fleet.schema.json", 0, NULL), *line, *reason;
    size_t named = 0, hosts = 0, i;
    for (; (line = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL)); text = strchr(text, '\n') + 1, hosts++) {
        char what[256] = "";
        json_t *reasons = json_object_get(line, "reasons");
        const char *host = json_string_value(json_object_get(line, "host"));
        const char *verdict = json_string_value(json_object_get(line, "verdict"));
        cr_assert(schema && schema_takes(schema, schema, line), "%s", host);
        json_array_foreach (reasons, i, reason)
            strcat(strcat(what, i ? " " : ""), json_string_value(json_object_get(reason, "what")));
        cr_expect_eq(strcmp(verdict, "in service") == 0, *what == '\0', "%s: %s", host, what);
        if (*what && named < count) {
            const char *said = json_string_value(json_object_get(json_array_get(reasons, 0), "text"));
            cr_expect_str_eq(host, expected[named].host);
            cr_expect_str_eq(verdict, expected[named].verdict, "%s: %s", host, said);
            cr_expect_str_eq(what, expected[named].what, "%s: %s", host, said);
            cr_expect(strstr(said, expected[named].text), "%s: %s", host, said);
            cr_expect(json_is_string(json_object_get(line, "next")), "%s", host);
        }
        named += *what != '\0';
        json_decref(line);
        if (!strchr(text, '\n'))
            break;
    }
    cr_expect_eq(named, count, "%zu named", named);
    cr_expect_eq(hosts, host_count);
    json_decref(schema);
}

static void expect_next(const char *text, const char *host, const char *command)
{
    char quoted[128];
    snprintf(quoted, sizeof quoted, "\"host\":\"%s\"", host);
    const char *line = strstr(text, quoted), *next = line ? strstr(line, "\"next\":") : NULL;
    snprintf(quoted, sizeof quoted, "\"next\":\"%s\"", command);
    cr_expect(next && strncmp(next, quoted, strlen(quoted)) == 0, "%s: %.80s", host, next ? next : "");
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

// --- the output of other programs ---

// Writes a text with " for each '.
static void write_text(const char *name, const char *format, ...)
{
    char text[32768];
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cr_assert(bytes > 0 && bytes < (int)sizeof text);
    for (char *at = text; (at = strchr(at, '\'')); at++)
        *at = '"';
    sample_put(name, text, (size_t)bytes);
}

// Of DCGM 4, 3 and 2: two GPUs in one test, of which the second is as it is said, and a test that is skipped.
#define DCGM_4(second, summary)                                                                                        \
    "{'DCGM Diagnostic':{'test_categories':[{'category':'Hardware','tests':[{'name':'memory','results':["              \
    "{'entity_group':'GPU','entity_group_id':1,'entity_id':0,'status':'Pass'},"                                        \
    "{'entity_group':'GPU','entity_group_id':1,'entity_id':1," second "}],'test_summary':{" summary "}},"              \
    "{'name':'diagnostic','results':[{'entity_group':'GPU','entity_group_id':1,'entity_id':0,'status':'Skip',"         \
    "'warnings':[{'warning':'not on this GPU'}]}],'test_summary':{'status':'Skip'}}]}]},"                              \
    "'entity_groups':[],'metadata':{'version':'4.2.3'}}\n"
#define DCGM_GPU(second)                                                                                               \
    "{'DCGM GPU Diagnostic':{'test_categories':[{'category':'Integration','tests':[{'name':'PCIe','results':["         \
    "{'gpu_id':'0','status':'Pass'}," second "]}]}]},'Driver Version Detected':'535.129.03','version':'3.3.9'}\n"
#define WARNING(severity, text)                                                                                        \
    "'warnings':[null,{'error_category':7,'error_id':8,'error_severity':" severity ",'warning':'" text "'}]"
#define PASS_4 DCGM_4("'status':'Pass'", "'status':'Pass'")
#define FAIL_4 DCGM_4("'status':'Fail'," WARNING("2", "1 wrong bit"), "'status':'Fail'," WARNING("2", "1 wrong bit"))
#define NOT_RUN "{'DCGM Diagnostic':{'version':'4.2.3','runtime_error':'no GPU was found'}}\n"

Test(fleet, a_diagnostic_of_dcgm_is_a_reason)
{
    static const struct expected expected[] = {
        {"a1", "pull", "diagnostic", "DCGM memory: GPU 1: Fail: 1 wrong bit"},
        {"a2", "look at", "warned", "DCGM PCIe: GPU 1: Fail: a width of x8"},
        {"a3", "pull", "diagnostic", "DCGM PCIe: GPU 1: Fail: no words of a severity"},
        {"a4", "look at", "warned", "DCGM memory: Pass: no memory for all of it"},
        {"a5", "not measured", "incomplete", "DCGM: no GPU was found"},
        {"a6", "pull", "diagnostic", "DCGM memory: GPU 1: Fail: 1 wrong bit"},
        {"a7", "not measured", "incomplete", "DCGM: no test ran"},
        {"a8", "pull", "diagnostic warned", "DCGM memory: GPU 1: Fail: 1 wrong bit"},
        {"a9", "look at", "unverified", "a9.json: is followed by something else"},
        {"b1.x", "pull", "diagnostic", "DCGM memory: GPU 1: Fail: \\x1b[31m"},
        {"b2", "look at", "warned", "DCGM memory: GPU 1: Warn: of the summary"},
        {"b3", "pull", "diagnostic", "DCGM PCIe: GPU 1: Fail: no library"},
        {"b4", "look at", "unverified", "b4.json: is followed by something else"},
    };
    write_text("a0.json", "%s", PASS_4);
    mkdir(sample_path("a1"), 0700);
    write_text("a1/any.json", "%s", FAIL_4);
    write_text("a2.json", "%s", DCGM_GPU("{'gpu_id':'1','status':'Fail'," WARNING("5", "a width of x8") "}"));
    write_text("a3.json", "%s",
               DCGM_GPU("{'gpu_ids':'1','status':'Fail','warnings':'no words of a severity'},{'status':'Warn'}"));
    write_text("a4.json", "%s", DCGM_4("'status':'Pass'", "'status':'Pass'," WARNING("4", "no memory for all of it")));
    write_text("a5.json", "%s", NOT_RUN);
    write_text("a6.json", "{'iterations':[%s,%s],'Overall Result':'Fail','Warning':'-30'}\n", PASS_4, FAIL_4);
    write_text("a7.json", "{'DCGM GPU Diagnostic':{'test_categories':[{'tests':[{'results':[{'status':'Skip'}]}]}]}}");
    write_text("a8.json", "%s%s%s", NOT_RUN, FAIL_4,
               DCGM_4("'status':'Pass'," WARNING("1", "words"), "'status':'Pass'"));
    write_text("a9.json", "%s%s", PASS_4, "Error: unable to connect");
    write_text("b1.x.dcgm.json", "%s", DCGM_4("'status':'Fail'," WARNING("2", "\\u001b[31m"), "'status':'Fail'"));
    write_text("b2.dcgm.json", "%s", DCGM_4("'status':'Warn'", "'status':'Warn'," WARNING("1", "of the summary")));
    write_text("b3.json", "%s",
               DCGM_GPU("{'gpu_id':1,'status':'Fail','warnings':[{'error_severity':1,'warning':'mild'},{'warnings':'no "
                        "library'}]}"));
    write_text("b4.json", "%s%s", PASS_4, "{'DCGM Diagnostic':{'runtime_error':'first','runtime_error':'second'}}");
    char deep[4096];
    memset(deep, '[', sizeof deep);
    sample_put("deep.json", deep, sizeof deep);
    char *text = fleet(1, NULL);
    expect_named(text, 14, expected, sizeof expected / sizeof *expected);
    expect_next(text, "a5", "dcgmi diag --run 3 --json");
    expect_next(text, "a1", "dcgmi diag --run 3 --json");
    cr_expect(strstr(strstr(text, "\"a8\""), "\"times\":1,\"runs\":3"), "%s", text);
    cr_expect(!strchr(text, '\x1b'));
    free(text);
}

struct nccl {
    const char *hosts[2];  // of two processes
    double bandwidth;      // of the largest size, in place
    double small;          // of a small size
    const char *wrong;     // elements
    const char *end;       // all behind the results
};

#define NCCL_BELOW                                                                                                     \
    "'out_of_bounds':{'count':0,'okay':'true'},'average_bus_bandwidth':{'bandwidth':150.5,'okay':'false'},"
#define NCCL_ENDED "'errors':[''],'end_time':'2026-11-25 10:05:00'}\n"

static void write_nccl(const char *name, struct nccl nccl)
{
    write_text(
        name,
        "{'version':1,'start_time':'2026-11-25 10:00:00','args':['\\/opt\\/all_reduce_perf','-J','x'],"
        "'env':['TOKEN=secret'],'nccl_version':22703,'config':{'nthreads':1,'ngpus':1,'devices':["
        "{'rank':0,'hostname':'%s','device':0,'device_info':'NVIDIA H100'},"
        "{'rank':1,'hostname':'%s','device':1,'device_info':'NVIDIA H100'}]},'results':["
        "{'size':8,'type':'float','redop':'sum','root':'-1','out_of_place':{'time':9.0,'bus_bw':%f,'nwrong':0.0}},"
        "{'size':8589934592,'type':'float','redop':'sum','root':'-1',"
        "'out_of_place':{'time':9.0,'alg_bw':9.0,'bus_bw':400.0,'nwrong':0.0},"
        "'in_place':{'time':9.0,'alg_bw':9.0,'bus_bw':%f,'nwrong':%s}}],%s",
        nccl.hosts[0], nccl.hosts[1], nccl.small, nccl.bandwidth, nccl.wrong ? nccl.wrong : "0.0",
        nccl.end ? nccl.end : NCCL_ENDED);
}

// At the small size one host is slow: that is latency, and no reason.
Test(fleet, what_nccl_tests_measured_is_a_reason)
{
    static const struct expected expected[] = {
        {"gpu0", "pull", "arithmetic", "all_reduce_perf on 2 hosts: 3 wrong elements of 8 GiB (float sum, in_place)"},
        {"gpu3", "look at", "slow",
         "nccl-tests all_reduce_perf on 1 host gpu=NVIDIA H100, gpus=1, in_place=yes, processes=2, redop=sum, "
         "size=8 GiB, threads=1, type=float (GB/s): takes 2.00 times as long as the median of 7 hosts"},
        {"gpu4", "pull", "arithmetic", "3 wrong elements"},
        {"gpu5", "not measured", "incomplete", "all_reduce_perf on 1 host: did not finish: no route"},
        {"gpu6", "look at", "invalid", "an average of 150.5 GB/s is less than"},
    };
    static const double bandwidths[] = {400, 405, 395, 200, 402, 398, 401};
    static const char *const ends[7] = {[5] = "'errors':['no route']}\n", [6] = NCCL_BELOW NCCL_ENDED};
    for (size_t i = 0; i < 7; i++) {
        char name[32], host[8];
        snprintf(name, sizeof name, "reduce%zu.json", i);
        snprintf(host, sizeof host, "gpu%zu", i);
        write_nccl(name, (struct nccl){{host, host}, bandwidths[i], i == 1 ? 0.1 : 1, NULL, ends[i]});
    }
    write_nccl("pair.json", (struct nccl){{"gpu4", "gpu0"}, 45, 1, "3.0", NULL});
    write_nccl("pair2.json", (struct nccl){{"gpu4", "gpu1"}, 45, 1, NULL, NULL});
    char *text = fleet(1, NULL);
    expect_named(text, 7, expected, sizeof expected / sizeof *expected);
    expect_next(text, "gpu3", "all_reduce_perf -J again.json");
    expect_next(text, "gpu5", "all_reduce_perf -J again.json");
    cr_expect(!strstr(text, "secret"));
    free(text);
}

// A file names 256 hosts at most, and texts that are too long are left out.
Test(fleet, hostile_output_of_nccl_tests_is_refused)
{
    static const struct expected expected[] = {
        {"many", "look at", "unverified missing", "many.json: names more hosts"}};
    char devices[24576] = "", long_text[256];
    for (int i = 0; i < 257; i++)
        snprintf(devices + strlen(devices), sizeof devices - strlen(devices), "%s{'hostname':'h%d'}", i ? "," : "", i);
    write_text("many.json", "{'nccl_version':1,'config':{'devices':[%s]}}", devices);
    memset(long_text, 'x', sizeof long_text);
    long_text[255] = '\0';
    for (int i = 0; i < 2; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d.json", i);
        write_text(name,
                   "{'nccl_version':1,'args':[7],'config':{'devices':[{'hostname':'n%d'}]},'end_time':'x','results':["
                   "{'size':8,'type':'%s','redop':[],'in_place':{'bus_bw':%s}},7,null]}",
                   i, long_text, i ? "1e-300" : "'nan'");
    }
    char *text = fleet(1, NULL);
    expect_named(text, 3, expected, 1);
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
