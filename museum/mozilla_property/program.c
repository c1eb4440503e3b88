// Mozilla: a property is looked up by an object's identifier and key; another thread changes one of the two in between.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"

SHOW_ORDER("id-read", "changing", "changed", "key-reading");

#define OBJECTS 4
#define LOOKUPS 20

struct property {
    int id, key, value;
};

static struct property properties[OBJECTS];
static int current_id, current_key;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t pair_lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;

static int get(const int *variable)
{
    pthread_mutex_lock(&lock);
    int value = *variable;
    pthread_mutex_unlock(&lock);
    return value;
}

static void set(int *variable, int value)
{
    pthread_mutex_lock(&lock);
    *variable = value;
    pthread_mutex_unlock(&lock);
}

static struct property *find_property(int id, int key)
{
    for (int number = 0; number < OBJECTS; number++)
        if (properties[number].id == id && properties[number].key == key)
            return &properties[number];
    return NULL;
}

static void *look_up(void *unused)
{
    (void)unused;
    for (int number = 0; number < LOOKUPS; number++) {
#ifdef FIXED
        pthread_mutex_lock(&pair_lock);
#endif
        int id = get(&current_id); /* guilty: read-id */
        AT("id-read");
        AT("key-reading");
        int key = get(&current_key); /* guilty: read-key */
#ifdef FIXED
        pthread_mutex_unlock(&pair_lock);
#endif
        struct property *property = find_property(id, key); /* guilty: find */
        sum += property->value;                             /* guilty: use */
    }
    return NULL;
}

static void *change(void *unused)
{
    (void)unused;
    for (int number = 0; number < OBJECTS; number++) {
        AT("changing");
#ifdef FIXED
        pthread_mutex_lock(&pair_lock);
#endif
        set(&current_id, properties[number].id);   /* guilty: write-id */
        set(&current_key, properties[number].key); /* guilty: write-key */
#ifdef FIXED
        pthread_mutex_unlock(&pair_lock);
#endif
        if (number == 1)
            AT("changed");
    }
    return NULL;
}

int main(void)
{
    pthread_t finder, changer;
    (void)pair_lock;
    for (int number = 0; number < OBJECTS; number++)
        properties[number] = (struct property){number + 1, 100 * (number + 1), 1};
    current_id = 1;
    current_key = 100;
    pthread_create(&finder, NULL, look_up, NULL);
    pthread_create(&changer, NULL, change, NULL);
    pthread_join(finder, NULL);
    pthread_join(changer, NULL);
    printf("%ld properties found\n", sum);
    return 0;
}
