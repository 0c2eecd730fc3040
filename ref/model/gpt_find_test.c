// SPDX-License-Identifier: Apache-2.0
#include "ref/model/gpt_find.h"

#include "ref/model/gpt_test.h"

#include <pthread.h>

static void cr_shape(const char *name, struct gpt_shape expected)
{
    const struct gpt_shape *shape = find(name)->shape;
    cr_assert(shape->block_count == expected.block_count && shape->width == expected.width &&
                  shape->head_count == expected.head_count && shape->sequence_length == expected.sequence_length &&
                  shape->vocabulary == expected.vocabulary && shape->tile_count == expected.tile_count,
              "%s", name);
}

Test(gpt_find, missing_sizes_come_from_the_base_model)
{
    cr_shape("gpt", (struct gpt_shape){4, 64, 4, 64, 256, .tile_count = 1, .product_blocks = 1});
    cr_shape("gpt:layers=24", (struct gpt_shape){24, 64, 4, 64, 256, .tile_count = 1, .product_blocks = 1});
    cr_shape("gpt:layers=24,width=512,heads=8,length=32,vocabulary=257",
             (struct gpt_shape){24, 512, 8, 32, 257, .tile_count = 1, .product_blocks = 1});
    cr_shape("gpt:vocabulary=300,tiles=8,heads=2",
             (struct gpt_shape){4, 64, 2, 64, 300, .tile_count = 8, .product_blocks = 1});
    cr_shape("gpt-nano:layers=3", (struct gpt_shape){3, 16, 2, 16, 256, .tile_count = 1, .product_blocks = 1});
    cr_shape("gpt2-124m:tiles=4", (struct gpt_shape){12, 768, 12, 1024, 50257, .tile_count = 4, .product_blocks = 1});
}

Test(gpt_find, equal_names_find_the_same_model)
{
    cr_assert_eq(find("gpt:layers=2"), find("gpt:layers=2"));
    cr_assert_neq(find("gpt:layers=2"), find("gpt:layers=3"));
    const struct model *tiled;
    cr_assert_eq(model_find_changed("gpt:layers=2", &(struct model_changes){.tiling_factor = 4}, &tiled), ERR_NONE);
    cr_assert_eq(tiled, find("gpt:layers=2,tiles=4"));
    cr_assert_eq(model_find_changed("gpt-tiny", &(struct model_changes){.tiling_factor = 2}, &tiled), ERR_NONE);
    cr_assert_eq(tiled, find("gpt-tiny:tiles=2"));
    cr_assert_eq(model_find_changed("linear", &(struct model_changes){.tiling_factor = 1}, &tiled), ERR_NONE);
    cr_assert_str_eq(tiled->name, "linear");
}

static void *finder(void *out)
{
    cr_assert_eq(model_find("gpt:layers=5,width=32", out), ERR_NONE);
    return NULL;
}

Test(gpt_find, concurrent_callers_find_one_model)
{
    pthread_t threads[4];
    const struct model *models[4];
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, finder, &models[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(models[i], models[0]);
    }
}

Test(gpt_find, experts_have_a_count_choices_and_a_capacity)
{
    const struct gpt_shape *mix = find("gpt:experts=4")->shape,
                           *full = find("gpt:experts=8,top=2,capacity=1.25")->shape;
    cr_expect(mix->experts.count == 4 && mix->experts.top == 1 && mix->experts.capacity_thousandths == 1000);
    cr_expect(full->experts.count == 8 && full->experts.top == 2 && full->experts.capacity_thousandths == 1250);
    cr_expect_eq(find("gpt:experts=8,top=2,capacity=1.25")->expert_count, 8);
    const struct gpt_shape *small = find("gpt:experts=4,capacity=0.7")->shape;
    cr_expect_eq(small->experts.capacity_thousandths, 700);
    cr_expect_eq(find("gpt")->expert_count, 0);
}

Test(gpt_find, a_bad_name_is_refused_with_its_error)
{
    cr_name_is_refused("gpt:", "unknown key ''");
    cr_name_is_refused("gpt:layers=2,", "unknown key ''");
    cr_name_is_refused("gpt:layers=2,,width=64", "unknown key ''");
    cr_name_is_refused("gpt:depth=3", "unknown key 'depth', expected KEY=NUMBER,... with keys of layers, width, heads");
    cr_name_is_refused("gpt:layer=3", "unknown key 'layer'");
    cr_name_is_refused("gpt:layers", "expected layers=NUMBER");
    cr_name_is_refused("gpt:layers=", "layers=: expected layers=NUMBER");
    cr_name_is_refused("gpt:layers=x", "layers=x: expected layers=NUMBER");
    cr_name_is_refused("gpt:layers=0", "expected layers=NUMBER, a whole number from 1");
    cr_name_is_refused("gpt:layers=-2", "expected layers=NUMBER");
    cr_name_is_refused("gpt:layers=+2", "expected layers=NUMBER");
    cr_name_is_refused("gpt:width= 64", "expected width=NUMBER");
    cr_name_is_refused("gpt:width=64k", "expected width=NUMBER");
    cr_name_is_refused("gpt:width=64.5", "expected width=NUMBER");
    cr_name_is_refused("gpt:width=99999999999999999999", "expected width=NUMBER");
    cr_name_is_refused("gpt:layers=2,width=64,layers=3", "layers is given twice");
    cr_name_is_refused("gpt:width=65", "multiple of the heads");
    cr_name_is_refused("gpt:layers=1001", "at most 1000 layers");
    cr_name_is_refused("gpt:width=1048576", "too large");
    cr_name_is_refused("gpt:vocabulary=65537", "vocabulary of at most 65536");
    cr_name_is_refused("gpt:tiles=3", "3 tiles: expected a divisor of 4 x width = 256");
    cr_name_is_refused("gpt:width=4096,tiles=2048", "2048 tiles");
    cr_name_is_refused("gpt:experts=0", "expected experts=NUMBER, a whole number from 1");
    cr_name_is_refused("gpt:experts=200", "at most 128 experts");
    cr_name_is_refused("gpt:experts=4,top=3", "top=1 or top=2");
    cr_name_is_refused("gpt:experts=1,top=2", "top=1 or top=2 of them");
    cr_name_is_refused("gpt:top=2", "has no experts that top, capacity and aux_loss could belong to");
    cr_name_is_refused("gpt:capacity=1.25", "has no experts");
    cr_name_is_refused("gpt:experts=4,capacity=", "expected capacity=FACTOR, from 0.001 to 128, such as 1.25");
    cr_name_is_refused("gpt:experts=4,capacity=0", "capacity=0: expected capacity=FACTOR");
    cr_name_is_refused("gpt:experts=4,capacity=1.2345", "expected capacity=FACTOR");
    cr_name_is_refused("gpt:experts=4,capacity=1.2.5", "expected capacity=FACTOR");
    cr_name_is_refused("gpt:experts=4,capacity=129", "expected capacity=FACTOR");
    cr_name_is_refused("gpt:experts=4,capacity=99999999999999999999", "expected capacity=FACTOR");
    cr_name_is_refused("gpt:experts=4,capacity=1,capacity=1", "capacity is given twice");
    cr_name_is_refused("gpt:aux_loss=0.01", "has no experts that top, capacity and aux_loss could belong to");
    cr_name_is_refused("gpt:experts=4,aux_loss=1.001", "expected aux_loss=FACTOR, from 0.001 to 1, such as 0.01");
    cr_name_is_refused("gpt:experts=4,aux_loss=0.01,aux_loss=0.01", "aux_loss is given twice");
    cr_name_is_refused("gpt:experts=4,tiles=2", "both experts and tiles");
    cr_name_is_refused("gpt:experts=4,rank=2,targets=c_proj", "the targets name mlp.c_proj");
    cr_name_is_refused("gpt:experts=4,rank=2,targets=all-linear", "the targets name mlp.c_fc");
    cr_name_is_refused("gpt-huge:layers=2", "unknown model \"gpt-huge:layers=2\"");
    cr_name_is_refused("gp:layers=2", "unknown model");
    cr_name_is_refused("linear:layers=2", "unknown key 'layers'");
    const struct model *model;
    cr_assert_eq(model_find_changed("linear", &(struct model_changes){.tiling_factor = 2}, &model), ERR_USAGE);
    cr_assert(strstr(err_message(), "linear has no large layers"), "%s", err_message());
    cr_assert_eq(model_find_changed("lineal", &(struct model_changes){.tiling_factor = 2}, &model), ERR_USAGE);
    cr_assert(strstr(err_message(), "unknown model \"lineal\""), "%s", err_message());
    cr_assert_eq(model_find_changed("gpt:tiles=2", &(struct model_changes){.tiling_factor = 4}, &model), ERR_USAGE);
    cr_assert(strstr(err_message(), "tiles is given twice"), "%s", err_message());
    char name[GPT_NAME_BYTES + 1] = "gpt:layers=";
    memset(name + strlen(name), '0', sizeof name - 1 - strlen(name));
    name[GPT_NAME_BYTES - 1] = '1';
    name[GPT_NAME_BYTES] = '\0';
    cr_name_is_refused(name, "too long");
    cr_assert_eq(model_find(name + 1, &model), ERR_USAGE);
    name[GPT_NAME_BYTES - 1] = '\0';
    name[GPT_NAME_BYTES - 2] = '1';
    cr_assert_eq(model_find(name, &model), ERR_NONE, "%s", err_message());
}

// Adapters leave the base as it is: no other key may be given with them.
Test(gpt_find, adapters_bring_no_other_key_and_no_invisible_character)
{
    static const struct {
        const char *name, *lora, *message;
    } cases[] = {
        {"gpt-tiny", "rank=8,layers=1", "unknown key 'layers', expected rank=NUMBER"},
        {"gpt-tiny", "layers=1", "unknown key 'layers'"},
        {"gpt-tiny", "tiles=2", "unknown key 'tiles'"},
        {"gpt-tiny", "rank=8,", "unknown key ''"},
        {"gpt-tiny", "alpha=8", "alpha needs rank=NUMBER"},
        {"gpt-tiny:rank=4", "rank=8", "rank is given twice"},
        {"linear", "rank=2,layers=1", "unknown key 'layers'"},
        {"gpt-tiny", "rank=8,targets=\x1b[31m", "unknown model \"gpt-tiny:rank=8,targets=\\x1b[31m\""},
        {"gpt-tiny:rank=8\n", "alpha=8", "unknown model \"gpt-tiny:rank=8\\x0a"},
        {"linear:\x07", "", "unknown model \"linear:\\x07\""},
    };
    const struct model *model;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(model_find_changed(cases[i].name, &(struct model_changes){.lora = cases[i].lora}, &model),
                     ERR_USAGE, "%s", cases[i].lora);
        cr_expect(strstr(err_message(), cases[i].message), "%s: %s", cases[i].lora, err_message());
    }
    const struct model_changes changes = {1, true, "alpha=4,rank=2"};
    cr_expect_eq(model_find_changed("gpt-tiny:blocks=2", &changes, &model), ERR_NONE, "%s", err_message());
    cr_expect_eq(model, find("gpt-tiny:blocks=2,sequence_parallel=1,alpha=4,rank=2"));
}
