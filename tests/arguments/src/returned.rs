//! Results whose library, dtype and dimensions are in the type of the function.

use pyo3::prelude::*;

/// The functions, as a module of their own.
#[pymodule(gil_used = true)]
pub(crate) mod returned {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use dlbridge_pyo3::dlbridge::{Access, Owner, Tensor};
    use dlbridge_pyo3::{
        DYNAMIC, IntoNumpy, Like, Numpy, PyDeviceTensor, PyReadonlyTensor, PyTensor, Torch,
        WorkStream,
    };
    use half::{bf16, f16};
    use ndarray::{Array1, Array2, ArrayD, IxDyn, ShapeBuilder, s};
    use num_complex::Complex64;
    use pyo3::prelude::*;
    use pyo3::types::PyDict;

    #[pyfunction]
    fn ramp(n: usize) -> Numpy<f64, 1> {
        Numpy::from((0..n).map(|i| i as f64).collect::<Vec<_>>())
    }

    /// Quotients and remainders, or nothing.
    #[pyfunction]
    fn divided(n: u32, by: u32) -> Option<(Numpy<u32, 1>, Numpy<u32, 1>)> {
        let quotients: Vec<_> = (0..n).map(|i| i.checked_div(by)).collect::<Option<_>>()?;
        let remainders: Vec<_> = (0..n).map(|i| i % by).collect();
        Some((quotients.into(), remainders.into()))
    }

    /// A list of vectors of one, two, three, ... elements.
    #[pyfunction]
    fn staircase(n: u8) -> Vec<Numpy<u8, 1>> {
        (1..=n).map(|len| vec![len; len.into()].into()).collect()
    }

    /// A matrix of ndarray in C order or Fortran order, or every second column of one, backwards.
    #[pyfunction]
    fn matrix(rows: usize, columns: usize, layout: &str) -> Numpy<f64, 2> {
        let at = |(i, j)| (columns * i + j) as f64;
        match layout {
            "fortran" => Array2::from_shape_fn((rows, columns).f(), at),
            "strided" => Array2::from_shape_fn((rows, columns), at).slice_move(s![.., ..;-2]),
            _ => Array2::from_shape_fn((rows, columns), at),
        }
        .into()
    }

    /// An array of ndarray with any number of dimensions, all of extent 1.
    #[pyfunction]
    fn point(ndim: usize) -> Numpy<f64, DYNAMIC> {
        ArrayD::from_elem(IxDyn(&vec![1; ndim]), 5.0).into()
    }

    /// A vector of ndarray that is the middle of a longer one.
    #[pyfunction]
    fn middle() -> Numpy<i32, 1> {
        Array1::from_iter(0..10).slice_move(s![3..6]).into()
    }

    #[pyfunction]
    fn of_dtype(dtype: &str) -> PyResult<Numpy> {
        Ok(match dtype {
            "bool" => vec![true, false, true].into(),
            "int8" => vec![-1_i8, 0, 1].into(),
            "int16" => vec![-1_i16, 0, 1].into(),
            "int32" => vec![-1_i32, 0, 1].into(),
            "int64" => vec![-1_i64, 0, 1].into(),
            "uint8" => vec![0_u8, 1, 2].into(),
            "uint16" => vec![0_u16, 1, 2].into(),
            "uint32" => vec![0_u32, 1, 2].into(),
            "uint64" => vec![0_u64, 1, 2].into(),
            "float16" => vec![f16::ZERO, f16::ONE, f16::from_f32(2.0)].into(),
            "float32" => vec![0.0_f32, 1.0, 2.0].into(),
            "float64" => vec![0.0, 1.0, 2.0].into(),
            "complex128" => vec![Complex64::new(0.0, 1.0); 3].into(),
            "bfloat16" => vec![bf16::ZERO, bf16::ONE, bf16::from_f32(2.0)].into(),
            _ => Numpy::try_from(Tensor::from(vec![0_u8; 0]))?,
        })
    }

    #[pyfunction]
    fn only_matrix(x: &Bound<'_, PyAny>) -> PyResult<Numpy<f64, 2>> {
        Ok(Numpy::try_from(dlbridge_pyo3::import(x)?)?)
    }

    #[pyfunction]
    fn any(x: &Bound<'_, PyAny>) -> PyResult<Numpy> {
        Ok(Numpy::try_from(dlbridge_pyo3::import(x)?)?)
    }

    #[pyfunction]
    fn constants() -> PyResult<Numpy<f64, 1>> {
        Ok(Numpy::try_from(Tensor::from(Arc::<[f64]>::from([1.0, 2.0, 3.0])))?)
    }

    #[pyfunction]
    fn in_dict(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let arrays = PyDict::new(py);
        arrays.set_item("vector", vec![1_u32, 2, 3].into_numpy(py)?)?;
        arrays.set_item("array", Array2::<f32>::ones((2, 2)).into_numpy(py)?)?;
        arrays.set_item("tensor", Tensor::from([[1_u8, 2], [3, 4]]).into_numpy(py)?)?;
        Ok(arrays)
    }

    #[derive(IntoPyObject)]
    struct Moments {
        means: Numpy<f64, 1>,
        spread: Option<Numpy<f64, 1>>,
    }

    #[pyfunction]
    fn moments(n: usize) -> Moments {
        Moments { means: vec![0.5; n].into(), spread: (n > 1).then(|| vec![0.1; n].into()) }
    }

    static ALIVE: AtomicUsize = AtomicUsize::new(0);

    struct Counted(Vec<f64>);

    impl Drop for Counted {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Ordering::SeqCst);
        }
    }

    // SAFETY: forwards to the vector, which alone owns its memory and does not move it.
    unsafe impl Owner for Counted {
        type Item = f64;
        const ACCESS: Access = Access::Exclusive;

        fn items(&mut self) -> *mut [f64] {
            self.0.items()
        }
    }

    /// A matrix over counted memory, as an array with `ndim` dimensions of extent 1 before its own.
    #[pyfunction]
    fn counted(ndim: usize) -> PyResult<Numpy> {
        ALIVE.fetch_add(1, Ordering::SeqCst);
        let mut shape = vec![1; ndim];
        shape.push(2);
        Ok(Numpy::try_from(Tensor::from_parts(Counted(vec![1.0, 2.0]), shape)?)?)
    }

    /// A result that is refused because it is not a matrix.
    #[pyfunction]
    fn counted_refused() -> PyResult<Numpy<f64, 2>> {
        ALIVE.fetch_add(1, Ordering::SeqCst);
        Ok(Numpy::try_from(Tensor::from_parts(Counted(vec![1.0, 2.0]), [2])?)?)
    }

    #[pyfunction]
    fn alive() -> usize {
        ALIVE.load(Ordering::SeqCst)
    }

    #[pyfunction]
    fn torch_ramp(n: u16) -> Torch<f32, 1> {
        (0..n).map(f32::from).collect::<Vec<_>>().into()
    }

    #[pyfunction]
    fn torch_matrix(rows: usize, columns: usize) -> Torch<f64, 2> {
        Array2::from_shape_fn((rows, columns).f(), |(i, j)| (columns * i + j) as f64).into()
    }

    #[pyfunction]
    fn torch_any(x: &Bound<'_, PyAny>) -> PyResult<Torch> {
        Ok(Torch::try_from(dlbridge_pyo3::import(x)?)?)
    }

    #[pyfunction]
    fn doubled<'py>(x: PyReadonlyTensor<'py, f32, 1>) -> Like<'py> {
        x.like(x.iter().map(|value| 2.0 * value).collect::<Vec<_>>())
    }

    /// The extents of a tensor, as an object of the tensor's library.
    #[pyfunction]
    fn shape_like<'py>(x: PyDeviceTensor<'py, f32, DYNAMIC, WorkStream>) -> Like<'py> {
        x.like(x.shape().to_vec())
    }

    /// Zeros, as many as an object has items, as an object of its library.
    #[pyfunction]
    fn zeros_like<'py>(x: &Bound<'py, PyAny>) -> PyResult<Like<'py>> {
        Ok(Like::new(x, vec![0.0; x.len()?]))
    }

    /// A class whose getters return arrays.
    #[pyclass(frozen)]
    struct Histogram {
        counts: Vec<u64>,
        kept: PyTensor,
    }

    #[pymethods]
    impl Histogram {
        #[new]
        fn new(counts: Vec<u64>) -> Self {
            Self { kept: PyTensor::from(counts.clone()), counts }
        }

        #[getter]
        fn counts(&self) -> Numpy<u64, 1> {
            self.counts.clone().into()
        }

        #[getter]
        fn kept<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
            self.kept.numpy(py)
        }
    }
}
