/* A library with the name of the CUDA driver. It forwards all calls to the stand-in (cuda_driver.c), records them, and lets
 * chosen calls fail. Tests call the stand-in directly, so their own calls are not recorded and never fail.
 *
 * A call that fails does nothing. A late fault does its work and then returns an error, as if earlier work had failed; the
 * documentation allows most functions of the driver to do so.
 *
 * Functions have at most six arguments, all integers or pointers, which are passed in registers.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FAULTS = 4, CALLS = 4096 };
/* HERE is the thread that sets the faults; ELSEWHERE stands for all other threads. */
enum { HERE, ELSEWHERE, THREADS };

typedef uintptr_t Word;
typedef int Function(Word, Word, Word, Word, Word, Word);

typedef struct {
    char function[64];
    int thread, skip, status, late, hits;
    Word argument;
} Fault;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t here;
static Fault faults[FAULTS];
static int fault_count, call_count[THREADS];
static const char *called[THREADS][CALLS];

/* Clears the faults and the recorded calls. */
void faults_clear(void) {
    pthread_mutex_lock(&lock);
    here = pthread_self();
    fault_count = 0;
    memset(call_count, 0, sizeof call_count);
    pthread_mutex_unlock(&lock);
}

/* Lets one call fail, after `skip` calls of the function, or of any function if the name is empty. */
void faults_add(const char *function, int thread, int skip, int status, int late) {
    pthread_mutex_lock(&lock);
    Fault *fault = &faults[fault_count++];
    *fault = (Fault){.thread = thread, .skip = skip, .status = status, .late = late};
    strncpy(fault->function, function, sizeof fault->function - 1);
    pthread_mutex_unlock(&lock);
}

/* Returns how often a fault happened, and stores the first argument of the failed call. */
int faults_hit(int number, Word *argument) {
    pthread_mutex_lock(&lock);
    int hits = faults[number].hits;
    *argument = faults[number].argument;
    pthread_mutex_unlock(&lock);
    return hits;
}

int faults_calls(int thread) {
    pthread_mutex_lock(&lock);
    int count = call_count[thread];
    pthread_mutex_unlock(&lock);
    return count;
}

/* The name of the function of a call. */
const char *faults_called(int thread, int number) {
    return called[thread][number];
}

static Fault *noted(const char *name, Word argument) {
    Fault *found = NULL;
    pthread_mutex_lock(&lock);
    int thread = pthread_equal(here, pthread_self()) ? HERE : ELSEWHERE;
    if (call_count[thread] < CALLS) {
        called[thread][call_count[thread]++] = name;
    }
    for (int i = 0; i < fault_count; ++i) {
        Fault *fault = &faults[i];
        int is_meant = fault->thread == thread && (!*fault->function || !strcmp(fault->function, name));
        if (is_meant && !fault->hits && fault->skip-- == 0) {
            fault->hits = 1;
            fault->argument = argument;
            found = fault;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static int call(const char *name, Function **function, Word a, Word b, Word c, Word d, Word e, Word f) {
    if (!*function) {
        void *library = dlopen(STAND_IN, RTLD_NOW | RTLD_LOCAL);
        *function = library ? (Function *)dlsym(library, name) : NULL;
        if (!*function) {
            abort();
        }
    }
    Fault *fault = noted(name, a);
    int status = fault ? fault->status : 0;
    if (fault && !fault->late) {
        return status;
    }
    int result = (*function)(a, b, c, d, e, f);
    return fault ? status : result;
}

#define PASSED_ON(name)                                                                                                 \
    int name(Word a, Word b, Word c, Word d, Word e, Word f) {                                                          \
        static Function *function;                                                                                      \
        return call(#name, &function, a, b, c, d, e, f);                                                                \
    }

PASSED_ON(cuInit)
PASSED_ON(cuDevicePrimaryCtxRetain)
PASSED_ON(cuCtxPushCurrent_v2)
PASSED_ON(cuCtxPopCurrent_v2)
PASSED_ON(cuCtxGetDevice)
PASSED_ON(cuStreamGetCtx)
PASSED_ON(cuEventCreate)
PASSED_ON(cuEventRecord)
PASSED_ON(cuEventQuery)
PASSED_ON(cuEventSynchronize)
PASSED_ON(cuEventDestroy_v2)
PASSED_ON(cuStreamWaitEvent)
PASSED_ON(cuStreamGetCaptureInfo)
PASSED_ON(cuThreadExchangeStreamCaptureMode)
PASSED_ON(cuPointerGetAttribute)
PASSED_ON(cuDeviceGetAttribute)
PASSED_ON(cuMemAlloc_v2)
PASSED_ON(cuMemAllocAsync)
PASSED_ON(cuMemFree_v2)
PASSED_ON(cuMemFreeAsync)
PASSED_ON(cuMemcpyPeerAsync)
PASSED_ON(cuMemHostAlloc)
PASSED_ON(cuMemcpyAsync)

/* dlbridge calls this function after a fault, so it never fails. */
int cuGetErrorName(int status, const char **name) {
    *name = "AN_ERROR_OF_A_TEST";
    return status ? 0 : 1;
}
