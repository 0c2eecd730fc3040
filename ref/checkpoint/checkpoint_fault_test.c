// SPDX-License-Identifier: Apache-2.0
// Checkpoints under attack: runs killed at any moment, full disks, files that are cut off, changed or mixed up. Loading
// gives the saved state or an error that names the file.
#include "ref/checkpoint/checkpoint_test.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

TestSuite(checkpoint_fault, .init = folder_setup, .fini = folder_teardown);

static const char *in_folder(const char *name)
{
    static char path[4][PATH_MAX + 300];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

// Checks every digest of the newest complete checkpoint; returns its step, or 0 if there is none.
static uint64_t newest_sound(void)
{
    struct checkpoint *checkpoint;
    char notes[NOTES_BYTES] = "";
    cr_assert_eq(checkpoint_open(folder, &checkpoint, notes), ERR_NONE, "%s", err_message());
    cr_assert_str_empty(notes, "%s", notes);
    if (!checkpoint)
        return 0;
    cr_assert_eq(checkpoint_check_digests(checkpoint), ERR_NONE, "%s", err_message());
    uint64_t step = checkpoint_manifest(checkpoint)->step;
    checkpoint_close(checkpoint);
    return step;
}

static void report_step(void *context, const struct train_progress *progress)
{
    *(volatile uint64_t *)context = progress->step;
}

static void await_step(const volatile uint64_t *reported, uint64_t step, pid_t child)
{
    while (*reported < step) {
        cr_assert_eq(waitpid(child, NULL, WNOHANG), 0, "the run ended by itself after step %d", (int)*reported);
        sched_yield();
    }
}

// A run saves after every step and is killed, 200 times or until 20 kills fell into a saving, each time continuing from
// the last checkpoint. When it reports a step, the previous step is saved, or with asynchronous saves the one before.
static void kill_at_200_moments(bool async)
{
    volatile uint64_t *reported =
        mmap(NULL, sizeof *reported, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct trial trial = {.model = "linear-few",
                          .stage = 3,
                          .world = 2,
                          .precision = DTYPE_FP16,
                          .steps = 1000000,
                          .every = 1,
                          .checkpoint = folder,
                          .async = async,
                          .progress = report_step,
                          .progress_context = (void *)(uintptr_t)reported};
    unsigned random = 1;
    uint64_t last = 0;
    int amid = 0;
    for (int i = 0; i < 200 || (amid < 20 && i < 2000); i++) {
        *reported = 0;
        pid_t child = fork();
        cr_assert_geq(child, 0);
        if (child == 0) {
            struct train_result result;
            _exit(trial_run(&trial, &result, NULL) == ERR_NONE ? 0 : 1);
        }
        // Kill it some steps later, shortly after a save has begun.
        await_step(reported, 1, child);
        await_step(reported, *reported + (uint64_t)(rand_r(&random) % 8), child);
        nanosleep(&(struct timespec){.tv_nsec = rand_r(&random) % 400000}, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        uint64_t step = newest_sound();
        cr_assert_geq(step, last, "kill %d", i);
        uint64_t known = step + async;
        cr_assert(known + 1 == *reported || known == *reported, "kill %d: reported step %d, found %d", i,
                  (int)*reported, (int)step);
        amid += known + 1 == *reported;
        last = step;
    }
    cr_assert_geq(amid, 20, "only %d kills fell into a saving", amid);
    trial.steps = last + 1;
    struct train_result result = trial_pass(&trial);
    cr_assert_eq(result.resumed_step, last);
    trial.checkpoint = NULL;
    trial.progress = NULL;
    struct train_result whole = trial_pass(&trial);
    cr_assert_str_eq(result.digest, whole.digest, "after %d steps", (int)trial.steps);
}

Test(checkpoint_fault, kills_at_200_moments_lose_no_checkpoint)
{
    kill_at_200_moments(false);
}

Test(checkpoint_fault, kills_at_200_moments_of_asynchronous_saves_lose_no_checkpoint)
{
    kill_at_200_moments(true);
}

static int entries(const char *path)
{
    int count = 0;
    DIR *opened = opendir(path);
    cr_assert_not_null(opened, "%s", path);
    for (const struct dirent *entry; (entry = readdir(opened)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(opened);
    return count;
}

// A limit on the size of files simulates a full disk: with room for no rank's file, for some, for all but one. An
// asynchronous save of step 4 ends the run when the next one is due at the latest.
static void fill_the_disk(bool async)
{
    uint64_t reported = 0;
    struct trial trial = {.stage = 2,
                          .world = 3,
                          .steps = 2,
                          .every = async ? 2 : 0,
                          .async = async,
                          .checkpoint = folder,
                          .progress = report_step,
                          .progress_context = &reported};
    trial_pass(&trial);
    rlim_t least = RLIM_INFINITY, most = 0;
    for (int rank = 0; rank < 3; rank++) {
        char name[64];
        struct stat status;
        snprintf(name, sizeof name, "step-00000002/rank-%d.safetensors", rank);
        cr_assert_eq(stat(in_folder(name), &status), 0);
        least = (rlim_t)status.st_size < least ? (rlim_t)status.st_size : least;
        most = (rlim_t)status.st_size > most ? (rlim_t)status.st_size : most;
    }
    cr_assert_lt(least, most);
    const rlim_t rooms[] = {0, 100, least, most - 1};
    signal(SIGXFSZ, SIG_IGN);
    trial.steps = async ? 9 : 4;
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        struct rlimit limit;
        getrlimit(RLIMIT_FSIZE, &limit);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){rooms[i], limit.rlim_max});
        struct train_result result;
        int rc = trial_run(&trial, &result, NULL);
        setrlimit(RLIMIT_FSIZE, &limit);
        cr_assert_eq(rc, ERR_IO, "room for %d: %s", (int)rooms[i], err_message());
        cr_assert_not_null(strstr(err_message(), in_folder("step-00000004.partial/rank-")), "%s", err_message());
        cr_assert_not_null(strstr(err_message(), "those before it are unchanged"), "%s", err_message());
        cr_assert_eq(newest_sound(), 2);
        cr_assert_eq(entries(folder), 1, "what was not finished is gone");
        cr_assert(async ? reported >= 4 && reported <= 6 : reported == 4, "ended after step %d", (int)reported);
    }
    struct train_result resumed = trial_pass(&trial);
    trial.checkpoint = NULL;
    struct train_result whole = trial_pass(&trial);
    cr_assert_str_eq(resumed.digest, whole.digest);
}

Test(checkpoint_fault, a_full_disk_leaves_the_last_checkpoint)
{
    fill_the_disk(false);
}

Test(checkpoint_fault, a_full_disk_ends_a_run_with_asynchronous_saves)
{
    fill_the_disk(true);
}

Test(checkpoint_fault, only_the_leftovers_of_dead_runs_are_removed)
{
    static const char *const left[] = {"step-00000007.partial", "step-00000001.replaced"};
    static const char *const kept[] = {"step-7.partial", "my-step-00000007.partial", "step-00000009", "notes"};
    for (int i = 0; i < 2; i++) {
        mkdir(in_folder(left[i]), 0777);
        char name[64];
        snprintf(name, sizeof name, "%s/rank-0.safetensors", left[i]);
        folder_write(in_folder(name), "x", 1);
    }
    for (int i = 0; i < 4; i++)
        mkdir(in_folder(kept[i]), 0777);
    struct trial trial = {.stage = 1, .world = 2, .steps = 7, .every = 1, .save = folder};
    trial_pass(&trial);
    for (int i = 0; i < 2; i++)
        cr_assert_neq(access(in_folder(left[i]), F_OK), 0, "%s", left[i]);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(access(in_folder(kept[i]), F_OK), 0, "%s", kept[i]);
    char notes[NOTES_BYTES];
    struct train_result result;
    trial.save = NULL;
    trial.resume = folder;
    trial.steps = 8;
    cr_assert_eq(trial_run(&trial, &result, notes), ERR_NONE, "%s", err_message());
    cr_assert_not_null(strstr(notes, "step-00000009 is not complete: "), "%s", notes);
    cr_assert_eq(result.resumed_step, 7);
    // A run that reaches this step replaces it.
    trial.resume = NULL;
    trial.checkpoint = folder;
    trial.steps = 9;
    trial_pass(&trial);
    cr_assert_eq(newest_sound(), 9);
}

// Loads the whole state of a checkpoint into one array; NULL if it is refused.
static float *load_everything(const char *path, size_t *count)
{
    struct checkpoint *checkpoint;
    *count = 0;
    if (checkpoint_open_folder(path, &checkpoint) != ERR_NONE)
        return NULL;
    const struct manifest *m = checkpoint_manifest(checkpoint);
    bool sound = checkpoint_check_digests(checkpoint) == ERR_NONE;
    float *all = sound ? calloc(1 << 16, sizeof *all) : NULL;
    for (size_t i = 0; sound && i < m->param_count; i++)
        for (int state = 0; state < manifest_state_count(m->params[i].frozen, m->waiting); state++) {
            cr_assert_eq(checkpoint_read(checkpoint, state, i, 0, m->params[i].count, all + *count), ERR_NONE);
            *count += m->params[i].count;
        }
    if (sound) {
        all[(*count)++] = (float)m->step;
        all[(*count)++] = (float)m->scaler.scale;
        all[(*count)++] = m->recipe_states[0].beta1_power;
    }
    checkpoint_close(checkpoint);
    return all;
}

static char *small_checkpoint(size_t *count, float **state)
{
    char *path = strdup(trial_save_small());
    *state = load_everything(path, count);
    cr_assert_not_null(*state, "%s", err_message());
    cr_assert_eq(*count, 3 * 3 + 3);
    return path;
}

static const char *const files[] = {"manifest.json", "rank-0.safetensors", "rank-1.safetensors"};

static void demand_refused(const char *path, const char *file)
{
    struct checkpoint *checkpoint;
    int rc = checkpoint_open_folder(path, &checkpoint);
    if (rc == ERR_NONE) {
        rc = checkpoint_check_digests(checkpoint);
        checkpoint_close(checkpoint);
    }
    cr_assert(rc == ERR_USAGE || rc == ERR_IO, "%s: %d", file, rc);
    cr_assert_not_null(strstr(err_message(), file), "%s: %s", file, err_message());
}

Test(checkpoint_fault, a_file_cut_off_at_any_byte_is_refused)
{
    size_t count, bytes;
    float *state;
    char *path = small_checkpoint(&count, &state), file[PATH_MAX + 300];
    for (int f = 0; f < 3; f++) {
        snprintf(file, sizeof file, "%s/%s", path, files[f]);
        char *data = folder_read(file, &bytes);
        for (size_t length = 0; length < bytes; length++) {
            folder_write(file, data, length);
            demand_refused(path, files[f]);
        }
        data[bytes] = ' ';
        folder_write(file, data, bytes + 1);
        if (f > 0)  // a manifest may end with blanks
            demand_refused(path, files[f]);
        unlink(file);
        demand_refused(path, files[f]);
        folder_write(file, data, bytes);
        free(data);
    }
    free(state), free(path);
}

Test(checkpoint_fault, a_byte_changed_anywhere_is_refused_or_harmless)
{
    size_t count, again, bytes;
    float *state;
    int harmless = 0, refused = 0;
    unsigned random = 7;
    char *path = small_checkpoint(&count, &state), file[PATH_MAX + 300];
    for (int f = 0; f < 3; f++) {
        snprintf(file, sizeof file, "%s/%s", path, files[f]);
        char *data = folder_read(file, &bytes);
        for (size_t i = 0; i < bytes; i++) {
            char was = data[i];
            data[i] = (char)(was ^ (1 + rand_r(&random) % 255));
            folder_write(file, data, bytes);
            float *loaded = load_everything(path, &again);
            data[i] = was;
            refused += !loaded;
            harmless += loaded != NULL;
            if (loaded)
                cr_assert(again == count && memcmp(loaded, state, count * sizeof *state) == 0, "%s, byte %zu", files[f],
                          i);
            else
                cr_assert_not_null(strstr(err_message(), files[f]), "%s, byte %zu: %s", files[f], i, err_message());
            free(loaded);
        }
        folder_write(file, data, bytes);
        free(data);
    }
    cr_assert_gt(refused, 1000);
    cr_assert_lt(harmless, 100, "%d", harmless);  // blanks between the manifest's words
    free(state), free(path);
}

Test(checkpoint_fault, files_of_other_ranks_and_steps_are_refused)
{
    struct trial trial = {.stage = 2, .world = 2, .steps = 4, .every = 2, .save = folder};
    trial_pass(&trial);
    const char *path = in_folder("step-00000004");
    size_t bytes[3], old_bytes[3];
    char *new[3], *old[3], file[PATH_MAX + 400];
    for (int f = 0; f < 3; f++) {
        snprintf(file, sizeof file, "%s/%s", path, files[f]);
        new[f] = folder_read(file, &bytes[f]);
        snprintf(file, sizeof file, "%s/step-00000002/%s", folder, files[f]);
        old[f] = folder_read(file, &old_bytes[f]);
    }
    for (int f = 0; f < 3; f++) {
        snprintf(file, sizeof file, "%s/%s", path, files[f]);
        folder_write(file, old[f], old_bytes[f]);
        demand_refused(path, f == 0 ? "rank-0" : files[f]);
        folder_write(file, f == 1 ? new[2] : new[1], bytes[f == 1 ? 2 : 1]);
        demand_refused(path, files[f]);
        folder_write(file, new[f], bytes[f]);
    }
    // The run ends with the same error whichever rank of whichever world checks the damaged file.
    struct trial then = {.stage = 2, .steps = 5, .resume = folder};
    struct train_result result;
    for (int f = 1; f < 3; f++) {
        snprintf(file, sizeof file, "%s/%s", path, files[f]);
        new[f][bytes[f] - 3] ^= 1;
        folder_write(file, new[f], bytes[f]);
        for (then.world = 1; then.world <= 3; then.world++) {
            cr_assert_eq(trial_run(&then, &result, NULL), ERR_USAGE, "%s, %d ranks", files[f], then.world);
            cr_assert_not_null(strstr(err_message(), files[f]), "%s", err_message());
            cr_assert_not_null(strstr(err_message(), "is damaged"), "%s", err_message());
        }
        new[f][bytes[f] - 3] ^= 1;
        folder_write(file, new[f], bytes[f]);
    }
    then.world = 2;
    then.resume = in_folder("step-00000002");
    cr_assert_eq(trial_pass(&then).resumed_step, 2);
    for (int f = 0; f < 3; f++)
        free(new[f]), free(old[f]);
}

Test(checkpoint_fault, a_folder_without_a_complete_checkpoint_is_refused)
{
    struct trial trial = {.stage = 1, .world = 2, .steps = 2, .checkpoint = folder};
    trial_pass(&trial);
    unlink(in_folder("step-00000002/manifest.json"));
    struct train_result result;
    cr_assert_eq(trial_run(&trial, &result, NULL), ERR_USAGE);
    cr_assert_not_null(strstr(err_message(), "none of its checkpoints is complete"), "%s", err_message());
}
