// The floors: hand-written code that imports one kind of object by one protocol, and exports one kind of tensor. It
// checks each required fact once, and omits helpful error messages.

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlpack/dlpack.h>

#define LENGTH 24

static PyObject *dlpack_name, *max_version, *version, *device, *exchange_name;

static int is_float_matrix(const DLTensor *tensor) {
    return tensor->device.device_type == kDLCPU && tensor->ndim == 2 && tensor->dtype.code == kDLFloat &&
           tensor->dtype.bits == 32 && tensor->dtype.lanes == 1;
}

static PyObject *finished(int right) {
    if (!right) {
        PyErr_SetString(PyExc_TypeError, "not a float32 matrix");
        return NULL;
    }
    Py_RETURN_NONE;
}

// By `__dlpack__`, from a producer that returns a versioned or a legacy capsule.
static PyObject *by_dlpack(PyObject *Py_UNUSED(module), PyObject *x) {
    PyObject *arguments[] = {x, version};
    PyObject *capsule = PyObject_VectorcallMethod(dlpack_name, arguments, 1, max_version);
    if (!capsule)
        return NULL;
    PyObject *answer;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        PyCapsule_SetName(capsule, "used_dltensor_versioned");
        answer = finished(is_float_matrix(&managed->dl_tensor));
        if (managed->deleter)
            managed->deleter(managed);
    } else {
        DLManagedTensor *managed = PyCapsule_GetPointer(capsule, "dltensor");
        if (!managed) {
            Py_DECREF(capsule);
            return NULL;
        }
        PyCapsule_SetName(capsule, "used_dltensor");
        answer = finished(is_float_matrix(&managed->dl_tensor));
        if (managed->deleter)
            managed->deleter(managed);
    }
    Py_DECREF(capsule);
    return answer;
}

static PyObject *by_buffer(PyObject *Py_UNUSED(module), PyObject *x) {
    Py_buffer buffer;
    if (PyObject_GetBuffer(x, &buffer, PyBUF_RECORDS_RO))
        return NULL;
    // Some producers name the native byte order explicitly.
    const char *format = buffer.format + (buffer.format[0] == '=' || buffer.format[0] == '<');
    PyObject *answer = finished(buffer.ndim == 2 && format[0] == 'f' && !format[1]);
    PyBuffer_Release(&buffer);
    return answer;
}

// All buffers of a list at once.
static PyObject *list_by_buffer(PyObject *Py_UNUSED(module), PyObject *list) {
    if (!PyList_CheckExact(list)) {
        PyErr_SetString(PyExc_TypeError, "not a list");
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(list), taken = 0;
    Py_buffer *buffers = malloc((count ? count : 1) * sizeof *buffers);
    if (!buffers)
        return PyErr_NoMemory();
    int right = 1;
    for (; right && taken < count; taken++) {
        Py_buffer *buffer = &buffers[taken];
        if (PyObject_GetBuffer(PyList_GET_ITEM(list, taken), buffer, PyBUF_RECORDS_RO))
            break;
        const char *format = buffer->format + (buffer->format[0] == '=' || buffer->format[0] == '<');
        right = buffer->ndim == 2 && format[0] == 'f' && !format[1];
    }
    PyObject *answer = PyErr_Occurred() ? NULL : finished(right);
    while (taken > 0)
        PyBuffer_Release(&buffers[--taken]);
    free(buffers);
    return answer;
}

// The exchange table of a type, looked up once.
static const DLPackExchangeAPI *table_of(PyTypeObject *type) {
    static PyTypeObject *known;
    static const DLPackExchangeAPI *table;
    if (known == type)
        return table;
    PyObject *capsule = PyObject_GetAttr((PyObject *)type, exchange_name);
    if (!capsule)
        return NULL;
    const DLPackExchangeAPI *found = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_DECREF(capsule);
    if (found) {
        Py_XDECREF(known);
        Py_INCREF(type);
        known = type;
        table = found;
    }
    return found;
}

static PyObject *by_borrowed_table(PyObject *Py_UNUSED(module), PyObject *x) {
    const DLPackExchangeAPI *table = table_of(Py_TYPE(x));
    DLTensor tensor;
    if (!table || table->dltensor_from_py_object_no_sync(x, &tensor))
        return NULL;
    return finished(is_float_matrix(&tensor));
}

static PyObject *by_owned_table(PyObject *Py_UNUSED(module), PyObject *x) {
    const DLPackExchangeAPI *table = table_of(Py_TYPE(x));
    DLManagedTensorVersioned *managed;
    if (!table || table->managed_tensor_from_py_object_no_sync(x, &managed))
        return NULL;
    PyObject *answer = finished(is_float_matrix(&managed->dl_tensor));
    managed->deleter(managed);
    return answer;
}

// A tensor and everything that it points to, except the elements, in one block.
typedef struct {
    DLManagedTensorVersioned managed;
    int64_t shape[1], strides[1];
    float *elements;
} Block;

static void delete_block(DLManagedTensorVersioned *managed) {
    Block *block = (Block *)managed;
    free(block->elements);
    free(block);
}

static DLManagedTensorVersioned *new_tensor(void) {
    Block *block = malloc(sizeof *block);
    float *elements = malloc(LENGTH * sizeof *elements);
    if (!block || !elements) {
        free(block);
        free(elements);
        PyErr_NoMemory();
        return NULL;
    }
    for (int i = 0; i < LENGTH; i++)
        elements[i] = 1;
    block->elements = elements;
    block->shape[0] = LENGTH;
    block->strides[0] = 1;
    block->managed = (DLManagedTensorVersioned){
        .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
        .deleter = delete_block,
        .dl_tensor = {.data = elements,
                      .device = {kDLCPU, 0},
                      .ndim = 1,
                      .dtype = {kDLFloat, 32, 1},
                      .shape = block->shape,
                      .strides = block->strides},
    };
    return &block->managed;
}

static void delete_capsule(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        managed->deleter(managed);
    }
}

static PyObject *new_capsule(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    DLManagedTensorVersioned *managed = new_tensor();
    if (!managed)
        return NULL;
    PyObject *capsule = PyCapsule_New(managed, "dltensor_versioned", delete_capsule);
    if (!capsule)
        managed->deleter(managed);
    return capsule;
}

// A new tensor, made by the exchange table of the target type.
static PyObject *new_as(PyObject *Py_UNUSED(module), PyObject *type) {
    const DLPackExchangeAPI *table = table_of((PyTypeObject *)type);
    DLManagedTensorVersioned *managed = table ? new_tensor() : NULL;
    void *made;
    if (!managed || table->managed_tensor_to_py_object_no_sync(managed, &made))
        return NULL;
    return made;
}

// An object that exports a new tensor each time. It owns the elements, which live as long as the object.
typedef struct {
    PyObject_HEAD
    float elements[LENGTH];
} Vector;

typedef struct {
    DLManagedTensorVersioned managed;
    int64_t shape[1], strides[1];
} View;

static void delete_view(DLManagedTensorVersioned *managed) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)managed->manager_ctx);
    PyGILState_Release(state);
    free(managed);
}

static PyObject *vector_dlpack(PyObject *self, PyObject *const *Py_UNUSED(arguments), Py_ssize_t Py_UNUSED(count),
                               PyObject *Py_UNUSED(names)) {
    View *view = malloc(sizeof *view);
    if (!view)
        return PyErr_NoMemory();
    view->shape[0] = LENGTH;
    view->strides[0] = 1;
    view->managed = (DLManagedTensorVersioned){
        .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
        .manager_ctx = Py_NewRef(self),
        .deleter = delete_view,
        .dl_tensor = {.data = ((Vector *)self)->elements,
                      .device = {kDLCPU, 0},
                      .ndim = 1,
                      .dtype = {kDLFloat, 32, 1},
                      .shape = view->shape,
                      .strides = view->strides},
    };
    PyObject *capsule = PyCapsule_New(&view->managed, "dltensor_versioned", delete_capsule);
    if (!capsule)
        delete_view(&view->managed);
    return capsule;
}

static PyObject *vector_device(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(nothing)) { return Py_NewRef(device); }

static PyMethodDef vector_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))vector_dlpack, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"__dlpack_device__", vector_device, METH_NOARGS, NULL},
    {0},
};

static PyTypeObject VectorType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "with_floor.Vector",
    .tp_basicsize = sizeof(Vector),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = vector_methods,
};

static PyObject *make(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    Vector *vector = PyObject_New(Vector, &VectorType);
    for (int i = 0; vector && i < LENGTH; i++)
        vector->elements[i] = 1;
    return (PyObject *)vector;
}

// An object that holds a buffer of another object; an export would describe it.
typedef struct {
    PyObject_HEAD
    Py_buffer buffer;
} Held;

static void release_held(PyObject *self) {
    PyBuffer_Release(&((Held *)self)->buffer);
    PyObject_Free(self);
}

static PyTypeObject HeldType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "with_floor.Held",
    .tp_basicsize = sizeof(Held),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = release_held,
};

static PyObject *hold(PyObject *Py_UNUSED(module), PyObject *x) {
    Held *held = PyObject_New(Held, &HeldType);
    if (!held)
        return NULL;
    if (PyObject_GetBuffer(x, &held->buffer, PyBUF_RECORDS_RO)) {
        held->buffer.obj = NULL;
        Py_DECREF(held);
        return NULL;
    }
    return (PyObject *)held;
}

static PyMethodDef functions[] = {
    {"by_dlpack", by_dlpack, METH_O, NULL},
    {"by_buffer", by_buffer, METH_O, NULL},
    {"list_by_buffer", list_by_buffer, METH_O, NULL},
    {"by_borrowed_table", by_borrowed_table, METH_O, NULL},
    {"by_owned_table", by_owned_table, METH_O, NULL},
    {"new", new_capsule, METH_NOARGS, NULL},
    {"new_as", new_as, METH_O, NULL},
    {"make", make, METH_NOARGS, NULL},
    {"hold", hold, METH_O, NULL},
    {0},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "with_floor", .m_methods = functions};

PyMODINIT_FUNC PyInit_with_floor(void) {
    dlpack_name = PyUnicode_InternFromString("__dlpack__");
    exchange_name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
    PyObject *name = PyUnicode_InternFromString("max_version");
    max_version = name ? PyTuple_Pack(1, name) : NULL;
    Py_XDECREF(name);
    version = Py_BuildValue("(ii)", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
    device = Py_BuildValue("(ii)", kDLCPU, 0);
    if (!dlpack_name || !exchange_name || !max_version || !version || !device || PyType_Ready(&VectorType) ||
        PyType_Ready(&HeldType))
        return NULL;
    return PyModule_Create(&module);
}
