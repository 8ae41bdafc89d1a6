/* What tests ask the stand-in, beside the driver. */

/* Six floats of a test count as memory of a device. */
void stand_in_know(uint64_t address, int device, int managed) {
    regions[region_count++] = (Region){address, (char *)(uintptr_t)address, 24, device, 1, managed ? MANAGED : DEVICE, 0};
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

/* Contexts and modes of captures that threads have left changed. */
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

/* No event is made, recorded or waited for by a stream. */
void stand_in_fail_events(int status) {
    event_result = status;
}

/* The host waits for nothing. */
void stand_in_fail_waits(int status) {
    wait_result = status;
}

/* Every call that needs a context is refused from now on, as in a child of a process that uses a real driver. */
void stand_in_end(int status) {
    ended = status;
}

/* Copies from device to device are begun, and an error is reported. */
void stand_in_fail_copies(int status) {
    copy_result = status;
}
