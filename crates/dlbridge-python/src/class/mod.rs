//! Python's view of a `TensorObject`: its methods, its elements and its text.
//!
//! PyO3 requires all methods in one block, so this block holds only names, arguments and documentation.

pub(crate) mod buffer_export;
mod dlpack_method;
pub(crate) mod dtype;
mod elements;
pub(crate) mod index;
mod text;

use pyo3::basic::CompareOp;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyComplex, PyDict, PyFloat, PyInt, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::arrow::Capsules;
use crate::interfaces::{array_interface, array_struct, cuda_array_interface};
use crate::pointers::DLTensorScope;
use crate::tensor::{TensorObject, traverse};
use crate::to_library::{self, Framework};
use crate::{arrow, bytes};
use dlbridge_pyo3::exchange_table;
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::import_options::Order;
use dlbridge_pyo3::imported::Protocol;

/// The result of a method that returns a Python object.
type Answer<'py> = PyResult<Bound<'py, PyAny>>;

#[pymethods]
impl TensorObject {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn refused(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Err(PyTypeError::new_err(
            "dlbridge.Tensor cannot be constructed: call dlbridge.asdlpack(array) for an array of any library, or \
             dlbridge.empty(shape, dtype)",
        ))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        traverse(self.tensor(), &visit)
    }

    /// The DLPack export of the array API standard.
    #[classattr]
    fn __dlpack__(py: Python<'_>) -> PyResult<Py<PyAny>> {
        dlpack_method::descriptor(py)
    }

    /// The C exchange API of DLPack, for consumers in C.
    #[classattr]
    fn __dlpack_c_exchange_api__(py: Python<'_>) -> PyResult<Py<PyAny>> {
        exchange_table::capsule::<Self>(py).map(Bound::unbind)
    }

    /// The array interface of NumPy, for data on the CPU.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.keep_reading()?;
        array_interface::export(py, self.tensor(), self.is_read_only())
    }

    /// The array interface of NumPy as a C struct, for data on the CPU.
    #[getter]
    fn __array_struct__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.keep_reading()?;
        array_struct::export(py, self.tensor(), self.is_read_only())
    }

    /// The array interface of CUDA, for data on such a device.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        cuda_array_interface::export(py, self)
    }

    /// The Arrow PyCapsule interface, for numbers that are contiguous. A request for another type is
    /// ignored.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Capsules<'py>> {
        let _ = requested_schema;
        arrow::export(py, &self.for_consumer()?)
    }

    /// The type of the Arrow array.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::export_schema(py, self.tensor())
    }

    unsafe fn __getbuffer__(
        this: Bound<'_, Self>,
        view: *mut pyo3::ffi::Py_buffer,
        flags: std::ffi::c_int,
    ) -> PyResult<()> {
        // SAFETY: Python passes NULL, or a `Py_buffer` to write to.
        unsafe { buffer_export::export(this.as_any(), this.get(), view, flags) }
    }

    unsafe fn __releasebuffer__(&self, view: *mut pyo3::ffi::Py_buffer) {
        // SAFETY: Python passes a buffer that `__getbuffer__` filled, once.
        unsafe { buffer_export::take_back(view) }
    }

    /// The device as a tuple of DLPack device type and device id.
    fn __dlpack_device__(&self) -> (i32, i32) {
        self.device_pair()
    }

    /// For `numpy.asarray` and its callers: dtypes that NumPy's other protocols do not support.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        this: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<&Bound<'py, PyAny>>,
    ) -> Answer<'py> {
        to_library::to_array(this, dtype, copy)
    }

    /// For `jax.numpy.asarray` and JAX's functions.
    fn __jax_array__<'py>(this: &Bound<'py, Self>) -> Answer<'py> {
        to_library::to(this, &to_library::JAX, None)
    }

    fn __reduce_ex__<'py>(
        this: &Bound<'py, Self>,
        protocol: i32,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        bytes::reduce(this, protocol)
    }

    /// An array of NumPy. dtypes that NumPy lacks become those of ml_dtypes.
    #[pyo3(signature = (*, copy=None))]
    fn numpy<'py>(this: &Bound<'py, Self>, copy: Option<&Bound<'py, PyAny>>) -> Answer<'py> {
        to_library::to_checked(this, &to_library::NUMPY, copy)
    }

    /// A tensor of PyTorch.
    #[pyo3(signature = (*, copy=None))]
    fn torch<'py>(this: &Bound<'py, Self>, copy: Option<&Bound<'py, PyAny>>) -> Answer<'py> {
        to_library::to_checked(this, &to_library::TORCH, copy)
    }

    /// An array of JAX.
    #[pyo3(signature = (*, copy=None))]
    fn jax<'py>(this: &Bound<'py, Self>, copy: Option<&Bound<'py, PyAny>>) -> Answer<'py> {
        to_library::to_checked(this, &to_library::JAX, copy)
    }

    /// An object of a library: its name, like 'torch', or its module. columns names the columns of a table.
    #[pyo3(signature = (library, /, *, copy=None, columns=None))]
    fn to<'py>(
        this: &Bound<'py, Self>,
        library: &Bound<'py, PyAny>,
        copy: Option<&Bound<'py, PyAny>>,
        columns: Option<&Bound<'py, PyAny>>,
    ) -> Answer<'py> {
        let framework = Framework::of_argument("library", library)?;
        match columns {
            None => to_library::to_checked(this, framework, copy),
            Some(columns) => to_library::to_table(this, framework, copy, columns),
        }
    }

    /// A sub-tensor over the same memory: integers, slices with any step, `...`, `None`, and tuples of them.
    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Self> {
        index::get(self, key)
    }

    fn __setitem__(&self, _key: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(elements::no_assignment())
    }

    fn __delitem__(&self, _key: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(elements::no_assignment())
    }

    fn __len__(&self) -> PyResult<usize> {
        index::first_extent(self, "len()")
    }

    fn __iter__<'py>(this: &Bound<'py, Self>) -> Answer<'py> {
        index::iterate(this)
    }

    /// The dimensions in another order, which `order` numbers, over the same memory.
    #[pyo3(signature = (*order))]
    fn permute(&self, order: &Bound<'_, PyTuple>) -> PyResult<Self> {
        index::permuted(self, order)
    }

    /// The dimensions in reverse order, over the same memory.
    #[getter(T)]
    fn transposed(&self) -> PyResult<Self> {
        index::sub_tensor(self, |tensor| Ok(tensor.transpose()))
    }

    /// Another shape over the same memory, with the elements in the same order. One extent may be -1.
    #[pyo3(signature = (*shape))]
    fn reshape(&self, shape: &Bound<'_, PyTuple>) -> PyResult<Self> {
        index::reshaped(self, shape)
    }

    /// The elements as Python numbers, in nested lists; a single number for a 0-d tensor.
    fn tolist<'py>(&self, py: Python<'py>) -> Answer<'py> {
        elements::to_list(py, self.tensor())
    }

    /// The only element as a number.
    fn item<'py>(&self, py: Python<'py>) -> Answer<'py> {
        elements::item(py, self.tensor())
    }

    fn __bytes__<'py>(this: &Bound<'py, Self>) -> Answer<'py> {
        let py = this.py();
        // Python copies data that is not contiguous element by element, and lets no other thread run.
        let options = ImportOptions { order: Order::C, ..ImportOptions::default() };
        let contiguous = Self::import(this.as_any(), &options)?;
        Ok(bytes::to_bytes(py, contiguous.get().tensor())?.into_any())
    }

    fn __copy__(&self) -> PyResult<Self> {
        index::sub_tensor(self, Ok)
    }

    fn __deepcopy__<'py>(
        this: &Bound<'py, Self>,
        _memo: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        Self::import(this.as_any(), &ImportOptions { copy: Some(true), ..ImportOptions::default() })
    }

    fn __bool__(this: &Bound<'_, Self>) -> PyResult<bool> {
        elements::number(this, "bool()")?.is_truthy()
    }

    fn __float__<'py>(this: &Bound<'py, Self>) -> Answer<'py> {
        let number = elements::number(this, "float()")?;
        this.py().get_type::<PyFloat>().call1((number,))
    }

    fn __int__<'py>(this: &Bound<'py, Self>) -> Answer<'py> {
        let number = elements::number(this, "int()")?;
        this.py().get_type::<PyInt>().call1((number,))
    }

    fn __complex__<'py>(this: &Bound<'py, Self>) -> Answer<'py> {
        let number = elements::number(this, "complex()")?;
        this.py().get_type::<PyComplex>().call1((number,))
    }

    fn __index__<'py>(this: &Bound<'py, Self>) -> Answer<'py> {
        elements::index(this)
    }

    /// The hash of the object's identity, since `==` does not compare elements.
    fn __hash__(this: &Bound<'_, Self>) -> isize {
        (this.as_ptr().addr() as isize).rotate_right(4)
    }

    /// The extents, in elements.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor().shape())
    }

    /// The strides, in elements.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor().strides())
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.tensor().ndim()
    }

    /// The name of the dtype, like 'float32'.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> Answer<'py> {
        dtype::name(py, self.tensor().dtype())
    }

    /// The name of the device, like 'cpu' or 'cuda:0'.
    #[getter]
    fn device(&self) -> String {
        self.tensor().device().to_string()
    }

    /// True if the data is read-only. A legacy producer cannot mark its data, so its data counts as read-only.
    #[getter]
    fn readonly(&self) -> bool {
        self.is_read_only()
    }

    /// The protocol that imported the tensor, like 'dlpack' or 'buffer'; None if this package made it. That of the result of
    /// an extension is 'exchange-api'.
    #[getter]
    fn protocol(&self) -> Option<&'static str> {
        self.record().protocol.map(Protocol::name)
    }

    /// True if the import copied the elements, by the producer or by dlbridge.
    #[getter]
    fn copied(&self) -> bool {
        self.record().reason.is_some()
    }

    /// The reason why the import copied the elements, as a sentence; None if it did not.
    #[getter]
    fn copy_reason(&self) -> Option<String> {
        self.record().reason.map(|reason| reason.to_string())
    }

    /// The protocol, version and reason of the import as a number, for extensions of any release.
    #[getter(_record)]
    fn record_number(&self) -> usize {
        self.record().number()
    }

    /// The tensor's stream, which runs its work after pending writes: its number as in the array API standard, -1 if
    /// it is not known; None on devices without numbered streams.
    #[getter(stream)]
    fn stream_object<'py>(&self, py: Python<'py>) -> Answer<'py> {
        self.stream().to_object(py, self.tensor().device())
    }

    /// The number of bytes of the elements in contiguous memory.
    #[getter]
    fn nbytes(&self) -> u128 {
        self.tensor().nbytes()
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.tensor().len()
    }

    /// The number of bytes of an element; 1 for elements narrower than a byte.
    #[getter]
    fn itemsize(&self) -> usize {
        self.tensor().dtype().itemsize()
    }

    /// The same as address.
    fn data_ptr(&self) -> usize {
        self.address()
    }

    /// The address of the element at index zero as an integer; 0 without elements, a handle on devices that use
    /// handles.
    #[getter]
    fn address(&self) -> usize {
        self.tensor().data().addr()
    }

    /// The struct `DLTensor` for C code in a `with` block, as an address.
    #[pyo3(signature = (*, writable=None), text_signature = "($self, *, writable=False)")]
    fn dltensor(&self, writable: Option<&Bound<'_, PyAny>>) -> PyResult<DLTensorScope> {
        DLTensorScope::of(self, writable)
    }

    fn __repr__(&self) -> String {
        text::repr(self)
    }

    fn __richcmp__<'py>(
        this: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        comparison: CompareOp,
    ) -> Answer<'py> {
        elements::compare(this, other, comparison)
    }
}
