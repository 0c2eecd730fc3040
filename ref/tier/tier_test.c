// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"
#include "ref/tier/tier.h"
#include "ref/tier/tier_poison.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Pages have 4 KiB on x86-64, and 4, 16 or 64 KiB on aarch64.
#define PAGE ((size_t)sysconf(_SC_PAGESIZE))
enum { MIB = 1 << 20 };

static struct tier *open_tier(struct ledger *ledger, uint64_t budget_bytes)
{
    struct tier *tier = NULL;
    cr_assert_eq(tier_open(ledger, &(struct tier_setting){.device_bytes = budget_bytes}, &tier), ERR_NONE);
    return tier;
}

static uint8_t *allocate(struct tier *tier, enum ledger_kind kind, const char *name, size_t bytes, size_t padding_bytes)
{
    void *address = NULL;
    int code = tier_allocate(tier, TIER_DEVICE, kind, name, bytes, padding_bytes, &address);
    cr_assert_eq(code, ERR_NONE, "%s", err_message());
    return address;
}

// Returns the access that the process has to a byte. It asks the kernel, so that a refusal causes no fault.
static int access_of(uint8_t *address)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    uint8_t byte = 0;
    bool readable = write(ends[1], address, 1) == 1;
    if (!readable)
        cr_assert_eq(write(ends[1], &byte, 1), 1);
    bool writable = read(ends[0], address, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return readable + 2 * writable;
}

Test(tier, memory_is_aligned_and_all_of_it_is_a_nan_pattern)
{
    struct tier *tier = open_tier(NULL, 0);
    const size_t sizes[] = {4, 64, 4096, 4100, 2 * MIB, 2 * MIB + 4, 5 * MIB - 4};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t *words = (uint32_t *)allocate(tier, KIND_STAGING, "words", sizes[i], 0);
        cr_assert_eq((uintptr_t)words % (sizes[i] >= 2 * MIB ? 2 * MIB : PAGE), 0);
        for (size_t word = 0; word < sizes[i] / 4; word++)
            cr_assert_eq(words[word], 0x7fc07fc0);
    }
    tier_close(tier);
}

Test(tier, poison_is_nan_in_every_format_at_every_address_and_length)
{
    uint8_t memory[64], expected[64];
    for (size_t begin = 0; begin < 9; begin++)
        for (size_t bytes = 0; bytes < 40; bytes++) {
            memset(memory, 0xee, sizeof memory);
            tier_poison(memory + begin, bytes);
            for (size_t i = 0; i < sizeof memory; i++) {
                bool inside = i >= begin && i < begin + bytes;
                expected[i] = !inside ? 0xee : ((uintptr_t)memory + i) % 2 ? 0x7f : 0xc0;
            }
            cr_assert_arr_eq(memory, expected, sizeof memory);
        }
    _Alignas(4) uint8_t word[4];
    tier_poison(word, sizeof word);
    float single;
    uint16_t half;
    memcpy(&single, word, 4);
    memcpy(&half, word, 2);
    uint32_t widened = 0x7fc0u << 16;
    cr_assert(isnan(single) && (half & 0x7fff) > 0x7c00);
    memcpy(&single, &widened, 4);
    cr_assert(isnan(single));
}

Test(tier, padding_is_counted_as_a_kind_of_its_own)
{
    struct ledger ledger = {0};
    struct tier *tier = open_tier(&ledger, 0);
    void *first = allocate(tier, KIND_PARAMETER, "parameters", 1000, 24);
    allocate(tier, KIND_GRADIENT, "gradients", 300, 0);
    cr_assert_eq(ledger.held_bytes[TIER_DEVICE][KIND_PARAMETER], 976);
    cr_assert_eq(ledger.held_bytes[TIER_DEVICE][KIND_PADDING], 24);
    cr_assert_eq(ledger.held_bytes[TIER_DEVICE][KIND_GRADIENT], 300);
    cr_assert_eq(ledger.tier_bytes[TIER_DEVICE], 1300);
    tier_free(tier, first);
    cr_assert_eq(ledger.held_bytes[TIER_DEVICE][KIND_PARAMETER], 0);
    cr_assert_eq(ledger.held_bytes[TIER_DEVICE][KIND_PADDING], 0);
    cr_assert_eq(ledger.tier_bytes[TIER_DEVICE], 300);
    cr_assert_eq(ledger.tier_peak_bytes[TIER_DEVICE], 1300);
    tier_close(tier);
    cr_assert_eq(ledger.tier_bytes[TIER_DEVICE], 0);
}

Test(tier, budget_is_exact_in_bytes_and_freed_bytes_may_be_taken_again)
{
    struct ledger ledger = {0}, *const ledgers[] = {&ledger, NULL};
    for (int i = 0; i < 2; i++) {
        struct tier *tier = open_tier(ledgers[i], 1000);
        void *address = allocate(tier, KIND_PARAMETER, "first", 600, 0), *other = NULL;
        cr_assert_eq(tier_allocate(tier, TIER_DEVICE, KIND_PARAMETER, "second", 401, 0, &other), ERR_BUDGET);
        cr_assert_null(other);
        allocate(tier, KIND_PARAMETER, "third", 400, 7);
        cr_assert_eq(tier_allocate(tier, TIER_DEVICE, KIND_PARAMETER, "fourth", SIZE_MAX, 0, &other), ERR_BUDGET);
        tier_free(tier, address);
        allocate(tier, KIND_PARAMETER, "fifth", 600, 0);
        tier_close(tier);
    }
}

Test(tier, refusal_lists_what_is_held)
{
    struct ledger ledger = {0};
    struct tier *tier = open_tier(&ledger, 64 * MIB);
    allocate(tier, KIND_PARAMETER, "parameters", 20 * MIB, 0);
    allocate(tier, KIND_OPTIMIZER, "moments", 40 * MIB, 512);
    void *address;
    cr_assert_eq(tier_allocate(tier, TIER_DEVICE, KIND_GRADIENT, "gradients", 12 * MIB + MIB / 2, 0, &address),
                 ERR_BUDGET);
    cr_assert_str_eq(err_message(), "device memory: 12.5 MiB for \"gradients\" does not fit: 64 MiB budget, 60 MiB "
                                    "held (parameter 20 MiB, optimizer 40 MiB, padding 512 bytes), 8.5 MiB short; "
                                    "raise --device-memory, use more ranks, a stage that shards more, or offload");
    tier_close(tier);
    tier = open_tier(NULL, 10);
    cr_assert_eq(tier_allocate(tier, TIER_DEVICE, KIND_GRADIENT, "gradients", 11, 0, &address), ERR_BUDGET);
    cr_assert_str_eq(err_message(), "device memory: 11 bytes for \"gradients\" does not fit: 10 bytes budget, 0 bytes "
                                    "held, 1 bytes short; raise --device-memory, use more ranks, a stage that shards "
                                    "more, or offload");
    tier_close(tier);
}

Test(tier, more_than_the_machine_has_is_an_error_and_is_not_counted)
{
    struct ledger ledger = {0};
    struct tier *tier = open_tier(&ledger, 0);
    void *address;
    cr_assert_eq(tier_allocate(tier, TIER_DEVICE, KIND_GRADIENT, "gradients", SIZE_MAX / 4, 0, &address), ERR_MEMORY);
    cr_assert(strstr(err_message(), "gradients"));
    cr_assert_eq(tier_allocate(tier, TIER_DEVICE, KIND_GRADIENT, "gradients", SIZE_MAX, 0, &address), ERR_MEMORY);
    cr_assert_eq(ledger.tier_peak_bytes[TIER_DEVICE], 0);
    tier_close(tier);
}

Test(tier, guard_pages_surround_every_allocation)
{
    struct tier *tier = open_tier(NULL, 0);
    const size_t sizes[] = {1, PAGE, PAGE + 1, 3 * MIB};
    for (size_t i = 0; i < 4; i++) {
        uint8_t *memory = allocate(tier, KIND_STAGING, "memory", sizes[i], 0);
        uint8_t *end = memory + (sizes[i] + PAGE - 1) / PAGE * PAGE;
        cr_assert_eq(access_of(memory - 1), 0);
        cr_assert_eq(access_of(memory), 3);
        cr_assert_eq(access_of(end - 1), 3);
        cr_assert_eq(access_of(end), 0);
    }
    tier_close(tier);
}

Test(tier, small_allocations_of_any_number_are_apart_and_inaccessible_when_freed)
{
    enum { COUNT = 300 };
    struct tier *tier = open_tier(NULL, 0);
    uint8_t *memory[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        memory[i] = allocate(tier, KIND_STAGING, "memory", 1 + i % 20 * PAGE, 0);
        memset(memory[i], (int)(i % 251), 1 + i % 20 * PAGE);
    }
    for (size_t i = 0; i < COUNT; i += 2)
        tier_free(tier, memory[i]);
    for (size_t i = 0; i < COUNT; i++) {
        cr_assert_eq(access_of(memory[i] - 1), 0, "%zu", i);
        cr_assert_eq(access_of(memory[i]), i % 2 ? 3 : 0, "%zu", i);
        cr_assert(i % 2 == 0 || memory[i][i % 20 * PAGE] == i % 251, "%zu", i);
    }
    tier_close(tier);
    for (size_t i = 0; i < COUNT; i++)
        cr_assert_eq(access_of(memory[i]), 0, "%zu", i);
}

static long address_pages(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    cr_assert(file && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    return pages;
}

Test(tier, addresses_of_small_allocations_are_given_back)
{
    struct tier *tier = open_tier(NULL, 0);
    uint8_t *kept = allocate(tier, KIND_STAGING, "kept", PAGE, 0);
    long before = address_pages();
    for (int i = 0; i < 2000; i++) {
        uint8_t *first = allocate(tier, KIND_STAGING, "first", 9 * PAGE, 0);
        uint8_t *second = allocate(tier, KIND_STAGING, "second", 5 * PAGE, 0);
        tier_free(tier, i % 2 ? first : second);
        tier_free(tier, i % 2 ? second : first);
    }
    cr_expect_lt(address_pages() - before, 4096, "%ld pages", address_pages() - before);
    cr_expect_eq(access_of(kept), 3);
    tier_close(tier);
}

Test(tier, zero_bytes_have_an_address_of_their_own_that_is_not_accessible)
{
    struct ledger ledger = {0};
    struct tier *tier = open_tier(&ledger, 1);
    uint8_t *first = allocate(tier, KIND_PARAMETER, "first", 0, 0);
    uint8_t *second = allocate(tier, KIND_PARAMETER, "second", 0, 0);
    cr_assert_neq(first, second);
    cr_assert_eq(access_of(first), 0);
    cr_assert_str_eq(tier_name_of(tier, first), "first");
    cr_assert_str_eq(tier_name_of(tier, second), "second");
    const struct tier_range range = {first, 0, true};
    cr_assert_eq(tier_protect(tier, &range, 1), ERR_NONE);
    cr_assert_eq(tier_unprotect(tier), ERR_NONE);
    cr_assert_eq(access_of(first), 0);
    cr_assert_eq(ledger.tier_peak_bytes[TIER_DEVICE], 0);
    tier_free(tier, first);
    tier_free(tier, NULL);
    cr_assert_null(tier_name_of(tier, first));
    tier_close(tier);
}

Test(tier, addresses_have_names_and_offsets_guard_pages_included)
{
    struct tier *tier = open_tier(NULL, 0);
    uint8_t *a = allocate(tier, KIND_STAGING, "a", PAGE + 1, 0);
    uint8_t *b = allocate(tier, KIND_STAGING, "b", 3 * MIB, 0);
    int local = 0;
    cr_assert_str_eq(tier_name_of(tier, a - 1), "a");
    cr_assert_str_eq(tier_name_of(tier, a + 3 * PAGE - 1), "a");
    cr_assert_str_eq(tier_name_of(tier, b + 3 * MIB), "b");
    cr_assert_eq(tier_offset_of(tier, a - 1), -1);
    cr_assert_eq(tier_offset_of(tier, b + 12345), 12345);
    cr_assert_null(tier_name_of(tier, &local));
    cr_assert_null(tier_name_of(tier, NULL));
    tier_free(tier, a);
    cr_assert_null(tier_name_of(tier, a));
    tier_close(tier);
}

Test(tier, writing_past_the_end_is_found_when_freed, .signal = SIGABRT)
{
    struct tier *tier = open_tier(NULL, 0);
    volatile uint8_t *memory = allocate(tier, KIND_STAGING, "memory", 100, 0);
    memory[100] = 0;
    tier_free(tier, (void *)memory);
}

enum { ALLOCATIONS = 6, RANGES = 5, PROBED_PAGES = 16 };

// Checks every page of every allocation against what the ranges allow.
static void check_access(uint8_t *const memory[], const size_t pages[], const struct tier_range ranges[], size_t count)
{
    for (int i = 0; i < ALLOCATIONS; i++)
        for (size_t page = 0; page < pages[i]; page++) {
            uint8_t *begin = memory[i] + page * PAGE;
            int expected = 0;
            for (size_t r = 0; r < count; r++) {
                const uint8_t *from = ranges[r].address;
                if (ranges[r].bytes > 0 && from < begin + PAGE && from + ranges[r].bytes > begin)
                    expected |= ranges[r].writable ? 3 : 1;
            }
            cr_assert_eq(access_of(begin + 17), expected, "allocation %d page %zu", i, page);
        }
}

Test(tier, protection_leaves_exactly_the_pages_of_the_ranges_open)
{
    struct tier *tier = open_tier(NULL, 0);
    uint8_t *memory[ALLOCATIONS];
    size_t pages[ALLOCATIONS];
    unsigned seed = 1;
    for (int i = 0; i < ALLOCATIONS; i++) {
        pages[i] = 1 + (size_t)rand_r(&seed) % PROBED_PAGES;
        memory[i] = allocate(tier, KIND_STAGING, "memory", pages[i] * PAGE - 100, 0);
    }
    char outside[100];
    for (int round = 0; round < 150; round++) {
        struct tier_range ranges[RANGES];
        size_t count = (size_t)rand_r(&seed) % RANGES;
        for (size_t r = 0; r < count; r++) {
            int i = rand_r(&seed) % ALLOCATIONS;
            size_t bytes = pages[i] * PAGE - 100, from = (size_t)rand_r(&seed) % bytes;
            ranges[r] =
                (struct tier_range){memory[i] + from, (size_t)rand_r(&seed) % (bytes - from + 1), rand_r(&seed) % 2};
        }
        ranges[count] = (struct tier_range){outside, sizeof outside, true};
        cr_assert_eq(tier_protect(tier, ranges, count + 1), ERR_NONE);
        check_access(memory, pages, ranges, count);
        if (round % 10 == 9) {
            int i = rand_r(&seed) % ALLOCATIONS;
            tier_free(tier, memory[i]);
            memory[i] = allocate(tier, KIND_STAGING, "again", pages[i] * PAGE - 100, 0);
            cr_assert_eq(tier_unprotect(tier), ERR_NONE);
            for (i = 0; i < ALLOCATIONS; i++)
                for (size_t page = 0; page < pages[i]; page++)
                    cr_assert_eq(access_of(memory[i] + page * PAGE), 3);
        }
    }
    tier_close(tier);
}

Test(tier, an_excepted_allocation_stays_accessible)
{
    struct tier *tier = open_tier(NULL, 0);
    uint8_t *before = allocate(tier, KIND_STAGING, "before", 100, 0), *excepted, *after;
    excepted = allocate(tier, KIND_STAGING, "excepted", 3 * PAGE, 0);
    after = allocate(tier, KIND_STAGING, "after", 100, 0);
    tier_except(tier, excepted);
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(tier_protect(tier, NULL, 0), ERR_NONE);
        cr_expect(access_of(before) == 0 && access_of(after) == 0);
        cr_expect(access_of(excepted) == 3 && access_of(excepted + 2 * PAGE) == 3);
        cr_assert_eq(tier_unprotect(tier), ERR_NONE);
        cr_expect(access_of(before) == 3 && access_of(excepted) == 3 && access_of(after) == 3);
    }
    // Its entry may become another allocation's, which is protected.
    tier_free(tier, excepted);
    excepted = allocate(tier, KIND_STAGING, "again", 3 * PAGE, 0);
    cr_assert_eq(tier_protect(tier, NULL, 0), ERR_NONE);
    cr_expect_eq(access_of(excepted), 0);
    cr_assert_eq(tier_unprotect(tier), ERR_NONE);
    cr_expect_eq(access_of(excepted), 3);
    tier_close(tier);
}

Test(tier, range_beyond_its_allocation_is_an_error)
{
    struct tier *tier = open_tier(NULL, 0);
    uint8_t *memory = allocate(tier, KIND_STAGING, "memory", 5000, 0);
    const struct tier_range wrong[] = {{memory, 5001, false}, {memory - 1, 10, true}, {memory + 8192, 1, true}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_assert_eq(tier_protect(tier, &wrong[i], 1), ERR_INTERNAL);
    cr_assert_eq(tier_protect(tier, &wrong[0], 1), ERR_INTERNAL);
    cr_assert_str_eq(err_message(), "5001 bytes at offset 0 are not within \"memory\", which has 5000 bytes");
    const struct tier_range right = {memory, 5000, true};
    cr_assert_eq(tier_protect(tier, &right, 1), ERR_NONE);
    cr_assert_eq(access_of(memory), 3);
    tier_close(tier);
}

static void *ask_names(void *argument)
{
    struct tier *tier = argument;
    const char *name = NULL;
    for (uintptr_t i = 0; i < 20000 && !name; i++)
        name = tier_name_of(tier, (void *)(i % 64 + 1));
    return (void *)name;
}

Test(tier, names_are_concurrent_with_allocation)
{
    struct tier *tier = open_tier(NULL, 0);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, ask_names, tier), 0);
    for (int i = 0; i < 200; i++) {
        void *first = allocate(tier, KIND_STAGING, "first", 100, 0);
        allocate(tier, KIND_STAGING, "second", 100, 0);
        tier_free(tier, first);
    }
    void *name;
    pthread_join(thread, &name);
    cr_assert_null(name);
    tier_close(tier);
}
