// SPDX-License-Identifier: Apache-2.0
// A store that others have touched: links are never followed to remove or write, what cannot be read is an error and
// stays, and the first error is the one that is reported.
#include "ref/checkpoint/checkpoint_test.h"

#include <signal.h>
#include <sys/resource.h>

static struct train_result result;

static void setup(void)
{
    folder_setup();
    cr_assert_eq(chdir(folder), 0);
}

static void teardown(void)
{
    cr_expect_eq(chdir("/"), 0);
    folder_teardown();
}

TestSuite(store, .init = setup, .fini = teardown, .timeout = 500);

static struct trial saves_each_step(uint64_t steps)
{
    return (struct trial){.stage = 1, .world = 2, .steps = steps, .every = 1, .checkpoint = "store"};
}

static void expect_refused(const struct trial *trial, const char *file, const char *why)
{
    cr_expect_neq(trial_run(trial, &result, NULL), ERR_NONE, "%s was accepted", file);
    cr_expect_not_null(strstr(err_message(), file), "%s: %s", file, err_message());
    cr_expect_not_null(strstr(err_message(), why), "%s: %s", why, err_message());
}

static bool exists(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

static void expect_checkpoint(const char *path, uint64_t step)
{
    struct checkpoint *checkpoint;
    cr_assert_eq(checkpoint_open_folder(path, &checkpoint), ERR_NONE, "%s", err_message());
    cr_expect_eq(checkpoint_manifest(checkpoint)->step, step);
    cr_expect_eq(checkpoint_check_digests(checkpoint), ERR_NONE, "%s", err_message());
    checkpoint_close(checkpoint);
}

static void move_and_link(const char *path, const char *archive)
{
    cr_assert_eq(rename(path, archive), 0);
    char target[PATH_MAX + 64];
    snprintf(target, sizeof target, "%s/%s", folder, archive);
    cr_assert_eq(symlink(target, path), 0);
}

Test(store, an_old_checkpoint_that_was_moved_and_linked_keeps_its_files)
{
    struct trial trial = saves_each_step(2);
    trial_pass(&trial);
    move_and_link("store/step-00000001", "archive");
    trial.steps = 6;
    trial_pass(&trial);
    expect_checkpoint("archive", 1);
    cr_expect(exists("store/step-00000001"));
    cr_expect(!exists("store/step-00000002") && !exists("store/step-00000004"));
    expect_checkpoint("store/step-00000005", 5);
    expect_checkpoint("store/step-00000006", 6);
}

Test(store, a_link_with_the_name_of_a_leftover_is_refused)
{
    static const char *const names[] = {"store/step-00000007.partial", "store/step-00000001.replaced"};
    struct trial trial = saves_each_step(2);
    trial_pass(&trial);
    cr_assert_eq(mkdir("archive", 0777), 0);
    folder_write("archive/mine", "x", 1);
    trial.steps = 3;
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(symlink("../archive", names[i]), 0);
        expect_refused(&trial, names[i], "is not a folder that a run has made");
        cr_expect(exists("archive/mine"));
        cr_expect(exists(names[i]));
        unlink(names[i]);
    }
    trial_pass(&trial);
}

Test(store, an_unfinished_step_that_is_a_link_is_not_replaced)
{
    struct trial trial = saves_each_step(2);
    trial_pass(&trial);
    cr_assert_eq(mkdir("archive", 0777), 0);
    folder_write("archive/mine", "x", 1);
    cr_assert_eq(symlink("../archive", "store/step-00000003"), 0);
    trial.steps = 3;
    expect_refused(&trial, "store/step-00000003", "is not a folder that a run has made");
    cr_expect(exists("archive/mine"));
    expect_checkpoint("store/step-00000002", 2);
}

Test(store, a_folder_of_others_in_an_old_checkpoint_stays_with_its_checkpoint)
{
    struct trial trial = saves_each_step(2);
    trial_pass(&trial);
    cr_assert_eq(mkdir("store/step-00000001/evaluation", 0777), 0);
    trial.steps = 3;
    expect_refused(&trial, "store/step-00000001/evaluation", "was saved, but an older one cannot be removed");
    expect_checkpoint("store/step-00000001", 1);
    expect_checkpoint("store/step-00000003", 3);
    // The removal goes on while the run does, which ends with the next save.
    trial.steps = 9;
    expect_refused(&trial, "store/step-00000001/evaluation", "the checkpoint of step 4 was saved, but an older one");
    expect_checkpoint("store/step-00000001", 1);
    expect_checkpoint("store/step-00000005", 5);
    cr_expect(!exists("store/step-00000006"));
}

Test(store, the_lock_is_not_taken_through_a_link)
{
    struct trial trial = saves_each_step(1);
    cr_assert_eq(mkdir("store", 0777), 0);
    cr_assert_eq(symlink("../elsewhere", "store/.lock"), 0);
    expect_refused(&trial, "store/.lock", "cannot be created");
    cr_expect(!exists("elsewhere"));
    unlink("store/.lock");
    cr_assert_eq(mkfifo("store/.lock", 0600), 0);
    expect_refused(&trial, "store/.lock", "is not a regular file");
}

// Nobody removes the files that it still writes, or adds to them.
Test(store, a_process_that_outlives_rank_0_keeps_other_runs_out)
{
    struct store owner, rank, other;
    cr_assert_eq(store_open("store", &owner), ERR_NONE, "%s", err_message());
    cr_assert_eq(store_follow("store", &rank), ERR_NONE, "%s", err_message());
    cr_assert_eq(mkdir("store/step-00000001.partial", 0777), 0);
    store_close(&owner);
    cr_expect_eq(store_open("store", &other), ERR_USAGE);
    cr_expect_str_eq(err_message(), "store: another run is saving checkpoints there");
    cr_expect(exists("store/step-00000001.partial"));
    store_close(&rank);
    cr_expect(!exists("store/step-00000001.partial"));
    cr_expect_eq(store_open("store", &other), ERR_NONE, "%s", err_message());
    store_close(&other);
    cr_expect_eq(store_follow("nowhere", &rank), ERR_USAGE);
}

// Changes a word of a file without changing its length.
static void edit(const char *path, const char *from, const char *to)
{
    size_t bytes;
    char *text = folder_read(path, &bytes), *at = memmem(text, bytes, from, strlen(from));
    cr_assert_not_null(at, "%s: %s", path, from);
    memcpy(at, to, strlen(to));
    folder_write(path, text, bytes);
    free(text);
}

// Saving, resuming and both must stop at the newest checkpoint, and remove nothing.
static void expect_stops(const char *file, const char *why)
{
    struct trial trial = saves_each_step(9);
    expect_refused(&trial, file, why);
    trial.checkpoint = NULL;
    trial.resume = "store";
    expect_refused(&trial, file, why);
    trial.resume = NULL;
    trial.save = "store";
    expect_refused(&trial, file, why);
    cr_expect(exists("store/step-00000003"));
    cr_expect(exists("store/step-00000004/rank-0.safetensors"));
}

Test(store, a_checkpoint_that_cannot_be_read_is_no_incomplete_one)
{
    struct trial trial = saves_each_step(4);
    const char *manifest = "store/step-00000004/manifest.json", *shard = "store/step-00000004/rank-1.safetensors";
    trial_pass(&trial);
    edit(manifest, "\"version\": 2", "\"version\": 3");
    expect_stops(manifest, "this program reads versions 1 to 2");
    edit(manifest, "\"version\": 3", "\"version\": 2");
    cr_assert_eq(rename(shard, "aside"), 0);
    expect_stops(shard, "cannot be opened: No such file or directory");
    cr_assert_eq(symlink("../../aside", shard), 0);
    expect_stops(shard, "is a symbolic link");
    unlink(shard);
    cr_assert_eq(mkfifo(shard, 0600), 0);
    expect_stops(shard, "is not a regular file");
    unlink(shard);
    cr_assert_eq(rename("aside", shard), 0);
    cr_assert_eq(rename(manifest, "aside"), 0);
    cr_assert_eq(mkfifo(manifest, 0600), 0);
    expect_stops(manifest, "is not a regular file");
    unlink(manifest);
    cr_assert_eq(symlink("nowhere", manifest), 0);
    expect_stops(manifest, "is a symbolic link");
    unlink(manifest);
    cr_assert_eq(rename("aside", manifest), 0);
    trial.steps = 5;
    trial_pass(&trial);
}

Test(store, a_checkpoint_whose_archive_is_not_there_is_no_incomplete_one)
{
    struct trial trial = saves_each_step(4);
    trial_pass(&trial);
    move_and_link("store/step-00000004", "archive");
    cr_assert_eq(rename("archive", "unmounted"), 0);
    trial.steps = 5;
    expect_refused(&trial, "store/step-00000004", "cannot be opened: No such file or directory");
    cr_assert_eq(rename("unmounted", "archive"), 0);
    trial_pass(&trial);
}

Test(store, too_many_open_files_are_no_incomplete_checkpoint)
{
    struct trial trial = saves_each_step(4);
    trial_pass(&trial);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    size_t refused = 0;
    // With room for none, some and all of its files.
    for (int room = 1; room < 8; room++) {
        struct checkpoint *checkpoint;
        char notes[NOTES_BYTES] = "";
        int next = dup(0);
        close(next);
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)(next + room), limit.rlim_max});
        int rc = checkpoint_open("store", &checkpoint, notes);
        setrlimit(RLIMIT_NOFILE, &limit);
        cr_expect_str_empty(notes, "%s", notes);
        if (rc == ERR_NONE)
            cr_expect_eq(checkpoint_manifest(checkpoint)->step, 4);
        else
            cr_expect_not_null(strstr(err_message(), "too many open files"), "%s", err_message());
        refused += rc == ERR_IO;
        checkpoint_close(checkpoint);
    }
    cr_expect_geq(refused, 1);
}

Test(store, a_step_is_the_one_of_its_name)
{
    struct trial trial = saves_each_step(4);
    trial_pass(&trial);
    cr_assert_eq(rename("store/step-00000004", "store/step-00000900"), 0);
    trial.steps = 901;
    expect_refused(&trial, "store/step-00000900", "holds step 4, not the step of its name");
    expect_checkpoint("store/step-00000003", 3);
    expect_checkpoint("store/step-00000900", 4);
}

// A limit on the size of files makes the save fail, a link makes the clean-up fail.
static void limit_files(void *context, const struct train_progress *progress)
{
    (void)context;
    if (progress->step == 3) {
        symlink("nowhere", "store/step-00000001.replaced");
        struct rlimit limit;
        getrlimit(RLIMIT_FSIZE, &limit);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){100, limit.rlim_max});
    }
}

Test(store, an_error_of_the_clean_up_does_not_replace_the_cause)
{
    struct trial trial = saves_each_step(3);
    struct rlimit limit;
    trial_pass(&trial);
    trial.steps = 9;
    trial.progress = limit_files;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    folder_remove("store");
    cr_assert_eq(trial_run(&trial, &result, NULL), ERR_IO);
    setrlimit(RLIMIT_FSIZE, &limit);
    cr_expect(exists("store/step-00000001.replaced"));
    cr_expect_not_null(strstr(err_message(), "the checkpoint of step 3 was not saved"), "%s", err_message());
    cr_expect_not_null(strstr(err_message(), "File too large"), "%s", err_message());
    expect_checkpoint("store/step-00000002", 2);
}
