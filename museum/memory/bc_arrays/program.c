// bc 1.06: when the table of arrays grows, its new cells are cleared up to the number of variables instead of arrays.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define STORE_INCREMENT 8
#define ARRAY_LENGTH 16

struct array {
    long values[ARRAY_LENGTH];
};

static struct array **arrays;
static char **array_names;
static int array_count, next_array = 1;

static long *variables;
static char **variable_names;
static int variable_count, next_variable = 1;

static void *allocate(size_t size)
{
    void *block = malloc(size);
    if (!block)
        exit(2);
    return block;
}

static char *copy_of(const char *text)
{
    return strcpy(allocate(strlen(text) + 1), text);
}

static void more_variables(void)
{
    long *old_variables = variables;
    char **old_names = variable_names;
    int old_count = variable_count;
    variable_count += STORE_INCREMENT;
    variables = allocate(variable_count * sizeof *variables);
    variable_names = allocate(variable_count * sizeof *variable_names);
    for (int index = 1; index < old_count; index++) {
        variables[index] = old_variables[index];
        variable_names[index] = old_names[index];
    }
    free(old_names);
    free(old_variables);
}

SEPARATE static void more_arrays(void)
{
    struct array **old_arrays = arrays;
    char **old_names = array_names;
    int old_count = array_count, index;
    array_count += STORE_INCREMENT;
    arrays = allocate(array_count * sizeof *arrays);
    array_names = allocate(array_count * sizeof *array_names);
    for (index = 1; index < old_count; index++)
        array_names[index] = old_names[index];
    for (index = 1; index < old_count; index++)
        arrays[index] = old_arrays[index];
#ifdef FIXED
    for (; index < array_count; index++)
#else
    for (; index < variable_count; index++) /* mark: bound */
#endif
        arrays[index] = NULL; /* mark: clear */
    free(old_arrays);
    free(old_names);
}

static int find(char **names, int n_names, const char *name)
{
    for (int index = 1; index < n_names; index++)
        if (strcmp(names[index], name) == 0) /* mark: compare */
            return index;
    return 0;
}

static int variable_of(const char *name)
{
    int index = find(variable_names, next_variable, name);
    if (index)
        return index;
    if (next_variable >= variable_count)
        more_variables();
    variable_names[next_variable] = copy_of(name);
    variables[next_variable] = 0;
    return next_variable++;
}

static struct array *array_of(const char *name)
{
    int index = find(array_names, next_array, name);
    if (index)
        return arrays[index];
    if (next_array >= array_count)
        more_arrays();
    array_names[next_array] = copy_of(name);
    arrays[next_array] = allocate(sizeof *arrays[next_array]);
    memset(arrays[next_array], 0, sizeof *arrays[next_array]);
    return arrays[next_array++];
}

// `name`, `name=number`, `name[index]` or `name[index]=number`
static void execute(char *line)
{
    char name[32] = "";
    size_t length = 0;
    while (isalpha((unsigned char)line[length]) && length < sizeof name - 1) {
        name[length] = line[length];
        length++;
    }
    if (!length)
        return;
    char *rest = line + length;
    long *cell;
    if (*rest == '[') {
        struct array *array = array_of(name);
        cell = &array->values[strtoul(rest + 1, &rest, 10) % ARRAY_LENGTH];
    } else {
        int index = variable_of(name);
        cell = &variables[index];
    }
    char *assignment = strchr(rest, '=');
    if (assignment)
        *cell = strtol(assignment + 1, NULL, 10);
    else
        printf("%ld\n", *cell);
}

int main(void)
{
    char line[128];
    while (fgets(line, sizeof line, stdin))
        execute(line);
    printf("%d variables, %d arrays\n", next_variable - 1, next_array - 1);
    return 0;
}
