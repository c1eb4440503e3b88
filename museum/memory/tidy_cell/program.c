// tidy: a node that does not belong where it stands is detached, and the parser goes on to ask for its parent, which is what is right
// for nodes that were moved only.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "separate.h"

#define DEPTH 32

enum kind { TEXT, PARAGRAPH, TABLE, ROW, CELL, OTHER };

struct node {
    enum kind kind;
    int n_children;
    struct node *parent;
    struct node *first, *last, *next;
};

static struct node *open_nodes[DEPTH];
static int depth;
static int n_nodes, n_cells;

static enum kind kind_of(const char *tag)
{
    static const char *const names[] = {"", "p", "table", "tr", "td"};
    for (int kind = PARAGRAPH; kind <= CELL; kind++)
        if (strcmp(tag, names[kind]) == 0)
            return kind;
    return OTHER;
}

static void attach(struct node *parent, struct node *node)
{
    node->parent = parent;
    if (parent->last)
        parent->last->next = node;
    else
        parent->first = node;
    parent->last = node;
    parent->n_children++;
}

static struct node *new_node(enum kind kind)
{
    struct node *node = calloc(1, sizeof *node);
    node->kind = kind;
    n_nodes++;
    attach(open_nodes[depth], node);
    return node;
}

static void unlink_child(struct node *parent, struct node *node)
{
    struct node *before = NULL;
    for (struct node *child = parent->first; child != node; child = child->next)
        before = child;
    if (before)
        before->next = node->next;
    else
        parent->first = node->next;
    if (parent->last == node)
        parent->last = before;
    parent->n_children--;
}

SEPARATE static void detach(struct node *node)
{
    unlink_child(node->parent, node);
    node->parent = NULL; /* mark: detach */
    node->next = NULL;
}

static int in_table(void)
{
    for (int level = depth; level > 0; level--)
        if (open_nodes[level]->kind == TABLE)
            return 1;
    return 0;
}

SEPARATE static void check_cell(struct node *node)
{
    struct node *parent = node->parent; /* mark: parent */
#ifdef FIXED
    if (!parent) {
        puts("cell outside of a table");
        return;
    }
#endif
    if (parent->kind != ROW) /* mark: kind */
        puts("cell outside of a row");
    n_cells++;
}

static void open_tag(const char *tag)
{
    struct node *node = new_node(kind_of(tag));
    if (node->kind == CELL) {
        if (!in_table())
            detach(node);
        check_cell(node);
    }
    if (depth + 1 < DEPTH)
        open_nodes[++depth] = node;
}

static void parse(const char *text)
{
    while (*text && *text != '\n') {
        char tag[16] = "";
        if (sscanf(text, "</%15[a-z]>", tag) == 1) {
            depth -= depth > 0;
            text += strlen(tag) + 3;
        } else if (sscanf(text, "<%15[a-z]>", tag) == 1) {
            open_tag(tag);
            text += strlen(tag) + 2;
        } else {
            new_node(TEXT);
            text += *text == '<';
            while (*text && *text != '<' && *text != '\n')
                text++;
        }
    }
}

int main(void)
{
    static char line[4096];
    open_nodes[0] = calloc(1, sizeof *open_nodes[0]);
    open_nodes[0]->kind = OTHER;
    while (fgets(line, sizeof line, stdin))
        parse(line);
    printf("%d nodes, %d cells\n", n_nodes, n_cells);
    return 0;
}
