//! Descriptions of a tensor with any `i64` numbers, whose memory is never read, and the expected result of their
//! import, computed with 128 bits.

use std::ops::Range;
use std::ptr;

use dlbridge::sys::DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
use dlbridge::{DataType, DataTypeCode, DeviceType, Error, MAX_NDIM, Result, Tensor};

use crate::common::Producer;

pub(crate) const UINT1: DataType = DataType::new(DataTypeCode::UINT, 1, 1);
const NO_DATA: Error = Error::NullPointer { field: "the data of a tensor with elements" };

/// A generator of pseudo-random numbers, the same in each run: SplitMix64.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Returns a mostly small number; sometimes one at an edge, or of any magnitude.
    pub(crate) fn number(&mut self) -> i64 {
        match self.below(12) {
            0 => self.choose(&[i64::MIN, i64::MIN + 1, -1 << 32, -1, 1 << 31, 1 << 62, i64::MAX]),
            1 => self.next() as i64 >> self.below(64),
            _ => self.below(11) as i64 - 5,
        }
    }
}

/// A producer's description of a tensor, on a device whose memory is never read.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub(crate) shape: Vec<i64>,
    pub(crate) strides: Option<Vec<i64>>,
    pub(crate) dtype: DataType,
    /// The padded flag for sub-byte elements; a legacy tensor lacks it.
    pub(crate) padded: bool,
    pub(crate) device: DeviceType,
    pub(crate) data: usize,
    pub(crate) byte_offset: u64,
}

impl Description {
    /// Describes bytes of an object with a handle.
    pub(crate) fn new(shape: &[i64], strides: &[i64], byte_offset: u64) -> Self {
        let (shape, strides) = (shape.to_vec(), Some(strides.to_vec()));
        let (dtype, device) = (DataType::UINT8, DeviceType::OPENCL);
        Self { shape, strides, dtype, padded: false, device, data: 1, byte_offset }
    }

    pub(crate) fn random(rng: &mut Rng) -> Self {
        let ndim = if rng.below(100) == 0 { rng.below(MAX_NDIM + 1) } else { rng.below(6) };
        let extents = |rng: &mut Rng| match rng.below(20) {
            0 => rng.number(),
            1 => rng.number().saturating_abs(),
            _ if ndim > 5 => 1 + (rng.below(ndim) < 20) as i64,
            _ => 1 + rng.below(4) as i64,
        };
        let dtypes = [DataType::UINT8, DataType::FLOAT32, DataType::COMPLEX128, UINT1];
        let narrow = [DataType::FLOAT4_E2M1FN, UINT1.with_lanes(12), DataType::FLOAT6_E2M3FN];
        let wide = DataType::new(DataTypeCode::INT, 255, u16::MAX);
        let mut description = Self {
            shape: (0..ndim).map(|_| extents(rng)).collect(),
            strides: (rng.below(6) > 0).then(|| (0..ndim).map(|_| rng.number()).collect()),
            dtype: rng.choose(&[&dtypes[..], &narrow, &[wide]].concat()),
            padded: rng.below(4) == 0,
            device: rng.choose(&[DeviceType::OPENCL, DeviceType::CUDA]),
            data: if rng.below(30) == 0 { 0 } else { 1 + rng.below(1 << 30) },
            byte_offset: rng.next() >> rng.below(64),
        };
        if rng.below(2) == 0 {
            description.aim(rng);
        }
        description
    }

    /// Moves one number to a limit, or next to it.
    fn aim(&mut self, rng: &mut Rng) {
        let beside = rng.below(3) as i128 - 1;
        let range = self.bytes(self.padded);
        let base = i128::from(self.base());
        let ndim = self.shape.len();
        match rng.below(4) {
            0 => self.byte_offset = (-range.start - base + beside) as u64,
            1 => self.byte_offset = (self.limit() - range.end - base + beside) as u64,
            2 if ndim > 0 => {
                let axis = rng.below(ndim);
                self.shape[axis] = 1;
                self.shape[axis] = (isize::MAX as i128 / positive(&self.shape) + beside) as i64;
            }
            3 if ndim > 0 && self.strides.is_some() => {
                let axis = rng.below(ndim);
                self.shape[axis] = 2;
                let limit = isize::MAX as i128 / self.dtype.itemsize() as i128;
                let stride = rng.choose(&[1, -1]) * (limit - range.end + range.start + beside);
                self.strides.as_mut().unwrap()[axis] = stride as i64;
            }
            _ => {}
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Returns the given strides, or those of C order: the products of the later extents.
    fn strides(&self) -> Vec<i128> {
        let ndim = self.shape.len();
        match &self.strides {
            Some(strides) => strides.iter().map(|&stride| stride.into()).collect(),
            None => (0..ndim).map(|axis| positive(&self.shape[axis + 1..])).collect(),
        }
    }

    /// Returns the lowest and the highest element. Each sum only grows, so a saturated one is out of
    /// range anyway.
    pub(crate) fn elements(&self) -> (i128, i128) {
        let mut ends = (0_i128, 0_i128);
        for (&extent, stride) in self.shape.iter().zip(self.strides()) {
            let reach = (i128::from(extent) - 1).max(0).saturating_mul(stride);
            let end = if reach < 0 { &mut ends.0 } else { &mut ends.1 };
            *end = end.saturating_add(reach);
        }
        ends
    }

    /// Returns the distance in bits from one element to the next.
    fn width(&self, padded: bool) -> i128 {
        let bits = i128::from(self.dtype.bits()) * i128::from(self.dtype.lanes());
        if bits % 8 != 0 && !padded { bits } else { (bits + 7) / 8 * 8 }
    }

    /// Returns the range of bytes of the elements.
    fn bytes(&self, padded: bool) -> Range<i128> {
        let ((lowest, highest), width) = (self.elements(), self.width(padded));
        let end = highest.saturating_add(1).saturating_mul(width);
        lowest.saturating_mul(width).div_euclid(8)..end.saturating_add(7).div_euclid(8)
    }

    fn is_handle(&self) -> bool {
        self.device == DeviceType::OPENCL
    }

    fn base(&self) -> u64 {
        if self.is_handle() { 0 } else { self.data as u64 }
    }

    /// Returns the position after the last possible byte.
    fn limit(&self) -> i128 {
        if self.is_handle() { i64::MAX.into() } else { usize::MAX as i128 }
    }

    /// Returns all errors of the description.
    fn faults(&self, padded: bool) -> Vec<Error> {
        let mut faults = Vec::new();
        let negative = self.shape.iter().position(|&extent| extent < 0);
        let bytes = self.bytes(padded);
        let first = i128::from(self.base()) + i128::from(self.byte_offset);
        let (lowest, highest) = self.elements();
        let size = |n: i128| isize::try_from(n).is_ok();
        let fits = size(bytes.start)
            && size(bytes.end)
            && size(bytes.end.saturating_sub(bytes.start))
            && i64::try_from(lowest).is_ok()
            && i64::try_from(highest).is_ok()
            && i64::try_from(self.byte_offset).is_ok()
            && first <= self.limit()
            && first.saturating_add(bytes.start) >= 0
            && first.saturating_add(bytes.end) <= self.limit();
        if let Some(axis) = negative {
            faults.push(Error::NegativeExtent { axis, extent: self.shape[axis] });
        }
        if !size(positive(&self.shape)) || !(fits || self.is_empty()) {
            faults.push(Error::TooLarge);
        }
        if self.data == 0 && !self.is_empty() {
            faults.push(NO_DATA);
        }
        faults
    }

    pub(crate) fn producer(&self) -> Producer {
        let data = ptr::without_provenance_mut(self.data);
        let producer = Producer::at(data, self.dtype, &self.shape)
            .byte_offset(self.byte_offset)
            .device(self.device.code(), 0)
            .flags(if self.padded { DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED } else { 0 });
        match &self.strides {
            Some(strides) => producer.strides(strides),
            None => producer,
        }
    }

    /// Imports the tensor through one ABI, and compares the result. Returns true if the import succeeded.
    pub(crate) fn check(&self, import: fn(Producer) -> Result<Tensor>, padded: bool) -> bool {
        let faults = self.faults(padded);
        let producer = self.producer();
        let deleted = producer.deleted();
        let taken = match import(producer) {
            Ok(tensor) => {
                assert!(faults.is_empty(), "imported despite {faults:?}: {self:?}");
                self.compare(&tensor, padded);
                true
            }
            Err(error) => {
                assert!(faults.contains(&error), "{error:?}, not {faults:?}: {self:?}");
                false
            }
        };
        assert_eq!(deleted.get(), 1);
        taken
    }

    fn compare(&self, tensor: &Tensor, padded: bool) {
        assert_eq!((tensor.shape(), tensor.ndim()), (&self.shape[..], self.shape.len()));
        assert!(tensor.strides().iter().map(|&stride| i128::from(stride)).eq(self.strides()));
        let len = if self.is_empty() { 0 } else { positive(&self.shape) };
        assert_eq!((tensor.len() as i128, tensor.is_empty()), (len, len == 0));
        assert_eq!(tensor.nbytes() as i128, (len * self.width(padded) + 7) / 8, "{self:?}");
        let place = (tensor.data().addr(), tensor.byte_offset());
        let expected = match (self.is_empty(), self.is_handle()) {
            (true, _) => (0, 0),
            (false, true) => (self.data, self.byte_offset),
            (false, false) => (self.data + self.byte_offset as usize, 0),
        };
        assert_eq!(place, expected, "{self:?}");
    }
}

/// Returns the product of the positive extents, or a number that is also out of range.
pub(crate) fn positive(shape: &[i64]) -> i128 {
    let extents = shape.iter().filter(|&&extent| extent > 0);
    extents.fold(1, |product, &extent| product.saturating_mul(extent.into()))
}
