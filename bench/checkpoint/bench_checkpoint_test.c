// SPDX-License-Identifier: Apache-2.0
// `bench checkpoint`: an element that a load got wrong is found, in whatever world; what is not in the page cache is
// counted; fio moves the files' bytes; records name their cases, and nothing remains.
#include "bench/checkpoint/checkpoint_case.h"
#include "bench/harness/fio.h"
#include "bench/table/benchmarks.h"

#include "base/err.h"
#include "base/process/check_folder.h"
#include "bench/harness/printed_test.h"
#include "ref/model/names/model_find.h"
#include "ref/tier/storage_test.h"

#include <dirent.h>
#include <sys/stat.h>

static struct bench_storage storage;
static char folder[PATH_MAX], second_folder[PATH_MAX], store_path[PATH_MAX];
static const char *const folders[] = {folder, second_folder, NULL};
static struct store store;

static void setup(void)
{
    storage = (struct bench_storage){.paths = folders, .path_count = 2};
    snprintf(folder, sizeof folder, "%s/checkpoint-XXXXXX", storage_folder);
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(file_join(folder, "second", second_folder), ERR_NONE);
    cr_assert_eq(file_join(folder, "store", store_path), ERR_NONE);
    cr_assert_eq(mkdir(second_folder, 0777), 0);
}

static void teardown(void)
{
    check_folder_remove(folder);
}

TestSuite(bench_checkpoint, .init = setup, .fini = teardown);

static void open_ranks(int world, bool on_nvme, struct checkpoint_ranks *out)
{
    struct checkpoint_ranks_setting setting = {.world = world, .on_nvme = on_nvme, .storage = &storage};
    cr_assert_eq(model_find("gpt-nano", &setting.model), ERR_NONE);
    cr_assert_eq(checkpoint_ranks_open(&setting, out), ERR_NONE, "%s", err_message());
}

static void save(int world, bool on_nvme)
{
    struct checkpoint_ranks ranks;
    open_ranks(world, on_nvme, &ranks);
    cr_assert_eq(store_open(store_path, &store), ERR_NONE, "%s", err_message());
    cr_assert_eq(checkpoint_ranks_fill(&ranks), ERR_NONE, "%s", err_message());
    cr_assert_eq(checkpoint_ranks_save(&ranks, &store, 1), ERR_NONE, "%s", err_message());
    store_close(&store);
    checkpoint_ranks_close(&ranks);
}

static void expect_load(int world, bool on_nvme)
{
    struct checkpoint_ranks ranks;
    open_ranks(world, on_nvme, &ranks);
    cr_assert_eq(checkpoint_ranks_clear(&ranks), ERR_NONE);
    cr_expect_eq(checkpoint_ranks_compare(&ranks), ERR_CHECK, "zeros are no values");
    cr_assert_eq(checkpoint_ranks_load(&ranks, store_path), ERR_NONE, "%s", err_message());
    cr_expect_eq(checkpoint_ranks_compare(&ranks), ERR_NONE, "%d ranks: %s", world, err_message());
    checkpoint_ranks_close(&ranks);
}

Test(bench_checkpoint, every_world_loads_every_element_that_another_saved)
{
    for (int world = 1; world <= 3; world++) {
        save(world, false);
        for (int other = 1; other <= 3; other++)
            expect_load(other, false);
        cr_assert_eq(store_open(store_path, &store), ERR_NONE);
        cr_assert_eq(store_retire(store_path, 1), ERR_NONE, "%s", err_message());
        store_close(&store);
    }
}

Test(bench_checkpoint, states_that_are_striped_over_folders_are_saved_and_loaded)
{
    save(2, true);
    expect_load(2, true);
    expect_load(1, false);
}

Test(bench_checkpoint, a_load_from_another_checkpoint_is_found)
{
    struct checkpoint_ranks ranks;
    open_ranks(2, false, &ranks);
    cr_assert_eq(store_open(store_path, &store), ERR_NONE, "%s", err_message());
    cr_assert_eq(checkpoint_ranks_save(&ranks, &store, 1), ERR_NONE, "%s", err_message());
    store_close(&store);
    cr_assert_eq(checkpoint_ranks_fill(&ranks), ERR_NONE);
    cr_assert_eq(checkpoint_ranks_compare(&ranks), ERR_NONE, "%s", err_message());
    cr_assert_eq(checkpoint_ranks_load(&ranks, store_path), ERR_NONE, "%s", err_message());
    cr_expect_eq(checkpoint_ranks_compare(&ranks), ERR_CHECK);
    cr_expect(strstr(err_message(), "parameter of "), "%s", err_message());
    checkpoint_ranks_close(&ranks);
}

Test(bench_checkpoint, an_asynchronous_save_has_the_states_of_its_begin)
{
    struct checkpoint_ranks ranks;
    uint64_t bytes;
    open_ranks(3, false, &ranks);
    cr_assert_eq(store_open(store_path, &store), ERR_NONE, "%s", err_message());
    cr_assert_eq(checkpoint_ranks_prepare_save(&ranks, &bytes), ERR_NONE, "%s", err_message());
    cr_expect_geq(bytes, STATE_COUNT * sizeof(float) * model_param_elements(ranks.setting.model, false));
    for (uint64_t step = 1; step <= 2; step++) {
        cr_assert_eq(checkpoint_ranks_fill(&ranks), ERR_NONE, "%s", err_message());
        cr_assert_eq(checkpoint_ranks_begin_save(&ranks, &store, step), ERR_NONE, "%s", err_message());
        cr_assert_eq(checkpoint_ranks_clear(&ranks), ERR_NONE);
        cr_assert_eq(checkpoint_ranks_end_save(&ranks), ERR_NONE, "%s", err_message());
        cr_assert_eq(checkpoint_ranks_copy(&ranks), ERR_NONE);
        cr_assert_eq(checkpoint_ranks_load(&ranks, store_path), ERR_NONE, "%s", err_message());
        cr_expect_eq(checkpoint_ranks_compare(&ranks), ERR_NONE, "step %d: %s", (int)step, err_message());
    }
    store_close(&store);
    checkpoint_ranks_close(&ranks);
}

Test(bench_checkpoint, the_rank_files_are_counted_dropped_and_read_by_fio)
{
    struct checkpoint_files files;
    uint64_t resident_bytes;
    char version[FIO_VERSION_BYTES];
    double bytes_per_ns;
    struct stat status;
    save(2, false);
    cr_assert_eq(checkpoint_files_open(store_path, &files), ERR_NONE, "%s", err_message());
    cr_assert_eq(files.count, 2);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(stat(files.files[i].path, &status), 0);
        cr_expect_eq(files.files[i].bytes, (uint64_t)status.st_size);
    }
    cr_expect_eq(files.total_bytes, files.files[0].bytes + files.files[1].bytes);
    cr_assert_eq(checkpoint_files_drop(&files, &resident_bytes), ERR_NONE, "%s", err_message());
    cr_expect_eq(resident_bytes, 0);
    if (fio_version(version) == ERR_NONE) {
        cr_assert_eq(checkpoint_files_fio_read(&files, &bytes_per_ns), ERR_NONE, "%s", err_message());
        cr_expect_gt(bytes_per_ns, 0);
        cr_assert_eq(checkpoint_files_fio_write(&files, folder, &bytes_per_ns), ERR_NONE, "%s", err_message());
        char path[PATH_MAX + 8];
        snprintf(path, sizeof path, "%s/fio-1", folder);
        cr_assert_eq(stat(path, &status), 0);
        cr_expect_eq((uint64_t)status.st_size, files.files[1].bytes, "fio writes as many bytes");
        unlink(files.files[0].path);
        cr_expect_neq(checkpoint_files_fio_read(&files, &bytes_per_ns), ERR_NONE, "there is nothing to read");
    }
    checkpoint_files_close(&files);
}

static void open_large(int world, struct checkpoint_ranks *out)
{
    struct checkpoint_ranks_setting setting = {.world = world, .storage = &storage};
    cr_assert_eq(model_find("gpt:layers=1,width=512,heads=8", &setting.model), ERR_NONE, "%s", err_message());
    cr_assert_eq(checkpoint_ranks_open(&setting, out), ERR_NONE, "%s", err_message());
}

// Saves by two ranks.
static void save_large(struct checkpoint_files *files)
{
    struct checkpoint_ranks ranks;
    open_large(2, &ranks);
    cr_assert_eq(store_open(store_path, &store), ERR_NONE, "%s", err_message());
    cr_assert_eq(checkpoint_ranks_fill(&ranks), ERR_NONE, "%s", err_message());
    cr_assert_eq(checkpoint_ranks_save(&ranks, &store, 1), ERR_NONE, "%s", err_message());
    store_close(&store);
    checkpoint_ranks_close(&ranks);
    cr_assert_eq(checkpoint_files_open(store_path, files), ERR_NONE, "%s", err_message());
}

// Bytes that this process has read so far.
static double read_bytes(void)
{
    unsigned long long bytes = 0;
    FILE *file = fopen("/proc/self/io", "r");
    cr_assert(file && fscanf(file, "rchar: %llu", &bytes) == 1);
    fclose(file);
    return (double)bytes;
}

// Blocks at the borders of the ranks' elements are read by two.
Test(bench_checkpoint, a_load_by_any_world_reads_a_byte_once)
{
    static const double most[] = {0, 1.01, 1.01, 1.3};
    struct checkpoint_files files;
    struct checkpoint_ranks ranks;
    save_large(&files);
    for (int world = 1; world <= 3; world++) {
        open_large(world, &ranks);
        double before = read_bytes();
        cr_assert_eq(checkpoint_ranks_load(&ranks, store_path), ERR_NONE, "%s", err_message());
        double times = (read_bytes() - before) / (double)files.total_bytes;
        cr_expect(times >= 1 && times < most[world], "%d ranks: %.3f times", world, times);
        cr_expect_eq(checkpoint_ranks_compare(&ranks), ERR_NONE, "%d ranks: %s", world, err_message());
        checkpoint_ranks_close(&ranks);
    }
    checkpoint_files_close(&files);
}

Test(bench_checkpoint, a_byte_changed_amid_a_large_tensor_is_found)
{
    struct checkpoint_files files;
    struct checkpoint_ranks ranks;
    save_large(&files);
    FILE *file = fopen(files.files[1].path, "r+");
    cr_assert_not_null(file);
    for (long block = 30; block < 38; block++)
        for (int change = 0; change < 2; change++) {  // and back
            cr_assert_eq(fseek(file, block << 18, SEEK_SET), 0);
            int byte = fgetc(file);
            cr_assert_eq(fseek(file, -1, SEEK_CUR), 0);
            fputc(byte ^ 1, file);
            cr_assert_eq(fflush(file), 0);
            if (change == 1)
                continue;
            open_large(1, &ranks);
            cr_expect_eq(checkpoint_ranks_load(&ranks, store_path), ERR_USAGE, "block %ld", block);
            cr_expect(strstr(err_message(), "rank-1.safetensors: is damaged in its bytes "), "%s", err_message());
            checkpoint_ranks_close(&ranks);
        }
    open_large(1, &ranks);
    cr_expect_eq(checkpoint_ranks_load(&ranks, store_path), ERR_NONE, "%s", err_message());
    checkpoint_ranks_close(&ranks);
    fclose(file);
    checkpoint_files_close(&files);
}

static size_t entry_count(const char *path)
{
    size_t count = 0;
    DIR *entries = opendir(path);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count;
}

Test(bench_checkpoint, records_name_their_cases_and_nothing_remains)
{
    const char *const first[] = {"checkpoint", "--nvme-path", folder, "--nvme-path", second_folder, NULL};
    static const struct {
        const char *operation, *states;
        int world, saved_by;
    } saves[] = {{"save", "memory", 2, 2}, {"begin save", "memory", 2, 2}, {"save", "nvme", 2, 2}};
    size_t before = entry_count(folder), found = 0;
    char *text;
    int status = printed_run(bench_named, first, "--json --quick --repeat=1 --warmup=0 --model gpt-nano", &text);
    cr_assert_eq(status, 0, "%s", text);
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;) {
        json_t *record = json_loads(line, 0, NULL), *of_case = json_object_get(record, "case");
        cr_assert_not_null(of_case, "%s", line);
        for (size_t i = 0; i < sizeof saves / sizeof *saves; i++)
            found += strcmp(json_string_value(json_object_get(of_case, "operation")), saves[i].operation) == 0 &&
                     strcmp(json_string_value(json_object_get(of_case, "states")), saves[i].states) == 0 &&
                     json_integer_value(json_object_get(of_case, "world")) == saves[i].world &&
                     json_integer_value(json_object_get(of_case, "saved_by")) == saves[i].saved_by;
        cr_expect_geq(json_integer_value(json_object_get(json_object_get(record, "detail"), "bytes")), 10944 * 12);
        json_decref(record);
    }
    cr_expect_eq(found, sizeof saves / sizeof *saves, "%s", text);
    cr_expect_eq(entry_count(folder), before);
    free(text);
}
