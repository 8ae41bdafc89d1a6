//! Tensors of tract become tensors, the same memory, and come back as the same tensor of tract.

use std::fmt;
use std::hash::Hasher;
use std::sync::{Arc, OnceLock};

use dlbridge::{Access, DataType, Element, Tensor};
use dlbridge_testing::through_c;
use dlbridge_tract::{Error, TensorExt, TractExt};
use half::f16;
use tract_data::internal::ExoticFact;
use tract_data::prelude::{
    Blob, Datum, DatumType, PlainStorage, QParams, TDim, Tensor as Tract, TensorStorage,
    TractResult, tensor0, tensor1, tensor2,
};

fn address(tract: &Tract) -> usize {
    tract.as_bytes().as_ptr().addr()
}

fn every_type<T: Element + Datum + Copy>(elements: [T; 4]) {
    let tract = Arc::new(Tract::from_shape(&[2, 2], &elements).unwrap());
    let first = address(&tract);
    let borrowed = tract.as_tensor_ref().unwrap();
    assert_eq!((borrowed.dtype(), borrowed.data().addr()), (T::DATA_TYPE, first));
    assert_eq!(borrowed.view::<T>().unwrap().to_vec(), elements);

    let tensor = Arc::clone(&tract).into_dlbridge().unwrap();
    assert_eq!((tensor.dtype(), tensor.data().addr()), (T::DATA_TYPE, first));
    assert_eq!((tensor.shape(), tensor.strides()), (&[2, 2][..], &[2, 1][..]));
    assert_eq!(tensor.access(), Access::Immutable);
    assert_eq!(tensor.view::<T>().unwrap().to_vec(), elements);
    let copy = tensor.to_tract().unwrap();
    assert_ne!(address(&copy), first);
    assert_eq!(copy, *tract);
    assert!(Arc::ptr_eq(&tensor.into_tract().unwrap(), &tract));
    assert_eq!(Arc::strong_count(&tract), 1);

    let tensor = Arc::try_unwrap(tract).unwrap().into_dlbridge().unwrap();
    let access = if T::CHECK.is_none() { Access::Exclusive } else { Access::Immutable };
    assert_eq!((tensor.access(), tensor.data().addr()), (access, first));
    let tract = tensor.into_tract().unwrap();
    assert_eq!((address(&tract), &*tract), (first, &copy));

    let foreign = Tensor::from_parts(elements.to_vec(), [2, 2]).unwrap().into_tract().unwrap();
    assert_eq!((foreign.datum_type(), &*foreign), (T::datum_type(), &copy));
}

#[test]
fn every_datum_type_both_ways() {
    every_type([1_i8, -2, 3, -4]);
    every_type([1_i16, -2, 3, -4]);
    every_type([1_i32, -2, 3, -4]);
    every_type([1_i64, -2, 3, -4]);
    every_type([1_u8, 2, 3, 4]);
    every_type([1_u16, 2, 3, 4]);
    every_type([1_u32, 2, 3, 4]);
    every_type([1_u64, 2, 3, 4]);
    every_type([1.0, -2.0, 3.0, -4.0].map(f16::from_f32));
    every_type([1.0_f32, -2.0, 3.0, -4.0]);
    every_type([1.0_f64, -2.0, 3.0, -4.0]);
    every_type([true, false, false, true]);
}

#[cfg(feature = "complex")]
#[test]
fn complex_datum_types_both_ways() {
    use num_complex::Complex;

    every_type([1.0, 2.0, 3.0, 4.0].map(|x| Complex::new(f16::from_f32(x), f16::ONE)));
    every_type([1.0, 2.0, 3.0, 4.0].map(|x: f32| Complex::new(x, -x)));
    every_type([1.0, 2.0, 3.0, 4.0].map(|x: f64| Complex::new(x, -x)));
    let tract = tensor1(&[Complex::new(1_i32, 2)]);
    assert_eq!(
        tract.into_dlbridge().unwrap_err().to_string().split(';').next(),
        Some("the elements are tract's ComplexI32, which DLPack lacks")
    );
}

#[test]
fn other_datum_types_are_refused() {
    let refused = |tract: Tract| {
        let error = Error::DatumType { datum_type: tract.datum_type() };
        assert_eq!(tract.as_tensor_ref().unwrap_err(), error);
        let tract = Arc::new(tract);
        assert_eq!(Arc::clone(&tract).into_dlbridge().unwrap_err(), error);
        assert_eq!(Arc::strong_count(&tract), 1);
        assert_eq!(Arc::try_unwrap(tract).unwrap().into_dlbridge().unwrap_err(), error);
    };
    let scale = QParams::ZpScale { zero_point: 128, scale: 0.5 };
    for datum_type in [DatumType::QI8(scale), DatumType::QU8(scale), DatumType::QI32(scale)] {
        refused(Tract::zero_dt(datum_type, &[2]).unwrap());
    }
    refused(tensor0(TDim::from(3)));
    refused(tensor0("words".to_string()));
    refused(tensor0(Blob::from_bytes(&[1, 2]).unwrap()));
}

#[test]
fn owned_tensor_is_written_in_place() {
    let tract = tensor2(&[[1, 2], [3, 4]]);
    let first = address(&tract);
    let mut tensor = tract.into_dlbridge().unwrap();
    tensor.view_mut::<i32>().unwrap()[[1, 0]] = 30;
    let tract = tensor.into_tract().unwrap();
    assert_eq!((address(&tract), &*tract), (first, &tensor2(&[[1, 2], [30, 4]])));
}

#[test]
fn tensors_without_elements_or_dimensions() {
    let tract = Arc::new(Tract::zero::<f32>(&[2, 0, 3]).unwrap());
    let tensor = Arc::clone(&tract).into_dlbridge().unwrap();
    assert_eq!((tensor.shape(), tensor.data().is_null()), (&[2, 0, 3][..], true));
    assert_eq!(tensor.to_tract().unwrap(), *tract);
    assert!(Arc::ptr_eq(&tensor.into_tract().unwrap(), &tract));
    let tensor = Tract::zero::<f32>(&[0]).unwrap().into_dlbridge().unwrap();
    assert_eq!(tensor.into_tract().unwrap().shape(), [0]);

    let tract = Arc::new(tensor0(7_i64));
    let tensor = Arc::clone(&tract).into_dlbridge().unwrap();
    assert_eq!((tensor.ndim(), tensor.data().addr()), (0, address(&tract)));
    assert_eq!(tensor.to_tract().unwrap(), *tract);
    assert!(Arc::ptr_eq(&tensor.into_tract().unwrap(), &tract));
}

#[test]
fn slice_is_copied() {
    let tract = Arc::new(tensor2(&[[1, 2, 3], [4, 5, 6]]));
    let whole = || Arc::clone(&tract).into_dlbridge().unwrap();
    let copied = |tensor: Tensor| tensor.into_tract().unwrap();
    assert_eq!(*copied(whole().slice(0, 1..).unwrap()), tensor2(&[[4, 5, 6]]));
    assert_eq!(*copied(whole().slice(0, ..1).unwrap()), tensor2(&[[1, 2, 3]]));
    assert_eq!(*copied(whole().transpose()), tensor2(&[[1, 4], [2, 5], [3, 6]]));
    assert_eq!(*copied(whole().flip(1).unwrap()), tensor2(&[[3, 2, 1], [6, 5, 4]]));
    assert_eq!(*copied(whole().reshape([6]).unwrap()), tensor1(&[1, 2, 3, 4, 5, 6]));
    let bytes = whole().into_shared().share_bytes(DataType::UINT32, [2, 3], 0).unwrap();
    assert_eq!(copied(bytes).datum_type(), DatumType::U32);
    let part = tensor2(&[[1, 2], [3, 4]]).into_dlbridge().unwrap().index_axis(1, 0).unwrap();
    assert_eq!(*copied(part), tensor1(&[1, 3]));
    assert_eq!(Arc::strong_count(&tract), 1);
}

#[test]
fn through_a_managed_tensor_and_back_on_another_thread() {
    let tract = Arc::new(tensor1(&[1.0_f32, 2.0]));
    let tensor = Arc::clone(&tract).into_dlbridge().unwrap();
    let tensor = through_c(tensor);
    assert_eq!(Arc::strong_count(&tract), 2);
    std::thread::scope(|threads| {
        threads.spawn(|| assert!(Arc::ptr_eq(&tensor.into_tract().unwrap(), &tract)));
    });
    let tensor = Arc::clone(&tract).into_dlbridge().unwrap();
    std::thread::spawn(move || drop(tensor)).join().unwrap();
    assert_eq!(Arc::strong_count(&tract), 1);
}

/// Storage that fetches its bytes on the first access.
#[derive(Debug, Default, PartialEq, Eq)]
struct Elsewhere(OnceLock<PlainStorage>);

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("elsewhere")
    }
}

impl TensorStorage for Elsewhere {
    fn byte_len(&self) -> usize {
        8
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn deep_clone(&self) -> Box<dyn TensorStorage> {
        Box::new(Self(self.0.clone()))
    }

    fn as_plain_ram(&self) -> Option<&PlainStorage> {
        self.0.get()
    }

    fn as_plain_ram_mut(&mut self) -> Option<&mut PlainStorage> {
        None
    }

    fn into_plain_ram(self: Box<Self>) -> Option<PlainStorage> {
        self.0.into_inner()
    }

    fn dyn_hash(&self, _: &mut dyn Hasher) {}

    fn exotic_fact(&self, _: &[usize]) -> TractResult<Option<Box<dyn ExoticFact>>> {
        Ok(None)
    }
}

#[test]
fn other_storage_is_refused_until_it_is_plain() {
    let over = |storage| Tract::from_storage(DatumType::F32, &[2], storage);
    assert_eq!(over(Elsewhere::default()).as_tensor_ref().unwrap_err(), Error::NotPlain);
    assert_eq!(over(Elsewhere::default()).into_dlbridge().unwrap_err(), Error::NotPlain);
    let fetched = Elsewhere::default();
    fetched.0.set(PlainStorage::from(Blob::from_bytes(&[0; 8]).unwrap())).unwrap();
    let tensor = over(fetched).into_dlbridge().unwrap();
    assert_eq!(tensor.access(), Access::Immutable, "the storage cannot be written");
    assert_eq!(tensor.view::<f32>().unwrap().to_vec(), [0.0; 2]);
}

#[test]
fn storage_that_is_too_short_is_refused() {
    let short = PlainStorage::from(Blob::from_bytes(&[0; 20]).unwrap());
    let tract = Tract::from_storage(DatumType::F32, &[2, 3], short);
    let error = dlbridge::Error::OutOfBounds { lowest: 0, highest: 5, owner: 5 };
    assert_eq!(tract.as_tensor_ref().unwrap_err(), Error::Tensor(error));
    assert_eq!(tract.into_dlbridge().unwrap_err(), Error::Tensor(error));
}
