// SPDX-License-Identifier: Apache-2.0
#include "ref/executor/executor_fault.h"

#include "base/err.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

// One per process, as signal handlers are.
static struct {
    pthread_mutex_t lock;
    struct executor_fault *_Atomic first;
    _Atomic int reader_count;  // handlers that walk the list
    struct sigaction previous;
} faults = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local const struct executor_fault *entered;

// Text built without printf, which is not async-signal-safe.
struct text {
    char data[1024];
    size_t length;
};

static void put(struct text *text, const char *string)
{
    while (*string && text->length < sizeof text->data)
        text->data[text->length++] = *string++;
}

static void put_number(struct text *text, intmax_t number, unsigned base)
{
    char digits[32];
    size_t at = sizeof digits;
    uintmax_t rest = number < 0 ? -(uintmax_t)number : (uintmax_t)number;
    digits[--at] = '\0';
    do {
        digits[--at] = "0123456789abcdef"[rest % base];
        rest /= base;
    } while (rest);
    put(text, number < 0 ? "-" : "");
    put(text, digits + at);
}

// Calls the previous handler.
static void pass_on(int signal, siginfo_t *information, void *context)
{
    if (faults.previous.sa_flags & SA_SIGINFO) {
        faults.previous.sa_sigaction(signal, information, context);
    } else if (faults.previous.sa_handler != SIG_DFL && faults.previous.sa_handler != SIG_IGN) {
        faults.previous.sa_handler(signal);
    } else {
        sigaction(signal, &faults.previous, NULL);
        raise(signal);
    }
}

static void put_operation(struct text *text, const struct operation *operation)
{
    put(text, "operation \"");
    put(text, operation ? operation->name : "none");
    put(text, "\"");
    if (operation && operation->bucket >= 0) {
        put(text, " of bucket ");
        put_number(text, operation->bucket, 10);
    }
    put(text, " on lane ");
    put(text, operation ? ledger_lane_name(operation->lane) : "none");
}

static _Noreturn void end_with(struct text *text)
{
    ssize_t ignored = write(STDERR_FILENO, text->data, text->length);
    (void)ignored;
    _exit(1);
}

// True if the issuing thread touched its own rank's memory, which no pending operation has; the page is open then.
static bool admit(const struct executor_fault *owner, const void *address)
{
    struct text text = {.length = 0};
    if (entered || !owner->touch || !pthread_equal(pthread_self(), owner->issuer))
        return false;
    struct tier_range page = tier_page_of(owner->tier, address);
    if (page.bytes == 0)
        return false;
    const struct operation *pending = owner->touch(owner->context, address, &page);
    if (!pending)
        return tier_open_page(owner->tier, &page) == ERR_NONE;
    put(&text, "zerogauge: rank ");
    put_number(&text, owner->rank, 10);
    put(&text, ": the issuing thread touches \"");
    put(&text, tier_name_of(owner->tier, address));
    put(&text, "\" at offset ");
    put_number(&text, tier_offset_of(owner->tier, address), 10);
    put(&text, " while ");
    put_operation(&text, pending);
    put(&text, ", which accesses it, is pending: it must wait, or an operation must do this\n");
    end_with(&text);
}

// Ends the process where an operation touched what it did not declare. False if the memory is nobody's.
static bool judge(const void *address, int code)
{
    const struct executor_fault *owner = faults.first;
    while (owner && !tier_name_of(owner->tier, address))
        owner = owner->next;
    if (!owner || code != SEGV_ACCERR)
        return false;
    if (admit(owner, address))
        return true;
    // A thread that belongs to no rank works for the rank whose memory it touches.
    const struct executor_fault *actor = entered ? entered : owner;
    struct text text = {.length = 0};
    put(&text, "zerogauge: rank ");
    put_number(&text, actor->rank, 10);
    put(&text, ": ");
    put_operation(&text, actor->operation);
    put(&text, " touched 0x");
    put_number(&text, (intmax_t)(uintptr_t)address, 16);
    put(&text, ", offset ");
    put_number(&text, tier_offset_of(owner->tier, address), 10);
    put(&text, " of rank ");
    put_number(&text, owner->rank, 10);
    put(&text, "'s \"");
    put(&text, tier_name_of(owner->tier, address));
    put(&text, "\", which was not declared so (a read needs a span, a write a span that is written)\n");
    end_with(&text);
}

static void on_fault(int signal, siginfo_t *information, void *context)
{
    faults.reader_count++;
    bool known = judge(information->si_addr, information->si_code);
    faults.reader_count--;
    if (!known)
        pass_on(signal, information, context);
}

int executor_fault_open(struct executor_fault *fault)
{
    int code = ERR_NONE;
    pthread_mutex_lock(&faults.lock);
    if (!faults.first) {
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        sigemptyset(&action.sa_mask);
        if (sigaction(SIGSEGV, &action, &faults.previous))
            code = err_set(ERR_IO, "executor: cannot handle SIGSEGV: %m");
    }
    if (code == ERR_NONE) {
        fault->next = faults.first;
        faults.first = fault;
    }
    pthread_mutex_unlock(&faults.lock);
    return code;
}

void executor_fault_close(struct executor_fault *fault)
{
    pthread_mutex_lock(&faults.lock);
    struct executor_fault *_Atomic *link = &faults.first;
    while (*link != fault)
        link = &(*link)->next;
    *link = fault->next;
    if (!faults.first)
        sigaction(SIGSEGV, &faults.previous, NULL);
    pthread_mutex_unlock(&faults.lock);
    // The caller frees it, and another thread's handler may have found it before.
    while (faults.reader_count > 0)
        sched_yield();
}

void executor_fault_enter(struct executor_fault *fault, const struct operation *operation)
{
    fault->operation = operation;
    entered = fault;
}

void executor_fault_leave(struct executor_fault *fault)
{
    entered = NULL;
    fault->operation = NULL;
}
