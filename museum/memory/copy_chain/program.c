// A field without a value gets a pointer computed from a search that found nothing. It is handed through rows, forms, pages and a queue,
// by parameters, returns and copies of whole structures, before somebody follows it.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define FIELDS 16

struct row {
    const char *value;
    int number;
};

struct form {
    struct row rows[FIELDS];
    int n_rows;
};

struct page {
    struct form form;
    int number;
};

struct job {
    const char *value;
    struct job *next;
};

static struct job *queue;

// The place of the value, behind the sign; there may be none.
SEPARATE static const char *value_in(const char *field, const char *sign)
{
#ifdef FIXED
    if (!sign)
        return field + strlen(field);
#endif
    uintptr_t place = (uintptr_t)sign + 1; /* mark: compute */
    return (const char *)place;
}

SEPARATE static struct row row_of(const char *field, int number)
{
    struct row row = {.value = value_in(field, strchr(field, '=')), .number = number}; /* mark: to-row */
    return row;
}

SEPARATE static void add_row(struct form *form, struct row row)
{
    form->rows[form->n_rows++] = row; /* mark: to-form */
}

SEPARATE static struct page *page_of(const struct form *form)
{
    struct page *page = malloc(sizeof *page);
    page->form = *form; /* mark: to-page */
    page->number = 1;
    return page;
}

SEPARATE static void enqueue(const struct page *page)
{
    for (int number = page->form.n_rows - 1; number >= 0; number--) {
        struct job *job = malloc(sizeof *job);
        job->value = page->form.rows[number].value; /* mark: to-queue */
        job->next = queue;
        queue = job;
    }
}

SEPARATE static const char *dequeue(void)
{
    struct job *job = queue;
    const char *value = job->value; /* mark: from-queue */
    queue = job->next;
    free(job);
    return value;
}

SEPARATE static size_t room_for(const char *value)
{
    return strlen(value) + 1; /* mark: measure */
}

int main(void)
{
    char line[256];
    static struct form form;
    if (!fgets(line, sizeof line, stdin))
        return 2;
    for (char *field = strtok(line, ";\n"); field && form.n_rows < FIELDS; field = strtok(NULL, ";\n"))
        add_row(&form, row_of(field, form.n_rows));
    enqueue(page_of(&form));
    size_t longest = 0;
    int n_fields = 0;
    for (; queue; n_fields++) {
        size_t length = room_for(dequeue()) - 1;
        longest = length > longest ? length : longest;
    }
    printf("%d fields, longest %zu\n", n_fields, longest);
    return 0;
}
