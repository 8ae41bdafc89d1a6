//! Properties of borrowed tensors that are computed from the fields in `raw/`.

use core::fmt;
use core::ops::Range;

use crate::{DataType, Device, Result, TensorRef, TensorRefMut, TensorView, layout};

impl<'a> TensorRef<'a> {
    /// Views the elements of a `bool` tensor as bytes, without reading them, as
    /// [`Tensor::view_bool_as_u8`](crate::Tensor::view_bool_as_u8) does.
    ///
    /// # Errors
    /// As [`view`](TensorRef::view).
    ///
    /// ```
    /// let view = dlbridge::TensorRef::from(&[true, false]).view_bool_as_u8()?;
    /// assert_eq!(view.as_slice(), Some(&[1, 0][..]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn view_bool_as_u8(&self) -> Result<TensorView<'a, u8>> {
        self.clone().into_view(DataType::BOOL)
    }
}

impl TensorRef<'_> {
    /// The number of dimensions.
    ///
    /// ```
    /// assert_eq!(dlbridge::TensorRef::from(&[[0_u8; 3]; 2]).ndim(), 2);
    /// ```
    #[inline]
    pub fn ndim(&self) -> usize {
        self.shape().len()
    }

    /// Returns true if the tensor is empty.
    ///
    /// ```
    /// assert!(dlbridge::TensorRef::from(&[0_f32; 0]).is_empty());
    /// ```
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of bytes of the elements in contiguous memory; see
    /// [`Tensor::nbytes`](crate::Tensor::nbytes).
    ///
    /// ```
    /// assert_eq!(dlbridge::TensorRef::from(&[[0_f32; 3]; 2]).nbytes(), 24);
    /// ```
    pub fn nbytes(&self) -> u128 {
        layout::byte_count(self.len(), self.dtype(), self.is_subbyte_padded())
    }

    /// The range of bytes that the elements occupy, counted from the first byte of the element at index zero: from
    /// the lowest, which is negative if strides are, to the one after the highest. Empty for an empty tensor.
    ///
    /// ```
    /// use dlbridge::TensorRef;
    ///
    /// let values = [[0_u16; 3]; 4];
    /// let rows = TensorRef::from(&values);
    /// assert_eq!(rows.byte_bounds(), 0..24);
    /// assert_eq!(rows.flip(0)?.byte_bounds(), -18..6);
    /// assert_eq!(rows.step_by(1, 2)?.byte_bounds(), 0..24);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    pub fn byte_bounds(&self) -> Range<isize> {
        if self.is_empty() {
            return 0..0;
        }
        let bounds = layout::element_extent(self.shape(), self.strides())
            .and_then(|extent| layout::byte_extent(extent, self.dtype(), self.is_subbyte_padded()));
        let bounds = bounds.unwrap_or_else(|_| panic!("Layout: checked when the tensor was made"));
        bounds.start..bounds.end
    }

    /// Returns true if the elements are contiguous in C order, the last axis fastest. Axes of extent 1 never
    /// matter.
    ///
    /// ```
    /// use dlbridge::TensorRef;
    ///
    /// assert!(TensorRef::from(&[[0_u8; 3]; 2]).is_c_contiguous());
    /// ```
    #[inline]
    pub fn is_c_contiguous(&self) -> bool {
        layout::is_c_contiguous(self.shape(), self.strides())
    }

    /// Returns true if the elements are contiguous in Fortran order, the first axis fastest. Axes of extent 1
    /// never matter.
    ///
    /// ```
    /// use dlbridge::TensorRef;
    ///
    /// assert!(TensorRef::from(&[[0_u8; 3]; 2]).transpose().is_f_contiguous());
    /// ```
    #[inline]
    pub fn is_f_contiguous(&self) -> bool {
        layout::is_f_contiguous(self.shape(), self.strides())
    }
}

impl TensorRefMut<'_> {
    /// The extents, in elements.
    ///
    /// ```
    /// assert_eq!(dlbridge::TensorRefMut::from(&mut [[0_u8; 3]; 2]).shape(), [2, 3]);
    /// ```
    pub fn shape(&self) -> &[i64] {
        self.as_shared().shape()
    }

    /// The strides, in elements.
    ///
    /// ```
    /// assert_eq!(dlbridge::TensorRefMut::from(&mut [[0_u8; 3]; 2]).strides(), [3, 1]);
    /// ```
    pub fn strides(&self) -> &[i64] {
        self.as_shared().strides()
    }

    /// The type of the elements.
    ///
    /// ```
    /// use dlbridge::{DataType, TensorRefMut};
    ///
    /// assert_eq!(TensorRefMut::from(&mut [0_u16]).dtype(), DataType::UINT16);
    /// ```
    pub fn dtype(&self) -> DataType {
        self.as_shared().dtype()
    }

    /// The device that holds the data.
    ///
    /// ```
    /// use dlbridge::{Device, TensorRefMut};
    ///
    /// assert_eq!(TensorRefMut::from(&mut [0_u16]).device(), Device::CPU);
    /// ```
    pub fn device(&self) -> Device {
        self.as_shared().device()
    }

    /// The number of dimensions.
    ///
    /// ```
    /// assert_eq!(dlbridge::TensorRefMut::from(&mut [[0_u8; 3]; 2]).ndim(), 2);
    /// ```
    pub fn ndim(&self) -> usize {
        self.as_shared().ndim()
    }

    /// The number of elements.
    ///
    /// ```
    /// assert_eq!(dlbridge::TensorRefMut::from(&mut [[0_u8; 3]; 2]).len(), 6);
    /// ```
    pub fn len(&self) -> usize {
        self.as_shared().len()
    }

    /// Returns true if the tensor is empty.
    ///
    /// ```
    /// assert!(dlbridge::TensorRefMut::from(&mut [[0_u8; 0]; 2]).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.as_shared().is_empty()
    }
}

impl fmt::Debug for TensorRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorRef")
            .field("shape", &self.shape())
            .field("strides", &self.strides())
            .field("dtype", &self.dtype())
            .field("device", &self.device())
            .finish()
    }
}

impl fmt::Debug for TensorRefMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TensorRefMut").field(&self.as_tensor_ref()).finish()
    }
}
