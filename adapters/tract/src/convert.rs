//! Tensors of tract to tensors, and back.
//!
//! - **Plain.** The plain storage of a tensor of tract holds as many initialised bytes as it says, on the heap, which
//!   stay in place when the tensor moves. Code changes them only through `&mut`, so nothing changes them while
//!   several handles hold an `Arc` of the tensor.

use std::sync::Arc;

use dlbridge::{Access, DataType, Element, RawParts, Tensor, TensorRef, Unaligned};
#[cfg(feature = "complex")]
use tract_data::prelude::Complex;
use tract_data::prelude::{Datum, DatumType, Tensor as Tract, TractResult, f16};

use crate::sealed::Sealed;
use crate::{Error, Result};

/// Tensors of tract as tensors.
pub trait TractExt: Sealed {
    /// Turns the tensor of tract into a tensor that owns it. [`Access::Immutable`] for one in an `Arc`, which may
    /// have other handles, and for elements of type `bool`; else [`Access::Exclusive`].
    ///
    /// The elements stay in place. [`TensorExt::into_tract`] takes the same tensor out again.
    ///
    /// # Errors
    /// [`Error::DatumType`] if DLPack lacks the datum type; [`Error::NotPlain`] for elements that are packed, or on a
    /// device; [`Error::Tensor`] with [`OutOfBounds`](dlbridge::Error::OutOfBounds) for storage with fewer elements
    /// than the shape. The tensor, or the handle on it, is dropped.
    ///
    /// ```
    /// use dlbridge_tract::TractExt;
    /// use tract_data::prelude::tensor2;
    ///
    /// let mut tensor = tensor2(&[[1, 2], [3, 4]]).into_dlbridge()?;
    /// tensor.view_mut::<i32>()?[[0, 1]] = 20;
    /// # Ok::<(), dlbridge_tract::Error>(())
    /// ```
    fn into_dlbridge(self) -> Result<Tensor>;

    /// Borrows the tensor of tract as a read-only tensor.
    ///
    /// # Errors
    /// As [`into_dlbridge`](Self::into_dlbridge).
    ///
    /// ```
    /// use dlbridge_tract::TractExt;
    /// use tract_data::prelude::tensor1;
    ///
    /// let tract = tensor1(&[1.0_f32, 2.0]);
    /// assert_eq!(tract.as_tensor_ref()?.view::<f32>()?.to_vec(), [1.0, 2.0]);
    /// # Ok::<(), dlbridge_tract::Error>(())
    /// ```
    fn as_tensor_ref(&self) -> Result<TensorRef<'_>>;
}

/// Tensors as tensors of tract.
pub trait TensorExt: Sealed {
    /// Turns the tensor into one of tract: the same one, if the tensor was made of it and has all its elements, else
    /// a copy.
    ///
    /// # Errors
    /// As [`to_tract`](Self::to_tract). The tensor is dropped then.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use dlbridge_tract::{TensorExt, TractExt};
    /// use tract_data::prelude::tensor1;
    ///
    /// let tract = Arc::new(tensor1(&[1, 2, 3]));
    /// let same = Arc::clone(&tract).into_dlbridge()?.into_tract()?;
    /// assert!(Arc::ptr_eq(&same, &tract));
    /// # Ok::<(), dlbridge_tract::Error>(())
    /// ```
    fn into_tract(self) -> Result<Arc<Tract>>;

    /// Copies the elements into a tensor of tract, from any strides and alignment.
    ///
    /// # Errors
    /// [`Error::DataType`] if tract lacks the dtype; [`Error::Tensor`] with the errors of [`Tensor::view`], except
    /// for alignment, and with [`TooLarge`](dlbridge::Error::TooLarge) for too many repeated elements to copy.
    ///
    /// # Panics
    /// Panics if the allocation fails, as all of tract does.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_tract::TensorExt;
    /// use tract_data::prelude::tensor2;
    ///
    /// let columns = Tensor::from([[1, 2], [3, 4]]).transpose();
    /// assert_eq!(columns.to_tract()?, tensor2(&[[1, 3], [2, 4]]));
    /// # Ok::<(), dlbridge_tract::Error>(())
    /// ```
    fn to_tract(&self) -> Result<Tract>;
}

impl Sealed for Tract {}
impl Sealed for Arc<Tract> {}
impl Sealed for Tensor {}

impl TractExt for Arc<Tract> {
    fn into_dlbridge(self) -> Result<Tensor> {
        let parts = RawParts { access: Access::Immutable, ..read_only_parts(&self)? };
        let tract = Arc::clone(&self);
        // SAFETY: the contract of `Tensor::from_raw_parts` is Plain, within which the elements are; the handle keeps
        // the tensor, and no code writes it while the handle lives.
        Ok(unsafe { Tensor::from_raw_parts(self, parts, tract.shape(), Some(tract.strides())) }?)
    }

    fn as_tensor_ref(&self) -> Result<TensorRef<'_>> {
        Tract::as_tensor_ref(self)
    }
}

impl TractExt for Tract {
    fn into_dlbridge(mut self) -> Result<Tensor> {
        // A consumer could write bytes that are not values of `bool`. Storage that gives plain memory for reading
        // need not give it for writing.
        if self.datum_type() == DatumType::Bool || !self.has_plain_ram_storage() {
            return Arc::new(self).into_dlbridge();
        }
        let parts = read_only_parts(&self)?;
        let data = self.as_bytes_mut().as_mut_ptr().cast();
        let parts = RawParts { data, access: Access::Exclusive, ..parts };
        let (shape, strides) = (self.shape().to_vec(), self.strides().to_vec());
        // SAFETY: the contract of `Tensor::from_raw_parts` is Plain, within which the elements are; no other code has
        // the tensor, and any bytes are values of its datum type.
        Ok(unsafe { Tensor::from_raw_parts(self, parts, &shape, Some(&strides)) }?)
    }

    fn as_tensor_ref(&self) -> Result<TensorRef<'_>> {
        let parts = read_only_parts(self)?;
        let (shape, strides) = (self.shape(), self.strides());
        // SAFETY: the contract of `TensorRef::from_raw_parts` is Plain, within which the elements are; the tensor is
        // borrowed for the same lifetime.
        Ok(unsafe { TensorRef::from_raw_parts(&parts, shape, Some(strides)) }?)
    }
}

/// Describes the elements of a tensor of tract, read-only, after checking that the storage has all of them.
fn read_only_parts(tract: &Tract) -> Result<RawParts> {
    let datum_type = tract.datum_type();
    let dtype = dtype_of(datum_type).ok_or(Error::DatumType { datum_type })?;
    let bytes = tract.as_plain_ram().ok_or(Error::NotPlain)?.as_bytes();
    // Any code can implement a storage type and report any length, so the bounds are checked.
    let (mut lowest, mut highest) = (0_i64, 0_i64);
    if !tract.shape().contains(&0) {
        for (&extent, &stride) in tract.shape().iter().zip(tract.strides()) {
            let steps = i64::try_from(extent - 1).unwrap_or(i64::MAX);
            let reach = steps.saturating_mul(stride as i64);
            let end = if reach < 0 { &mut lowest } else { &mut highest };
            *end = end.saturating_add(reach);
        }
        let owner = bytes.len() / dtype.itemsize();
        if lowest < 0 || highest >= owner as i64 {
            return Err(dlbridge::Error::OutOfBounds { lowest, highest, owner }.into());
        }
    }
    let data = bytes.as_ptr().cast_mut().cast();
    Ok(RawParts { access: Access::ReadOnly, ..RawParts::new(data, dtype) })
}

/// Returns the dtype of a datum type.
fn dtype_of(datum_type: DatumType) -> Option<DataType> {
    Some(match datum_type {
        DatumType::Bool => DataType::BOOL,
        DatumType::I8 => DataType::INT8,
        DatumType::I16 => DataType::INT16,
        DatumType::I32 => DataType::INT32,
        DatumType::I64 => DataType::INT64,
        DatumType::U8 => DataType::UINT8,
        DatumType::U16 => DataType::UINT16,
        DatumType::U32 => DataType::UINT32,
        DatumType::U64 => DataType::UINT64,
        DatumType::F16 => DataType::FLOAT16,
        DatumType::F32 => DataType::FLOAT32,
        DatumType::F64 => DataType::FLOAT64,
        #[cfg(feature = "complex")]
        DatumType::ComplexF16 => DataType::COMPLEX32,
        #[cfg(feature = "complex")]
        DatumType::ComplexF32 => DataType::COMPLEX64,
        #[cfg(feature = "complex")]
        DatumType::ComplexF64 => DataType::COMPLEX128,
        _ => return None,
    })
}

impl TensorExt for Tensor {
    fn into_tract(self) -> Result<Arc<Tract>> {
        let (shape, strides) = (self.shape().to_vec(), self.strides().to_vec());
        let parts = RawParts {
            device: self.device(),
            byte_offset: self.byte_offset(),
            access: Access::ReadOnly,
            subbyte_padded: self.is_subbyte_padded(),
            ..RawParts::new(self.data(), self.dtype())
        };
        let owner = self.try_into_owner::<Arc<Tract>>();
        let owner = owner.or_else(|tensor| tensor.try_into_owner().map(Arc::new));
        let tract = match owner {
            Ok(tract) => tract,
            Err(tensor) => return tensor.to_tract().map(Arc::new),
        };
        // SAFETY: the owner of the tensor is alive and has its elements, which nothing writes meanwhile.
        let tensor = unsafe { TensorRef::from_raw_parts(&parts, &shape, Some(&strides)) }?;
        if tract.as_tensor_ref().is_ok_and(|whole| is_same(&whole, &tensor)) {
            return Ok(tract);
        }
        copy(&tensor).map(Arc::new)
    }

    fn to_tract(&self) -> Result<Tract> {
        copy(&TensorRef::from(self))
    }
}

/// Returns whether two tensors have the same address, dtype and layout.
fn is_same(one: &TensorRef<'_>, other: &TensorRef<'_>) -> bool {
    one.data() == other.data()
        && (one.dtype(), one.shape()) == (other.dtype(), other.shape())
        && one.strides() == other.strides()
}

/// Copies the elements into a tensor that tract owns.
fn copy(tensor: &TensorRef<'_>) -> Result<Tract> {
    match tensor.dtype() {
        DataType::BOOL => copy_of::<bool>(tensor),
        DataType::INT8 => copy_of::<i8>(tensor),
        DataType::INT16 => copy_of::<i16>(tensor),
        DataType::INT32 => copy_of::<i32>(tensor),
        DataType::INT64 => copy_of::<i64>(tensor),
        DataType::UINT8 => copy_of::<u8>(tensor),
        DataType::UINT16 => copy_of::<u16>(tensor),
        DataType::UINT32 => copy_of::<u32>(tensor),
        DataType::UINT64 => copy_of::<u64>(tensor),
        DataType::FLOAT16 => copy_of::<f16>(tensor),
        DataType::FLOAT32 => copy_of::<f32>(tensor),
        DataType::FLOAT64 => copy_of::<f64>(tensor),
        #[cfg(feature = "complex")]
        DataType::COMPLEX32 => copy_of::<Complex<f16>>(tensor),
        #[cfg(feature = "complex")]
        DataType::COMPLEX64 => copy_of::<Complex<f32>>(tensor),
        #[cfg(feature = "complex")]
        DataType::COMPLEX128 => copy_of::<Complex<f64>>(tensor),
        dtype => Err(Error::DataType { dtype }),
    }
}

fn copy_of<T: Element + Datum>(tensor: &TensorRef<'_>) -> Result<Tract> {
    let shape: Vec<usize> = tensor.shape().iter().map(|&extent| extent as usize).collect();
    match tensor.view::<T>() {
        Ok(view) => match view.as_slice() {
            Some(elements) => Tract::from_shape(&shape, elements),
            None => filled(&shape, view.iter().copied()),
        },
        Err(dlbridge::Error::Misaligned { .. }) => {
            filled(&shape, tensor.view::<Unaligned<T>>()?.iter().map(|element| element.get()))
        }
        Err(error) => return Err(error.into()),
    }
    .map_err(|_| dlbridge::Error::TooLarge.into())
}

/// Makes a tensor of tract of these elements, in C order.
fn filled<T: Datum>(shape: &[usize], elements: impl Iterator<Item = T>) -> TractResult<Tract> {
    let mut tract = Tract::zero_dt(T::datum_type(), shape)?;
    let mut plain = tract.try_as_plain_ram_mut()?;
    for (place, element) in plain.as_slice_mut::<T>()?.iter_mut().zip(elements) {
        *place = element;
    }
    Ok(tract)
}
