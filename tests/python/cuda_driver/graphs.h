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
