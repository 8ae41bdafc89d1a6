/* Threads that call deleters of managed tensors without the GIL, like native code of other libraries. */
#include <pthread.h>
#include <stdint.h>

typedef struct Managed {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct Managed *);
} Managed;

enum { MOST = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static Managed *queue[MOST];
static int queued, running, busy;

static void *work(void *unused) {
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!running || queued == 0)
            pthread_cond_wait(&changed, &lock);
        Managed *next = queue[--queued];
        busy++;
        pthread_mutex_unlock(&lock);
        next->deleter(next);
        pthread_mutex_lock(&lock);
        if (--busy == 0 && queued == 0)
            pthread_cond_broadcast(&changed);
    }
    return unused;
}

/* Starts `threads` threads, which wait. */
void start(int threads) {
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, NULL);
        pthread_detach(thread);
    }
}

/* Gives the threads a tensor to delete. */
void feed(Managed *managed) {
    pthread_mutex_lock(&lock);
    queue[queued++] = managed;
    pthread_mutex_unlock(&lock);
}

/* Lets the threads delete the tensors, and does not wait for them. */
void go(void) {
    pthread_mutex_lock(&lock);
    running = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Waits until the threads have deleted every tensor, then stops them. */
void finish(void) {
    pthread_mutex_lock(&lock);
    while (queued > 0 || busy > 0)
        pthread_cond_wait(&changed, &lock);
    running = 0;
    pthread_mutex_unlock(&lock);
}
