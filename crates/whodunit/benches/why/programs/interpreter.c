// Interprets a small program for about a second. One of its strings is too long for its place; the table behind it is used
// at the end.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum operation { PUSH, ADD, LOAD, STORE, LESS, JUMP_IF, NAME, CALL, END };

struct instruction {
    enum operation operation;
    long operand;
};

struct function {
    long (*run)(long);
};

struct machine {
    long *stack;
    long variables[8];
    char *name;
    struct function *functions;
};

static long twice(long value) {
    return 2 * value;
}

static void set_name(struct machine *machine, const char *name) {
    strcpy(machine->name, name); /* guilty */
}

static long interpret(struct machine *machine, const struct instruction *at, const struct instruction *code) {
    long *top = machine->stack;
    for (;;) {
        switch (at->operation) {
        case PUSH: *top++ = at->operand; break;
        case ADD: top--; top[-1] += *top; break;
        case LOAD: *top++ = machine->variables[at->operand]; break;
        case STORE: machine->variables[at->operand] = *--top; break;
        case LESS: top--; top[-1] = top[-1] < *top; break;
        case JUMP_IF: if (*--top) { at = code + at->operand; continue; } break;
        case NAME: set_name(machine, at->operand ? "a-name-that-is-much-too-long-for-its-place" : "short"); break;
        case CALL: top[-1] = machine->functions->run(top[-1]); break; /* crash */
        case END: return top[-1];
        }
        at++;
    }
}

int main(int argc, char **argv) {
    long turns = atol(argv[1]), bad = atol(argv[2]);
    struct machine machine = { .stack = malloc(64 * sizeof(long)) };
    machine.name = malloc(24);
    machine.functions = malloc(sizeof *machine.functions);
    machine.functions->run = twice;
    struct instruction code[] = {
        { PUSH, 0 }, { STORE, 0 },
        { LOAD, 0 }, { PUSH, 1 }, { ADD, 0 }, { STORE, 0 }, { LOAD, 0 }, { PUSH, bad }, { LESS, 0 }, { JUMP_IF, 2 },
        { NAME, bad > 0 },
        { LOAD, 0 }, { PUSH, 1 }, { ADD, 0 }, { STORE, 0 }, { LOAD, 0 }, { PUSH, turns }, { LESS, 0 }, { JUMP_IF, 11 },
        { LOAD, 0 }, { CALL, 0 }, { END, 0 },
    };
    (void)argc;
    printf("%ld\n", interpret(&machine, code, code));
}
