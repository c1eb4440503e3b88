/* Shows natively that an exhibit's failure is real.
 *
 * A program names the points that matter with AT("point"), or AT_NUMBER("point", thread) where several threads run the same
 * code, and states the guilty order once: SHOW_ORDER("first", "second 2", "third").
 *
 * Built with -DSHOW, a thread that comes to a point of the order waits until all earlier points have been passed;
 * each point counts the first time only. If nothing else can move (a lock of the -DFIXED program forbids the order), the order is
 * given up and everybody goes on. After 15 s, or SHOW_SECONDS of the environment, an alarm ends the program: a deadlock ends too.
 * The points order threads in time, but synchronise nothing (all atomics are relaxed), so race detectors still see the races.
 * Otherwise all of this is nothing, and the program is left to its schedule. */
#ifndef SHOW_H
#define SHOW_H

#ifndef SHOW

#define AT(point) ((void)0)
#define AT_NUMBER(point, number) ((void)0)
#define SHOW_ORDER(...) struct show_order_is_free

#else

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AT(point) show_at(point, -1)
#define AT_NUMBER(point, number) show_at(point, number)
#define SHOW_ORDER(...) const char *const show_order[] = {__VA_ARGS__, 0}

extern const char *const show_order[];

static int show_next;        /* the place in the order that comes next */
static int show_waiting[32]; /* threads that wait, by place in the order */
static int show_given_up;    /* the order cannot happen */

__attribute__((constructor)) static void show_limit(void)
{
    const char *seconds = getenv("SHOW_SECONDS");
    alarm(seconds ? atoi(seconds) : 15);
}

static int show_place_of(const char *point, int number)
{
    char name[64];
    if (number < 0)
        snprintf(name, sizeof name, "%s", point);
    else
        snprintf(name, sizeof name, "%s %d", point, number);
    for (int place = 0; show_order[place]; place++)
        if (strcmp(show_order[place], name) == 0)
            return place;
    return -1;
}

/* Reads the status of one thread of this process; returns how often it has gone to sleep, or -1 if it is not asleep. */
static long show_sleeps_of(const char *thread)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", thread);
    int file = open(path, O_RDONLY);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    if (length <= 0)
        return 0; /* it has ended meanwhile */
    text[length] = 0;
    const char *state = strstr(text, "\nState:\t");
    const char *sleeps = strstr(text, "\nvoluntary_ctxt_switches:\t");
    if (!state || !sleeps || state[8] != 'S')
        return -1;
    return atol(sleeps + 26);
}

/* Threads whose point must not be passed yet. One whose turn has come can move, even if it has not noticed. */
static int show_held(void)
{
    int n_held = 0, next = __atomic_load_n(&show_next, __ATOMIC_RELAXED);
    for (int place = next + 1; place < 32; place++)
        n_held += __atomic_load_n(&show_waiting[place], __ATOMIC_RELAXED);
    return n_held;
}

/* A number that stays the same while all threads sleep that are not held at a point; -1 if some thread is awake. No memory is
 * allocated here: that would change the heap that the program fails on. */
static long show_standstill(void)
{
    struct entry {
        unsigned long inode;
        long offset;
        unsigned short length;
        unsigned char type;
        char name[];
    };
    char entries[4096] __attribute__((aligned(8)));
    long sum = 0, awake = 0, n_bytes;
    int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
    while ((n_bytes = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
        for (long at = 0; at < n_bytes;) {
            struct entry *entry = (struct entry *)(entries + at);
            at += entry->length;
            if (entry->name[0] == '.')
                continue;
            long sleeps = show_sleeps_of(entry->name);
            if (sleeps < 0)
                awake++;
            else
                sum += sleeps + 1;
        }
    }
    close(folder);
    return awake > show_held() ? -1 : sum;
}

static void show_wait_for(int place)
{
    long standstill = -1, seen = 0;
    for (long turn = 1; __atomic_load_n(&show_next, __ATOMIC_RELAXED) < place; turn++) {
        if (__atomic_load_n(&show_given_up, __ATOMIC_RELAXED))
            return;
        sched_yield();
        if (turn % 64)
            continue;
        long now = show_standstill();
        seen = now >= 0 && now == standstill ? seen + 1 : 0;
        standstill = now;
        if (seen == 3)
            __atomic_store_n(&show_given_up, 1, __ATOMIC_RELAXED);
    }
}

static __attribute__((unused)) void show_at(const char *point, int number)
{
    int place = show_place_of(point, number);
    if (place < 0)
        return;
    __atomic_add_fetch(&show_waiting[place], 1, __ATOMIC_RELAXED);
    show_wait_for(place);
    __atomic_sub_fetch(&show_waiting[place], 1, __ATOMIC_RELAXED);
    __atomic_compare_exchange_n(&show_next, &place, place + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

#endif
#endif
