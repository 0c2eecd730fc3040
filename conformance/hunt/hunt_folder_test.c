// SPDX-License-Identifier: Apache-2.0
// Folders of cases: what is written is read again; what is not a case is refused with the name of the file.
#include "conformance/hunt/hunt_folder.h"
#include "base/err.h"
#include "base/file.h"
#include "base/folder_test.h"
#include "conformance/cases/case_mesh.h"
#include "conformance/hunt/hunt_mesh.h"
#include "conformance/suite/suite.h"
#include "ref/checkpoint/safetensors.h"

#include <math.h>
#include <string.h>

static char folder[PATH_MAX];
static struct hunt_case h;  // that a test draws

static void setup(void)
{
    folder_make(folder);
}

static void teardown(void)
{
    folder_remove(folder);
    hunt_case_close(&h);
}

TestSuite(hunt_folder, .init = setup, .fini = teardown);

// Draws until a case is whole, or resumes with another number of ranks.
static void draw(bool reshards)
{
    for (uint64_t number = 0;; number++) {
        struct check_case parts[2];
        int count = hunt_draw(2, number, 0, parts);
        bool other = count == 2 && parts[0].world != parts[1].world;
        if (reshards ? other : count == 1) {
            cr_assert_eq(hunt_case_open(&parts[0], count == 2 ? &parts[1] : NULL, &h), ERR_NONE);
            return;
        }
    }
}

static void write_one(void)
{
    cr_assert_eq(hunt_folder_write(&h, 1, folder), ERR_NONE, "%s", err_message());
}

static void same_numbers(const struct hunt_case *a, const struct hunt_case *b, int part)
{
    const struct check_case *c = a->parts[part];
    for (int i = 0; i < c->param_count; i++) {
        size_t bytes = c->params[i].count * sizeof(float);
        if (case_initial(a->values[part], i))
            cr_assert_arr_eq(case_initial(a->values[part], i), case_initial(b->values[part], i), bytes);
        for (int step = 1; step <= case_last_step(c); step++)
            for (int micro = 0; micro < c->accumulation; micro++)
                for (int rank = 0; rank < c->world; rank++) {
                    const float *from = case_gradient(a->values[part], step, micro, rank, i);
                    const float *to = case_gradient(b->values[part], step, micro, rank, i);
                    cr_assert_eq(from == NULL, to == NULL);
                    if (from)
                        cr_assert_arr_eq(from, to, bytes, "step %d, rank %d", step, rank);
                }
    }
}

static void same_as_written(bool reshards)
{
    struct hunt_cases read;
    draw(reshards);
    write_one();
    cr_assert_eq(hunt_folder_read(folder, &read), ERR_NONE, "%s", err_message());
    cr_assert_eq(read.count, 1);
    cr_assert_eq(read.list[0].part_count, h.part_count);
    for (int part = 0; part < h.part_count; part++) {
        char *a, *b;
        size_t a_bytes, b_bytes;
        cr_assert_eq(case_text(h.parts[part], &a, &a_bytes), ERR_NONE);
        cr_assert_eq(case_text(read.list[0].parts[part], &b, &b_bytes), ERR_NONE);
        cr_assert_str_eq(a, b);
        free(a);
        free(b);
        same_numbers(&h, &read.list[0], part);
    }
    hunt_cases_close(&read);
}

Test(hunt_folder, what_is_written_is_read_again)
{
    same_as_written(false);
}

Test(hunt_folder, both_halves_are_read_and_know_the_steps_before_the_checkpoint)
{
    same_as_written(true);
}

struct meshes {
    struct hunt_case list[64];
    int count;
};

// Keeps the exact chapters' cases of the suite: cut, shared, owned by experts, on stages.
static int keep_mesh(void *context, const struct check_case *c)
{
    struct meshes *meshes = context;
    if (!case_has_mesh(c) || !strstr(c->name, "-exact.") || meshes->count == 64)
        return ERR_NONE;
    cr_assert_eq(hunt_case_open(c, NULL, &meshes->list[meshes->count]), ERR_NONE, "%s", err_message());
    meshes->count++;
    return ERR_NONE;
}

Test(hunt_folder, cases_on_meshes_are_read_and_found_exact)
{
    static struct meshes meshes;
    struct hunt_cases read;
    cr_assert_eq(suite_cases(&(struct suite_choice){.level = LEVEL_QUICK}, keep_mesh, &meshes), ERR_NONE);
    cr_assert_gt(meshes.count, 20);
    cr_assert_eq(hunt_folder_write(meshes.list, meshes.count, folder), ERR_NONE, "%s", err_message());
    cr_assert_eq(hunt_folder_read(folder, &read), ERR_NONE, "%s", err_message());
    cr_assert_eq(read.count, meshes.count);
    for (int i = 0; i < read.count; i++) {
        cr_expect_str_eq(read.list[i].parts[0]->name, meshes.list[i].parts[0]->name);
        cr_expect(read.list[i].parts[0]->exact, "%s", read.list[i].parts[0]->name);
        hunt_case_close(&meshes.list[i]);
    }
    hunt_cases_close(&read);
}

static void in_case(const char *name, char out[PATH_MAX])
{
    char own[PATH_MAX];
    cr_assert_eq(file_join(folder, h.parts[0]->name, own), ERR_NONE);
    cr_assert_eq(file_join(own, name, out), ERR_NONE);
}

static void is_refused(const char *path, const char *because)
{
    struct hunt_cases read;
    cr_assert_eq(hunt_folder_read(path, &read), ERR_USAGE, "%s", err_message());
    cr_assert_not_null(strstr(err_message(), because), "no \"%s\" in: %s", because, err_message());
    cr_assert_eq(read.count, 0);
}

Test(hunt_folder, a_case_alone_may_have_any_folder)
{
    struct hunt_cases read;
    char path[PATH_MAX], other[PATH_MAX];
    draw(false);
    write_one();
    cr_assert_eq(file_join(folder, h.parts[0]->name, path), ERR_NONE);
    cr_assert_eq(file_join(folder, "mine", other), ERR_NONE);
    cr_assert_eq(rename(path, other), 0);
    cr_assert_eq(hunt_folder_read(other, &read), ERR_NONE, "%s", err_message());
    cr_assert_eq(read.count, 1);
    hunt_cases_close(&read);
    is_refused(folder, "cannot be opened");  // order.json still names the old folder
}

Test(hunt_folder, exact_and_requirements_are_not_believed)
{
    struct hunt_cases read;
    draw(false);
    h.parts[0]->exact = !h.parts[0]->exact;
    write_one();
    cr_assert_eq(hunt_folder_read(folder, &read), ERR_NONE, "%s", err_message());
    cr_assert_neq(read.list[0].parts[0]->exact, h.parts[0]->exact);
    hunt_cases_close(&read);
}

Test(hunt_folder, a_case_that_is_listed_twice_is_refused)
{
    char path[PATH_MAX], twice[2 * CASE_NAME_BYTES + 16];
    draw(false);
    write_one();
    const char *name = h.parts[0]->name;
    int length = snprintf(twice, sizeof twice, "[\"%s\", \"%s\"]", name, name);
    cr_assert_eq(file_join(folder, "order.json", path), ERR_NONE);
    folder_write(path, twice, (size_t)length);
    is_refused(folder, "twice");
}

Test(hunt_folder, what_is_missing_or_torn_is_named)
{
    char path[PATH_MAX];
    is_refused("/nowhere/at/all", "/nowhere/at/all");
    is_refused(folder, "has neither case.json");
    draw(false);
    write_one();
    in_case("grads-2.safetensors", path);
    cr_assert_eq(truncate(path, 40), 0);
    is_refused(folder, "grads-2.safetensors");
    cr_assert_eq(remove(path), 0);
    is_refused(folder, "grads-2.safetensors");
    in_case("init.safetensors", path);
    cr_assert_eq(remove(path), 0);
    cr_assert_eq(symlink("/dev/zero", path), 0);
    is_refused(folder, "init.safetensors");
    in_case("case.json", path);
    folder_write(path, "{}", 2);
    is_refused(folder, "case.json");
}

static void write_initial(enum safetensors_type type, uint64_t count, const void *data, size_t bytes)
{
    char path[PATH_MAX];
    struct safetensors_tensor tensor = {
        .name = h.parts[0]->params[0].name, .type = type, .shape_rank = 1, .shape = {count}};
    struct safetensors_writer *writer;
    in_case("init.safetensors", path);
    remove(path);
    cr_assert_eq(safetensors_create(path, &tensor, 1, NULL, &writer), ERR_NONE);
    cr_assert_eq(safetensors_write(writer, data, bytes), ERR_NONE);
    cr_assert_eq(safetensors_finish(writer, NULL, NULL), ERR_NONE);
}

Test(hunt_folder, numbers_that_are_no_initial_parameters_are_refused)
{
    draw(false);
    struct check_case c = *h.parts[0];
    c.param_count = c.group_count = 1;
    c.params[0] = (struct case_param){.shape = {2}, .shape_rank = 1, .count = 2, .used = true, .tied_to = -1};
    snprintf(c.params[0].name, sizeof c.params[0].name, "w");
    c.precision = c.communication_dtype = c.accumulation_dtype = DTYPE_BF16;
    c.loss_scale.kind = SCALE_NONE;
    c.data.poke_count = 0;
    hunt_case_close(&h);
    cr_assert_eq(hunt_case_open(&c, NULL, &h), ERR_NONE);
    write_one();
    const float fine[] = {1, -2}, narrow[] = {1, 1.001f}, endless[] = {1, INFINITY};
    struct hunt_cases read;
    write_initial(TENSOR_FP32, 2, fine, sizeof fine);
    cr_assert_eq(hunt_folder_read(folder, &read), ERR_NONE, "%s", err_message());
    hunt_cases_close(&read);
    write_initial(TENSOR_FP32, 2, narrow, sizeof narrow);
    is_refused(folder, "element 1 of \"w\" is 1.00100005, expected a finite number that bf16 represents");
    write_initial(TENSOR_FP32, 2, endless, sizeof endless);
    is_refused(folder, "element 1 of \"w\" is inf");
    write_initial(TENSOR_FP32, 1, fine, sizeof *fine);
    is_refused(folder, "has another type or shape");
    write_initial(TENSOR_I64, 2, "0123456789abcdef", 16);
    is_refused(folder, "has another type or shape");
}

Test(hunt_folder, halves_belong_together)
{
    char path[PATH_MAX], save[PATH_MAX];
    draw(true);
    write_one();
    cr_assert_eq(file_join(folder, h.parts[1]->name, path), ERR_NONE);
    is_refused(path, "is half of a case");
    cr_assert_eq(file_join(folder, h.parts[0]->name, save), ERR_NONE);
    folder_remove(path);
    is_refused(save, ".resume");
    h.parts[1]->param_count--;
    cr_assert_eq(case_write(h.parts[1], h.values[1], folder), ERR_NONE);
    is_refused(save, "is not the resuming half of");
    h.parts[1]->param_count++;
    folder_remove(path);
    int group = h.parts[1]->params[0].group;
    h.parts[1]->params[0].group = group > 0 ? 0 : h.parts[1]->group_count++;
    h.parts[1]->groups[h.parts[1]->group_count - 1] = h.parts[1]->groups[0];
    cr_assert_eq(case_write(h.parts[1], h.values[1], folder), ERR_NONE, "%s", err_message());
    is_refused(save, "is not the resuming half of");
}

Test(hunt_folder, halves_have_one_name)
{
    char path[PATH_MAX], json[PATH_MAX], text[512], *written;
    draw(true);
    write_one();
    cr_assert_eq(file_join(folder, h.parts[1]->name, path), ERR_NONE);
    cr_assert_eq(file_join(path, "case.json", json), ERR_NONE);
    snprintf(h.parts[1]->name, sizeof h.parts[1]->name, "another.resume");
    size_t bytes;
    cr_assert_eq(case_text(h.parts[1], &written, &bytes), ERR_NONE);
    folder_write(json, written, bytes);
    free(written);
    snprintf(text, sizeof text, "name: is \"another.resume\", and that of the saving half \"%s\"", h.parts[0]->name);
    cr_assert_eq(file_join(folder, h.parts[0]->name, path), ERR_NONE);
    is_refused(path, text);
}
