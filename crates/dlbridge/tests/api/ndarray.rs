//! ndarray arrays as owners of tensors, and tensors as ndarray views, with any number of dimensions and any strides.
#![cfg(feature = "ndarray")]

use crate::common::{Nibble, Producer};
use dlbridge::{Access, Error, MAX_NDIM, Tensor, TensorRef, TensorRefMut, TensorView};
use ndarray::{
    Array, Array1, Array2, Array3, ArrayD, ArrayView, ArrayView0, ArrayView1, ArrayView2,
    ArrayView3, ArrayViewD, ArrayViewMut1, ArrayViewMut2, ArrayViewMutD, Axis, CowArray, Dimension,
    Ix0, Ix1, Ix2, Ix3, Ix4, Ix5, Ix6, IxDyn, ShapeBuilder, arr0, array, s,
};

/// Returns an array with the numbers from 0, in C order.
fn counting<D: Dimension>(shape: impl ShapeBuilder<Dim = D>) -> Array<i32, D> {
    let mut next = 0..;
    let mut array = Array::zeros(shape);
    array.iter_mut().for_each(|element| *element = next.next().unwrap());
    array
}

/// Converts an array to a tensor, views it, and converts it back to the same array.
#[track_caller]
fn there_and_back<D: Dimension + 'static>(array: Array<i32, D>) {
    let (copy, address) = (array.clone().into_dyn(), array.as_ptr());
    let (dim, strides) = (array.raw_dim(), array.strides().to_vec());
    let tensor = Tensor::from(array);
    assert_eq!(tensor.access(), Access::Exclusive);
    let extents: Vec<i64> = dim.slice().iter().map(|&extent| extent as i64).collect();
    let steps: Vec<i64> = strides.iter().map(|&stride| stride as i64).collect();
    assert_eq!((tensor.shape(), tensor.strides()), (&extents[..], &steps[..]));
    let empty = tensor.is_empty();
    assert_eq!(tensor.data().addr(), if empty { 0 } else { address.addr() });
    let view = tensor.view::<i32>().unwrap();
    assert!(view.iter().eq(copy.iter()), "the view iterates in C order");

    let seen: ArrayView<'_, i32, D> = view.clone().try_into().unwrap();
    assert_eq!((seen.raw_dim(), seen.view().into_dyn()), (dim.clone(), copy.view()));
    let dynamic: ArrayViewD<'_, i32> = view.try_into().unwrap();
    assert_eq!(dynamic, copy);
    if !empty {
        assert_eq!((seen.as_ptr(), dynamic.as_ptr()), (address, address));
        for (axis, &stride) in strides.iter().enumerate().filter(|&(axis, _)| dim[axis] > 1) {
            assert_eq!((seen.strides()[axis], dynamic.strides()[axis]), (stride, stride));
        }
    }
    let back = tensor.try_into_owner::<Array<i32, D>>().unwrap();
    assert_eq!((back.as_ptr(), back.raw_dim(), back.strides()), (address, dim, &strides[..]));
    assert_eq!(back.into_dyn(), copy);
}

#[test]
fn arrays_of_every_number_of_dimensions_round_trip() {
    there_and_back::<Ix0>(arr0(5));
    there_and_back::<Ix1>(counting(5));
    there_and_back::<Ix2>(counting((2, 3)));
    there_and_back::<Ix3>(counting((2, 3, 4)));
    there_and_back::<Ix4>(counting((2, 1, 3, 2)));
    there_and_back::<Ix5>(counting((1, 2, 1, 3, 2)));
    there_and_back::<Ix6>(counting((2, 1, 2, 1, 2, 2)));
    there_and_back::<IxDyn>(counting(IxDyn(&[])));
    there_and_back::<IxDyn>(counting(IxDyn(&[2, 1, 2, 1, 2, 1, 2])));
}

#[test]
fn fortran_order_steps_inversions_and_permutations_are_kept() {
    there_and_back(counting((3, 4).f()));
    there_and_back(counting((2, 3, 4).f()));
    there_and_back(counting((5, 6)).slice_move(s![1..;2, ..;3]));
    there_and_back(counting((5, 6)).slice_move(s![..;-1, ..;-2]));
    there_and_back(counting((5, 6)).slice_move(s![4, ..;-1]));
    there_and_back(counting((2, 3, 4)).permuted_axes([2, 0, 1]));
    there_and_back(counting((2, 3, 4)).reversed_axes());
    for axis in 0..3 {
        let mut array = counting((2, 3, 4));
        array.invert_axis(Axis(axis));
        there_and_back(array);
    }
    there_and_back(counting((2, 3)).insert_axis(Axis(1)));
    there_and_back(counting(6).slice_move(s![3..4]));
    there_and_back(counting((1, 4)).slice_move(s![..;-1, ..]));
}

#[test]
fn arrays_without_elements_may_have_odd_strides() {
    there_and_back(counting(0));
    there_and_back(counting((3, 0, 2)));
    there_and_back(counting((0, 3).f()));
    there_and_back(counting((4, 6)).slice_move(s![2..2, ..;-2]));
    there_and_back(counting((4, 6)).slice_move(s![..;-1, 6..]));
    let mut inverted = counting((4, 0, 3));
    inverted.invert_axis(Axis(0));
    inverted.invert_axis(Axis(1));
    there_and_back(inverted);
    // Foreign strides that no array would have.
    let strides = [i64::MAX, i64::MIN, -7];
    let lent = Producer::new(vec![0_i32], &[5, 0, 3]).strides(&strides).import().unwrap();
    let seen = ArrayView3::try_from(lent.view::<i32>().unwrap()).unwrap();
    assert_eq!((seen.dim(), seen.iter().count()), ((5, 0, 3), 0));
    // Also the stride of an axis of extent 1.
    let lent = Producer::new(vec![7_i32, 8], &[1, 2, 1]).strides(&[i64::MIN, 1, i64::MAX]);
    let lent = lent.import().unwrap();
    let seen = ArrayView3::try_from(lent.view::<i32>().unwrap()).unwrap();
    assert_eq!(seen, array![[[7], [8]]]);
    let seen = ArrayViewD::try_from(lent.view::<i32>().unwrap()).unwrap();
    assert_eq!(seen.into_dimensionality::<Ix3>().unwrap(), array![[[7], [8]]]);
}

#[test]
fn negative_strides_of_any_owner_are_viewed() {
    let values: Vec<i32> = (0..6).collect();
    let flipped = Tensor::from_parts_strided(values.clone(), [2, 3], [3, -1], 2).unwrap();
    let seen = ArrayView2::try_from(flipped.view::<i32>().unwrap()).unwrap();
    assert_eq!((seen.strides(), seen), (&[3, -1][..], array![[2, 1, 0], [5, 4, 3]].view()));
    let turned = Tensor::from_parts_strided(values, [3, 2], [-1, -3], 5).unwrap();
    let seen = ArrayView2::try_from(turned.view::<i32>().unwrap()).unwrap();
    assert_eq!((seen.strides(), seen), (&[-1, -3][..], array![[5, 2], [4, 1], [3, 0]].view()));
    let lent = Producer::new(vec![1_u8, 2, 3], &[3]).strides(&[-1]).byte_offset(2);
    let lent = lent.import_legacy().unwrap();
    let seen = ArrayView1::try_from(lent.view::<u8>().unwrap()).unwrap();
    assert_eq!(seen, array![3, 2, 1]);
}

#[test]
fn zero_strides_are_viewed() {
    let row = Tensor::from_parts_strided(vec![1, 2, 3], [4, 3], [0, 1], 0).unwrap();
    let seen = ArrayView2::try_from(row.view::<i32>().unwrap()).unwrap();
    assert_eq!(seen, array![1, 2, 3].broadcast((4, 3)).unwrap());
    assert_eq!(seen.strides(), [0, 1]);
    let mixed = Tensor::from_parts_strided(vec![1, 2, 3], [3, 2, 2], [-1, 0, 0], 2).unwrap();
    let seen = ArrayViewD::try_from(mixed.view::<i32>().unwrap()).unwrap();
    assert_eq!(seen.sum(), (1 + 2 + 3) * 4);
    assert_eq!(seen[[0, 1, 0]], 3);
}

#[test]
#[cfg(target_pointer_width = "64")]
fn broadcast_of_billions_is_viewed() {
    let lent = Producer::new(vec![1_u8, 2, 3, 4], &[1 << 31, 4]).strides(&[0, 1]).import().unwrap();
    let seen = ArrayView2::try_from(lent.view::<u8>().unwrap()).unwrap();
    assert_eq!((seen.len(), seen[[(1 << 31) - 1, 3]]), (1 << 33, 4));
}

/// A type that converts to a tensor implements this twice, so a call is ambiguous and does not compile; any other type
/// implements it once.
trait NoTensor<Answer> {
    const IT_IS_NONE: () = ();
}
struct ItIsOne;
impl<T> NoTensor<()> for T {}
impl<T: Into<Tensor>> NoTensor<ItIsOne> for T {}

#[test]
fn views_and_borrowed_arrays_do_not_become_tensors() {
    let () = <ArrayView2<'static, f32> as NoTensor<_>>::IT_IS_NONE;
    let () = <ArrayViewMut2<'static, f32> as NoTensor<_>>::IT_IS_NONE;
    let () = <CowArray<'static, f32, Ix2> as NoTensor<_>>::IT_IS_NONE;
    let () = <Array2<std::rc::Rc<f32>> as NoTensor<_>>::IT_IS_NONE;
}

#[test]
fn shared_arrays_are_immutable() {
    let array = counting((2, 3)).into_shared();
    let (mut other, address) = (array.clone(), array.as_ptr());
    let mut tensor = Tensor::from(array.slice_move(s![.., ..;-1]));
    assert_eq!((tensor.access(), tensor.strides()), (Access::Immutable, &[3, -1][..]));
    assert_eq!(tensor.view_mut::<i32>().unwrap_err(), Error::ReadOnly);
    // A write through another handle copies the array first.
    other[[0, 0]] = 100;
    assert_ne!(other.as_ptr(), address);
    let seen = ArrayView2::try_from(tensor.view::<i32>().unwrap()).unwrap();
    assert_eq!(seen, array![[2, 1, 0], [5, 4, 3]]);
    let back = tensor.try_into_owner::<ndarray::ArcArray2<i32>>().unwrap();
    assert_eq!(back.as_ptr(), address.wrapping_add(2));
}

#[test]
fn arrays_are_written_through_views() {
    let mut tensor = Tensor::from(counting((2, 3)).slice_move(s![..;-1, ..;2]));
    let mut seen = ArrayViewMut2::try_from(tensor.view_mut::<i32>().unwrap()).unwrap();
    assert_eq!((seen.strides(), seen.view()), (&[-3, 2][..], array![[3, 5], [0, 2]].view()));
    seen[[0, 1]] = 50;
    seen.row_mut(1).fill(-1);
    let mut seen = ArrayViewMutD::try_from(tensor.view_mut::<i32>().unwrap()).unwrap();
    seen[[0, 0]] += 1;
    let array = tensor.try_into_owner::<Array2<i32>>().unwrap();
    assert_eq!(array, array![[4, 50], [-1, -1]]);

    let mut scalar = Tensor::from(arr0(1.5_f64));
    ndarray::ArrayViewMut0::try_from(scalar.view_mut::<f64>().unwrap()).unwrap().fill(2.5);
    let seen = ArrayView0::try_from(scalar.view::<f64>().unwrap()).unwrap();
    assert_eq!(seen.into_scalar(), &2.5);

    let mut empty = Tensor::from(Array2::<u8>::zeros((0, 3)));
    let seen = ArrayViewMut2::try_from(empty.view_mut::<u8>().unwrap()).unwrap();
    assert_eq!(seen.dim(), (0, 3));
}

#[test]
fn borrowed_arrays_are_written_in_place() {
    let mut array = counting((2, 3));
    let address = array.as_ptr().addr();
    let tensor = TensorRefMut::from(&mut array);
    assert_eq!(tensor.as_tensor_ref().data().addr(), address);
    tensor.copy_from(&TensorRef::from(&[[10, 20, 30], [40, 50, 60]])).unwrap();
    assert_eq!(array, array![[10, 20, 30], [40, 50, 60]]);
    // A reversed view with gaps: the elements between do not change.
    let mut columns = array.slice_mut(s![..;-1, ..;2]);
    let mut tensor = TensorRefMut::from(&mut columns);
    assert_eq!((tensor.shape(), tensor.strides()), (&[2, 2][..], &[-3, 2][..]));
    let described = tensor.dl_tensor();
    // SAFETY: the tensor is borrowed, and has two dimensions with two strides.
    assert_eq!(unsafe { *described.strides }, -3);
    tensor.copy_from(&TensorRef::from(&[[1, 2], [3, 4]])).unwrap();
    assert_eq!(array, array![[3, 20, 4], [1, 50, 2]]);
    // A shared array is copied before it is written.
    let mut shared = array.clone().into_shared();
    let other = shared.clone();
    TensorRefMut::from(&mut shared).into_view_mut::<i32>().unwrap()[[0, 0]] = 99;
    assert_eq!((shared[[0, 0]], other[[0, 0]]), (99, 3));
    assert_eq!(TensorRefMut::from(&mut Array2::<u8>::zeros((0, 3))).shape(), [0, 3]);
}

#[test]
fn view_with_another_number_of_dimensions_is_refused() {
    let mut tensor = Tensor::from(counting((2, 3)));
    let error = |expected| Error::Ndim { expected, found: 2 };
    let view: TensorView<'_, i32> = tensor.view().unwrap();
    assert_eq!(ArrayView0::try_from(view.clone()).unwrap_err(), error(0));
    assert_eq!(ArrayView1::try_from(view.clone()).unwrap_err(), error(1));
    assert_eq!(ArrayView3::try_from(view.clone()).unwrap_err(), error(3));
    let view = tensor.view_mut::<i32>().unwrap();
    assert_eq!(ArrayViewMut1::try_from(view).unwrap_err(), error(1));
    let scalar = Tensor::from(arr0(1));
    let view = scalar.view::<i32>().unwrap();
    assert_eq!(
        ArrayView1::try_from(view.clone()).unwrap_err(),
        Error::Ndim { expected: 1, found: 0 }
    );
}

#[test]
fn array_comes_back_after_an_export() {
    let array = counting((3, 4)).reversed_axes();
    let address = array.as_ptr();
    let tensor = Tensor::from(array).into_shared();
    let lent = crate::common::take(tensor.to_raw()).unwrap();
    let seen = ArrayView2::try_from(lent.view::<i32>().unwrap()).unwrap();
    assert_eq!((seen.as_ptr(), seen.dim()), (address, (4, 3)));
    drop(lent);
    let tensor = tensor.try_into_tensor().unwrap();
    let home = crate::common::take(tensor.into_raw()).unwrap();
    let array = home.try_into_owner::<Array2<i32>>().unwrap();
    assert_eq!((array.as_ptr(), array.strides()), (address, &[1, 4][..]));
}

#[test]
fn array_of_the_most_dimensions_round_trips() {
    // ndarray takes quadratic time for it.
    let ndim = if cfg!(miri) { 64 } else { MAX_NDIM };
    there_and_back(counting(IxDyn(&vec![1; ndim])));
}

#[test]
#[should_panic(expected = "ndim is 1025")]
#[cfg_attr(miri, ignore = "ndarray takes quadratic time for it")]
fn array_of_too_many_dimensions_panics() {
    let _ = Tensor::from(ArrayD::<u8>::zeros(IxDyn(&[1; MAX_NDIM + 1])));
}

#[test]
fn tensor_has_the_dtype_of_the_array() {
    let tensor = Tensor::from(Array3::<f64>::from_elem((1, 2, 2), 0.25));
    assert_eq!((tensor.dtype(), tensor.nbytes()), (dlbridge::DataType::FLOAT64, 32));
    let tensor = Tensor::from(Array1::from(vec![true, false]));
    let seen = ArrayView1::try_from(tensor.view::<bool>().unwrap()).unwrap();
    assert_eq!(seen, array![true, false]);
    // A Rust value occupies whole bytes.
    let nibbles = array![[Nibble(1), Nibble(2), Nibble(3)]];
    for tensor in [Tensor::from(nibbles.clone()), Tensor::from(nibbles.to_shared())] {
        assert!(tensor.is_subbyte_padded() && tensor.nbytes() == 3);
        assert_eq!(ArrayView2::try_from(tensor.view::<Nibble>().unwrap()).unwrap(), nibbles);
    }
}
