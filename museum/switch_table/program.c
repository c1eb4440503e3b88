// A switch on a shared value, compiled to a bounds check and an unchecked jump through a table, loads the value twice.
#include <pthread.h>
#include <stdio.h>

#include "show.h"

SHOW_ORDER("checked", "switching-off", "switched-off", "jumping");

#define MODES 4
#define FRAMES 60

static long counts[MODES];

static void draw_lines(void) { counts[0]++; }
static void draw_points(void) { counts[1]++; }
static void draw_faces(void) { counts[2]++; }
static void draw_nothing(void) { counts[3]++; }

typedef void (*draw)(void);

static struct {
    draw modes[MODES];
    draw never[64];
} jumps = {{draw_lines, draw_points, draw_faces, draw_nothing}, {0}};

static volatile unsigned mode;
static pthread_mutex_t mode_lock = PTHREAD_MUTEX_INITIALIZER;
static long n_skipped;

static void draw_frame(int frame)
{
    char title[32];
#ifdef FIXED
    pthread_mutex_lock(&mode_lock);
#endif
    if (mode < MODES) { /* guilty: check */
        AT("checked");
        snprintf(title, sizeof title, "frame %d", frame);
        AT("jumping");
        jumps.modes[mode](); /* guilty: jump */
    } else {
        n_skipped++;
    }
#ifdef FIXED
    pthread_mutex_unlock(&mode_lock);
#endif
}

static void *draw_all(void *unused)
{
    (void)unused;
    for (int frame = 0; frame < FRAMES; frame++)
        draw_frame(frame);
    return NULL;
}

static void set_mode(unsigned new_mode)
{
#ifdef FIXED
    pthread_mutex_lock(&mode_lock);
#endif
    mode = new_mode; /* guilty: change */
#ifdef FIXED
    pthread_mutex_unlock(&mode_lock);
#endif
}

static void *choose_modes(void *unused)
{
    (void)unused;
    for (unsigned number = 1; number < MODES; number++)
        set_mode(number);
    AT("switching-off");
    set_mode(MODES + 7); // no such mode: drawing is switched off
    AT("switched-off");
    return NULL;
}

int main(void)
{
    pthread_t drawer, chooser;
    long n_frames = 0;
    (void)mode_lock;
    pthread_create(&drawer, NULL, draw_all, NULL);
    pthread_create(&chooser, NULL, choose_modes, NULL);
    pthread_join(drawer, NULL);
    pthread_join(chooser, NULL);
    for (int number = 0; number < MODES; number++)
        n_frames += counts[number];
    printf("%ld frames\n", n_frames + n_skipped);
    return 0;
}
