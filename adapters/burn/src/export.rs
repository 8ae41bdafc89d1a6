//! Tensors of burn to tensors.

use burn_flex::{Flex, FlexTensor};
use burn_std::sync::Arc;
use burn_std::{DType, Reader, Writer};
use dlbridge::{Access, RawParts, Tensor};

use crate::sealed::Sealed;
use crate::{Error, FlexKind, Result, kind};

/// Tensors of burn, on the Flex backend, as tensors.
pub trait BurnExt: Sealed + Sized {
    /// Makes a tensor of the elements in place, with its shape and strides.
    ///
    /// The tensor is exclusive if no other tensor of burn shares the bytes, else [immutable](Access::Immutable): burn
    /// copies shared bytes before it writes them. Elements of `bool` are always immutable. The owner is the
    /// [`FlexTensor`], which [`TensorExt::into_flex`](crate::TensorExt::into_flex) and [`Tensor::try_into_owner`]
    /// return.
    ///
    /// # Errors
    /// [`Error::DType`] for elements that DLPack lacks; [`Error::NotFlex`] for a tensor on another backend;
    /// [`Error::Unreadable`] for bytes that burn cannot read, such as those of a missing file; [`Error::Tensor`] for
    /// a layout that leads outside of the bytes. The tensor of burn is dropped.
    ///
    /// ```
    /// use burn_tensor::{Device, Int, Tensor};
    /// use dlbridge_burn::BurnExt;
    ///
    /// let burn = Tensor::<1, Int>::from_ints([1, 2, 3], &Device::flex());
    /// let other = burn.clone();
    /// assert!(burn.into_tensor()?.is_read_only());
    /// assert!(!other.into_tensor()?.is_read_only());
    /// # Ok::<(), dlbridge_burn::Error>(())
    /// ```
    fn into_tensor(self) -> Result<Tensor>;
}

impl Sealed for FlexTensor {}
impl<const D: usize, K: FlexKind> Sealed for burn_tensor::Tensor<D, K> {}

impl<const D: usize, K: FlexKind> BurnExt for burn_tensor::Tensor<D, K> {
    fn into_tensor(self) -> Result<Tensor> {
        match self.try_into_primitive::<Flex>() {
            Ok(flex) => flex.into_tensor(),
            Err(error) => Err(Error::NotFlex { message: format!("{error:?}") }),
        }
    }
}

impl BurnExt for FlexTensor {
    fn into_tensor(self) -> Result<Tensor> {
        let (of_burn, layout) = (self.dtype(), self.layout().clone());
        let dtype = kind::to_dlpack(of_burn)?;
        let mut bytes = self.data_arc();
        drop(self);
        let alone = match of_burn {
            // A consumer may write any byte to an exclusive tensor, and not every byte is a `bool`.
            DType::Bool(_) => None,
            _ => Arc::get_mut(&mut bytes)
                .and_then(|bytes| bytes.write(Writer::new().no_copy()).ok())
                .map(|bytes| (bytes.as_mut_ptr(), bytes.len(), Access::Exclusive)),
        };
        let (first, len, access) = match alone {
            Some(alone) => alone,
            None => {
                let bytes = bytes.read(Reader::new());
                let bytes =
                    bytes.map_err(|error| Error::Unreadable { message: error.to_string() })?;
                (bytes.as_ptr().cast_mut(), bytes.len(), Access::Immutable)
            }
        };
        let (shape, strides) = (layout.shape().to_vec(), layout.strides().to_vec());
        check_bounds(&shape, &strides, layout.start_offset(), len / dtype.itemsize())?;
        let offset = layout.start_offset().wrapping_mul(dtype.itemsize());
        let data = first.wrapping_add(offset).cast();
        let parts = RawParts { access, ..RawParts::new(data, dtype) };
        let owner = FlexTensor::from_arc(bytes, layout, of_burn);
        // SAFETY: the owner keeps the bytes, which stay where they are, and every index is within them. If the tensor
        // is exclusive, no other code has the bytes, and any bytes are valid elements (Exclusive). If not, burn
        // copies the bytes before it writes them, as long as the owner shares them (Immutable).
        Ok(unsafe { Tensor::from_raw_parts(owner, parts, &shape, Some(&strides)) }?)
    }
}

/// Checks that all indices lead to elements of the bytes: `FlexTensor::new` takes any layout.
fn check_bounds(
    shape: &[usize],
    strides: &[isize],
    offset: usize,
    owner: usize,
) -> dlbridge::Result<()> {
    if shape.contains(&0) || shape.len() != strides.len() {
        return Ok(()); // without elements, or refused by `from_raw_parts`
    }
    let offset = i64::try_from(offset).map_err(|_| dlbridge::Error::TooLarge)?;
    let (mut lowest, mut highest) = (Some(offset), Some(offset));
    for (&extent, &stride) in shape.iter().zip(strides) {
        let reach = i64::try_from(extent - 1).ok().and_then(|last| last.checked_mul(stride as i64));
        let end = if stride < 0 { &mut lowest } else { &mut highest };
        *end = end.zip(reach).and_then(|(end, reach)| end.checked_add(reach));
    }
    let (Some(lowest), Some(highest)) = (lowest, highest) else {
        return Err(dlbridge::Error::TooLarge);
    };
    if lowest < 0 || highest as usize >= owner {
        return Err(dlbridge::Error::OutOfBounds { lowest, highest, owner });
    }
    Ok(())
}
