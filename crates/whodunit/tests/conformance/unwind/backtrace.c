// Unwinders see the original return addresses: _Unwind_Backtrace and backtrace(3) name the same frames.
//@ cc: -O0 -fno-omit-frame-pointer -rdynamic -fno-pie -no-pie
#include "check.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <unwind.h>

static void print_frame(void *pc) {
    Dl_info info;
    // A return address may lie just past its function, so look up the call itself.
    if (dladdr((char *)pc - 1, &info) && info.dli_sname && !strncmp(info.dli_sname, "frame_", 6))
        printf("  %s\n", info.dli_sname);
}

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *count) {
    print_frame((void *)_Unwind_GetIP(context));
    ++*(int *)count;
    return _URC_NO_REASON;
}

static void unwind_both(const char *why) {
    int visited = 0;
    printf("%s, unwinder:\n", why);
    _Unwind_Backtrace(visit, &visited);
    void *frames[64];
    int n = backtrace(frames, 64);
    printf("%s, backtrace:\n", why);
    for (int i = 0; i < n; i++)
        print_frame(frames[i]);
    CHECK("reached the start", visited > 3 && n > 3 && visited - n <= 1 && n - visited <= 1);
}

void frame_leaf(void) { unwind_both("plain"); }
void frame_middle(int n) { n ? frame_middle(n - 1) : frame_leaf(); }
int frame_compare(const void *a, const void *b) {
    static int once;
    if (!once++)
        unwind_both("called back by qsort");
    return *(int *)a - *(int *)b;
}
void frame_handler(int signal) {
    (void)signal;
    unwind_both("in a signal handler");
}
void frame_raises(void) { raise(SIGUSR1); }
static _Unwind_Reason_Code count_only(struct _Unwind_Context *context, void *count) {
    (void)context;
    ++*(int *)count;
    return _URC_NO_REASON;
}
void frame_deep(int n) {
    if (n) {
        frame_deep(n - 1);
    } else {
        int count = 0;
        _Unwind_Backtrace(count_only, &count);
        CHECK("500 deep", count > 500 && count < 510);
    }
}
int main(void) {
    frame_middle(3);
    int values[] = {3, 1, 2};
    qsort(values, 3, sizeof *values, frame_compare);
    signal(SIGUSR1, frame_handler);
    frame_raises();
    frame_deep(500);
    CHECK("return address", __builtin_return_address(0) != NULL);
    return 0;
}
