// States facts for a program that is not written in C.
#include "facts.h"

void state_facts(const char *into) {
    static char kept[4096];
    strncpy(kept, into, sizeof kept - 1);
    state_facts_in(kept);
}

void state_place(const char *expression, unsigned long address, unsigned long size) {
    dprintf(facts, "place|%s|%lu|%lu\n", expression, address, size);
}

void state_value(const char *expression, const char *text) {
    dprintf(facts, "value|%s|%s|\n", expression, text);
}
