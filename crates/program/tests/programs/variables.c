// Variables of every kind that C has, and facts about them. Fails in `work`, in the middle of a loop.
#include "facts.h"
#include <stdbool.h>
#include <stdint.h>

enum colour { RED, GREEN = 5, BLUE = -1 };
typedef struct node {
    int value;
    struct node *next;
} node_t;

struct session {
    int id;
    unsigned refs : 3, state : 9;
    signed debt : 6;
    union {
        long whole;
        char bytes[8];
    };
    struct {
        short low, high;
    } pair;
    char name[16];
    enum colour colour;
    struct session *peer;
    double ratio;
    bool ready;
    const volatile uint16_t ports[3];
};

struct hidden; // MARK forward
extern struct hidden *shared_hidden;

int other_counter(void);

node_t table[4] = {{1, 0}, {2, &table[0]}, {3, &table[1]}, {4, &table[2]}};
static int counter = 7; // MARK counter
int grid[3][4] = {{0}, {0, 0, 60}};
const char *greeting = "hello";
static struct session session = {42, 5, 300, -3, {0x4142}, {-7, 8}, "first", GREEN, &session, 0.5, true, {80, 443, 8080}};
_Thread_local int padding_of_thread = 1;
_Thread_local long per_thread[2] = {11, 12};
#define KEPT __attribute__((used))
KEPT void (*hook)(int) = 0;
KEPT int (*other)(void) = other_counter;
KEPT float quarter = 0.25f;
KEPT long double extended = -1.5L;
KEPT unsigned char letter = 'x';
struct flexible {
    int count;
    int items[];
} flexible = {3, {10, 20, 30}};
int *volatile nowhere;

// Not left to the compiler, which would fold it away.
static inline __attribute__((always_inline)) int doubled(int inner_value) {
    static int inner_calls;
    int twice = inner_value * 2;
    inner_calls++;
    PLACE(inner_calls);
    __asm__ volatile("" : "+r"(twice));
    *nowhere = twice; // MARK inlined
    __asm__ volatile("" ::"r"(twice), "r"(inner_value));
    return twice;
}

__attribute__((noipa)) int work(int argument, struct session *given, node_t *list, int inlined) {
    static int calls; // MARK calls
    int numbers[5] = {10, 20, 30, 40, 50};
    long total = argument * 3;
    calls++;
    for (int index = argument; index < 5; index++) {
        int shadow = index;
        {
            long shadow = 77;
            PLACE(shadow);
            PLACE(table[3].next);
            PLACE(table[2]);
            PLACE(counter);
            PLACE(grid[1][2]);
            PLACE(grid[2]);
            PLACE(greeting);
            PLACE(session.pair.high);
            PLACE(session.whole);
            PLACE(session.name);
            PLACE(session.ports[1]);
            PLACE(session.peer->colour);
            PLACE(per_thread[1]);
            PLACE(flexible.items[2]);
            PLACE(numbers[index]);
            PLACE(given->ratio);
            PLACE(list->next->value);
            PLACE(*list->next);
            PLACE(calls);
            VALUE(&numbers[0], "address");
            VALUE(total, "6");
            VALUE(argument, "2");
            VALUE(index, "2");
            VALUE(session.refs, "5");
            VALUE(session.state, "300");
            VALUE(session.debt, "-3");
            VALUE(session.colour, "GREEN");
            VALUE(session.ready, "true");
            VALUE(session.ratio, "0.5");
            VALUE(session.name, "\"first\"");
            VALUE(session.pair, "{low = -7, high = 8}");
            VALUE(session.whole, "16706");
            VALUE(table[0], "{value = 1, next = NULL}");
            VALUE(list->next->value, "2");
            VALUE(numbers, "{10, 20, 30, 40, 50}");
            VALUE(numbers[index], "30");
            VALUE(quarter, "0.25");
            VALUE(extended, "-1.5");
            VALUE(letter, "120 'x'");
            VALUE(hook, "NULL");
            VALUE(per_thread, "{11, 12}");
            VALUE(shared_hidden->secret, "99");
            VALUE(shadow, "77");
            if (inlined) total += doubled(argument + index);
            *nowhere = shadow; // MARK fault
            __asm__ volatile("" ::"r"(total), "r"(index), "r"(argument), "r"(given), "r"(list), "m"(numbers), "m"(shadow));
        }
        __asm__ volatile("" ::"r"(shadow));
    }
    return total;
}

// At the fault, only the caller can still know the parameter.
__attribute__((noipa)) int consumes(int gone) {
    __asm__ volatile("" ::"r"(gone));
    *nowhere = other_counter();
    return other_counter();
}

int main(int argc, char **argv) {
    if (argc < 3) return 93;
    state_facts_in(argv[2]);
    if (!strcmp(argv[1], "consumed")) {
        PLACE(counter);
        VALUE(hook, "NULL");
        VALUE(letter, "120 'x'");
        return consumes(argc);
    }
    return work(2, &session, &table[2], !strcmp(argv[1], "inlined")) + other_counter();
}
