/* Objects that a Python test cannot make itself: managed tensors with every field settable, whose
 * deleter records its calls; a consumer that calls deleters in every way that the specification
 * allows; a buffer exporter with every field settable.
 *
 * The first call of a deleter overwrites and frees shape, strides and data. The struct itself is never
 * freed, so that a second call is counted and does not crash. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <stdatomic.h>
#include <structmember.h>
#include <unistd.h>

typedef struct { int32_t type, id; } Device;
typedef struct { uint8_t code, bits; uint16_t lanes; } DType;
typedef struct {
    void *data;
    Device device;
    int32_t ndim;
    DType dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} Tensor;
typedef struct Legacy {
    Tensor tensor;
    void *ctx;
    void (*deleter)(struct Legacy *);
} Legacy;
typedef struct Versioned {
    uint32_t major, minor;
    void *ctx;
    void (*deleter)(struct Versioned *);
    uint64_t flags;
    Tensor tensor;
} Versioned;

typedef struct { void *managed; int versioned; } Owed;

static void *pay(void *pointer) {
    Owed *owed = pointer;
    if (owed->versioned) {
        Versioned *m = owed->managed;
        if (m->deleter) m->deleter(m);
    } else {
        Legacy *m = owed->managed;
        if (m->deleter) m->deleter(m);
    }
    return NULL;
}

static const char *const UNUSED[] = {"dltensor", "dltensor_versioned"};
static const char *const USED[] = {"used_dltensor", "used_dltensor_versioned"};

/* ------------------------------------------------------------------ records of calls */

typedef struct {
    atomic_int calls;
    unsigned long thread;
    int gil, initialized, pending;
} Record;

/* Returns the number of calls before this one. */
static int note(Record *record) {
    record->thread = PyThread_get_thread_ident();
    record->initialized = Py_IsInitialized();
    record->gil = record->initialized && PyGILState_Check();
    record->pending = record->gil && PyErr_Occurred() != NULL;
    return atomic_fetch_add(&record->calls, 1);
}

/* (calls, thread, gil, initialized, pending); all except the first describe the last call. */
static PyObject *record_tuple(Record *record) {
    return Py_BuildValue("(ikNNN)", atomic_load(&record->calls), record->thread,
                         PyBool_FromLong(record->gil), PyBool_FromLong(record->initialized),
                         PyBool_FromLong(record->pending));
}

/* ------------------------------------------------------------------ crafted tensors */

typedef struct {
    union { Legacy legacy; Versioned versioned; } managed;
    Record record;
    void *body;
    size_t body_size;
    Owed owned;
} Crafted;

/* Counts for tensors that have a deleter; `repeated` counts deleter calls after the first. */
static atomic_int created, deleted, repeated;

static void delete_crafted(void *self) {
    Crafted *crafted = self;
    if (note(&crafted->record) > 0) {
        atomic_fetch_add(&repeated, 1);
        return;
    }
    atomic_fetch_add(&deleted, 1);
    if (crafted->owned.managed) {
        PyThreadState *state = crafted->record.gil ? PyEval_SaveThread() : NULL;
        pay(&crafted->owned);
        if (state) PyEval_RestoreThread(state);
    }
    memset(crafted->body, 0xDD, crafted->body_size);
    free(crafted->body);
}

/* Writes a tuple of integers at `end`, and moves `end` behind them. Returns their address, or NULL for None. */
static int64_t *write_dims(PyObject *dims, char **end) {
    if (dims == Py_None) return NULL;
    char *start = *end;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dims); i++, *end += sizeof(int64_t)) {
        int64_t value = PyLong_AsLongLong(PyTuple_GET_ITEM(dims, i));
        memcpy(*end, &value, sizeof value);
    }
    return (int64_t *)start;
}

/* craft(versioned, (major, minor), ctx, has_deleter, flags, (device_type, device_id),
 *       (code, bits, lanes), ndim, shape, strides, byte_offset, payload, origin, address, skew)
 * `data` is `address`, or byte `origin` of the payload if `address` is None. The payload is aligned
 * to 256 bytes; shape and strides are `skew` bytes off their alignment. */
static PyObject *craft(PyObject *module, PyObject *args) {
    int versioned, has_deleter;
    unsigned int major, minor;
    unsigned long long ctx, flags, byte_offset;
    Tensor tensor = {0};
    PyObject *shape, *strides, *address;
    Py_buffer payload;
    Py_ssize_t origin, skew;
    if (!PyArg_ParseTuple(args, "p(II)KpK(ii)(BBH)iOOKy*nOn", &versioned, &major, &minor, &ctx,
                          &has_deleter, &flags, &tensor.device.type, &tensor.device.id,
                          &tensor.dtype.code, &tensor.dtype.bits, &tensor.dtype.lanes, &tensor.ndim,
                          &shape, &strides, &byte_offset, &payload, &origin, &address, &skew))
        return NULL;
    Crafted *crafted = calloc(1, sizeof *crafted);
    Py_ssize_t dims = (shape == Py_None ? 0 : PyTuple_GET_SIZE(shape)) +
                      (strides == Py_None ? 0 : PyTuple_GET_SIZE(strides));
    size_t payload_size = (size_t)(payload.len + 15) / 16 * 16;
    crafted->body_size = payload_size + (size_t)dims * sizeof(int64_t) + (size_t)skew + 16;
    if (posix_memalign(&crafted->body, 256, crafted->body_size)) return PyErr_NoMemory();
    memcpy(crafted->body, payload.buf, (size_t)payload.len);
    PyBuffer_Release(&payload);
    char *end = (char *)crafted->body + payload_size + skew;
    tensor.shape = write_dims(shape, &end);
    tensor.strides = write_dims(strides, &end);
    tensor.byte_offset = byte_offset;
    tensor.data = address == Py_None ? (char *)crafted->body + origin
                                     : (void *)PyLong_AsUnsignedLongLong(address);
    void (*deleter)(void *) = has_deleter ? delete_crafted : NULL;
    if (versioned)
        crafted->managed.versioned = (Versioned){
            major, minor, (void *)ctx, (void (*)(Versioned *))deleter, flags, tensor};
    else
        crafted->managed.legacy = (Legacy){tensor, (void *)ctx, (void (*)(Legacy *))deleter};
    if (PyErr_Occurred()) return NULL;
    atomic_fetch_add(&created, has_deleter);
    return PyLong_FromVoidPtr(crafted);
}

static PyObject *crafted_record(PyObject *module, PyObject *address) {
    Crafted *crafted = PyLong_AsVoidPtr(address);
    return crafted ? record_tuple(&crafted->record) : NULL;
}

/* own(crafted, managed, versioned): the crafted tensor's deleter also deletes another tensor, without the GIL. */
static PyObject *own(PyObject *module, PyObject *args) {
    Crafted *crafted;
    Owed owned;
    if (!PyArg_ParseTuple(args, "KKp", &crafted, &owned.managed, &owned.versioned)) return NULL;
    crafted->owned = owned;
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ capsules */

/* 0 legacy, 1 versioned, -1 neither. */
static int abi_of(PyObject *capsule, const char *const names[2]) {
    for (int versioned = 0; versioned < 2; versioned++)
        if (PyCapsule_IsValid(capsule, names[versioned])) return versioned;
    return -1;
}

/* The destructor of a capsule: calls the deleter if the capsule is unused, and keeps a pending exception. */
static void destroy(PyObject *capsule) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    int versioned = abi_of(capsule, UNUSED);
    if (versioned >= 0)
        pay(&(Owed){PyCapsule_GetPointer(capsule, UNUSED[versioned]), versioned});
    PyErr_Restore(type, value, traceback);
}

/* capsule(address, name): a name of None is a NULL name. */
static PyObject *capsule(PyObject *module, PyObject *args) {
    unsigned long long address;
    const char *name;
    if (!PyArg_ParseTuple(args, "Kz", &address, &name)) return NULL;
    return PyCapsule_New((void *)address, name ? strdup(name) : NULL, destroy);
}

static PyObject *name(PyObject *module, PyObject *capsule) {
    const char *name = PyCapsule_GetName(capsule);
    return PyErr_Occurred() ? NULL : Py_BuildValue("z", name);
}

/* Marks a capsule as used. Returns (address, versioned); the caller must call the deleter. */
static PyObject *take(PyObject *module, PyObject *capsule) {
    int versioned = abi_of(capsule, UNUSED);
    if (versioned < 0) return PyErr_Format(PyExc_ValueError, "%R holds no tensor", capsule);
    void *managed = PyCapsule_GetPointer(capsule, UNUSED[versioned]);
    if (PyCapsule_SetName(capsule, USED[versioned])) return NULL;
    return Py_BuildValue("(NN)", PyLong_FromVoidPtr(managed), PyBool_FromLong(versioned));
}

static PyObject *dims_tuple(const int64_t *dims, int ndim) {
    if (!dims) Py_RETURN_NONE;
    PyObject *tuple = PyTuple_New(ndim);
    for (int i = 0; i < ndim; i++) PyTuple_SET_ITEM(tuple, i, PyLong_FromLongLong(dims[i]));
    return tuple;
}

/* read(address, versioned): every field as keyword arguments of `Fields` in native.py. */
static PyObject *read_fields(PyObject *module, PyObject *args) {
    unsigned long long address;
    int versioned;
    if (!PyArg_ParseTuple(args, "Kp", &address, &versioned)) return NULL;
    Versioned *v = versioned ? (Versioned *)address : NULL;
    Legacy *l = versioned ? NULL : (Legacy *)address;
    Tensor *t = v ? &v->tensor : &l->tensor;
    return Py_BuildValue(
        "{sN sK sK sK s(ii) s(iii) si sK sN sN sK}",
        "version", v ? Py_BuildValue("(II)", v->major, v->minor) : Py_BuildValue(""),
        "flags", v ? (unsigned long long)v->flags : 0ULL,
        "ctx", (unsigned long long)(v ? v->ctx : l->ctx),
        "deleter", v ? (unsigned long long)v->deleter : (unsigned long long)l->deleter,
        "device", t->device.type, t->device.id,
        "dtype", t->dtype.code, t->dtype.bits, t->dtype.lanes,
        "ndim", t->ndim,
        "data", (unsigned long long)t->data,
        "shape", dims_tuple(t->shape, t->ndim),
        "strides", dims_tuple(t->strides, t->ndim),
        "byte_offset", (unsigned long long)t->byte_offset);
}

/* ------------------------------------------------------------------ ways to call a deleter */

enum { WITH_GIL, WITHOUT_GIL, NATIVE_THREAD, AT_EXIT, NOT_WAITED_FOR };
static Owed owed_at_exit[64];
static int owed_count, report_at_exit;

/* Runs after Python has ended. */
static void finish(void) {
    for (int i = 0; i < owed_count; i++) pay(&owed_at_exit[i]);
    if (report_at_exit)
        printf("owed %d repeated %d\n", atomic_load(&created) - atomic_load(&deleted),
               atomic_load(&repeated));
}

static PyObject *report(PyObject *module, PyObject *unused) {
    report_at_exit = 1;
    Py_RETURN_NONE;
}

static PyObject *delete(PyObject *module, PyObject *args) {
    Owed owed;
    int way;
    if (!PyArg_ParseTuple(args, "Kpi", &owed.managed, &owed.versioned, &way)) return NULL;
    pthread_t thread;
    switch (way) {
    case WITH_GIL: pay(&owed); break;
    case WITHOUT_GIL: Py_BEGIN_ALLOW_THREADS pay(&owed); Py_END_ALLOW_THREADS break;
    case NATIVE_THREAD:
        Py_BEGIN_ALLOW_THREADS
        pthread_create(&thread, NULL, pay, &owed);
        pthread_join(thread, NULL);
        Py_END_ALLOW_THREADS
        break;
    case AT_EXIT: owed_at_exit[owed_count++] = owed; break;
    case NOT_WAITED_FOR: /* The GIL is held until after the new thread has asked for it. */
        owed_at_exit[63] = owed;
        pthread_create(&thread, NULL, pay, &owed_at_exit[63]);
        usleep(100000);
        break;
    }
    Py_RETURN_NONE;
}

/* Returns whether `exception` is pending, and clears it. */
static PyObject *is_pending(PyObject *exception) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    int same = value == exception && type == (PyObject *)Py_TYPE(exception);
    Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(traceback);
    return PyBool_FromLong(same);
}

static PyObject *delete_pending(PyObject *module, PyObject *args) {
    Owed owed;
    PyObject *exception;
    if (!PyArg_ParseTuple(args, "KpO", &owed.managed, &owed.versioned, &exception)) return NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    pay(&owed);
    return is_pending(exception);
}

/* Empties a list while an exception is pending. */
static PyObject *clear_pending(PyObject *module, PyObject *args) {
    PyObject *list, *exception;
    if (!PyArg_ParseTuple(args, "O!O", &PyList_Type, &list, &exception)) return NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    PyList_SetSlice(list, 0, PyList_GET_SIZE(list), NULL);
    return is_pending(exception);
}

/* ------------------------------------------------------------------ a buffer exporter */

typedef struct {
    PyObject_HEAD
    Py_buffer view;
    Record released;
    int exports;
    PyObject *on_release;
    char *body;
} Exporter;

static Py_ssize_t *ssizes(PyObject *numbers) {
    if (numbers == Py_None) return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(numbers), *out = calloc((size_t)count + 1, sizeof *out);
    for (Py_ssize_t i = 0; i < count; i++) out[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(numbers, i));
    return out;
}

/* Exporter(payload, origin, length, itemsize, readonly, ndim, format, shape, strides, suboffsets,
 *          on_release); `buf` is NULL where origin is negative. */
static PyObject *exporter_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    const char *payload, *format;
    Py_ssize_t size, origin, length, itemsize;
    int readonly, ndim;
    PyObject *shape, *strides, *suboffsets, *on_release;
    if (!PyArg_ParseTuple(args, "y#nnnpizOOOO", &payload, &size, &origin, &length, &itemsize,
                          &readonly, &ndim, &format, &shape, &strides, &suboffsets, &on_release))
        return NULL;
    Exporter *self = (Exporter *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->body = memcpy(malloc((size_t)size + 1), payload, (size_t)size);
    self->view = (Py_buffer){
        .buf = origin < 0 ? NULL : self->body + origin, .len = length, .itemsize = itemsize,
        .readonly = readonly, .ndim = ndim, .format = format ? strdup(format) : NULL,
        .shape = ssizes(shape), .strides = ssizes(strides), .suboffsets = ssizes(suboffsets)};
    self->on_release = Py_NewRef(on_release);
    return (PyObject *)self;
}

static void exporter_dealloc(Exporter *self) {
    PyTypeObject *type = Py_TYPE(self);
    free(self->body), free(self->view.format), free(self->view.shape);
    free(self->view.strides), free(self->view.suboffsets);
    Py_XDECREF(self->on_release);
    type->tp_free(self);
    Py_DECREF(type);
}

static int exporter_get(Exporter *self, Py_buffer *view, int flags) {
    *view = self->view;
    view->obj = Py_NewRef(self);
    self->exports++;
    return 0;
}

/* Runs Python code, as a producer may, and drops its exception. */
static void exporter_release(Exporter *self, Py_buffer *view) {
    note(&self->released);
    if (self->on_release == Py_None) return;
    Py_XDECREF(PyObject_CallNoArgs(self->on_release));
    PyErr_Clear();
}

static PyObject *exporter_record(Exporter *self, void *unused) {
    return record_tuple(&self->released);
}

static PyMemberDef exporter_members[] = {{"exports", T_INT, offsetof(Exporter, exports), READONLY},
                                         {NULL}};
static PyGetSetDef exporter_getters[] = {{"record", (getter)exporter_record}, {NULL}};
static PyType_Slot exporter_slots[] = {
    {Py_tp_new, exporter_new},         {Py_tp_dealloc, exporter_dealloc},
    {Py_tp_members, exporter_members}, {Py_tp_getset, exporter_getters},
    {Py_bf_getbuffer, exporter_get},   {Py_bf_releasebuffer, exporter_release},
    {0, NULL}};
static PyType_Spec exporter_spec = {"_native.Exporter", sizeof(Exporter), 0, Py_TPFLAGS_DEFAULT,
                                    exporter_slots};

/* ------------------------------------------------------------------ the module */

static PyMethodDef functions[] = {
    {"craft", craft, METH_VARARGS},
    {"record", crafted_record, METH_O},
    {"own", own, METH_VARARGS},
    {"capsule", capsule, METH_VARARGS},
    {"name", name, METH_O},
    {"take", take, METH_O},
    {"read", read_fields, METH_VARARGS},
    {"delete", delete, METH_VARARGS},
    {"delete_pending", delete_pending, METH_VARARGS},
    {"clear_pending", clear_pending, METH_VARARGS},
    {"report_at_exit", report, METH_NOARGS},
    {NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", NULL, -1, functions};

PyMODINIT_FUNC PyInit__native(void) {
    PyObject *module = PyModule_Create(&definition);
    PyObject *exporter = PyType_FromSpec(&exporter_spec);
    if (!module || !exporter || PyModule_AddObject(module, "Exporter", exporter)) return NULL;
    atexit(finish);
    return module;
}
