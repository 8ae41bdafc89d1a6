//! One function for each kind of tensor argument.

mod casts;
mod collections;
mod core_errors;
mod device;
mod results;
mod returned;
mod sequences;
mod times;
mod tried;

use std::sync::Arc;

use dlbridge_pyo3::dlbridge::Tensor;
use dlbridge_pyo3::{
    Aligned, AllowCopy, AnyDataType, COrder, Contiguous, DYNAMIC, FortranOrder, Like, OneOf,
    PyReadonlyTensor, PyReadwriteTensor, PyTensor, dims, dispatch, producer,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The mean of any framework's float32 matrix, with any strides.
#[pyfunction]
fn mean(x: PyReadonlyTensor<'_, f32, 2>) -> f32 {
    x.iter().sum::<f32>() / x.len() as f32
}

#[pyfunction]
fn total(x: PyReadonlyTensor<'_, f32, 2, COrder>) -> f32 {
    x.slice().iter().sum()
}

/// The first column of a matrix in Fortran order, where a column is contiguous.
#[pyfunction]
fn first_column(x: PyReadonlyTensor<'_, f64, 2, FortranOrder>) -> Vec<f64> {
    let [rows, _] = x.dims();
    let view = x.view().transpose();
    // A matrix without columns has fewer elements than rows.
    view.as_slice().map_or(vec![], |elements| elements.iter().take(rows).copied().collect())
}

#[pyfunction]
fn aligned(x: PyReadonlyTensor<'_, u8, 1, (Contiguous, Aligned<64>)>) -> usize {
    x.len()
}

#[pyfunction]
fn brightest(image: PyReadonlyTensor<'_, u8, 3, (COrder, dims!(_, _, 3))>) -> Option<u8> {
    image.slice().iter().copied().max()
}

#[pyfunction]
#[pyo3(signature = (x=None))]
fn shape(x: Option<PyReadonlyTensor<'_, f32, DYNAMIC>>) -> Option<Vec<i64>> {
    Some(x?.shape().to_vec())
}

#[pyfunction]
fn dtype(x: PyReadonlyTensor<'_, AnyDataType, 1>) -> String {
    x.dtype().to_string()
}

#[pyfunction]
fn norm(x: PyReadonlyTensor<'_, OneOf<(f32, f64)>, 1>) -> f64 {
    dispatch!(T in (f32, f64), x => {
        x.iter().map(|&value: &T| f64::from(value) * f64::from(value)).sum::<f64>().sqrt()
    })
}

#[pyfunction]
fn count(x: PyReadonlyTensor<'_, bool, DYNAMIC>) -> PyResult<usize> {
    Ok(x.try_view()?.iter().filter(|&&value| value).count())
}

/// The number of true booleans before the first false one.
#[pyfunction]
fn leading(x: PyReadonlyTensor<'_, bool, 1>) -> PyResult<usize> {
    let flags = x.try_view()?;
    Ok(flags.iter().position(|flag| !flag).unwrap_or(flags.len()))
}

/// How many booleans of a vector are true, and whether they were copied, as packed ones of Arrow are.
#[pyfunction]
fn count_of_anything(x: PyReadonlyTensor<'_, bool, 1, AllowCopy>) -> PyResult<(usize, bool)> {
    Ok((x.try_view()?.iter().filter(|&&value| value).count(), !x.is_borrowed()))
}

/// The sum of the numbers whose boolean is true.
#[pyfunction]
fn total_where(
    mask: PyReadonlyTensor<'_, bool, 1>,
    x: PyReadonlyTensor<'_, f64, 1>,
) -> PyResult<f64> {
    let mask = mask.try_view()?;
    Ok(mask.iter().zip(x.iter()).filter(|&(&flag, _)| flag).map(|(_, value)| value).sum())
}

/// Inverts booleans where they are, after extracting an argument that may change them.
#[pyfunction]
fn invert_flags(
    mut flags: PyReadwriteTensor<'_, bool, 1>,
    _late: PyReadonlyTensor<'_, f64, 1>,
) -> PyResult<()> {
    flags.try_view_mut()?.into_iter().for_each(|flag| *flag = !*flag);
    Ok(())
}

/// Inverts booleans where they are, by ndarray.
#[pyfunction]
fn invert_mask(mut mask: PyReadwriteTensor<'_, bool, 2>) -> PyResult<()> {
    mask.try_as_array_mut()?.map_inplace(|flag| *flag = !*flag);
    Ok(())
}

/// The sum of any tensor that can be converted to float64 without a loss, and whether it was converted.
#[pyfunction]
fn total_of_anything(x: PyReadonlyTensor<'_, f64, DYNAMIC, (COrder, AllowCopy)>) -> (f64, bool) {
    (x.slice().iter().sum(), !x.is_borrowed())
}

/// The sum of a vector that can be converted to float64 without a loss.
#[pyfunction]
fn total_of_vector(x: PyReadonlyTensor<'_, f64, 1, (COrder, AllowCopy)>) -> f64 {
    x.slice().iter().sum()
}

/// The elements of a matrix column by column, from any layout and any dtype that can be converted.
#[pyfunction]
fn by_columns(x: PyReadonlyTensor<'_, f64, 2, (FortranOrder, AllowCopy)>) -> Vec<f64> {
    x.view().transpose().as_slice().map_or(vec![], <[f64]>::to_vec)
}

#[pyfunction]
fn pixels(x: PyReadonlyTensor<'_, u8, DYNAMIC, dims!(_, _, 3)>) -> usize {
    x.len() / 3
}

#[pyfunction]
fn swap_bytes(mut x: PyReadwriteTensor<'_, AnyDataType, 1>) -> PyResult<()> {
    Ok(x.as_tensor_ref_mut().swap_bytes()?)
}

/// Numbers that must not change.
#[pyfunction]
fn constants() -> PyTensor {
    static NUMBERS: [f64; 3] = [1.0, 2.0, 3.0];
    PyTensor::from(Tensor::from(Arc::<[f64]>::from(NUMBERS)))
}

#[pyfunction]
fn invert(mut image: PyReadwriteTensor<'_, u8, 3>) {
    image.iter_mut().for_each(|value| *value = 255 - *value);
}

/// Changes the sign of all numbers of a tensor.
#[pyfunction]
fn negate(x: PyReadwriteTensor<'_, OneOf<(f32, f64, i32)>, DYNAMIC>) {
    dispatch!(T in (f32, f64, i32), mut x => {
        x.iter_mut().for_each(|value: &mut T| *value = T::default() - *value);
    });
}

/// The sum of the diagonal, by ndarray.
#[pyfunction]
fn trace(x: PyReadonlyTensor<'_, f64, 2>) -> f64 {
    x.as_array().diag().sum()
}

#[pyfunction]
fn scale(mut x: PyReadwriteTensor<'_, f64, 2>, factor: f64) {
    x.as_array_mut().map_inplace(|value| *value *= factor);
}

/// Adds an array with any number of dimensions to another of the same shape, by ndarray.
#[pyfunction]
fn accumulate(
    mut target: PyReadwriteTensor<'_, f64, DYNAMIC>,
    source: PyReadonlyTensor<'_, f64, DYNAMIC>,
) -> PyResult<()> {
    let (mut target, source) = (target.as_array_mut(), source.as_array());
    if target.shape() != source.shape() {
        return Err(PyValueError::new_err("the arrays differ in their shapes"));
    }
    target += &source;
    Ok(())
}

#[pyfunction]
fn add(mut target: PyReadwriteTensor<'_, f64, 2>, source: PyReadonlyTensor<'_, f64, 2>) {
    target.iter_mut().zip(source.iter()).for_each(|(to, from)| *to += from);
}

#[pyfunction]
fn swap(mut a: PyReadwriteTensor<'_, f64, 1>, mut b: PyReadwriteTensor<'_, f64, 1>) {
    a.iter_mut().zip(b.iter_mut()).for_each(|(a, b)| std::mem::swap(a, b));
}

#[pyfunction]
fn while_reading<'py>(
    x: PyReadonlyTensor<'py, f64, DYNAMIC>,
    function: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let answer = function.call0();
    drop(x);
    answer
}

#[pyfunction]
fn while_writing<'py>(
    x: PyReadwriteTensor<'py, AnyDataType, DYNAMIC>,
    function: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let answer = function.call0();
    drop(x);
    answer
}

#[pyfunction]
fn total_detached(py: Python<'_>, x: PyReadonlyTensor<'_, f64, DYNAMIC>) -> f64 {
    let view = x.view();
    py.detach(|| view.iter().sum())
}

#[pyfunction]
fn twice<'py>(x: PyReadonlyTensor<'py, f32, 1>) -> Like<'py> {
    x.like(x.iter().map(|value| 2.0 * value).collect::<Vec<_>>())
}

/// The numbers below `n`, as an object of a library.
#[pyfunction]
fn ramp<'py>(py: Python<'py>, n: usize, library: &str) -> PyResult<Bound<'py, PyAny>> {
    PyTensor::from((0..n).map(|i| i as f64).collect::<Vec<_>>()).into_library(py, library)
}

/// A sound that owns its samples and exports them, with shape [frames, channels].
#[pyclass(frozen)]
struct Sound {
    samples: PyTensor,
}

impl Sound {
    fn samples(&self) -> &PyTensor {
        &self.samples
    }
}

#[producer(Self::samples)]
#[pymethods]
impl Sound {
    #[new]
    fn new(frames: usize, channels: usize) -> PyResult<Self> {
        let samples = Tensor::zeros::<f32>([frames, channels])?;
        Ok(Self { samples: PyTensor::from(samples) })
    }

    fn format(&self) -> (String, Vec<i64>) {
        (self.samples.dtype().to_string(), self.samples.shape().to_vec())
    }

    /// The largest distance from silence.
    fn loudest(&self, py: Python<'_>) -> PyResult<f32> {
        let samples: PyReadonlyTensor<'_, f32, 2> = self.samples.extract(py)?;
        Ok(samples.iter().fold(0.0, |loudest, sample| sample.abs().max(loudest)))
    }

    fn amplify(&self, py: Python<'_>, factor: f32) -> PyResult<()> {
        let mut samples: PyReadwriteTensor<'_, f32, 2> = self.samples.extract(py)?;
        samples.iter_mut().for_each(|sample| *sample *= factor);
        Ok(())
    }

    /// For copies and pickles: a function and its arguments.
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyAny>,))> {
        let make = py.import("typed_arguments")?.getattr("sound_of")?;
        Ok((make, (self.samples.to_object(py)?,)))
    }
}

/// A sound of a copy of these samples, which are a `dlbridge.Tensor` after unpickling.
#[pyfunction]
fn sound_of(samples: PyReadonlyTensor<'_, f32, 2>) -> PyResult<Sound> {
    Ok(Sound { samples: PyTensor::from(samples.as_tensor_ref().to_copy()?) })
}

/// Squares, which each export computes anew. An export raises if `count` is `None`.
#[pyclass]
struct Squares {
    #[pyo3(get, set)]
    count: Option<u32>,
}

impl Squares {
    fn tensor(&self) -> PyResult<PyTensor> {
        let count = self.count.ok_or_else(|| PyValueError::new_err("no squares today"))?;
        Ok(PyTensor::from((0..count).map(|i| i * i).collect::<Vec<_>>()))
    }
}

#[producer(Self::tensor)]
#[pymethods]
impl Squares {
    #[new]
    fn new(count: u32) -> Self {
        Self { count: Some(count) }
    }

    /// The class defines this protocol itself.
    fn __bytes__(&self) -> PyResult<()> {
        Err(PyValueError::new_err("squares are numbers"))
    }
}

/// A scale over memory that Rust keeps too, so consumers only read it.
#[pyclass(frozen)]
struct Scale {
    steps: Arc<[f64]>,
    tensor: PyTensor,
}

trait HasTensor {
    fn tensor(&self) -> PyResult<&PyTensor>;
}

impl HasTensor for Scale {
    fn tensor(&self) -> PyResult<&PyTensor> {
        Ok(&self.tensor)
    }
}

#[producer(HasTensor::tensor)]
#[pymethods]
impl Scale {
    #[new]
    fn new(steps: Vec<f64>) -> Self {
        let steps: Arc<[f64]> = steps.into();
        Self { tensor: PyTensor::from(Tensor::from(Arc::clone(&steps))), steps }
    }

    /// The sum of the steps, which Rust reads without a borrow.
    fn height(&self) -> f64 {
        self.steps.iter().sum()
    }
}

/// A tensor that another one can replace. The macro's text has a word of its name.
#[pyclass]
struct LatestTENSOR {
    tensor: PyTensor,
}

impl LatestTENSOR {
    fn tensor(&self) -> &PyTensor {
        &self.tensor
    }
}

#[producer(Self::tensor)]
#[pymethods]
impl LatestTENSOR {
    #[new]
    fn new(elements: Vec<f64>) -> Self {
        Self { tensor: PyTensor::from(elements) }
    }

    /// Frees the tensor, and keeps another.
    fn replace(&mut self, elements: Vec<f64>) {
        self.tensor = PyTensor::from(elements);
    }
}

/// The extension module of the package `typed_arguments`.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use super::casts::{
        cast_columns, cast_columns_to_several, cast_indices, cast_integers_to_several, cast_list,
        cast_strides, cast_strides_c, cast_strides_contiguous, cast_strides_fortran,
        cast_to_bfloat16, cast_to_bool, cast_to_complex64, cast_to_complex128, cast_to_float16,
        cast_to_float32, cast_to_float64, cast_to_int8, cast_to_int16, cast_to_int32,
        cast_to_int64, cast_to_several, cast_to_uint8, cast_to_uint16, cast_to_uint32,
        cast_to_uint64, copy_to_float32, copy_to_float64, copy_to_int64,
    };
    #[pymodule_export]
    use super::collections::{
        negate_dict, negate_list, negate_vec, subtract_lists, sums_of_dict, sums_of_dict_of_lists,
        sums_of_entries, sums_of_list, sums_of_map, sums_of_pairs, sums_of_vec, sums_with_gaps,
    };
    #[pymodule_export]
    use super::core_errors::core_error_classes;
    #[pymodule_export]
    use super::device::{
        Lent, aligned_on_device, choose_stream, kept, on_chosen_stream, on_default_stream,
        on_own_stream, on_work_stream, to_be_changed, total_of_pinned, while_on_device,
    };
    #[pymodule_export]
    use super::results::{cube, fetched, matrix, names_in_file, zeros};
    #[pymodule_export]
    use super::returned::returned;
    #[pymodule_export]
    use super::sequences::{
        as_any, as_bfloat16, as_bool, as_complex64, as_complex128, as_double_or_int, as_float16,
        as_float32, as_float64, as_int8, as_int16, as_int32, as_int64, as_single_or_byte, as_uint8,
        as_uint16, as_uint32, as_uint64, cube_of_lists, matrix_by_columns, matrix_of_lists,
        optional_list, vector_of_list,
    };
    #[pymodule_export]
    use super::times::{
        cast_to_days_or_milliseconds, cast_to_nanoseconds, cast_to_seconds, day_like, epoch, gaps,
        hour_like, milliseconds, nanoseconds, nanoseconds_of_anything, next_day,
        points_of_any_unit, same_times, spans_of_any_unit, times_in_results, times_into_numpy,
    };
    #[pymodule_export]
    use super::tried::{
        default_or_sum, dimensions, either, numbers_or_times, refusal, refusals, share_borrows,
        try_device, try_list, try_write,
    };
    #[pymodule_export]
    use super::{
        LatestTENSOR, Scale, Sound, Squares, accumulate, add, aligned, brightest, by_columns,
        constants, count, count_of_anything, dtype, first_column, invert, invert_flags,
        invert_mask, leading, mean, negate, norm, pixels, ramp, scale, shape, sound_of, swap,
        swap_bytes, total, total_detached, total_of_anything, total_of_vector, total_where, trace,
        twice, while_reading, while_writing,
    };
}
