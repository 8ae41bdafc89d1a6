/* A stand-in for the CUDA driver, over memory of the host. It lets the code that drives a GPU run on machines without
 * one, and does not replace tests on a GPU. It is stricter than any GPU:
 *
 * - Work on a stream runs only when the caller waits for it. Code that lacks a wait reads old bytes.
 * - The CPU cannot access memory of the device: a read by its address ends the process.
 * - Freed memory is filled with 0xdd. A later copy from it is a fault, which the stand-in counts.
 * - Functions that need a current context refuse calls without one.
 * - Functions that are forbidden during a capture refuse the call and invalidate the capture.
 *
 * Source: the documentation of the CUDA driver API.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_driver/state.h"
#include "cuda_driver/work.h"
#include "cuda_driver/questions.h"
#include "cuda_driver/streams.h"

int cuInit(unsigned flags) {
    (void)flags;
    return init_result;
}

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return SUCCESS;
}

int cuDeviceGetCount(int *count) {
    *count = device_count;
    return SUCCESS;
}

int cuDeviceGet(int *device, int number) {
    *device = number;
    return number >= 0 && number < device_count ? SUCCESS : INVALID_DEVICE;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    enum { MANAGED_MEMORY = 83, CONCURRENT_MANAGED_ACCESS = 89, MEMORY_POOLS_SUPPORTED = 115 };
    (void)device;
    *value = attribute == MEMORY_POOLS_SUPPORTED ? pools
                                                 : attribute == MANAGED_MEMORY || attribute == CONCURRENT_MANAGED_ACCESS;
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(Context **context, int device) {
    if (ended) {
        return ended;
    }
    if (device < 0 || device >= device_count) {
        return INVALID_DEVICE;
    }
    contexts[device].retained++;
    *context = &contexts[device];
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    contexts[device].retained--;
    return SUCCESS;
}

int cuCtxPushCurrent_v2(Context *context) {
    if (ended) {
        return ended;
    }
    if (depth == CONTEXTS_OF_A_THREAD) {
        return OUT_OF_MEMORY;
    }
    current[depth++] = context;
    __atomic_fetch_add(&pushed_contexts, 1, __ATOMIC_SEQ_CST);
    return SUCCESS;
}

int cuCtxSetCurrent(Context *context) {
    if (!depth) {
        cuCtxPushCurrent_v2(context);
    }
    current[depth - 1] = context;
    return SUCCESS;
}

int cuCtxGetCurrent(Context **context) {
    *context = depth ? current[depth - 1] : NULL;
    return SUCCESS;
}

int cuCtxPopCurrent_v2(Context **context) {
    if (!depth) {
        return INVALID_CONTEXT;
    }
    --depth;
    __atomic_fetch_sub(&pushed_contexts, 1, __ATOMIC_SEQ_CST);
    if (context) {
        *context = current[depth];
    }
    return SUCCESS;
}

static int wait_for_all(void) {
    if (wait_result) {
        return wait_result;
    }
    if (any_capture()) {
        return CAPTURE_UNSUPPORTED;
    }
    host_waits++;
    int number = current[depth - 1]->number;
    run(&legacy[number], legacy[number].put);
    for (int i = 0; i < stream_count; ++i) {
        run(&streams[i], streams[i].put);
    }
    return SUCCESS;
}

int cuCtxSynchronize(void) {
    WITH_CONTEXT
    LOCKED(wait_for_all());
}

int cuCtxGetDevice(int *device) {
    WITH_CONTEXT
    *device = current[depth - 1]->number;
    return SUCCESS;
}

int cuMemAlloc_v2(uint64_t *address, size_t size) {
    WITH_CONTEXT
    LOCKED(any_capture() ? CAPTURE_UNSUPPORTED : allocate(address, size, DEVICE));
}

int cuMemAllocAsync(uint64_t *address, size_t size, uintptr_t stream) {
    (void)stream;
    WITH_CONTEXT
    LOCKED(allocate(address, size, DEVICE));
}

int cuMemAllocManaged(uint64_t *address, size_t size, unsigned flags) {
    (void)flags;
    WITH_CONTEXT
    LOCKED(allocate(address, size, MANAGED));
}

int cuMemHostAlloc(uint64_t *address, size_t size, unsigned flags) {
    (void)flags;
    WITH_CONTEXT
    LOCKED(allocate(address, size, PINNED));
}

/* Does not wait, although the real function does: the caller has waited before. */
int cuMemFree_v2(uint64_t address) {
    WITH_CONTEXT
    LOCKED(release(address));
}

int cuMemFreeHost(uint64_t address) {
    WITH_CONTEXT
    LOCKED(release(address));
}

int cuMemFreeAsync(uint64_t address, uintptr_t stream) {
    WITH_CONTEXT
    LOCKED(puts_work(stream, (Work){.kind = FREE, .to = address}));
}

int cuMemcpyAsync(uint64_t to, uint64_t from, size_t size, uintptr_t stream) {
    WITH_CONTEXT
    LOCKED(puts_work(stream, (Work){.kind = COPY, .to = to, .from = from, .size = size}));
}

int cuMemcpyHtoDAsync_v2(uint64_t to, uint64_t from, size_t size, uintptr_t stream) {
    return cuMemcpyAsync(to, from, size, stream);
}

int cuMemcpyDtoHAsync_v2(uint64_t to, uint64_t from, size_t size, uintptr_t stream) {
    return cuMemcpyAsync(to, from, size, stream);
}

/* A copy between devices. It may begin although the call returns an error, for example of earlier work. */
static int copy_on_device(uint64_t to, uint64_t from, size_t size, uintptr_t stream) {
    int status = cuMemcpyAsync(to, from, size, stream);
    return copy_result ? copy_result : status;
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, uintptr_t stream) {
    return copy_on_device(to, from, size, stream);
}

static int set_bytes(uint64_t address, unsigned char value, size_t size, uintptr_t stream) {
    Work work = {.kind = WRITE, .to = address, .size = size, .bytes = malloc(size)};
    memset(work.bytes, value, size);
    return puts_work(stream, work);
}

int cuMemsetD8Async(uint64_t address, unsigned char value, size_t size, uintptr_t stream) {
    WITH_CONTEXT
    LOCKED(set_bytes(address, value, size, stream));
}

int cuLaunchHostFunc(uintptr_t stream, void (*function)(void *), void *argument) {
    WITH_CONTEXT
    LOCKED(puts_work(stream, (Work){.kind = CALL, .function = function, .argument = argument}));
}

static int pointer_attribute(void *value, int attribute, uint64_t address) {
    enum { CONTEXT = 1, MEMORY_TYPE = 2, IS_MANAGED = 8, DEVICE_ORDINAL = 9 };
    enum { HOST_MEMORY = 1, DEVICE_MEMORY = 2 };
    Region *region = region_of(address, 1);
    if (!region || !region->lives) {
        return INVALID_VALUE;
    }
    switch (attribute) {
    case CONTEXT:
        *(Context **)value = &contexts[region->device];
        return SUCCESS;
    case MEMORY_TYPE:
        *(int *)value = region->place == PINNED ? HOST_MEMORY : DEVICE_MEMORY;
        return SUCCESS;
    case IS_MANAGED:
        *(int *)value = region->place == MANAGED;
        return SUCCESS;
    case DEVICE_ORDINAL:
        *(int *)value = region->device;
        return SUCCESS;
    default:
        return INVALID_VALUE;
    }
}

int cuPointerGetAttribute(void *value, int attribute, uint64_t address) {
    LOCKED(pointer_attribute(value, attribute, address));
}

#ifdef ROCM
/* Compiler options rename the functions to HIP's names. In HIP, a thread selects its device by a number. */
int hipSetDevice(int device) {
    if (device < 0 || device >= device_count) {
        return INVALID_DEVICE;
    }
    return cuCtxSetCurrent(&contexts[device]);
}

int hipGetDevice(int *device) {
    *device = depth && current[depth - 1] ? current[depth - 1]->number : 0;
    return SUCCESS;
}

int hipStreamGetDevice(uintptr_t stream, int *device) {
    Context *context = &contexts[0];
    if (!depth) {
        cuCtxSetCurrent(context);
    }
    int result = cuStreamGetCtx(stream, &context);
    *device = context->number;
    return result;
}

const char *hipGetErrorName(int status) {
    (void)status;
    return "an error of the stand-in";
}
#endif

int cuGetErrorName(int status, const char **name) {
    *name = "AN_ERROR_OF_THE_STAND_IN";
    return status ? SUCCESS : INVALID_VALUE;
}

int cuGetErrorString(int status, const char **text) {
    *text = "an error of the stand-in";
    return status ? SUCCESS : INVALID_VALUE;
}

int cuMemcpyPeerAsync(uint64_t to, Context *to_context, uint64_t from, Context *from_context, size_t size,
                      uintptr_t stream) {
    Region *source = region_of(from, size), *target = region_of(to, size);
    if (!source || !target || &contexts[source->device] != from_context || &contexts[target->device] != to_context) {
        return INVALID_VALUE;
    }
    return copy_on_device(to, from, size, stream);
}

int cuStreamAttachMemAsync(uintptr_t stream, uint64_t address, size_t size, unsigned flags) {
    (void)flags;
    WITH_CONTEXT
    return stream > LEGACY && region_of(address, size) ? SUCCESS : INVALID_VALUE;
}

/* A context beside the primary one, with its own handle and the checks that use the handle. */
int cuCtxCreate_v3(Context **context, void *affinities, int count, unsigned flags, int device) {
    (void)affinities, (void)count, (void)flags;
    if (device < 0 || device >= device_count) {
        return INVALID_DEVICE;
    }
    *context = malloc(sizeof **context);
    **context = (Context){device, 1};
    return cuCtxPushCurrent_v2(*context);
}

int cuCtxDestroy_v2(Context *context) {
    if (depth && current[depth - 1] == context) {
        cuCtxPopCurrent_v2(NULL);
    }
    free(context);
    return SUCCESS;
}

/* Functions of the driver for graphs, and others that the suite for GPUs calls. */

int cuDeviceGetName(char *name, int size, int device) {
    (void)device;
    strncpy(name, "stand-in over memory of the host", size - 1);
    name[size - 1] = 0;
    return SUCCESS;
}

static void append_copies(Work **last, Work *from) {
    for (; from; from = from->next) {
        Work *copy = malloc(sizeof *copy);
        *copy = *from;
        copy->next = NULL;
        if (from->bytes) {
            copy->bytes = malloc(from->size);
            memcpy(copy->bytes, from->bytes, from->size);
        }
        *last = copy;
        last = &copy->next;
    }
}

/* Returns an executable copy of the captured graph. */
int cuGraphInstantiateWithFlags(Work **executable, Work *graph, unsigned long long flags) {
    if (flags) {
        return INVALID_VALUE;
    }
    *executable = NULL;
    append_copies(executable, graph);
    return SUCCESS;
}

static int launch(Work *executable, uintptr_t stream) {
    int result = SUCCESS;
    Work *copies = NULL;
    append_copies(&copies, executable);
    while (copies && !result) {
        Work *work = copies;
        copies = work->next;
        /* An event of a capture is complete when the work before it is. */
        result = work->kind == WAIT ? SUCCESS : puts_work(stream, *work);
        free(work);
    }
    return result;
}

int cuGraphLaunch(Work *executable, uintptr_t stream) {
    WITH_CONTEXT
    LOCKED(launch(executable, stream));
}
