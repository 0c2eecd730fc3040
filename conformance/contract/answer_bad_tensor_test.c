// SPDX-License-Identifier: Apache-2.0
// Answers with missing, surplus or wrong tensors: each is refused with the file, the tensor and the reason.
#include "conformance/contract/answer_bad_test.h"

#include <math.h>

Test(answer_bad, every_missing_tensor_is_named)
{
    static const char *const names[] = {"param/layer.0.weight",
                                        "param/scalar",
                                        "param/empty",
                                        "param/frozen",
                                        "param/unused",
                                        "exp_avg/layer.0.weight",
                                        "exp_avg_sq/scalar",
                                        "exp_avg/empty",
                                        "t",
                                        "skipped",
                                        "loss_scale",
                                        "grad/scalar"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        restore("step-1.safetensors");
        load("step-1.safetensors");
        drop(find(names[i]));
        save("step-1.safetensors");
        expect_refused("step-1.safetensors", names[i]);
        expect_refused("step-1.safetensors", "is missing");
    }
    load("rank-1/step-2.safetensors");
    drop(find("m1/head"));
    save("rank-1/step-2.safetensors");
    restore("step-1.safetensors");
    expect_refused("rank-1/step-2.safetensors", "m1/head");
}

Test(answer_bad, of_the_moments_of_an_unused_parameter_both_are_there_or_neither)
{
    load("step-3.safetensors");
    drop(find("exp_avg_sq/unused"));
    save("step-3.safetensors");
    expect_refused("step-3.safetensors", "\"exp_avg/unused\" and \"exp_avg_sq/unused\" one is missing");
}

Test(answer_bad, surplus_tensors_are_named)
{
    static const char none[] = "does not belong there: the case has no such tensor",
                      tied[] = "\": head is tied: its states have the name of layer.0.weight",
                      frozen[] = "\": frozen is frozen: it has no moments and no gradient";
    static const struct {
        const char *name, *why;
    } rows[] = {{"param/head", tied},
                {"exp_avg/frozen", frozen},
                {"grad/head", tied},
                {"param/../x", none},
                {"x", none},
                {"param/", none},
                {"loss", none},
                {"m0/scalar", none},
                {"exp_avg/layer.0.weight ", none},
                {"grad/frozen", frozen}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        load("step-3.safetensors");
        size_t at = tensors.count++;
        tensors.list[at] = (struct safetensors_tensor){.name = rows[i].name, .type = TENSOR_FP32, .count = 1};
        tensors.data[at] = calloc(1, 8);
        save("step-3.safetensors");
        char quoted[128];
        snprintf(quoted, sizeof quoted, "\"%s\"", rows[i].name);
        expect_refused("step-3.safetensors", quoted);
        expect_refused("step-3.safetensors", rows[i].why);
        restore("step-3.safetensors");
    }
    expect_good();
    load("rank-0/step-1.safetensors");
    snprintf(tensors.names[find("m1/scalar")], 200, "m2/scalar");
    save("rank-0/step-1.safetensors");
    expect_refused("rank-0/step-1.safetensors", "\"m2/scalar\" does not belong there");
}

Test(answer_bad, wrong_dtypes_are_named)
{
    static const struct {
        const char *file, *tensor;
        enum safetensors_type type;
        const char *why;
    } rows[] = {
        {"step-1.safetensors", "param/layer.0.weight", TENSOR_BF16, "is of dtype BF16; expected F32"},
        {"step-1.safetensors", "exp_avg/scalar", TENSOR_FP64, "is of dtype F64; expected F32"},
        {"step-1.safetensors", "t", TENSOR_FP32, "is of dtype F32; expected I64"},
        {"step-1.safetensors", "skipped", TENSOR_BOOL, "is of dtype BOOL; expected I64"},
        {"step-1.safetensors", "loss_scale", TENSOR_I64, "is of dtype I64; expected F32 or F64"},
        {"step-1.safetensors", "norm", TENSOR_FP16, "is of dtype F16; expected F32 or F64"},
        {"step-1.safetensors", "param/empty", TENSOR_U8, "is of dtype U8; expected F32"},
        {"rank-1/step-3.safetensors", "m0/head", TENSOR_BF16, "is of dtype BF16; expected F16"},
        {"rank-1/step-3.safetensors", "m1/scalar", TENSOR_FP32, "is of dtype F32; expected F16"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        load(rows[i].file);
        tensors.list[find(rows[i].tensor)].type = rows[i].type;
        save(rows[i].file);
        expect_refused(rows[i].file, rows[i].tensor);
        expect_refused(rows[i].file, rows[i].why);
        restore(rows[i].file);
    }
    expect_good();
}

Test(answer_bad, wrong_shapes_are_named)
{
    static const struct {
        const char *tensor;
        int shape_rank;
        uint64_t shape[3];
        const char *why;
    } rows[] = {
        {"param/layer.0.weight", 2, {7, 5}, "is of shape [7, 5]; expected [5, 7]"},
        {"param/layer.0.weight", 1, {35}, "is of shape [35]; expected [5, 7]"},
        {"exp_avg/layer.0.weight", 2, {5, 6}, "is of shape [5, 6]; expected [5, 7]"},
        {"exp_avg_sq/scalar", 1, {1}, "is of shape [1]; expected []"},
        {"param/empty", 2, {3, 0}, "is of shape [3, 0]; expected [0, 3]"},
        {"param/empty", 3, {0, 3, 1}, "is of shape [0, 3, 1]; expected [0, 3]"},
        {"t", 1, {1}, "is of shape [1]; expected []"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        load("step-1.safetensors");
        struct safetensors_tensor *tensor = &tensors.list[find(rows[i].tensor)];
        tensor->shape_rank = rows[i].shape_rank;
        memcpy(tensor->shape, rows[i].shape, sizeof rows[i].shape);
        save("step-1.safetensors");
        expect_refused("step-1.safetensors", rows[i].tensor);
        expect_refused("step-1.safetensors", rows[i].why);
        restore("step-1.safetensors");
    }
    expect_good();
}

Test(answer_bad, scalars_out_of_range_are_refused)
{
    static const char *const name = "step-3.safetensors";
    load(name), set_whole("t", -1), save(name);
    expect_refused(name, "\"t\" is -1");
    load(name), set_whole("t", INT64_MAX), save(name);
    expect_refused(name, "\"t\" is 9223372036854775807");
    load(name), set_whole("t", 4), set_whole("skipped", 2), save(name);
    expect_refused(name, "\"skipped\" is 2; expected 0 or 1");
    load(name), set_whole("skipped", 0), set_real("loss_scale", INFINITY), save(name);
    expect_refused(name, "\"loss_scale\" is not finite");
    load(name), set_real("loss_scale", NAN), save(name);
    expect_refused(name, "\"loss_scale\" is not finite");
    load(name), set_real("loss_scale", 0.5), set_real("norm", NAN), save(name);
    expect_good();
    load(name), set_whole("skipped", 1), save(name);
    expect_refused(name, "gradients of a skipped step");
    load(name);
    for (size_t i = tensors.count; i-- > 0;)
        if (strncmp(tensors.list[i].name, "grad/", 5) == 0)
            drop(i);
    save(name);
    expect_refused(name, "the norm of a skipped step");
}
