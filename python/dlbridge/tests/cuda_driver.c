/* A stand-in for the CUDA driver, over memory of the host. It counts nothing as a GPU; it lets the code that
 * drives one run where there is none, and it is worse than any GPU in what it is allowed to do:
 *
 * - What is put on a stream is done when somebody waits for it, and not before. What lacks a wait reads old bytes.
 * - Memory of the device is out of the CPU's reach: who reads it by its address ends the process.
 * - Memory that is freed is filled with 0xdd; who has it copied afterwards commits a fault, which is counted.
 * - What needs a current context is refused without one.
 * - What must not be done while a stream is captured is refused, and spoils the capture.
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

enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_HANDLE = 400,
    NOT_FOUND = 500, NOT_READY = 600, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_ISOLATION = 905,
    CAPTURE_IMPLICIT = 906, CAPTURED_EVENT = 907
};
enum { DEVICES = 2, REGIONS = 4096, STREAMS = 1024, EVENTS = 4096 };
enum { LEGACY = 1, PER_THREAD = 2 };

typedef enum { COPY, WRITE, WAIT, FREE, CALL, BLOCK } Kind;
typedef struct Stream Stream;

typedef struct Work {
    Kind kind;
    uint64_t to, from;
    size_t size;
    Stream *stream;
    uint64_t until;
    void (*function)(void *);
    void *argument;
    unsigned char *bytes;
    struct Work *next;
} Work;

typedef struct {
    int number, retained;
} Context;

struct Stream {
    Context *context;
    int lives, non_blocking, capturing, spoilt, running;
    unsigned long long capture;
    uint64_t put, done;
    Work *first, *last, *captured, *captured_last;
};

typedef struct {
    int lives;
    Context *context;
    Stream *stream;
    uint64_t until;
    unsigned long long capture;
} Event;

typedef enum { DEVICE, MANAGED, PINNED } Place;
typedef struct {
    uint64_t address;
    char *memory;
    size_t size;
    int device, lives;
    Place place;
} Region;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Context contexts[DEVICES] = {{0, 0}, {1, 0}};
static Stream legacy[DEVICES], streams[STREAMS];
static Event events[EVENTS];
static Region regions[REGIONS];
static int region_count, stream_count, init_result, device_count = DEVICES, pools = 1;
static int event_result, wait_result;
static int faults, host_waits, stream_waits, live_events;
static uint64_t last_waited;
static unsigned long long captures;
static volatile int released;
static __thread Context *current[16];
static __thread Stream *per_thread[DEVICES];
static __thread int depth, relaxed;

#define WITH_CONTEXT                                                                                                    \
    if (!depth || !current[depth - 1]) {                                                                                \
        return INVALID_CONTEXT;                                                                                         \
    }

/* ---- Memory ---- */

static Region *region_of(uint64_t address, size_t size) {
    for (int i = region_count - 1; i >= 0; --i) {
        Region *region = &regions[i];
        if (address >= region->address && address + size <= region->address + region->size) {
            return region;
        }
    }
    return NULL;
}

/* Where the driver itself reaches the bytes; NULL, and a fault, for memory that is gone. */
static void *reach(uint64_t address, size_t size) {
    Region *region = region_of(address, size);
    if (!region) {
        return (void *)(uintptr_t)address;
    }
    if (!region->lives) {
        faults++;
        return NULL;
    }
    return region->memory + (address - region->address);
}

static int allocate(uint64_t *address, size_t size, Place place) {
    if (!size || region_count == REGIONS) {
        return size ? OUT_OF_MEMORY : INVALID_VALUE;
    }
    Region region = {.size = size, .device = current[depth - 1]->number, .lives = 1, .place = place};
    int file = memfd_create("device", 0);
    if (file < 0 || ftruncate(file, size)) {
        return OUT_OF_MEMORY;
    }
    region.memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    void *seen = region.memory;
    if (place == DEVICE) {
        seen = mmap(NULL, size, PROT_NONE, MAP_SHARED, file, 0);
    }
    close(file);
    memset(region.memory, 0xcc, size);
    region.address = (uintptr_t)seen;
    regions[region_count++] = region;
    *address = region.address;
    return SUCCESS;
}

static int release(uint64_t address) {
    Region *region = region_of(address, 1);
    if (!region || !region->lives || region->address != address) {
        faults++;
        return INVALID_VALUE;
    }
    memset(region->memory, 0xdd, region->size);
    region->lives = 0;
    return SUCCESS;
}

/* ---- Work ---- */

static void run(Stream *stream, uint64_t until);

static void perform(Work *work) {
    void *to, *from;
    switch (work->kind) {
    case COPY:
        to = reach(work->to, work->size);
        from = reach(work->from, work->size);
        if (to && from) {
            memmove(to, from, work->size);
        }
        break;
    case WRITE:
        to = reach(work->to, work->size);
        if (to) {
            memcpy(to, work->bytes, work->size);
        }
        break;
    case WAIT:
        run(work->stream, work->until);
        break;
    case FREE:
        release(work->to);
        break;
    case CALL:
        pthread_mutex_unlock(&lock);
        work->function(work->argument);
        pthread_mutex_lock(&lock);
        break;
    case BLOCK:
        for (int turn = 0; turn < 20000 && !released; ++turn) {
            pthread_mutex_unlock(&lock);
            usleep(1000);
            pthread_mutex_lock(&lock);
        }
        break;
    }
}

static void run(Stream *stream, uint64_t until) {
    while (stream->done < until && stream->first) {
        if (stream->running) {
            /* Another thread is at it. */
            pthread_mutex_unlock(&lock);
            usleep(100);
            pthread_mutex_lock(&lock);
            continue;
        }
        Work *work = stream->first;
        stream->running = 1;
        perform(work);
        stream->running = 0;
        stream->first = work->next;
        if (!stream->first) {
            stream->last = NULL;
        }
        stream->done++;
        free(work->bytes);
        free(work);
    }
}

static void append(Stream *stream, Work work) {
    Work *copy = malloc(sizeof work);
    *copy = work;
    copy->next = NULL;
    if (stream->capturing) {
        if (stream->captured_last) {
            stream->captured_last->next = copy;
        } else {
            stream->captured = copy;
        }
        stream->captured_last = copy;
        return;
    }
    if (stream->last) {
        stream->last->next = copy;
    } else {
        stream->first = copy;
    }
    stream->last = copy;
    stream->put++;
}

static int is_blocking(Stream *stream) {
    return !stream->non_blocking;
}

/* The legacy stream waits for all streams that are not made otherwise, and they for it. */
static void put(Stream *stream, Work work) {
    int number = stream->context->number;
    if (stream == &legacy[number]) {
        for (int i = 0; i < stream_count; ++i) {
            Stream *other = &streams[i];
            if (other->context == stream->context && is_blocking(other) && other->put > other->done) {
                append(stream, (Work){.kind = WAIT, .stream = other, .until = other->put});
            }
        }
    } else if (is_blocking(stream) && !stream->capturing && legacy[number].put > legacy[number].done) {
        append(stream, (Work){.kind = WAIT, .stream = &legacy[number], .until = legacy[number].put});
    }
    append(stream, work);
}

static Stream *stream_of(uintptr_t handle) {
    Context *context = current[depth - 1];
    Stream *stream = NULL;
    if (handle <= LEGACY) {
        stream = &legacy[context->number];
    } else if (handle == PER_THREAD) {
        if (!per_thread[context->number]) {
            streams[stream_count] = (Stream){.context = context, .lives = 1};
            per_thread[context->number] = &streams[stream_count++];
        }
        stream = per_thread[context->number];
    } else {
        for (int i = 0; i < stream_count; ++i) {
            if ((uintptr_t)&streams[i] == handle && streams[i].lives) {
                stream = &streams[i];
            }
        }
    }
    if (stream && !stream->context) {
        stream->context = context;
    }
    return stream;
}

/* Whether an operation on a stream would be one of the legacy stream while another is captured. */
static int is_implicit(Stream *stream) {
    for (int i = 0; i < stream_count; ++i) {
        Stream *other = &streams[i];
        if (stream == &legacy[stream->context->number] && other->lives && other->capturing && is_blocking(other)) {
            other->spoilt = 1;
            return 1;
        }
    }
    return 0;
}

/* What is unsafe while any thread captures, unless this one says that it knows what it does. */
static int any_capture(void) {
    int found = 0;
    if (relaxed) {
        return 0;
    }
    for (int i = 0; i < stream_count; ++i) {
        if (streams[i].lives && streams[i].capturing) {
            streams[i].spoilt = 1;
            found = 1;
        }
    }
    return found;
}

static int waits(uintptr_t handle) {
    Stream *stream = stream_of(handle);
    if (wait_result) {
        return wait_result;
    }
    if (!stream) {
        return INVALID_HANDLE;
    }
    if (stream->capturing) {
        stream->spoilt = 1;
        return CAPTURE_UNSUPPORTED;
    }
    if (is_implicit(stream)) {
        return CAPTURE_IMPLICIT;
    }
    put(stream, (Work){.kind = WAIT, .stream = stream, .until = 0});
    host_waits++;
    last_waited = handle;
    run(stream, stream->put);
    return SUCCESS;
}

static int puts_work(uintptr_t handle, Work work) {
    Stream *stream = stream_of(handle);
    if (!stream) {
        return INVALID_HANDLE;
    }
    if (is_implicit(stream)) {
        return CAPTURE_IMPLICIT;
    }
    put(stream, work);
    return SUCCESS;
}

#define LOCKED(expression)                                                                                              \
    pthread_mutex_lock(&lock);                                                                                          \
    int result = (expression);                                                                                          \
    pthread_mutex_unlock(&lock);                                                                                        \
    return result

/* ---- What tests ask ---- */

/* Six floats of a test count as memory of a device. */
void stand_in_know(uint64_t address, int device, int managed) {
    regions[region_count++] = (Region){address, (char *)(uintptr_t)address, 24, device, 1, managed ? MANAGED : DEVICE};
}

/* The host's waits so far, and on which stream the last was. */
int stand_in_synchronized(uint64_t *stream) {
    *stream = last_waited;
    return host_waits;
}

int stand_in_faults(void) {
    return faults;
}

int stand_in_stream_waits(void) {
    return stream_waits;
}

int stand_in_live_events(void) {
    return live_events;
}

int stand_in_live_regions(void) {
    int count = 0;
    for (int i = 0; i < region_count; ++i) {
        count += regions[i].lives;
    }
    return count;
}

void stand_in_fail_init(int status) {
    init_result = status;
}

void stand_in_without_pools(void) {
    pools = 0;
}

/* Work of a kernel: bytes that appear when the stream gets there. */
int stand_in_write(uintptr_t stream, uint64_t address, const void *bytes, size_t size) {
    WITH_CONTEXT
    Work work = {.kind = WRITE, .to = address, .size = size, .bytes = malloc(size)};
    memcpy(work.bytes, bytes, size);
    LOCKED(puts_work(stream, work));
}

/* The bytes of now, with no wait for anything. */
void stand_in_read(uint64_t address, void *bytes, size_t size) {
    pthread_mutex_lock(&lock);
    void *from = reach(address, size);
    if (from) {
        memcpy(bytes, from, size);
    }
    pthread_mutex_unlock(&lock);
}

/* Work that waits for the program, as a callback of its own would. */
int stand_in_block(uintptr_t stream) {
    WITH_CONTEXT
    released = 0;
    LOCKED(puts_work(stream, (Work){.kind = BLOCK}));
}

void stand_in_release(void) {
    released = 1;
}

/* ---- The driver ---- */

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

int cuCtxSetCurrent(Context *context) {
    depth = depth ? depth : 1;
    current[depth - 1] = context;
    return SUCCESS;
}

int cuCtxGetCurrent(Context **context) {
    *context = depth ? current[depth - 1] : NULL;
    return SUCCESS;
}

int cuCtxPushCurrent_v2(Context *context) {
    current[depth++] = context;
    return SUCCESS;
}

int cuCtxPopCurrent_v2(Context **context) {
    if (!depth) {
        return INVALID_CONTEXT;
    }
    --depth;
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

static int context_of_stream(uintptr_t handle, Context **context) {
    Stream *stream = stream_of(handle);
    if (!stream) {
        return INVALID_HANDLE;
    }
    *context = stream->context;
    return SUCCESS;
}

int cuStreamGetCtx(uintptr_t stream, Context **context) {
    WITH_CONTEXT
    LOCKED(context_of_stream(stream, context));
}

static int create_stream(uintptr_t *stream, unsigned flags) {
    if (stream_count == STREAMS) {
        return OUT_OF_MEMORY;
    }
    streams[stream_count] = (Stream){.context = current[depth - 1], .lives = 1, .non_blocking = flags & 1};
    *stream = (uintptr_t)&streams[stream_count++];
    return SUCCESS;
}

int cuStreamCreate(uintptr_t *stream, unsigned flags) {
    WITH_CONTEXT
    LOCKED(create_stream(stream, flags));
}

static int destroy_stream(uintptr_t handle) {
    Stream *stream = stream_of(handle);
    if (!stream || handle <= PER_THREAD) {
        return INVALID_HANDLE;
    }
    /* What it has is still to be done, at its time. */
    stream->lives = 0;
    return SUCCESS;
}

int cuStreamDestroy_v2(uintptr_t stream) {
    WITH_CONTEXT
    LOCKED(destroy_stream(stream));
}

int cuStreamSynchronize(uintptr_t stream) {
    WITH_CONTEXT
    LOCKED(waits(stream));
}

static int is_capturing(uintptr_t handle, int *status) {
    Stream *stream = stream_of(handle);
    if (!stream) {
        return INVALID_HANDLE;
    }
    /* This question does not spoil what it must not be asked about. */
    for (int i = 0; i < stream_count; ++i) {
        if (handle <= LEGACY && streams[i].lives && streams[i].capturing && is_blocking(&streams[i])) {
            return CAPTURE_IMPLICIT;
        }
    }
    *status = stream->capturing ? 1 + stream->spoilt : 0;
    return SUCCESS;
}

int cuStreamIsCapturing(uintptr_t stream, int *status) {
    WITH_CONTEXT
    LOCKED(is_capturing(stream, status));
}

int cuStreamGetCaptureInfo(uintptr_t stream, int *status, uint64_t *number) {
    int result = cuStreamIsCapturing(stream, status);
    if (!result && *status) {
        *number = ((Stream *)stream)->capture;
    }
    return result;
}

int cuThreadExchangeStreamCaptureMode(int *mode) {
    enum { RELAXED = 2 };
    int before = relaxed ? RELAXED : 0;
    relaxed = *mode == RELAXED;
    *mode = before;
    return SUCCESS;
}

static int begin_capture(uintptr_t handle) {
    Stream *stream = stream_of(handle);
    if (!stream || handle <= LEGACY) {
        return stream ? CAPTURE_UNSUPPORTED : INVALID_HANDLE;
    }
    stream->capturing = 1;
    stream->spoilt = 0;
    stream->capture = ++captures;
    stream->captured = stream->captured_last = NULL;
    return SUCCESS;
}

int cuStreamBeginCapture_v2(uintptr_t stream, int mode) {
    (void)mode;
    WITH_CONTEXT
    LOCKED(begin_capture(stream));
}

/* The graph is the work of one stream. */
static int end_capture(uintptr_t handle, Work **graph) {
    Stream *stream = stream_of(handle);
    if (!stream || !stream->capturing) {
        return INVALID_HANDLE;
    }
    *graph = stream->spoilt ? NULL : stream->captured;
    for (int i = 0; i < stream_count; ++i) {
        if (streams[i].capture == stream->capture && &streams[i] != stream) {
            streams[i].capturing = 0;
        }
    }
    stream->capturing = 0;
    return stream->spoilt ? CAPTURE_INVALIDATED : SUCCESS;
}

int cuStreamEndCapture(uintptr_t stream, Work **graph) {
    WITH_CONTEXT
    LOCKED(end_capture(stream, graph));
}

static int create_event(uintptr_t *event) {
    if (event_result) {
        return event_result;
    }
    for (int i = 0; i < EVENTS; ++i) {
        if (!events[i].lives) {
            events[i] = (Event){.lives = 1, .context = current[depth - 1]};
            *event = (uintptr_t)&events[i];
            live_events++;
            return SUCCESS;
        }
    }
    return OUT_OF_MEMORY;
}

int cuEventCreate(uintptr_t *event, unsigned flags) {
    (void)flags;
    WITH_CONTEXT
    LOCKED(create_event(event));
}

int cuEventDestroy_v2(Event *event) {
    pthread_mutex_lock(&lock);
    event->lives = 0;
    live_events--;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

static int record(Event *event, uintptr_t handle) {
    if (event_result) {
        return event_result;
    }
    Stream *stream = stream_of(handle);
    if (!stream || !event->lives || stream->context != event->context) {
        return INVALID_HANDLE;
    }
    if (is_implicit(stream)) {
        return CAPTURE_IMPLICIT;
    }
    put(stream, (Work){.kind = WAIT, .stream = stream, .until = 0});
    event->stream = stream;
    event->until = stream->put;
    event->capture = stream->capturing ? stream->capture : 0;
    return SUCCESS;
}

int cuEventRecord(Event *event, uintptr_t stream) {
    WITH_CONTEXT
    LOCKED(record(event, stream));
}

static int wait_event(uintptr_t handle, Event *event) {
    if (event_result) {
        return event_result;
    }
    Stream *stream = stream_of(handle);
    if (!stream || !event->lives) {
        return INVALID_HANDLE;
    }
    if (is_implicit(stream)) {
        return CAPTURE_IMPLICIT;
    }
    stream_waits++;
    if (event->capture) {
        /* The stream joins the capture, or is in it. */
        if (stream->capturing && stream->capture != event->capture) {
            return CAPTURE_UNSUPPORTED;
        }
        stream->capturing = 1;
        stream->capture = event->capture;
        return SUCCESS;
    }
    if (stream->capturing) {
        stream->spoilt = 1;
        return CAPTURE_ISOLATION;
    }
    if (event->stream) {
        put(stream, (Work){.kind = WAIT, .stream = event->stream, .until = event->until});
    }
    return SUCCESS;
}

int cuStreamWaitEvent(uintptr_t stream, Event *event, unsigned flags) {
    (void)flags;
    WITH_CONTEXT
    LOCKED(wait_event(stream, event));
}

static int query(Event *event) {
    if (event->capture) {
        any_capture();
        return CAPTURED_EVENT;
    }
    if (any_capture()) {
        return CAPTURE_UNSUPPORTED;
    }
    return !event->stream || event->stream->done >= event->until ? SUCCESS : NOT_READY;
}

int cuEventQuery(Event *event) {
    LOCKED(query(event));
}

static int wait_for(Event *event) {
    if (wait_result) {
        return wait_result;
    }
    if (event->capture) {
        any_capture();
        return CAPTURED_EVENT;
    }
    host_waits++;
    if (event->stream) {
        run(event->stream, event->until);
    }
    return SUCCESS;
}

int cuEventSynchronize(Event *event) {
    LOCKED(wait_for(event));
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

/* Waits for nothing, although the real one does: who frees has waited. */
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

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, uintptr_t stream) {
    return cuMemcpyAsync(to, from, size, stream);
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
/* The names are HIP's, by the compiler's options; a thread says by a number on which device it works. */
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
    return cuMemcpyAsync(to, from, size, stream);
}

int cuStreamAttachMemAsync(uintptr_t stream, uint64_t address, size_t size, unsigned flags) {
    (void)flags;
    WITH_CONTEXT
    return stream > LEGACY && region_of(address, size) ? SUCCESS : INVALID_VALUE;
}

/* Beside the primary one: of its own are the handle and what is checked by it. */
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
        --depth;
    }
    free(context);
    return SUCCESS;
}

/* ---- What the suite for GPUs asks beside ---- */

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

/* What can be launched is a graph like that which was captured. */
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
        /* An event of a capture is passed when the work before it is. */
        result = work->kind == WAIT ? SUCCESS : puts_work(stream, *work);
        free(work);
    }
    return result;
}

int cuGraphLaunch(Work *executable, uintptr_t stream) {
    WITH_CONTEXT
    LOCKED(launch(executable, stream));
}

/* ---- What tests make fail ---- */

/* No event is made, recorded or waited for by a stream. */
void stand_in_fail_events(int status) {
    event_result = status;
}

/* The host waits for nothing. */
void stand_in_fail_waits(int status) {
    wait_result = status;
}
