/* Functions for tests, which the real driver does not have. */

/* Registers six floats of a test as memory of a device. */
void stand_in_know(uint64_t address, int device, int managed) {
    regions[region_count++] = (Region){address, (char *)(uintptr_t)address, 24, device, 1, managed ? MANAGED : DEVICE, 0};
}

/* Returns how often the host has waited, and the stream of the last wait. */
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

/* The number of contexts and capture modes that threads did not restore. */
int stand_in_not_put_back(void) {
    return __atomic_load_n(&pushed_contexts, __ATOMIC_SEQ_CST) + __atomic_load_n(&relaxed_threads, __ATOMIC_SEQ_CST);
}

void stand_in_fail_init(int status) {
    init_result = status;
}

void stand_in_without_pools(void) {
    pools = 0;
}

void stand_in_with_pools(void) {
    pools = 1;
}

/* Queues the work of a kernel: bytes that appear when the stream reaches it. */
int stand_in_write(uintptr_t stream, uint64_t address, const void *bytes, size_t size) {
    WITH_CONTEXT
    Work work = {.kind = WRITE, .to = address, .size = size, .bytes = malloc(size)};
    memcpy(work.bytes, bytes, size);
    LOCKED(puts_work(stream, work));
}

/* Reads the current bytes, without a wait. */
void stand_in_read(uint64_t address, void *bytes, size_t size) {
    pthread_mutex_lock(&lock);
    void *from = reach(address, size);
    if (from) {
        memcpy(bytes, from, size);
    }
    pthread_mutex_unlock(&lock);
}

/* Queues work that blocks the stream until stand_in_release, like a callback of the program. */
int stand_in_block(uintptr_t stream) {
    WITH_CONTEXT
    released = 0;
    LOCKED(puts_work(stream, (Work){.kind = BLOCK}));
}

void stand_in_release(void) {
    released = 1;
}

/* From now on, creating, recording and waiting for events fails with `status`. */
void stand_in_fail_events(int status) {
    event_result = status;
}

/* From now on, waits of the host fail with `status`. */
void stand_in_fail_waits(int status) {
    wait_result = status;
}

/* From now on, every call that needs a context fails with `status`, like a real driver in a forked child. */
void stand_in_end(int status) {
    ended = status;
}

/* From now on, copies from device to device begin but return `status`. */
void stand_in_fail_copies(int status) {
    copy_result = status;
}
