// SPDX-License-Identifier: Apache-2.0
#include "plan/planner/plan_model.h"

#include "base/err.h"
#include "ref/model/gpt.h"
#include "ref/model/gpt_find.h"
#include "ref/model/linear.h"
#include "ref/model/llama/llama.h"
#include "plan/planner/plan_texts.h"
#include "plan/shape/hugging_face.h"
#include "base/strict_json.h"
#include "ref/model/names/model_find.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 160, SOURCE_BYTES = 512, PARAMETERS_BYTES = 32 };

// A model that was made, with its number of tiles. All are kept in a list.
struct made {
    struct made *next;
    char name[NAME_BYTES], source[SOURCE_BYTES], parameters[PARAMETERS_BYTES], notes[HUGGING_FACE_NOTES_BYTES];
    struct plan_model_variant variant;
    struct model *model;
    const char *dtype;  // as plan_model_dtype
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct made *made_models;

// Reads a key that only some shapes have.
static int read_other(const struct strict_object *object, const char *key, size_t high, size_t without, size_t *out)
{
    *out = without;
    return json_object_get(object->value, key) ? shape_read_size(object, key, (int64_t)high, out) : ERR_NONE;
}

static int refuse_others(const struct strict_object *object, const char *const keys[], const char *architecture)
{
    for (; *keys; keys++)
        if (json_object_get(object->value, *keys))
            return strict_fail(object, *keys, "has no meaning in a %s", architecture);
    return ERR_NONE;
}

// GPT-2's block: an MLP of 4 x width, as many heads of keys as of queries, a head tied to the token embedding.
static int make_gpt(const struct strict_object *object, struct made *made)
{
    static const char *const others[] = {"key_heads",    "head_width", "hidden", "experts",
                                         "experts_used", "tied_head",  NULL};
    size_t tensor = made->variant.tensor, multiple = tensor > 0 ? 128 * tensor : 1;
    struct gpt_shape shape = {.tile_count = made->variant.tiling_factor, .product_blocks = tensor > 0 ? tensor : 1};
    shape.sequence_parallel = made->variant.sequence_parallel;
    TRY(refuse_others(object, others, "gpt"));
    TRY(shape_read_size(object, "layers", GPT_LAYERS_MAX, &shape.block_count));
    TRY(shape_read_size(object, "width", GPT_SIZE_MAX, &shape.width));
    TRY(shape_read_size(object, "heads", GPT_SIZE_MAX, &shape.head_count));
    TRY(shape_read_size(object, "sequence_length", GPT_SIZE_MAX, &shape.sequence_length));
    if (made->variant.sequence_length > 0)
        shape.sequence_length = made->variant.sequence_length;
    if (made->variant.lora_rank > 0)
        return err_set(ERR_USAGE, "--lora: the model %s is no Llama", made->name);
    TRY(shape_read_size(object, "vocabulary", UINT16_MAX + 1, &shape.vocabulary));
    shape.vocabulary = (shape.vocabulary + multiple - 1) / multiple * multiple;
    return gpt_make(made->name, &shape, &made->model);
}

// A vocabulary that the ranks of tensor parallelism do not divide is padded as in Megatron-LM.
static size_t padded_vocabulary(size_t vocabulary, size_t tensor)
{
    size_t multiple = 128 * tensor;
    return tensor == 0 || vocabulary % tensor == 0 ? vocabulary : (vocabulary + multiple - 1) / multiple * multiple;
}

static int finish_decoder(struct made *made, struct decoder_shape *shape)
{
    if (made->variant.tiling_factor > 1)
        return err_set(ERR_USAGE, "the model %s cannot be cut into %zu tiles; only GPTs can", made->name,
                       made->variant.tiling_factor);
    if (made->variant.sequence_parallel > 0 && made->variant.tensor == 0)
        return err_set(ERR_USAGE,
                       "the model %s has sequence parallelism among ranks of tensor parallelism alone: add tensor=T to "
                       "the mesh",
                       made->name);
    size_t channels = shape->heads * shape->head_width;
    if (channels == 0 || channels > DECODER_SIZE_MAX)
        return err_set(ERR_USAGE, "the model %s: %zu heads of a width of %zu have %zu channels, expected 1 to %d",
                       made->name, shape->heads, shape->width, channels, DECODER_SIZE_MAX);
    if (made->variant.sequence_length > 0)
        shape->sequence_length = made->variant.sequence_length;
    shape->lora_rank = made->variant.lora_rank;
    shape->sequence_parallel = made->variant.sequence_parallel > 0;
    shape->context_ranks = made->variant.context;
    shape->whole_experts = made->variant.whole_experts > 0;
    shape->vocabulary = padded_vocabulary(shape->vocabulary, made->variant.tensor);
    return decoder_make(made->name, shape, &made->model);
}

static int make_llama(const struct strict_object *object, struct made *made)
{
    struct decoder_shape s = {.block_norms = 2, .norm_vectors = 1, .mlp_matrices = 3};
    TRY(shape_read_size(object, "layers", DECODER_BLOCKS_MAX, &s.blocks));
    TRY(shape_read_size(object, "width", DECODER_SIZE_MAX, &s.width));
    TRY(shape_read_size(object, "heads", DECODER_SIZE_MAX, &s.heads));
    TRY(read_other(object, "key_heads", s.heads, s.heads, &s.key_heads));
    TRY(read_other(object, "head_width", DECODER_SIZE_MAX, s.width / s.heads, &s.head_width));
    TRY(shape_read_size(object, "hidden", DECODER_SIZE_MAX, &s.hidden));
    TRY(shape_read_size(object, "vocabulary", DECODER_VOCABULARY_MAX, &s.vocabulary));
    TRY(shape_read_size(object, "sequence_length", DECODER_SIZE_MAX, &s.sequence_length));
    TRY(read_other(object, "experts", DECODER_EXPERTS_MAX, 0, &s.experts));
    TRY(read_other(object, "experts_used", s.experts, 0, &s.experts_used));
    if ((s.experts > 0) != (s.experts_used > 0))
        return strict_fail(object, s.experts > 0 ? "experts_used" : "experts", "is missing");
    s.expert_hidden = s.hidden;
    for (size_t i = 0; s.experts > 0 && i < s.blocks; i++)
        s.block[i].mlp = DECODER_MLP_EXPERTS;
    if (json_object_get(object->value, "tied_head"))
        TRY(strict_bool(object, "tied_head", &s.tied_head));
    return finish_decoder(made, &s);
}

static int make_hugging_face(const struct strict_object *object, struct made *made)
{
    struct decoder_shape shape;
    snprintf(made->source, sizeof made->source, "config.json of Hugging Face%s",
             json_object_get(object->value, "text_config") ? ", its text model alone" : "");
    if (json_object_get(object->value, "source"))
        TRY(strict_string(object, "source", made->source, sizeof made->source));
    if (json_object_get(object->value, "parameters"))
        TRY(strict_string(object, "parameters", made->parameters, sizeof made->parameters));
    TRY(hugging_face_read(object, &shape, made->notes));
    made->dtype = hugging_face_dtype(object);
    return finish_decoder(made, &shape);
}

static int make_own(const struct strict_object *object, struct made *made)
{
    static const char *const architectures[] = {"gpt", "llama", NULL};
    char about[SOURCE_BYTES];
    int schema, architecture;
    TRY(strict_only(object, "schema about source architecture layers width heads ?key_heads ?head_width ?hidden "
                            "vocabulary sequence_length ?experts ?experts_used ?tied_head ?parameters"));
    TRY(strict_int(object, "schema", 1, 1, &schema));
    TRY(strict_string(object, "about", about, sizeof about));
    TRY(strict_string(object, "source", made->source, sizeof made->source));
    if (json_object_get(object->value, "parameters"))
        TRY(strict_string(object, "parameters", made->parameters, sizeof made->parameters));
    TRY(strict_word(object, "architecture", architectures, &architecture));
    return architecture == 0 ? make_gpt(object, made) : make_llama(object, made);
}

static int make_of(const struct strict_object *object, void *made)
{
    return hugging_face_is(object) ? make_hugging_face(object, made) : make_own(object, made);
}

static const struct plan_text *find_text(const char *name)
{
    for (const struct plan_text *text = plan_model_texts; text->name; text++)
        if (strcmp(text->name, name) == 0)
            return text;
    return NULL;
}

static int make(const char *name, const struct plan_text *text, struct made *made)
{
    char *own;
    size_t bytes;
    if (text)
        return strict_parse(text->name, text->text, text->bytes, make_of, made);
    TRY(json_read(name, &own, &bytes));
    int code = strict_parse(name, own, bytes, make_of, made);
    free(own);
    return code;
}

static int find_made(const char *name, const struct plan_text *text, const struct plan_model_variant *variant,
                     const struct model **out)
{
    for (const struct made *made = made_models; made; made = made->next)
        if (strcmp(made->name, name) == 0 && memcmp(&made->variant, variant, sizeof *variant) == 0) {
            *out = made->model;
            return ERR_NONE;
        }
    struct made *made = calloc(1, sizeof *made);
    if (!made)
        return err_set(ERR_MEMORY, "no memory for the model %s", name);
    snprintf(made->name, sizeof made->name, "%s", name);
    made->variant = *variant;
    int code = make(name, text, made);
    if (code != ERR_NONE) {
        free(made);
        return code;
    }
    made->next = made_models;
    made_models = made;
    *out = made->model;
    return ERR_NONE;
}

static int refuse(const char *name)
{
    char known[1024] = "";
    size_t used = 0;
    for (size_t i = 0; plan_model_name(i) && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s, ", plan_model_name(i));
    for (int i = 0; model_name(i) && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s, ", model_name(i));
    return err_set(ERR_USAGE, "unknown model \"%.64s\", expected one of %sgpt:layers=4,width=64,heads=4,... or a file",
                   name, known);
}

int plan_model_find(const char *name, size_t tiling_factor, const struct model **out)
{
    return plan_model_find_variant(name, &(struct plan_model_variant){.tiling_factor = tiling_factor}, out);
}

// A model that `train` has, too.
static int find_trained(const char *name, const struct plan_model_variant *variant, const struct model **out)
{
    char rank[64] = "";
    if (variant->sequence_length > 0)
        return err_set(ERR_USAGE, "the model %.64s has its own sequence length", name);
    if (variant->lora_rank > 0)
        snprintf(rank, sizeof rank, "rank=%zu,targets=all-linear", variant->lora_rank);
    const struct model_changes changes = {variant->tiling_factor, variant->sequence_parallel > 0,
                                          variant->lora ? variant->lora : rank};
    return model_find_changed(name, &changes, out);
}

int plan_model_find_variant(const char *name, const struct plan_model_variant *variant, const struct model **out)
{
    const struct plan_text *text = find_text(name);
    bool is_file = strchr(name, '/') || (strlen(name) > 5 && strcmp(name + strlen(name) - 5, ".json") == 0);
    bool is_linear = linear_is_adapted(name);
    for (int i = 0; linear_model(i); i++)
        is_linear |= strcmp(linear_model(i)->name, name) == 0;
    if (!text && (gpt_is_name(name) || llama_is_name(name) || is_linear))
        return find_trained(name, variant, out);
    if (variant->sequence_length > GPT_SIZE_MAX)
        return err_set(ERR_USAGE, "a sequence length of %zu tokens, expected at most %d", variant->sequence_length,
                       GPT_SIZE_MAX);
    if (!text && !is_file)
        return refuse(name);
    struct plan_model_variant whole = *variant;
    whole.tiling_factor += variant->tiling_factor == 0;
    pthread_mutex_lock(&lock);
    int code = find_made(name, text, &whole, out);
    pthread_mutex_unlock(&lock);
    return code;
}

const char *plan_model_name(size_t index)
{
    size_t count = 0;
    while (plan_model_texts[count].name)
        count++;
    return index < count ? plan_model_texts[index].name : NULL;
}

static const struct made *made_of(const struct model *model)
{
    static const struct made no_file;
    pthread_mutex_lock(&lock);
    const struct made *made = made_models;
    while (made && made->model != model)
        made = made->next;
    pthread_mutex_unlock(&lock);
    return made ? made : &no_file;
}

const char *plan_model_source(const struct model *model)
{
    return made_of(model)->source;
}

const char *plan_model_parameters(const struct model *model)
{
    return made_of(model)->parameters;
}

const char *plan_model_dtype(const struct model *model)
{
    return made_of(model)->dtype;
}

const char *plan_model_notes(const struct model *model)
{
    return made_of(model)->notes;
}
