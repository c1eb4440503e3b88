// Mozilla: one thread sets the current script and later compiles it, each under the lock; another clears it in between.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "show.h"

SHOW_ORDER("loaded 0", "clearing", "cleared", "compiling 0", "compiled 0", "going-on");

#define SCRIPTS 12

struct script {
    const char *source;
    unsigned code;
};

static struct script scripts[SCRIPTS];
static struct script *current_script;
static int n_compiled, n_cleared;
static pthread_mutex_t script_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;

static void load_script(struct script *script)
{
    pthread_mutex_lock(&script_lock);
    current_script = script; /* guilty: load */
    pthread_mutex_unlock(&script_lock);
}

static void compile_script(void)
{
    pthread_mutex_lock(&script_lock);
    for (const char *at = current_script->source; *at; at++) /* guilty: compile */
        current_script->code = current_script->code * 31 + *at;
    n_compiled++;
    pthread_mutex_unlock(&script_lock);
}

static void clear_script(void)
{
    pthread_mutex_lock(&script_lock);
    current_script = NULL; /* guilty: clear */
    n_cleared++;
    pthread_mutex_unlock(&script_lock);
}

static void *load_and_compile(void *unused)
{
    char line[32];
    (void)unused;
    for (int number = 0; number < SCRIPTS; number++) {
#ifdef FIXED
        pthread_mutex_lock(&load_lock);
#endif
        load_script(&scripts[number]);
        AT_NUMBER("loaded", number);
        snprintf(line, sizeof line, "compiling %d", number);
        AT_NUMBER("compiling", number);
        compile_script();
        AT_NUMBER("compiled", number);
#ifdef FIXED
        pthread_mutex_unlock(&load_lock);
#endif
    }
    return NULL;
}

static void *collect_garbage(void *unused)
{
    (void)unused;
    for (int number = 0; number < 3; number++) {
#ifdef FIXED
        pthread_mutex_lock(&load_lock);
#endif
        AT("clearing");
        clear_script();
        AT("cleared");
#ifdef FIXED
        pthread_mutex_unlock(&load_lock);
#endif
        AT("going-on");
    }
    return NULL;
}

int main(void)
{
    pthread_t loader, collector;
    (void)load_lock;
    for (int number = 0; number < SCRIPTS; number++)
        scripts[number].source = "function f(x) { return x + 1; }";
    pthread_create(&loader, NULL, load_and_compile, NULL);
    pthread_create(&collector, NULL, collect_garbage, NULL);
    pthread_join(loader, NULL);
    pthread_join(collector, NULL);
    printf("%d compiled, %d cleared\n", n_compiled, n_cleared);
    return 0;
}
