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

// The bits of an element: coordinates that a stream does not know are left at 0.
static uint64_t draw(const struct check_case *c, enum stream stream, int step, int slot, int param, size_t element)
{
    uint64_t key = random_key(c->data.seed, stream);
    key = random_key(key, (uint64_t)(c->data.steps_alike ? 1 : step));
    key = random_key(key, (uint64_t)slot);
    key = random_key(key, (uint64_t)param);
    return random_at(key, element);
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
    uint64_t bits = draw(c, STREAM_INITIAL, 1, 0, param, element);
    return value_of(c, bits, c->data.init_exponent - 1 - (int)(bits % 3));
}

int generator_exponent(const struct check_case *c, int step, int param, size_t element)
{
    bool one = c->data.square_norm;  // for the whole step
    uint64_t bits = draw(c, STREAM_EXPONENT, step, 0, one ? 0 : case_owner(c, param), one ? 0 : element);
    uint64_t count = (uint64_t)(c->data.exponent_high - c->data.exponent_low + 1);
    return c->data.exponent_low + (int)random_below(bits, count);
}

// Evenly from -reach .. reach, but zero where the lowest four bits are: in one of sixteen, and then some.
static int64_t integer_of(uint64_t bits, int reach)
{
    if (bits % 16 == 0)
        return 0;
    return (int64_t)random_below(bits, 2 * (uint64_t)reach + 1) - reach;
}

static int64_t square_mean(const struct check_case *c, int step, int owner, size_t element)
{
    static const int magnitudes[4] = {1, 1, 3, 5};
    uint64_t turn = draw(c, STREAM_MEAN, step, 1, owner, element / 4);
    uint64_t sign = draw(c, STREAM_MEAN, step, 0, owner, element);
    int magnitude = magnitudes[(element + turn) % 4];
    return sign >> 63 ? -magnitude : magnitude;
}

// The integer of the mean of a whole parameter: of all its uses together.
static int64_t mean_of(const struct check_case *c, int step, int owner, size_t element)
{
    if (c->data.square_norm)
        return square_mean(c, step, owner, element);
    return integer_of(draw(c, STREAM_MEAN, step, 0, owner, element), c->data.reach);
}

// How many parameters are tied to this one.
static int tied_count(const struct check_case *c, int owner)
{
    int count = 0;
    for (int i = 0; i < c->param_count; i++)
        count += c->params[i].tied_to == owner && c->params[i].used;
    return count;
}

static int64_t deviation_of(const struct check_case *c, int step, int slot, int param, size_t element)
{
    int slots = c->world * c->accumulation;
    uint64_t here = draw(c, STREAM_DEVIATION, step, slot, param, element);
    uint64_t next = draw(c, STREAM_DEVIATION, step, (slot + 1) % slots, param, element);
    return integer_of(here, c->data.spread) - integer_of(next, c->data.spread);
}

static int64_t power_of(uint64_t bits, int reach)
{
    uint64_t places = 0;
    while (reach >> places > 1)
        places++;
    return bits % 16 == 0 ? 0 : (int64_t)1 << random_below(bits, places + 1);
}

// One place has a power of two of its own; behind it each two places have one and its negative.
static int64_t paired_integer(const struct check_case *c, int step, int micro, int rank, int param, size_t element)
{
    uint64_t turn = draw(c, STREAM_PLACE, step, micro, param, element);
    int position = (rank + (int)random_below(turn, (uint64_t)c->world)) % c->world;
    if (position % 2 == 1 && position == c->world - 1)
        return 0;
    uint64_t bits = draw(c, STREAM_INTEGER, step, slot_of(c, micro, (position + 1) / 2), param, element);
    int64_t power = power_of(bits, c->data.reach);
    bool negative = position == 0 ? bits >> 4 & 1 : position % 2 == 0;
    return negative ? -power : power;
}

// An element of the exact family before the unit and the exponent are applied.
static int64_t exact_integer(const struct check_case *c, int step, int micro, int rank, int param, size_t element)
{
    int slot = slot_of(c, micro, rank), owner = case_owner(c, param);
    if (c->data.paired)
        return paired_integer(c, step, micro, rank, param, element);
    if (!c->data.same_mean) {
        int64_t integer = integer_of(draw(c, STREAM_INTEGER, step, slot, param, element), c->data.reach);
        return micro == 0 ? integer * ((int64_t)1 << c->data.lead) : integer;
    }
    // Every tied use takes the mean away once, and the owner has it once more for each of them.
    int64_t share = param == owner ? 1 + tied_count(c, owner) : -1;
    return share * mean_of(c, step, owner, element) + deviation_of(c, step, slot, param, element);
}

static float lone_value(const struct check_case *c, int step, int slot, int param, size_t element)
{
    uint64_t position = draw(c, STREAM_PLACE, step, 0, case_owner(c, param), element);
    if ((int)random_below(position, (uint64_t)(c->world * c->accumulation)) != slot)
        return 0.0f;
    return value_of(c, draw(c, STREAM_VALUE, step, 0, param, element), generator_exponent(c, step, param, element));
}

static float rounding_value(const struct check_case *c, int step, int slot, int param, size_t element)
{
    uint64_t count = (uint64_t)(c->data.exponent_high - c->data.exponent_low + 1);
    uint64_t bits = draw(c, STREAM_VALUE, step, slot, param, element);
    int exponent = c->data.exponent_low + (int)random_below(random_mix(bits), count);
    return value_of(c, bits, exponent);
}

float generator_gradient(const struct check_case *c, int step, int micro, int rank, int param, size_t element)
{
    if (c->data.zero_steps >> (step - 1) & 1)
        return 0.0f;
    int slot = slot_of(c, micro, rank);
    switch (c->data.family) {
    case FAMILY_LONE:
        return lone_value(c, step, slot, param, element);
    case FAMILY_ROUNDING:
        return rounding_value(c, step, slot, param, element);
    case FAMILY_EXACT:
        break;
    }
    int64_t integer = exact_integer(c, step, micro, rank, param, element) * c->data.unit;
    return (float)ldexp((double)integer, generator_exponent(c, step, param, element));
}
