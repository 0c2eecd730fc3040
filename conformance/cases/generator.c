// SPDX-License-Identifier: Apache-2.0
// Keys are folded from coordinates (ref/arithmetic/random.h); which coordinates belong to which value is
// GENERATOR.md's.
#include "conformance/cases/generator.h"

#include "ref/arithmetic/random.h"

#include <math.h>

// The first coordinate below a seed: what is drawn.
enum stream {
    STREAM_INITIAL = 1,
    STREAM_EXPONENT,
    STREAM_INTEGER,
    STREAM_MEAN,
    STREAM_DEVIATION,
    STREAM_VALUE,
    STREAM_PLACE
};

// The key of a tensor's draws: coordinates that a stream does not know are left at 0.
static uint64_t key_of(const struct check_case *c, enum stream stream, int step, int slot, int param)
{
    uint64_t key = random_key(c->data.seed, stream);
    key = random_key(key, (uint64_t)(c->data.steps_alike ? 1 : step));
    key = random_key(key, (uint64_t)slot);
    return random_key(key, (uint64_t)param);
}

// Micro-steps and ranks in one row.
static int slot_of(const struct check_case *c, int micro, int rank)
{
    return micro * c->world + rank;
}

// Binary places behind the leading 1.
static int fraction_bits(enum dtype precision)
{
    return precision == DTYPE_FP32 ? 23 : precision == DTYPE_BF16 ? 7 : 10;
}

// Bit 63 is the sign, the bits below it the fraction.
static float value_of(const struct check_case *c, uint64_t bits, int exponent)
{
    int places = fraction_bits(c->precision);
    uint64_t significand = (1u << places) | (bits << 1 >> (64 - places));
    double value = ldexp((double)significand, exponent - places);
    return (float)(bits >> 63 ? -value : value);
}

float generator_initial(const struct check_case *c, int param, size_t element)
{
    uint64_t bits = random_at(key_of(c, STREAM_INITIAL, 1, 0, param), element);
    return value_of(c, bits, c->data.init_exponent - 1 - (int)(bits % 3));
}

static uint64_t exponent_key(const struct check_case *c, int step, int param)
{
    return key_of(c, STREAM_EXPONENT, step, 0, c->data.square_norm ? 0 : case_owner(c, param));
}

// With square_norm there is one for the whole step.
static int exponent_at(const struct check_case *c, uint64_t key, size_t element)
{
    uint64_t count = (uint64_t)(c->data.exponent_high - c->data.exponent_low + 1);
    return c->data.exponent_low + (int)random_below(random_at(key, c->data.square_norm ? 0 : element), count);
}

int generator_exponent(const struct check_case *c, int step, int param, size_t element)
{
    return exponent_at(c, exponent_key(c, step, param), element);
}

// A use's gradient of a micro-step and rank, and what its elements have in common: the keys of the draws that its
// family makes.
struct use {
    const struct check_case *c;
    int step, micro, rank, param;
    int64_t share;  // same_mean: of the mean of a whole parameter
    uint64_t exponent, integer, mean, turn, here, next, place, value;
};

// How many parameters are tied to this one.
static int tied_count(const struct check_case *c, int owner)
{
    int count = 0;
    for (int i = 0; i < c->param_count; i++)
        count += c->params[i].tied_to == owner && c->params[i].used;
    return count;
}

static struct use use_of(const struct check_case *c, int step, int micro, int rank, int param)
{
    int slot = slot_of(c, micro, rank), slots = c->world * c->accumulation, owner = case_owner(c, param);
    struct use use = {.c = c, .step = step, .micro = micro, .rank = rank, .param = param};
    use.exponent = exponent_key(c, step, param);
    if (c->data.family != FAMILY_EXACT) {
        use.place = key_of(c, STREAM_PLACE, step, 0, owner);
        use.value = key_of(c, STREAM_VALUE, step, c->data.family == FAMILY_LONE ? 0 : slot, param);
    } else if (c->data.paired) {
        use.place = key_of(c, STREAM_PLACE, step, micro, param);
    } else if (c->data.same_mean) {
        // Every tied use takes the mean away once, and the owner has it once more for each of them.
        use.share = param == owner ? 1 + tied_count(c, owner) : -1;
        use.mean = key_of(c, STREAM_MEAN, step, 0, owner);
        use.turn = key_of(c, STREAM_MEAN, step, 1, owner);
        use.here = key_of(c, STREAM_DEVIATION, step, slot, param);
        use.next = key_of(c, STREAM_DEVIATION, step, (slot + 1) % slots, param);
    } else {
        use.integer = key_of(c, STREAM_INTEGER, step, slot, param);
    }
    return use;
}

// Evenly from -reach .. reach, but zero where the lowest four bits are: in one of sixteen, and then some.
static int64_t integer_of(uint64_t bits, int reach)
{
    if (bits % 16 == 0)
        return 0;
    return (int64_t)random_below(bits, 2 * (uint64_t)reach + 1) - reach;
}

static int64_t square_mean(const struct use *use, size_t element)
{
    static const int magnitudes[4] = {1, 1, 3, 5};
    uint64_t turn = random_at(use->turn, element / 4), sign = random_at(use->mean, element);
    int magnitude = magnitudes[(element + turn) % 4];
    return sign >> 63 ? -magnitude : magnitude;
}

// The integer of the mean of a whole parameter: of all its uses together.
static int64_t mean_of(const struct use *use, size_t element)
{
    if (use->c->data.square_norm)
        return square_mean(use, element);
    return integer_of(random_at(use->mean, element), use->c->data.reach);
}

static int64_t deviation_of(const struct use *use, size_t element)
{
    int spread = use->c->data.spread;
    return integer_of(random_at(use->here, element), spread) - integer_of(random_at(use->next, element), spread);
}

static int64_t power_of(uint64_t bits, int reach)
{
    uint64_t places = 0;
    while (reach >> places > 1)
        places++;
    return bits % 16 == 0 ? 0 : (int64_t)1 << random_below(bits, places + 1);
}

// One place has a power of two of its own; behind it each two places have one and its negative.
static int64_t paired_integer(const struct use *use, size_t element)
{
    const struct check_case *c = use->c;
    uint64_t turn = random_at(use->place, element);
    int position = (use->rank + (int)random_below(turn, (uint64_t)c->world)) % c->world;
    if (position % 2 == 1 && position == c->world - 1)
        return 0;
    int slot = slot_of(c, use->micro, (position + 1) / 2);
    uint64_t bits = random_at(key_of(c, STREAM_INTEGER, use->step, slot, use->param), element);
    int64_t power = power_of(bits, c->data.reach);
    bool negative = position == 0 ? bits >> 4 & 1 : position % 2 == 0;
    return negative ? -power : power;
}

// An element of the exact family before the unit and the exponent are applied.
static int64_t exact_integer(const struct use *use, size_t element)
{
    const struct check_case *c = use->c;
    if (c->data.paired)
        return paired_integer(use, element);
    if (c->data.same_mean)
        return use->share * mean_of(use, element) + deviation_of(use, element);
    int64_t integer = integer_of(random_at(use->integer, element), c->data.reach);
    return use->micro == 0 ? integer * ((int64_t)1 << c->data.lead) : integer;
}

static float lone_value(const struct use *use, size_t element)
{
    const struct check_case *c = use->c;
    uint64_t position = random_at(use->place, element), slots = (uint64_t)(c->world * c->accumulation);
    if ((int)random_below(position, slots) != slot_of(c, use->micro, use->rank))
        return 0.0f;
    return value_of(c, random_at(use->value, element), exponent_at(c, use->exponent, element));
}

static float rounding_value(const struct use *use, size_t element)
{
    const struct check_case *c = use->c;
    uint64_t count = (uint64_t)(c->data.exponent_high - c->data.exponent_low + 1);
    uint64_t bits = random_at(use->value, element);
    return value_of(c, bits, c->data.exponent_low + (int)random_below(random_mix(bits), count));
}

static float value_at(const struct use *use, size_t element)
{
    const struct check_case *c = use->c;
    if (c->data.zero_steps >> (use->step - 1) & 1)
        return 0.0f;
    if (c->data.family != FAMILY_EXACT)
        return (c->data.family == FAMILY_LONE ? lone_value : rounding_value)(use, element);
    int64_t integer = exact_integer(use, element) * c->data.unit;
    return (float)ldexp((double)integer, exponent_at(c, use->exponent, element));
}

float generator_gradient(const struct check_case *c, int step, int micro, int rank, int param, size_t element)
{
    struct use use = use_of(c, step, micro, rank, param);
    return value_at(&use, element);
}

void generator_gradients(const struct check_case *c, int step, int micro, int rank, int param, float out[])
{
    struct use use = use_of(c, step, micro, rank, param);
    for (size_t element = 0; element < c->params[param].count; element++)
        out[element] = value_at(&use, element);
}
