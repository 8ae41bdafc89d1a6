//! Tensors to tensors of candle.

use candle_core::op::BackpropOp;
use candle_core::{CpuStorage, Device, Storage, WithDType};
use dlbridge::{Access, DataType, Element, RawParts, Tensor, TensorRef};
use float8::F8E4M3;
use half::{bf16, f16};

use crate::dtype::{E4m3fn, E8m0fnu};
use crate::export::Locked;
use crate::sealed::Sealed;
use crate::{Error, Result};

/// Tensors as tensors of [candle](candle_core::Tensor), on the CPU.
pub trait TensorExt: Sealed {
    /// Turns the tensor into a tensor of candle, without a copy where candle can.
    ///
    /// A tensor that came from candle becomes the same tensor of candle again. A `Vec` or a boxed slice moves if the
    /// elements are contiguous in C order; a slice of it keeps the whole vector alive. Everything else is copied
    /// once.
    ///
    /// # Errors
    /// [`Error::DataType`] for elements that candle lacks; [`Error::Tensor`] for a tensor that the CPU cannot read,
    /// and with [`dlbridge::Error::OutOfMemory`] if the allocation for a copy fails. The tensor is dropped.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_candle::TensorExt;
    ///
    /// let tensor = Tensor::from_parts(vec![1.0_f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// let candle = tensor.into_candle()?.matmul(&Tensor::from([[2.0_f32], [1.0]]).to_candle()?)?;
    /// assert_eq!(candle.to_vec2::<f32>()?, [[4.0], [10.0]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn into_candle(self) -> Result<candle_core::Tensor>;

    /// Copies the elements into a tensor of candle.
    ///
    /// # Errors
    /// As [`into_candle`](Self::into_candle).
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_candle::TensorExt;
    ///
    /// let tensor = Tensor::from(vec![1_u8, 2, 3]).flip(0)?;
    /// assert_eq!(tensor.to_candle()?.to_vec1::<u8>()?, [3, 2, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn to_candle(&self) -> Result<candle_core::Tensor>;
}

/// Borrowed tensors as tensors of [candle](candle_core::Tensor), on the CPU.
pub trait TensorRefExt: Sealed {
    /// Copies the elements into a tensor of candle.
    ///
    /// # Errors
    /// As [`TensorExt::into_candle`].
    ///
    /// ```
    /// use dlbridge::TensorRef;
    /// use dlbridge_candle::TensorRefExt;
    ///
    /// let columns = TensorRef::from(&[[1_i64, 2], [3, 4]]).transpose().to_candle()?;
    /// assert_eq!(columns.to_vec2::<i64>()?, [[1, 3], [2, 4]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn to_candle(&self) -> Result<candle_core::Tensor>;
}

impl Sealed for Tensor {}
impl Sealed for TensorRef<'_> {}

impl TensorExt for Tensor {
    fn into_candle(self) -> Result<candle_core::Tensor> {
        let description = Description::of(&self);
        let tensor = match self.try_into_owner::<Locked>() {
            Ok(locked) => return description.of_candle(locked),
            Err(tensor) => tensor,
        };
        let tensor = match tensor.try_into_owner::<candle_core::Tensor>() {
            Ok(unlocked) => return description.of_candle(Locked::new(unlocked)),
            Err(tensor) => tensor,
        };
        let moved = match description.parts.dtype {
            DataType::UINT8 => description.of_vec::<u8>(tensor),
            DataType::UINT32 => description.of_vec::<u32>(tensor),
            DataType::INT16 => description.of_vec::<i16>(tensor),
            DataType::INT32 => description.of_vec::<i32>(tensor),
            DataType::INT64 => description.of_vec::<i64>(tensor),
            DataType::FLOAT16 => description.of_vec::<f16>(tensor),
            DataType::BFLOAT16 => description.of_vec::<bf16>(tensor),
            DataType::FLOAT32 => description.of_vec::<f32>(tensor),
            DataType::FLOAT64 => description.of_vec::<f64>(tensor),
            _ => Err(tensor),
        };
        moved.unwrap_or_else(|tensor| tensor.to_candle())
    }

    fn to_candle(&self) -> Result<candle_core::Tensor> {
        TensorRef::from(self).to_candle()
    }
}

impl TensorRefExt for TensorRef<'_> {
    fn to_candle(&self) -> Result<candle_core::Tensor> {
        let storage = match self.dtype() {
            DataType::UINT8 => CpuStorage::U8(self.to_vec()?),
            DataType::UINT32 => CpuStorage::U32(self.to_vec()?),
            DataType::INT16 => CpuStorage::I16(self.to_vec()?),
            DataType::INT32 => CpuStorage::I32(self.to_vec()?),
            DataType::INT64 => CpuStorage::I64(self.to_vec()?),
            DataType::FLOAT16 => CpuStorage::F16(self.to_vec()?),
            DataType::BFLOAT16 => CpuStorage::BF16(self.to_vec()?),
            DataType::FLOAT32 => CpuStorage::F32(self.to_vec()?),
            DataType::FLOAT64 => CpuStorage::F64(self.to_vec()?),
            // The vectors below change their type in place: it has the same bytes with the same meaning.
            DataType::FLOAT8_E4M3FN => {
                let floats = self.to_vec::<E4m3fn>()?.into_iter();
                CpuStorage::F8E4M3(floats.map(|float| F8E4M3::from_bits(float.0)).collect())
            }
            DataType::FLOAT8_E8M0FNU => {
                let powers = self.to_vec::<E8m0fnu>()?.into_iter();
                CpuStorage::F8E8M0(powers.map(|power| power.0).collect())
            }
            dtype => return Err(Error::DataType { dtype }),
        };
        let (storage, shape) = (Storage::Cpu(storage), extents(self.shape()));
        Ok(candle_core::Tensor::from_storage(storage, shape, BackpropOp::none(), false))
    }
}

fn extents(shape: &[i64]) -> Vec<usize> {
    shape.iter().map(|&extent| extent as usize).collect()
}

/// The dtype, layout and address of a tensor whose owner is taken out.
struct Description {
    parts: RawParts,
    shape: Vec<usize>,
    strides: Vec<i64>,
    is_c_contiguous: bool,
}

impl Description {
    fn of(tensor: &Tensor) -> Self {
        Self {
            parts: RawParts {
                device: tensor.device(),
                byte_offset: tensor.byte_offset(),
                access: Access::ReadOnly,
                ..RawParts::new(tensor.data(), tensor.dtype())
            },
            shape: extents(tensor.shape()),
            strides: tensor.strides().to_vec(),
            is_c_contiguous: tensor.is_c_contiguous(),
        }
    }

    /// Returns the tensor of candle itself if this layout is all of it, else a copy.
    fn of_candle(&self, locked: Locked) -> Result<candle_core::Tensor> {
        if self.is_all_of(&locked)? {
            return Ok(locked.into_tensor());
        }
        // SAFETY: the layout of a tensor that was made of this storage, whose lock is held while it is read.
        unsafe { self.copied() }
    }

    /// # Safety
    /// The owner that was taken out is alive, and nothing writes the elements.
    unsafe fn copied(&self) -> Result<candle_core::Tensor> {
        let strides = Some(&*self.strides);
        // SAFETY: the parts and the layout are those of a tensor, whose elements stay where they are while the owner
        // is alive. The caller guarantees that it is, and that nothing writes the elements until they are copied.
        unsafe { TensorRef::from_raw_parts(&self.parts, &self.shape, strides) }?.to_candle()
    }

    fn is_all_of(&self, locked: &Locked) -> Result<bool> {
        let (whole, tensor) = (locked.parts()?, locked.tensor());
        let is_empty = self.shape.contains(&0);
        let same_strides = || {
            let strides = self.strides.iter().zip(tensor.stride());
            let mut axes = self.shape.iter().zip(strides);
            axes.all(|(&extent, (&own, &whole))| extent <= 1 || own == whole as i64)
        };
        Ok(self.parts.dtype == whole.dtype
            && self.shape == tensor.dims()
            && (is_empty || self.parts.data == whole.data && same_strides()))
    }

    /// Moves the vector that the tensor was made of, and slices it. Returns the tensor if it has
    /// another owner or another order, or cannot be viewed as such elements.
    fn of_vec<T: Element + WithDType>(
        &self,
        tensor: Tensor,
    ) -> std::result::Result<Result<candle_core::Tensor>, Tensor> {
        if !self.is_c_contiguous || tensor.view::<T>().is_err() {
            return Err(tensor);
        }
        let vec = match tensor.try_into_owner::<Vec<T>>() {
            Ok(vec) => vec,
            Err(tensor) => tensor.try_into_owner::<Box<[T]>>()?.into_vec(),
        };
        Ok(self.within(vec))
    }

    fn within<T: Element + WithDType>(&self, vec: Vec<T>) -> Result<candle_core::Tensor> {
        let (count, len) = (self.shape.iter().product(), vec.len());
        if count == 0 {
            return Ok(candle_core::Tensor::from_vec(Vec::<T>::new(), &*self.shape, &Device::Cpu)?);
        }
        let Some(start) = self.start_in(&vec, count) else {
            // SAFETY: the vector was the owner, is alive, and is not touched.
            return unsafe { self.copied() };
        };
        let all = candle_core::Tensor::from_vec(vec, len, &Device::Cpu)?;
        Ok(all.narrow(0, start, count)?.reshape(&*self.shape)?)
    }

    /// The index of the first element in its owner, if the owner has all elements.
    fn start_in<T>(&self, owner: &[T], count: usize) -> Option<usize> {
        let distance = self.parts.data.addr().checked_sub(owner.as_ptr().addr())?;
        let start = distance / size_of::<T>();
        let is_within = distance % size_of::<T>() == 0 && owner.len().checked_sub(start)? >= count;
        is_within.then_some(start)
    }
}
