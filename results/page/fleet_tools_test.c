// SPDX-License-Identifier: Apache-2.0
// What other tools wrote about the hosts of a fleet: DCGM's and nccl-tests' output are reasons, with the words of
// these.
#include "results/page/fleet_test.h"

#include <sys/stat.h>

TestSuite(fleet_tools, .init = sample_folder_make, .fini = sample_folder_remove);

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

Test(fleet_tools, a_diagnostic_of_dcgm_is_a_reason)
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

// Of two hosts with two GPUs each, of which the last is as it is said; host_id is no index.
#define NODES(second, more)                                                                                            \
    "{'DCGM Diagnostic':'DCGM Multi-Node Diagnostic','metadata':{'num_hosts':2,'num_entities':4},'hosts':["            \
    "{'host_id':1,'hostname':'%s','dcgm_version':'4.3.0','driver_version':'570.32.17','num_entities':2},"              \
    "{'host_id':0,'hostname':'%s','dcgm_version':'4.3.0','driver_version':'570.32.17','num_entities':2}],"             \
    "'test_categories':[{'category':'Multi-Node Tests','tests':[{'name':'MNUBERGEMM','status':'Fail',"                 \
    "'test_summary':{'status':'Fail'}," more "'results':["                                                             \
    "{'host_id':0,'entity_group':'GPU','entity_group_id':1,'entity_id':0,'status':'Pass'},"                            \
    "{'host_id':0,'entity_group':'GPU','entity_group_id':1,'entity_id':1,'status':'Pass'},"                            \
    "{'host_id':1,'entity_group':'GPU','entity_group_id':1,'entity_id':0,'status':'Pass'},"                            \
    "{'host_id':1,'entity_group':'GPU','entity_group_id':1,'entity_id':1," second "},"                                 \
    "{'host_id':7,'entity_group':'GPU','entity_id':1,'status':'Fail'},{'status':'Fail'}]}]}]}\n"

// A later output, where it passes, is no proof; a failure that is no GPU's is held against none.
Test(fleet_tools, a_diagnostic_of_several_hosts_is_held_against_those_that_failed)
{
    static const struct expected expected[] = {
        {"c1", "pull", "diagnostic", "DCGM MNUBERGEMM: GPU 1: Fail: a sum differs"},
        {"c3", "look at", "warned", "DCGM MNUBERGEMM: GPU 1: Fail: mild"},
        {"c4", "not measured", "incomplete", "DCGM: Error: mpirun was not found"},
        {"c5", "not measured", "incomplete", "DCGM: Error: mpirun was not found"},
        {"c6", "not measured", "incomplete", "DCGM: no test ran"},
        {"failed", "not measured", "incomplete missing", "failed.json: Unable to complete"},
    };
    write_text("a.json", NODES("'status':'Fail'," WARNING("2", "a sum differs"), ""), "c1", "c0");
    write_text("b.json", NODES("'status':'Pass'", ""), "c1", "c0");
    write_text("c.json", NODES("'status':'Fail'," WARNING("1", "mild"), ""), "c3", "c2");
    write_text("d.json", NODES("'status':'Pass'", "'mpi_error':{'warning':'Error: mpirun was not found'},"), "c5",
               "c4");
    write_text("e.json", "{'DCGM Diagnostic':'DCGM Multi-Node Diagnostic','hosts':[{'host_id':0,'hostname':'c6'}]}\n");
    write_text(
        "failed.json",
        "{'DCGM Diagnostic':'DCGM Multi-Node Diagnostic','runtime_error':'Unable to complete it','metadata':{}}\n");
    char *text = fleet(1, NULL);
    expect_named(text, 8, expected, sizeof expected / sizeof *expected);
    expect_next(text, "c1", "dcgmi diag --run 3 --json");
    expect_next(text, "c4", "dcgmi diag --run 3 --json");
    cr_expect(strstr(strstr(text, "\"c1\""), "\"times\":1,\"runs\":2"), "%s", text);
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
Test(fleet_tools, what_nccl_tests_measured_is_a_reason)
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
Test(fleet_tools, hostile_output_of_nccl_tests_is_refused)
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
