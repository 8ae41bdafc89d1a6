//! Borrowed tensors: their sources, and C kernels that read and write them.

use std::ffi::c_void;

use crate::common::model::{Layout, Op, Rng};
use crate::common::{Nibble, Producer, dims, positions};
use dlbridge::sys::{DLTensor, kDLCPU};
use dlbridge::{
    Access, DataType, Device, DeviceType, Element, Error, Iter, IterMut, MAX_NDIM, RawParts,
    Tensor, TensorRef, TensorRefMut, TensorView, TensorViewMut, Unaligned,
};

/// Returns the addresses of the `f32` elements of a description, by its strides, as C code computes them.
///
/// # Safety
/// The description is valid.
unsafe fn addresses(tensor: *const DLTensor) -> Vec<*mut f32> {
    // SAFETY: the caller passes a valid description.
    let tensor = unsafe { &*tensor };
    assert_eq!(tensor.device.device_type, kDLCPU);
    assert_eq!(DataType::from(tensor.dtype), DataType::FLOAT32);
    let (shape, strides) = dims(tensor);
    let shape: Vec<usize> = shape.iter().map(|&extent| extent as usize).collect();
    let strides: Vec<isize> = strides.iter().map(|&stride| stride as isize).collect();
    let first = tensor.data.wrapping_byte_add(tensor.byte_offset as usize).cast::<f32>();
    // As `usize`, a negative stride is a step forwards of almost the whole address space.
    positions(&shape, &strides, 0).into_iter().map(|steps| first.wrapping_add(steps)).collect()
}

/// Returns the sum of the elements.
unsafe extern "C" fn sum(tensor: *const DLTensor) -> f64 {
    // SAFETY: the caller passes a valid description.
    unsafe { addresses(tensor).into_iter().map(|element| f64::from(*element)).sum() }
}

/// Adds to each element its index in C order.
unsafe extern "C" fn number(tensor: *mut DLTensor) {
    // SAFETY: the caller passes a valid description of memory that can be written.
    unsafe {
        for (nth, element) in addresses(tensor).into_iter().enumerate() {
            *element += nth as f32;
        }
    }
}

#[test]
fn c_kernel_reads_and_writes_by_strides() {
    let mut rng = Rng::new(11);
    for _ in 0..if cfg!(miri) { 8 } else { 500 } {
        let layout = Layout::random(&mut rng, 40, false);
        if layout.shape.iter().zip(&layout.strides).any(|(&extent, &stride)| {
            (extent == 1 || layout.shape.contains(&0)) && stride.unsigned_abs() > 1000
        }) {
            continue;
        }
        let (mut tensor, mut model) = (layout.tensor(|at| at as f32), layout.model());
        let op = Op::Transpose;
        model = model.apply(&op);
        let expected: f64 = model.positions.iter().map(|&at| at as f64).sum();
        let part = TensorRef::from(&tensor).transpose();
        // SAFETY: `part` outlives the call, which writes nothing.
        assert_eq!(unsafe { sum(&*part.dl_tensor()) }, expected, "{layout:?}");
        let mut part = TensorRefMut::try_from(&mut tensor).unwrap().transpose();
        // SAFETY: `part` outlives the call.
        unsafe { number(&mut *part.dl_tensor()) };
        let mut written: Vec<f32> = (0..layout.len).map(|at| at as f32).collect();
        for (nth, &at) in model.positions.iter().enumerate() {
            written[at] += nth as f32;
        }
        assert_eq!(tensor.try_into_owner::<Vec<f32>>().unwrap(), written, "{layout:?}");
    }
    // Only the borrowed tensor has room for this many dims.
    let mut values = [1.0_f32, 2.0];
    let mut many = TensorRefMut::from(&mut values).reshape([1, 1, 1, 2, 1, 1, 1]).unwrap();
    // SAFETY: `many` outlives the call.
    unsafe { number(&mut *many.dl_tensor()) };
    assert_eq!(values, [1.0, 3.0]);
}

#[test]
fn description_of_a_borrowed_tensor_has_every_field() {
    let check = |tensor: &TensorRef<'_>| {
        let c = tensor.dl_tensor();
        assert_eq!((c.data, c.byte_offset), (tensor.data(), tensor.byte_offset()));
        assert_eq!((c.ndim as usize, tensor.ndim()), (tensor.shape().len(), tensor.shape().len()));
        assert_eq!(dims(&c), (tensor.shape().to_vec(), tensor.strides().to_vec()));
        assert_eq!(
            (DataType::from(c.dtype), Device::from(c.device)),
            (tensor.dtype(), tensor.device())
        );
    };
    check(&TensorRef::from(&[[1_u16; 3]; 2]));
    check(&TensorRef::from(&[0_i8]).index_axis(0, 0).unwrap());
    check(&TensorRef::from(&Tensor::from(vec![1_u8, 2])));
    let place = std::ptr::without_provenance_mut(0x1000);
    let remote = Producer::at(place, DataType::INT16, &[4]).byte_offset(32).device(4, 3);
    let remote = remote.import().unwrap();
    let part = TensorRef::from(&remote).slice(0, 1..).unwrap();
    check(&part);
    assert_eq!((part.data(), part.byte_offset()), (place, 34));
    assert_eq!(part.device(), Device::new(DeviceType::OPENCL, 3));
    let mut values = [1.5_f32];
    let mut tensor = TensorRefMut::from(&mut values);
    let c = tensor.dl_tensor();
    assert_eq!((c.data, dims(&c)), (tensor.as_tensor_ref().data(), (vec![1], vec![1])));
}

/// Asserts the fields of a borrowed tensor.
#[track_caller]
fn is<T: Element + PartialEq + std::fmt::Debug>(
    tensor: &TensorRef<'_>,
    address: *const T,
    shape: &[i64],
    strides: &[i64],
    elements: &[T],
) {
    assert_eq!((tensor.shape(), tensor.strides()), (shape, strides));
    assert_eq!(
        (tensor.dtype(), tensor.device(), tensor.byte_offset()),
        (T::DATA_TYPE, Device::CPU, 0)
    );
    assert_eq!((tensor.len(), tensor.is_empty()), (elements.len(), elements.is_empty()));
    assert_eq!(tensor.nbytes(), size_of_val(elements) as u128);
    assert_eq!(tensor.view::<T>().unwrap().to_vec(), elements);
    let address = if elements.is_empty() { 0 } else { address.addr() };
    assert_eq!(tensor.data().addr(), address);
}

#[test]
fn borrowed_slices_and_arrays_become_tensors() {
    let nested = [[[1, 2], [3, 4], [5, 6_i16]]; 2];
    let (first, flat) = (nested.as_ptr().cast(), nested.as_flattened().as_flattened());
    is(&TensorRef::from(&nested), first, &[2, 3, 2], &[6, 2, 1], flat);
    is(&TensorRef::from(&nested[1..]), first.wrapping_add(6), &[1, 3, 2], &[6, 2, 1], &flat[6..]);
    let vector = vec![[1.5_f64], [2.5]];
    is(&TensorRef::from(&vector), vector.as_ptr().cast(), &[2, 1], &[1, 1], &[1.5, 2.5]);
    let truths = [true, false];
    is(&TensorRef::from(&truths[..1]), truths.as_ptr(), &[1], &[1], &[true]);
}

#[test]
fn borrowed_tensor_without_elements_has_null_data() {
    is(&TensorRef::from(&[0_u8; 0]), std::ptr::null(), &[0], &[1], &[0_u8; 0]);
    let nested = vec![[[0_u8; 2]; 0]; 3];
    is(&TensorRef::from(&nested), std::ptr::null(), &[3, 0, 2], &[2, 2, 1], &[0_u8; 0]);
    let tensor = Tensor::from(vec![1_u8, 2]);
    let part = TensorRef::from(&tensor).slice(0, 2..).unwrap();
    is(&part, std::ptr::null(), &[0], &[1], &[0_u8; 0]);
    let view = tensor.view::<u8>().unwrap().slice(0, 1..1).unwrap();
    is(&TensorRef::from(view), std::ptr::null(), &[0], &[1], &[0_u8; 0]);
}

#[test]
#[should_panic(expected = "memory that exists has a size that fits")]
fn more_empty_arrays_than_an_extent_can_count_panic() {
    let mut arrays = vec![[0_u8; 0]];
    // SAFETY: arrays of zero elements need no memory, so any number of them is initialised.
    unsafe { arrays.set_len(usize::MAX) };
    let _ = TensorRefMut::from(&mut arrays);
}

#[test]
fn views_and_tensors_become_untyped_borrowed_tensors() {
    let tensor = Tensor::from_parts_strided(vec![1_u32, 2, 3, 4], [2, 2], [-2, 1], 2).unwrap();
    let address = tensor.data().cast::<u32>().cast_const();
    is(&TensorRef::from(&tensor), address, &[2, 2], &[-2, 1], &[3, 4, 1, 2]);
    let view = tensor.view::<u32>().unwrap().transpose();
    is(&TensorRef::from(view), address, &[2, 2], &[1, -2], &[3, 1, 4, 2]);
    let truths = Tensor::from(vec![true, false]);
    is(
        &TensorRef::from(truths.view_bool_as_u8().unwrap()),
        truths.data().cast(),
        &[2],
        &[1],
        &[1_u8, 0],
    );
    let nibbles = Tensor::from(vec![Nibble(1), Nibble(2)]);
    assert!(TensorRef::from(nibbles.view::<Nibble>().unwrap()).is_subbyte_padded());
    assert!(TensorRef::from(&nibbles).is_subbyte_padded());
    assert!(TensorRef::from(&[Nibble(3)]).is_subbyte_padded());

    let mut tensor = Tensor::from([[1, 2], [3, 4]]);
    let view = tensor.view_mut::<i32>().unwrap().index_axis(1, 1).unwrap();
    TensorRefMut::from(view).copy_from(&TensorRef::from(&[20, 40])).unwrap();
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [1, 20, 3, 40]);
}

#[test]
#[cfg(feature = "ndarray")]
fn arrays_of_ndarray_are_tensors_while_they_are_borrowed() {
    use ndarray::{CowArray, array, s};

    let array = array![[1_i64, 2, 3], [4, 5, 6]];
    let first = array.as_ptr();
    is(&TensorRef::from(&array), first, &[2, 3], &[3, 1], &[1, 2, 3, 4, 5, 6]);
    let view = array.slice(s![..;-1, ..;2]);
    is(&TensorRef::from(&view), view.as_ptr(), &[2, 2], &[-3, 2], &[4, 6, 1, 3]);
    let wide = array.row(1);
    let wide = wide.broadcast((2, 3)).unwrap();
    is(&TensorRef::from(&wide), wide.as_ptr(), &[2, 3], &[0, 1], &[4, 5, 6, 4, 5, 6]);
    let shared = array.to_shared();
    is(&TensorRef::from(&shared), shared.as_ptr(), &[2, 3], &[3, 1], &[1, 2, 3, 4, 5, 6]);
    let cow = CowArray::from(array.t());
    is(&TensorRef::from(&cow), first, &[3, 2], &[1, 3], &[1, 4, 2, 5, 3, 6]);
    let empty = array.slice(s![.., 3..]);
    assert_eq!(TensorRef::from(&empty).data(), std::ptr::null_mut());
}

#[test]
fn wrong_raw_parts_are_refused() {
    let mut values = [1_u16, 2, 3, 4, 5, 6];
    let first = values.as_mut_ptr();
    let whole = RawParts::of_elements(first, Access::ReadOnly);
    let make = |parts: RawParts, shape: &[i128], strides: Option<&[i128]>| {
        // SAFETY: a layout that is not refused is within the six numbers, which no code writes.
        unsafe { TensorRef::from_raw_parts(&parts, shape, strides) }
    };
    let refused = |parts, shape: &[i128], strides| make(parts, shape, strides).unwrap_err();
    is(&make(whole, &[2, 3], None).unwrap(), first, &[2, 3], &[3, 1], &[1_u16, 2, 3, 4, 5, 6]);
    let end = RawParts { byte_offset: 10, ..whole };
    let backwards = make(end, &[3, 1], Some(&[-2, -(1 << 63)])).unwrap();
    is(&backwards, first.wrapping_add(5), &[3, 1], &[-2, i64::MIN], &[6_u16, 4, 2]);
    let empty = make(RawParts { data: std::ptr::null_mut(), ..end }, &[0, 5], Some(&[7, 7]));
    is(&empty.unwrap(), first, &[0, 5], &[7, 7], &[0_u16; 0]);

    assert_eq!(refused(whole, &[-1], None), Error::NegativeExtent { axis: 0, extent: -1 });
    assert_eq!(refused(whole, &[1 << 64], None), Error::TooLarge);
    assert_eq!(refused(whole, &[0, 1 << 62, 2], None), Error::TooLarge);
    assert_eq!(refused(whole, &[2], Some(&[1 << 63])), Error::TooLarge);
    assert_eq!(refused(whole, &[3], Some(&[1 << 62])), Error::TooLarge);
    assert_eq!(refused(whole, &[2], Some(&[(1 << 63) - 1])), Error::TooLarge);
    assert_eq!(refused(whole, &[2], Some(&[])), Error::StridesLength { ndim: 1, strides: 0 });
    let ndim = Error::InvalidNdim { ndim: MAX_NDIM as i64 + 1 };
    assert_eq!(refused(whole, &[1; MAX_NDIM + 1], None), ndim);
    let null = Error::NullPointer { field: "the data of a tensor with elements" };
    assert_eq!(refused(RawParts { data: std::ptr::null_mut(), ..whole }, &[1], None), null);
    assert_eq!(refused(RawParts { byte_offset: u64::MAX, ..whole }, &[1], None), Error::TooLarge);
    let dtype = whole.dtype.with_lanes(0);
    assert_eq!(refused(RawParts { dtype, ..whole }, &[1], None), Error::InvalidDataType { dtype });

    let tensor = make(whole, &[6], None).unwrap();
    let error = Error::DataType { expected: DataType::INT16, found: DataType::UINT16 };
    assert_eq!(tensor.view::<i16>().unwrap_err(), error);
    let odd = make(RawParts { byte_offset: 1, ..whole }, &[5], None).unwrap();
    let error = Error::Misaligned { address: odd.data().addr(), required: 2 };
    assert_eq!(odd.view::<u16>().unwrap_err(), error);
    let remote = RawParts { device: Device::new(DeviceType::CUDA, 1), ..whole };
    let error = Error::NotHostAccessible { device: remote.device };
    assert_eq!(make(remote, &[6], None).unwrap().view::<u16>().unwrap_err(), error);
}

#[test]
fn mutable_borrowed_tensor_needs_exclusive_data() {
    let refused = |mut tensor: Tensor| TensorRefMut::try_from(&mut tensor).unwrap_err();
    static VALUES: [u8; 2] = [1, 2];
    assert_eq!(refused(Tensor::from(&VALUES)), Error::ReadOnly);
    assert_eq!(refused(Tensor::from(vec![1_u8]).into_shared().share()), Error::ReadOnly);
    assert_eq!(refused(Producer::new(vec![1_u8], &[1]).import().unwrap()), Error::Shared);
    let wide = Tensor::from_parts_strided(vec![1_u8], [2], [0], 0).unwrap();
    assert_eq!(refused(wide), Error::Overlapping);
    // The conversion checks for invalid `bool` bytes first.
    let mut tensor = Producer::new(vec![2_u8], &[1]).flags(2);
    tensor.tensor.dtype = DataType::BOOL.into();
    let mut tensor = tensor.import().unwrap();
    let borrowed = TensorRefMut::try_from(&mut tensor).unwrap();
    let error = Error::InvalidElement { dtype: DataType::BOOL };
    assert_eq!(borrowed.into_view_mut::<bool>().unwrap_err(), error);
}

#[test]
fn reborrowed_tensor_ends_before_the_first() {
    let mut values = [1_u8, 2, 3];
    let mut tensor = TensorRefMut::from(&mut values);
    tensor.as_tensor_ref_mut().swap_bytes().unwrap();
    let part = tensor.as_tensor_ref_mut().slice(0, 1..).unwrap();
    part.copy_from(&TensorRef::from(&[20_u8, 30])).unwrap();
    assert_eq!(tensor.as_tensor_ref().view::<u8>().unwrap().to_vec(), [1, 20, 30]);
    assert_eq!(
        (tensor.shape(), tensor.strides(), tensor.dtype()),
        (&[3][..], &[1][..], DataType::UINT8)
    );
    let named = "{ shape: [3], strides: [1], dtype: uint8, device: cpu }";
    assert_eq!(format!("{tensor:?}"), format!("TensorRefMut(TensorRef {named})"));
    let mut view = tensor.into_view_mut::<u8>().unwrap();
    view[[0]] = 10;
    assert_eq!(values, [10, 20, 30]);
}

#[test]
fn view_outlives_the_borrowed_tensor_that_it_came_from() {
    let values = [[1_u8, 2], [3, 4]];
    let view = TensorRef::from(&values).transpose().view::<u8>().unwrap();
    let slice: &[u8] = {
        let row = view.index_axis(1, 1).unwrap().index_axis(0, 0).unwrap();
        row.as_slice().unwrap()
    };
    assert_eq!((view.to_vec(), slice), (vec![1, 3, 2, 4], &[3_u8][..]));
}

#[test]
fn borrowed_tensors_cross_threads() {
    fn both<T: Send + Sync>() {}
    both::<(TensorRef<'_>, TensorRefMut<'_>, Unaligned<f32>)>();
    both::<(TensorView<'_, f32>, TensorViewMut<'_, f32>, Iter<'_, f32>, IterMut<'_, f32>)>();
    let mut values = [1_u32, 2, 3, 4];
    let (head, tail) =
        TensorRefMut::from(&mut values).into_view_mut::<u32>().unwrap().split_at(0, 2).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| head.into_iter().for_each(|element| *element += 10));
        scope.spawn(|| TensorRefMut::from(tail).copy_from(&TensorRef::from(&[7_u32, 8])).unwrap());
    });
    assert_eq!(values, [11, 12, 7, 8]);
}

/// An iterator that reports a wrong length.
struct Liar<'a>(usize, std::slice::Iter<'a, (i64, i64)>);

impl Iterator for Liar<'_> {
    type Item = (i64, i64);

    fn next(&mut self) -> Option<(i64, i64)> {
        self.1.next().copied()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0, Some(self.0))
    }
}

impl ExactSizeIterator for Liar<'_> {}

#[test]
fn raw_axes_shorter_than_reported_panic() {
    let values = [1.0_f32; 4];
    let parts = RawParts::of_elements(values.as_ptr().cast_mut(), Access::ReadOnly);
    let make = |said: usize, axes: &[(i64, i64)]| {
        let axes = Liar(said, axes.iter());
        std::panic::catch_unwind(|| {
            // SAFETY: the layout of the reported number of axes is within the four values.
            unsafe { TensorRef::from_raw_axes(&parts, axes) }.map(|tensor| tensor.len())
        })
    };
    assert_eq!(make(2, &[(2, 2), (2, 1)]).unwrap(), Ok(4));
    assert_eq!(make(2, &[(2, 2), (2, 1), (3, 1)]).unwrap(), Ok(4));
    assert!(make(2, &[(2, 1)]).is_err());
    assert!(make(4, &[]).is_err());
    assert!(make(6, &[(2, 2), (2, 1)]).is_err());
    assert_eq!(make(5, &[(1, 1), (2, 2), (1, 0), (2, 1), (1, 7)]).unwrap(), Ok(4));
    assert!(make(2000, &[(1, 1); 2000]).unwrap().is_err());
}

#[test]
fn raw_run_of_few_dimensions_is_in_c_order() {
    let mut values = [0_u16; 24];
    let first = values.as_mut_ptr().cast();
    for shape in [&[24][..], &[4, 6], &[1, 4, 6], &[2, 3, 2, 2], &[]] {
        // SAFETY: the shape has at most 24 elements, and the numbers are borrowed as long as the tensor.
        let run = unsafe { TensorRef::from_raw_run(first, DataType::UINT16, shape) }.unwrap();
        let parts = RawParts::of_elements(first.cast::<u16>(), Access::ReadOnly);
        // SAFETY: the shape has at most 24 elements, and the numbers are borrowed as long as the tensor.
        let same = unsafe { TensorRef::from_raw_parts(&parts, shape, None::<&[i64]>) }.unwrap();
        assert_eq!((run.shape(), run.strides()), (shape, same.strides()));
        assert_eq!((run.len(), run.data(), run.dtype()), (same.len(), same.data(), same.dtype()));
        assert!(run.is_c_contiguous());
    }
}

#[test]
fn raw_run_with_wrong_parts_is_refused() {
    let mut values = [0_u16; 24];
    let first: *mut c_void = values.as_mut_ptr().cast();
    let refuses = |data, dtype, shape: &[i64]| {
        // SAFETY: no code reads the elements; the only tensor that is made covers the whole array.
        unsafe { TensorRef::from_raw_run(data, dtype, shape) }.is_none()
    };
    assert!(!refuses(first, DataType::UINT16, &[24]));
    assert!(refuses(std::ptr::null_mut(), DataType::UINT16, &[24]));
    assert!(refuses(first, DataType::UINT16, &[2, 0]));
    assert!(refuses(first, DataType::UINT16, &[-1]));
    assert!(refuses(first, DataType::UINT16, &[1, 1, 1, 1, 24]));
    assert!(refuses(first, DataType::UINT16, &[1 << 62]));
    assert!(refuses(first, DataType::UINT16, &[1 << 32, 1 << 32]));
    assert!(refuses(first.with_addr(usize::MAX - 3), DataType::UINT16, &[2]));
    assert!(refuses(first, DataType::FLOAT4_E2M1FN, &[2]));
    assert!(refuses(first, DataType::UINT16.with_lanes(0), &[2]));
}
