//! Mistakes that users make. `compile_errors.py` compares the errors of the compiler with the comments, and looks for the
//! errors in docs/troubleshooting.md.

use dlbridge_pyo3::dlbridge::{Tensor, sys::DLManagedTensorVersioned};
use dlbridge_pyo3::{Numpy, OneOf, PyReadonlyTensor, PyReadwriteTensor, dispatch};
use ndarray::{Array1, Array2, ArrayView1};
use pyo3::prelude::*;

// error[E0277]: `String` is not an element type
// note: the integers, `f32`, `f64` and `bool` are elements; the features `half`, `num-complex` and `microfloat` of dlbridge add others
pub fn text() -> bool {
    Tensor::from_parts(vec![String::new()], [1]).is_ok()
}

// error[E0277]: `Rc<[f32]>` cannot own the elements of a tensor
// note: a tensor owns its elements: pass a `Vec`, a `Box`, an `Arc<[T]>` or a `'static` slice of elements
pub fn shared() -> dlbridge_pyo3::dlbridge::Result<Tensor> {
    Tensor::from_parts(std::rc::Rc::<[f32]>::from([1.0]), [1])
}

// error[E0277]: the trait bound `ArrayBase<ViewRepr<&f32>, Dim<[usize; 1]>, f32>: From<TensorView<'_, f32>>` is not satisfied
pub fn array(t: &Tensor) -> bool {
    ArrayView1::<f32>::try_from(t.view::<f32>().unwrap()).is_ok()
}

// error[E0597]: `t` does not live long enough
pub fn outliving() -> f32 {
    let view = {
        let t = Tensor::from(vec![1.0_f32]);
        t.view::<f32>().unwrap()
    };
    view[[0]]
}

// error[E0505]: cannot move out of `x` because it is borrowed
pub fn dropped(x: PyReadonlyTensor<'_, f32, 1>) -> f32 {
    let view = x.view();
    drop(x);
    view[[0]]
}

// error[E0597]: `samples` does not live long enough
pub fn borrowed() -> Tensor {
    let samples = vec![1.0_f32; 4];
    Tensor::from_parts(&samples[..], [4]).unwrap()
}

// error[E0277]: `Vec<f32>` is not an element type
pub fn nested() -> Tensor {
    Tensor::from(vec![vec![1.0_f32]])
}

// error[E0277]: `&Vec<f32>` cannot own the elements of a tensor
// note: to borrow elements for a call, make a `TensorRef` or a `TensorRefMut` of them
pub fn referenced(samples: &Vec<f32>) -> bool {
    Tensor::from_parts(samples, [1]).is_ok()
}

// error[E0277]: the trait bound `Tensor: From<Rc<[f32]>>` is not satisfied
pub fn counted() -> Tensor {
    Tensor::from(std::rc::Rc::<[f32]>::from([1.0]))
}

// error[E0521]: borrowed data escapes outside of function
pub fn slice(samples: &[f32]) -> Tensor {
    Tensor::from(samples)
}

// error[E0515]: cannot return value referencing local variable `t`
pub fn local() -> dlbridge_pyo3::dlbridge::TensorView<'static, f32> {
    let t = Tensor::from(vec![1.0_f32]);
    t.view().unwrap()
}

// error[E0716]: temporary value dropped while borrowed
pub fn temporary() -> f32 {
    let view = Tensor::from(vec![1.0_f32]).view::<f32>().unwrap();
    view[[0]]
}

// error[E0283]: type annotations needed
pub fn untyped(t: &Tensor) -> usize {
    t.view().unwrap().len()
}

// error[E0599]: no method named `clone` found for struct `Tensor` in the current scope
pub fn cloned(t: Tensor) -> Tensor {
    t.clone()
}

// error[E0277]: the trait bound `[i64]: AsRef<[usize]>` is not satisfied
pub fn reshaped(t: &Tensor) -> bool {
    Tensor::from_parts(vec![1.0_f32], t.shape()).is_ok()
}

// error[E0277]: `?` couldn't convert the error: `Tensor: std::error::Error` is not satisfied
pub fn owner(t: Tensor) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
    Ok(t.try_into_owner::<Vec<f32>>()?)
}

// error[E0277]: the trait bound `ArrayBase<OwnedRepr<f32>, Dim<[usize; 1]>, f32>: TryFrom<TensorView<'_, f32>>` is not satisfied
pub fn owned_array(t: &Tensor) -> Array1<f32> {
    t.view::<f32>().unwrap().try_into().unwrap()
}

// error[E0277]: the trait bound `Tensor: From<ArrayBase<OwnedRepr<f32>, Dim<[usize; 2]>, f32>>` is not satisfied
pub fn from_array(array: Array2<f32>) -> Tensor {
    Tensor::from(array)
}

// error[E0596]: cannot borrow `t` as mutable, as it is not declared as mutable
pub fn written(t: Tensor) {
    t.view_mut::<f32>().unwrap();
}

// is unsafe and requires unsafe
pub fn raw(managed: *mut DLManagedTensorVersioned) -> bool {
    Tensor::from_raw(managed).is_ok()
}

// error[E0277]: `dispatch!` names the types `(f32,)`, but the argument is `OneOf<(f32, f64)>`
// note: name every type of the `OneOf`, in the same order: `dispatch!(T in (f32, f64), x => ...)`
pub fn missing(x: PyReadonlyTensor<'_, OneOf<(f32, f64)>, 1>) -> usize {
    dispatch!(T in (f32), x => x.len())
}

// error[E0277]: an argument cannot be used where Python is not attached, or on another thread
// note: make a view of it before, and use that: `let view = x.view(); py.detach(|| view.iter().sum())`
pub fn detached(py: Python<'_>, x: PyReadonlyTensor<'_, f32, 1>) -> f32 {
    py.detach(|| x.iter().sum())
}

// error[E0277]: `i32` is not a constraint of an argument
// note: the fourth parameter is a constraint such as `COrder` or `AllowCopy`, or a tuple of up to six: `(COrder, AllowCopy)`
#[pyfunction]
pub fn constrained(x: PyReadonlyTensor<'_, f32, 2, i32>) -> usize {
    x.len()
}

// error[E0277]: only an argument in C order is one slice
// note: write `COrder`, or put it first in the tuple: `(COrder, AllowCopy)`; or use `as_slice()`, which returns an `Option`
pub fn strided(x: PyReadonlyTensor<'_, f32, 2>) -> f32 {
    x.slice().iter().sum()
}

// error[E0599]: the method `view` exists for struct `PyReadonlyTensor<'_, OneOf<(f32, f64)>, 1>`, but its trait bounds were not satisfied
pub fn several(x: PyReadonlyTensor<'_, OneOf<(f32, f64)>, 1>) -> usize {
    x.view().len()
}

// error[E0599]: no method named `view_mut` found for struct `PyReadonlyTensor
pub fn readonly(mut x: PyReadonlyTensor<'_, f32, 1>) {
    x.view_mut();
}

// error[E0277]: the trait bound `Numpy<f32, 2>: From<Vec<f32>>` is not satisfied
pub fn matrix(values: Vec<f32>) -> Numpy<f32, 2> {
    values.into()
}

// error[E0596]: cannot borrow value as mutable, as it is not declared as mutable
pub fn doubled(x: PyReadwriteTensor<'_, OneOf<(f32, f64)>, 1>) {
    dispatch!(T in (f32, f64), x => x.iter_mut().for_each(|value: &mut T| *value *= 2.0));
}

// error[E0277]: `ArrayBase<OwnedRepr<f32>, Dim<[usize; 2]>, f32>` cannot be converted to a Python object
#[pyfunction]
pub fn returned_array() -> Array2<f32> {
    Array2::eye(2)
}

// error[E0277]: `Tensor` cannot be converted to a Python object
#[pyfunction]
pub fn returned() -> Tensor {
    Tensor::from(vec![1.0_f32])
}
