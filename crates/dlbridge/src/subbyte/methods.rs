//! Makes views of elements narrower than a byte, and converts between packed and padded elements.

use super::{SubbyteView, SubbyteViewMut, raw};
use crate::{Result, Tensor, TensorRef, TensorRefMut};

impl<'a> TensorRef<'a> {
    /// Views elements that are not whole bytes as bits, for reading.
    ///
    /// # Errors
    /// Those of [`Tensor::view_subbyte`].
    ///
    /// ```
    /// use dlbridge::{DataType, Tensor, TensorRef};
    ///
    /// let tensor = Tensor::from_bytes(vec![0x21, 0x43], DataType::FLOAT4_E2M1FN, [2, 2], 0)?;
    /// let columns = TensorRef::from(&tensor).transpose();
    /// assert!(columns.view_subbyte()?.iter().eq([1, 3, 2, 4]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn view_subbyte(&self) -> Result<SubbyteView<'a>> {
        SubbyteView::new(self.clone())
    }
}

impl<'a> TensorRefMut<'a> {
    /// Views elements that are not whole bytes as bits, for reading and writing.
    ///
    /// # Errors
    /// Those of [`Tensor::view_subbyte`].
    ///
    /// ```
    /// use dlbridge::{DataType, Tensor, TensorRefMut};
    ///
    /// let mut tensor = Tensor::from_bytes(vec![0; 2], DataType::FLOAT4_E2M1FN, [2, 2], 0)?;
    /// let columns = TensorRefMut::try_from(&mut tensor)?.transpose();
    /// columns.into_view_subbyte_mut()?.set(&[0, 1], 9);
    /// assert_eq!(tensor.try_into_owner::<Vec<u8>>().unwrap(), [0, 9]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn into_view_subbyte_mut(self) -> Result<SubbyteViewMut<'a>> {
        SubbyteViewMut::new(self)
    }
}

impl Tensor {
    /// Views elements that are not whole bytes as bits, for reading, packed or padded.
    ///
    /// # Errors
    /// [`Error::NotSubbyte`](crate::Error::NotSubbyte) for other dtypes;
    /// [`Error::NotHostAccessible`](crate::Error::NotHostAccessible).
    ///
    /// ```
    /// use dlbridge::{DataType, Tensor};
    ///
    /// let tensor = Tensor::from_bytes(vec![0x21, 0x43], DataType::FLOAT4_E2M1FN, [2, 2], 0)?;
    /// assert_eq!(tensor.view_subbyte()?.get(&[1, 0]), Some(3));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn view_subbyte(&self) -> Result<SubbyteView<'_>> {
        TensorRef::from(self).view_subbyte()
    }

    /// Views elements that are not whole bytes as bits, for reading and writing, packed or padded.
    ///
    /// # Errors
    /// As [`Tensor::view_subbyte`]; and [`Error::ReadOnly`](crate::Error::ReadOnly),
    /// [`Error::Shared`](crate::Error::Shared) and [`Error::Overlapping`](crate::Error::Overlapping) as
    /// [`Tensor::view_mut`].
    ///
    /// ```
    /// use dlbridge::{DataType, Tensor};
    ///
    /// let mut tensor = Tensor::from_bytes(vec![0; 2], DataType::FLOAT4_E2M1FN, [2, 2], 0)?;
    /// tensor.view_subbyte_mut()?.set(&[1, 0], 9);
    /// assert_eq!(tensor.try_into_owner::<Vec<u8>>().unwrap(), [0, 9]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn view_subbyte_mut(&mut self) -> Result<SubbyteViewMut<'_>> {
        TensorRefMut::try_from(self)?.into_view_subbyte_mut()
    }

    /// Copies the tensor, with a whole byte for each element narrower than a byte, in C order, to new memory aligned to
    /// 256 bytes. Signed integers are extended with their sign, all other elements with zeros.
    ///
    /// # Errors
    /// Those of [`Tensor::view_subbyte`]; [`Error::TooLarge`](crate::Error::TooLarge) and
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if the memory cannot be allocated.
    ///
    /// ```
    /// use dlbridge::{DataType, Tensor};
    ///
    /// let tensor = Tensor::from_bytes(vec![0x21, 0x43], DataType::FLOAT4_E2M1FN, [4], 0)?;
    /// let padded = tensor.to_unpacked()?;
    /// assert!(padded.is_subbyte_padded());
    /// assert!(padded.view_subbyte()?.iter().eq([1, 2, 3, 4]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn to_unpacked(&self) -> Result<Self> {
        raw::to_copy(&TensorRef::from(self), true, 1).map(Self::from_managed)
    }

    /// Copies the tensor, with elements narrower than a byte packed bit by bit, in C order, to new memory aligned to
    /// 256 bytes. Of padded elements it takes the lowest bits.
    ///
    /// # Errors
    /// Those of [`Tensor::to_unpacked`].
    ///
    /// ```
    /// use dlbridge::{DataType, Tensor};
    ///
    /// let tensor = Tensor::from_bytes(vec![0x21, 0x43], DataType::FLOAT4_E2M1FN, [4], 0)?;
    /// let packed = tensor.to_unpacked()?.to_packed()?;
    /// assert!(!packed.is_subbyte_padded());
    /// assert_eq!(packed.nbytes(), 2);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn to_packed(&self) -> Result<Self> {
        raw::to_copy(&TensorRef::from(self), false, 1).map(Self::from_managed)
    }
}
