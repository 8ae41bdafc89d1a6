/* Work: queued on streams, and run when the caller waits for it. */

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
            /* Another thread is running this stream. */
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

/* The legacy stream waits for all blocking streams, and they wait for it. */
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
        if (!per_thread[context->number] && stream_count < STREAMS) {
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

/* Returns 1 if a stream is the legacy stream while a blocking stream is captured, and invalidates that capture. */
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

/* Returns 1 if any stream is captured, and invalidates the captures. Returns 0 on a thread in the relaxed mode. */
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
