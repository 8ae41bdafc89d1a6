/* Functions of the driver for streams, events and captures. */

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
    /* Work that is still queued runs later, as usual. */
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
    /* This query does not invalidate a capture, even if it is refused. */
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
    __atomic_fetch_add(&relaxed_threads, relaxed - (before == RELAXED), __ATOMIC_SEQ_CST);
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
        /* The stream joins the capture, or already belongs to it. */
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
