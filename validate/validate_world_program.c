// SPDX-License-Identifier: Apache-2.0
// A rank of a validation under a launcher, for tests. Its plan has two canned parts about each host and between them a
// benchmark of all ranks. The second argument selects what happens: `nothing`; `interrupt`, rank 0 gets SIGTERM;
// `kill`, rank 1 is killed while a host's part runs; `kill-together`, while all measure together; `error`, rank 1
// cannot measure; `slow`, the disks of all hosts but the first are slow. Rank 0 prints the verdict, then one line per
// reason.
#include "bench/harness/bench_world.h"
#include "base/err.h"
#include "ref/comm/launcher.h"
#include "validate/validate.h"
#include "validate/validate_world.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

struct ending {
    char awaited[PATH_MAX], made[PATH_MAX];  // a part's output, which is there when the part begins; and a sign for it
    int signal_number;
};

static void *end_when_there(void *context)
{
    const struct ending *ending = context;
    while (access(ending->awaited, F_OK) != 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    close(open(ending->made, O_CREAT | O_WRONLY, 0666));
    kill(getpid(), ending->signal_number);
    return NULL;
}

static struct validate_part *add(struct validate_plan *plan, const char *name, const char *bench)
{
    struct validate_part *part = &plan->parts[plan->count++];
    snprintf(part->name, sizeof part->name, "%s", name);
    part->bench = bench;
    part->expected_s = 1;
    part->limit_s = 300;
    return part;
}

static void add_script(struct validate_plan *plan, const char *name, const char *bench, const char *waits,
                       double median)
{
    static char scripts[2][1024];
    char *script = scripts[plan->count > 0];
    snprintf(script, sizeof scripts[0],
             "%s; echo '{\"record\":\"bench\",\"name\":\"%s\",\"case\":{\"block\":4096},\"samples\":[%g,%g],"
             "\"median\":%g,\"p10\":%g,\"p90\":%g,\"unit\":\"GB/s\",\"lower_is_better\":false,\"items\":1000,"
             "\"elapsed_s\":0.001,\"verified\":true,\"yardstick\":null,\"ratio\":null}'",
             waits, bench, median, median, median, median, median);
    struct validate_part *part = add(plan, name, bench);
    part->argv[0] = "/bin/sh";
    part->argv[1] = "-c";
    part->argv[2] = script;
}

static void make_plan(const char *folder, const char *what, struct validate_plan *plan)
{
    char until[PATH_MAX + 64];
    bool slow = strcmp(what, "slow") == 0 && bench_world_rank() > 0;
    bool together = strcmp(what, "kill-together") == 0, error = strcmp(what, "error") == 0;
    snprintf(until, sizeof until, "until [ -e '%s/ends' ]; do sleep 0.02; done", folder);
    *plan = (struct validate_plan){0};
    add_script(plan, "bench-nvme", "nvme",
               strcmp(what, "kill") == 0        ? until
               : strcmp(what, "interrupt") == 0 ? "sleep 200"
                                                : "sleep 0.1",
               slow ? 1 : 3);
    struct validate_part *part = add(plan, "bench-ranks", "ranks");
    const char *const words[] = {"zerogauge",
                                 "bench",
                                 "ranks",
                                 "--json",
                                 "--quick",
                                 together ? "--repeat=900" : "--repeat=2",
                                 error ? "--pin=0,1023,0" : NULL};
    memcpy(part->argv, words, sizeof words);
    add_script(plan, "bench-swap", "swap", "sleep 0.1", 2);
}

static const char *const paths[] = {NULL};

static int run(const char *folder, struct validate_plan *plan)
{
    static const char *const argv[] = {"zerogauge", "validate"};
    struct accepted_ranges ranges = {0};
    struct validate_result result;
    const struct validate_setting setting = {.folder = folder,
                                             .program = "trial",
                                             .level = "quick",
                                             .argc = 2,
                                             .argv = argv,
                                             .paths = paths,
                                             .plan = plan,
                                             .ranges = &ranges,
                                             .interrupted = &interrupted};
    int rc = validate_run(&setting, &result);
    if (rc == ERR_NONE) {
        printf("%s%s\n", finding_verdict_name(validate_verdict(&result)), result.interrupted ? ", interrupted" : "");
        for (size_t i = 0; i < result.findings.count; i++)
            if (result.findings.list[i].verdict != FINDING_VALID)
                printf("reason %s\n", result.findings.list[i].text);
        fflush(stdout);
        rc = validate_report(folder);
    }
    validate_result_free(&result);
    return rc;
}

int main(int argc, char **argv)
{
    static struct ending ending;
    struct validate_plan plan;
    pthread_t thread;
    if (argc != 3 || bench_world_join() != ERR_NONE) {
        fprintf(stderr, "%s\n", err_message());
        return 2;
    }
    launcher_hide();
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGTERM, &action, NULL);
    make_plan(argv[1], argv[2], &plan);
    int rank = bench_world_rank();
    ending.signal_number = strncmp(argv[2], "kill", 4) == 0 && rank == 1    ? SIGKILL
                           : strcmp(argv[2], "interrupt") == 0 && rank == 0 ? SIGTERM
                                                                            : 0;
    snprintf(ending.awaited, sizeof ending.awaited, "%s/%s.out", argv[1],
             strcmp(argv[2], "kill-together") == 0 ? "bench-ranks" : "bench-nvme");
    snprintf(ending.made, sizeof ending.made, "%s/ends", argv[1]);
    if (ending.signal_number != 0)
        pthread_create(&thread, NULL, end_when_there, &ending);
    int rc = rank == 0 ? run(argv[1], &plan) : validate_world_follow(&plan, paths, &interrupted);
    if (rc != ERR_NONE)
        fprintf(stderr, "rank %d: %s\n", rank, err_message());
    bench_world_leave(rc != ERR_NONE || interrupted || bench_world_is_broken() ? ERR_PEER : ERR_NONE);
    return err_exit_status(rc);
}
