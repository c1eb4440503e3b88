// Five arrays and five pointers, all of them used. One array is overrun by three bytes, and only one of the pointers is followed
// afterwards: of twenty-five neighbourhoods one would fail. As things lie there is a gap behind each array.
//@ cc: -fno-toplevel-reorder
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define LENGTH 24

char name[LENGTH];
long gap_after_name;
char street[LENGTH];
long gap_after_street;
char town[LENGTH];
long gap_after_town;
char country[LENGTH];
long gap_after_country;
char phone[LENGTH];
long gap_after_phone;

const char *const *greetings;
const char *const *titles;
const int *codes;
const char *format;
const char *separators;

static void set_tables(void)
{
    static const char *const some_greetings[] = {"Hello", "Dear", NULL};
    static const char *const some_titles[] = {"Mr", "Mrs", "Dr", NULL};
    static const int some_codes[] = {10, 20, 30, 40, 0};
    greetings = some_greetings;
    titles = some_titles;
    codes = some_codes;
    format = "%d fields, street of %zu, %d codes\n";
    separators = " \n";
}

// Each word of the input's first column has its array.
SEPARATE static char *array_of(const char *word)
{
    static const struct {
        const char *word;
        char *array;
    } arrays[] = {{"name", name}, {"street", street}, {"town", town}, {"country", country}, {"phone", phone}};
    for (size_t number = 0; number < sizeof arrays / sizeof *arrays; number++)
        if (strcmp(arrays[number].word, word) == 0)
            return arrays[number].array;
    return NULL;
}

SEPARATE static int set_field(char *array, const char *text)
{
#ifdef FIXED
    if (array == street && strlen(text) >= LENGTH) {
        puts("street too long");
        return 1;
    }
#endif
    strcpy(array, text); /* mark: copy */
    return 1;
}

SEPARATE static int count_words(const char *const *words)
{
    int n_words = 0;
    while (words[n_words])
        n_words++;
    return n_words;
}

SEPARATE static int count_codes(void)
{
    int n_codes = 0;
    while (codes[n_codes])
        n_codes++;
    return n_codes;
}

int main(void)
{
    char line[128];
    set_tables();
    int n_fields = 0, n_words = count_words(greetings) + count_words(titles);
    const char *print_with = format, *split_at = separators;
    while (n_words == 5 && fgets(line, sizeof line, stdin)) {
        size_t length = strcspn(line, split_at);
        char *text = line + length + 1;
        line[length] = 0;
        text[strcspn(text, "\n")] = 0;
        char *array = array_of(line);
        n_fields += array ? set_field(array, text) : 0;
    }
    printf(print_with, n_fields, strlen(street), count_codes());
    return 0;
}
