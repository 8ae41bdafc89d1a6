/* The state of the stand-in: contexts, streams, events, memory. The CPU cannot access memory of a device, and freed
 * memory is overwritten. */

enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_HANDLE = 400,
    NOT_FOUND = 500, NOT_READY = 600, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_ISOLATION = 905,
    CAPTURE_IMPLICIT = 906, CAPTURED_EVENT = 907
};
enum { DEVICES = 2, REGIONS = 4096, STREAMS = 1024, EVENTS = 4096, CONTEXTS_OF_A_THREAD = 16 };
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
    int mapped;
} Region;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Context contexts[DEVICES] = {{0, 0}, {1, 0}};
static Stream legacy[DEVICES], streams[STREAMS];
static Event events[EVENTS];
static Region regions[REGIONS];
static int region_count, stream_count, init_result, device_count = DEVICES, pools = 1;
static int event_result, wait_result, copy_result;
static int faults, host_waits, stream_waits, live_events;
/* Contexts on the stacks of all threads, and threads in the relaxed mode of captures. */
static int pushed_contexts, relaxed_threads;
static uint64_t last_waited;
static size_t freed_bytes;
static unsigned long long captures;
static volatile int released;
static __thread Context *current[CONTEXTS_OF_A_THREAD];
static __thread Stream *per_thread[DEVICES];
static __thread int depth, relaxed;

/* The error of a driver in a process that has forked or is ending; 0 as long as the driver works. */
static int ended;

static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void after_fork(void) {
    pthread_mutex_unlock(&lock);
}

/* Real drivers do not work in a child. This one does, unless the child calls stand_in_end, so that the tests run all of dlbridge's
 * code for devices in a child. The fork handlers ensure that no child finds the lock taken. */
__attribute__((constructor)) static void survive_forks(void) {
    pthread_atfork(before_fork, after_fork, after_fork);
}

#define WITH_CONTEXT                                                                                                    \
    if (ended) {                                                                                                        \
        return ended;                                                                                                   \
    }                                                                                                                   \
    if (!depth || !current[depth - 1]) {                                                                                \
        return INVALID_CONTEXT;                                                                                         \
    }

static Region *region_of(uint64_t address, size_t size) {
    for (int i = region_count - 1; i >= 0; --i) {
        Region *region = &regions[i];
        if (address >= region->address && address + size <= region->address + region->size) {
            return region;
        }
    }
    return NULL;
}

/* The address at which the driver itself accesses the bytes. Returns NULL and counts a fault for freed memory. */
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

/* Unmaps the region that was freed first. A later access ends the process. */
static int forget_freed(void) {
    for (int i = 0; i < region_count; ++i) {
        Region *region = &regions[i];
        if (!region->lives && region->mapped) {
            munmap(region->memory, region->size);
            if ((char *)(uintptr_t)region->address != region->memory) {
                munmap((char *)(uintptr_t)region->address, region->size);
            }
            freed_bytes -= region->size;
            memmove(region, region + 1, (--region_count - i) * sizeof *region);
            return 1;
        }
    }
    return 0;
}

static int allocate(uint64_t *address, size_t size, Place place) {
    enum { FREED_REGIONS = 256, FREED_BYTES = 128 << 20 };
    while ((region_count > FREED_REGIONS || freed_bytes > FREED_BYTES) && forget_freed()) {
    }
    if (!size || region_count == REGIONS) {
        return size ? OUT_OF_MEMORY : INVALID_VALUE;
    }
    Region region = {.size = size, .device = current[depth - 1]->number, .lives = 1, .place = place, .mapped = 1};
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
    freed_bytes += region->mapped ? region->size : 0;
    return SUCCESS;
}
