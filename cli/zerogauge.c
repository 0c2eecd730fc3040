// SPDX-License-Identifier: Apache-2.0
// The command line. Exit status: 0 success, 1 a check failed, 2 usage or bad input, 77 nothing could be tested.
#include "base/err.h"
#include "base/safe_text.h"
#include "base/file.h"
#include "base/help.h"
#include "base/size.h"
#include "cli/commands.h"
#include "ref/config/config.h"
#include "ref/model/names/model_find.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char *const examples[] = {"zerogauge validate --quick",
                                       "zerogauge train --preset zero3 --world 4 --verify", "zerogauge check", NULL};

static void commands_print(FILE *out)
{
    fprintf(out, "usage: zerogauge COMMAND [OPTION...]     (COMMAND --help lists the options of a command)\n");
    for (const struct command *command = commands; command->name; command++)
        fprintf(out, "  %-8s %s\n", command->name, command->summary);
    fprintf(out, "  %-8s %s\n", "help", "show this list; see also `help COMMAND`, `help presets` and `help models`");
    fprintf(out, "  %-8s %s\n", "version", "print the version");
}

// `help presets` and `help models`: one name per line with its description.
static void presets_print(FILE *out)
{
    static const char *const here[] = {"."};
    const struct config_options options = {.world = 1, .nvme_paths = here, .nvme_path_count = 1};
    struct config config;
    const char *name;
    for (size_t i = 0; (name = config_preset_name(i)) != NULL; i++)
        if (config_load_preset(name, &options, &config, NULL) == ERR_NONE)
            fprintf(out, "%-16s stage %d; parameters on %s, gradients on %s, optimizer on %s\n", name, config.stage,
                    ledger_tier_name(config.offload_param.tier), ledger_tier_name(config.gradient_tier),
                    ledger_tier_name(config.offload_optimizer.tier));
}

static void print_model(const struct model *model, FILE *out)
{
    char count[SIZE_TEXT_BYTES];
    fprintf(out, "%-16s %s parameters\n", model->name, size_text(model_param_elements(model, false), count));
}

static void models_print(FILE *out)
{
    const struct model *model;
    const char *name;
    for (int i = 0; (name = model_name(i)) != NULL; i++)
        if (model_find(name, &model) == ERR_NONE)
            print_model(model, out);
}

static int refuse(const char *name)
{
    const char *where =
        strcmp(name, "adapters") == 0 ? "; the Python package has it: python -m zerogauge adapters" : "";
    text_say("zerogauge: unknown command \"%s\"%s", name, where);
    commands_print(stderr);
    return 2;
}

static bool is_help(const char *name)
{
    return strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;
}

static bool is_version(const char *name)
{
    return strcmp(name, "version") == 0 || strcmp(name, "--version") == 0;
}

// `help bench adam` equals `bench adam --help`. The build uses --manual, and shells use --complete.
static int help_main(int argc, const char **argv)
{
    const char *asked = argc > 1 ? argv[1] : "help";
    const struct command *command = command_find(asked);
    if (strcmp(asked, "--manual") == 0)
        return manual_fill(stdin);
    if (strcmp(asked, "--complete") == 0)
        return complete_print(argv + 2, argc - 2);
    if (command)
        return command_help(command, argc > 2 ? argv[2] : NULL);
    if (strcmp(asked, "presets") == 0) {
        presets_print(stdout);
    } else if (strcmp(asked, "models") == 0) {
        models_print(stdout);
    } else if (is_help(asked) || is_version(asked)) {
        commands_print(stdout);
        help_print_examples(examples, stdout);
    } else {
        return refuse(asked);
    }
    return 0;
}

// Runs at exit, wherever the program ends: output that got lost is a failure.
static void check_output(int status, void *context)
{
    (void)context;
    if (file_flush(stdout, "the output") == ERR_NONE)
        return;
    text_error("zerogauge");
    _exit(status ? status : 2);
}

// A rank has a text, a trace, files of its checkpoint, swap files and pipes open; frames hold paths and small tables.
enum { OPEN_FILES_LEAST = 64, STACK_BYTES_LEAST = 1 << 20, STACK_BYTES_USUAL = 8 << 20 };

static int raise_limit(__rlimit_resource_t resource, rlim_t least, rlim_t wanted, rlim_t *out)
{
    struct rlimit limit;
    getrlimit(resource, &limit);
    if (limit.rlim_cur < wanted && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        setrlimit(resource, &limit);
    }
    *out = limit.rlim_cur;
    return limit.rlim_cur < least ? ERR_USAGE : ERR_NONE;
}

// A file that is opened later must not become standard output because that is closed.
static void keep_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

// Keeps closed standard descriptors from being opened as files, makes output beyond a limit on the size of files an
// error instead of a signal, raises low soft limits of open files and stack as far as they may be raised, and gives
// every later thread a stack that suffices. ERR_USAGE: a hard limit is too low for any run.
static int prepare_process(void)
{
    keep_standard_descriptors();
    rlim_t limit;
    pthread_attr_t threads;
    signal(SIGXFSZ, SIG_IGN);
    if (raise_limit(RLIMIT_NOFILE, OPEN_FILES_LEAST, OPEN_FILES_LEAST, &limit) != ERR_NONE)
        return err_set(ERR_USAGE, "the limit of open files is %llu; at least %d are needed: raise it with `ulimit -n`",
                       (unsigned long long)limit, OPEN_FILES_LEAST);
    if (raise_limit(RLIMIT_STACK, STACK_BYTES_LEAST, STACK_BYTES_USUAL, &limit) != ERR_NONE)
        return err_set(ERR_USAGE,
                       "the limit of the stack is %llu KiB; at least %d KiB are needed: raise it with "
                       "`ulimit -s`",
                       (unsigned long long)limit / 1024, STACK_BYTES_LEAST / 1024);
    // The C library took the default of new threads from the limit at the start.
    size_t bytes;
    pthread_getattr_default_np(&threads);
    pthread_attr_getstacksize(&threads, &bytes);
    if (bytes < STACK_BYTES_LEAST && pthread_attr_setstacksize(&threads, STACK_BYTES_USUAL) == 0)
        pthread_setattr_default_np(&threads);
    pthread_attr_destroy(&threads);
    return ERR_NONE;
}

static int run_command(const struct command *command, int argc, const char **argv)
{
    int rc = prepare_process();
    if (rc == ERR_NONE)
        return command_run(command, argc, argv);
    text_error("zerogauge %s", command->name);
    return err_exit_status(rc);
}

int main(int argc, const char **argv)
{
    on_exit(check_output, NULL);
    const struct command *command = argc > 1 ? command_find(argv[1]) : NULL;
    if (command)
        return run_command(command, argc - 1, argv + 1);
    if (argc > 1 && is_help(argv[1]))
        return help_main(argc - 1, argv + 1);
    if (argc > 1 && is_version(argv[1]))
        return printf("zerogauge %s\n", ZG_VERSION), 0;
    if (argc > 1)
        return refuse(argv[1]);
    commands_print(stderr);
    return 2;
}
