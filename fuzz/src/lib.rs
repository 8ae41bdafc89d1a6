//! Shared by the fuzz targets: a descriptor made from the fuzzer's bytes, the result that the specification and the
//! documentation demand, in numbers that cannot overflow, and a producer that exports it.

use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use arbitrary::{Result, Unstructured};
use dlbridge::sys::{
    DLDataType, DLDataTypeCode, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned,
    DLPackVersion, DLTensor,
};
use dlbridge::{MAX_NDIM, Tensor};

/// All fields that a producer can set in a managed tensor.
#[derive(Clone, Debug)]
pub struct Descriptor {
    pub legacy: bool,
    pub major: u32,
    pub flags: u64,
    pub ndim: i32,
    pub shape: Option<Vec<i64>>,
    pub strides: Option<Vec<i64>>,
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
    pub device: i32,
    pub data: usize,
    pub byte_offset: u64,
    /// False if the deleter is NULL, which DLPack allows.
    pub deleter: bool,
}

const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;
const OPENCL: i32 = 4;
const ROCM: i32 = 10;
const ROCM_HOST: i32 = 11;
const CUDA_MANAGED: i32 = 13;
const ONE_API: i32 = 14;

/// Returns a number that is often small, and sometimes at an edge.
fn number(u: &mut Unstructured<'_>) -> Result<i64> {
    Ok(match u.int_in_range(0..=9)? {
        0..=6 => u.int_in_range(-3..=5)?,
        7 => *u.choose(&[0, 1, -1, i64::MIN, i64::MAX, i64::MIN + 1, 1 << 32, 1 << 62])?,
        8 => u.int_in_range(-300..=300)?,
        _ => u.arbitrary()?,
    })
}

impl Descriptor {
    pub fn arbitrary(u: &mut Unstructured<'_>) -> Result<Self> {
        let dims = u.int_in_range(0..=5_usize)?;
        let mut list = |min: i64| -> Result<Option<Vec<i64>>> {
            let list = (0..dims).map(|_| Ok(number(u)?.max(min))).collect::<Result<_>>()?;
            Ok((!u.ratio(1, 12)?).then_some(list))
        };
        let shape = list(-1)?;
        let strides = list(i64::MIN)?;
        let ndim = if u.ratio(1, 20)? { u.arbitrary()? } else { dims as i32 };
        // A number of dimensions that exceeds the memory must be refused before the dimensions are read.
        let ndim = if (0..=MAX_NDIM as i32).contains(&ndim) { dims as i32 } else { ndim };
        let (code, bits) = match u.int_in_range(0..=5)? {
            0..=3 => *u.choose(&[
                (0, 8),
                (0, 16),
                (0, 32),
                (0, 64),
                (1, 8),
                (1, 16),
                (1, 32),
                (1, 64),
                (2, 32),
                (2, 64),
                (5, 64),
                (6, 8),
                (0, 4),
                (1, 1),
                (15, 6),
                (17, 4),
                (4, 16),
                (1, 12),
            ])?,
            _ => (u.int_in_range(0..=20)?, u.arbitrary()?),
        };
        let lanes = if u.ratio(9, 10)? { 1 } else { u.int_in_range(0..=5)? };
        Ok(Self {
            legacy: u.arbitrary()?,
            major: if u.ratio(1, 30)? { u.arbitrary()? } else { 1 },
            flags: u.int_in_range(0..=8)?,
            ndim,
            shape,
            strides,
            code,
            bits,
            lanes,
            device: *u.choose(&[CPU, CPU, CPU, CUDA, CUDA_HOST, OPENCL, CUDA_MANAGED, 0, 77])?,
            data: if u.ratio(1, 20)? { 0 } else { u.int_in_range(1..=1 << 20)? },
            byte_offset: u.int_in_range(0..=64)?
                + if u.ratio(1, 20)? { u.arbitrary::<u64>()? >> 1 } else { 0 },
            deleter: true,
        })
    }

    pub fn is_host_accessible(&self) -> bool {
        matches!(self.device, CPU | CUDA_HOST | ROCM_HOST)
    }

    pub fn is_addressable(&self) -> bool {
        self.is_host_accessible() || matches!(self.device, CUDA | ROCM | CUDA_MANAGED | ONE_API)
    }

    pub fn padded(&self) -> bool {
        !self.legacy && self.flags & 4 != 0
    }

    pub fn element_bits(&self) -> i128 {
        i128::from(self.bits) * i128::from(self.lanes)
    }

    pub fn itemsize(&self) -> i128 {
        (self.element_bits() + 7) / 8
    }

    pub fn packed(&self) -> bool {
        self.element_bits() % 8 != 0 && !self.padded()
    }

    /// Returns the strides, or those of C order if the descriptor has none.
    pub fn full_strides(&self) -> Vec<i128> {
        let shape = self.shape.as_deref().unwrap_or_default();
        match &self.strides {
            Some(strides) => strides.iter().map(|&stride| i128::from(stride)).collect(),
            None => {
                let mut stride = 1;
                let mut strides: Vec<i128> = shape
                    .iter()
                    .rev()
                    .map(|&extent| {
                        let this = stride;
                        stride *= i128::from(extent.max(1));
                        this
                    })
                    .collect();
                strides.reverse();
                strides
            }
        }
    }

    /// Returns the number of elements, or `None` for an impossible shape.
    pub fn count(&self) -> Option<usize> {
        let shape = self.shape.as_deref().unwrap_or_default();
        let limit = isize::MAX as i128;
        let mut product = 1_i128;
        for &extent in shape {
            if extent < 0 {
                return None;
            }
            product *= i128::from(extent.max(1));
            if product > limit {
                return None;
            }
        }
        Some(if shape.contains(&0) { 0 } else { product as usize })
    }

    /// Returns the range of bytes of the elements, relative to the element at index zero, or `None` if
    /// the layout or a field checked before it is invalid.
    pub fn extent(&self) -> Option<Range<i128>> {
        if !self.legacy && self.major != 1 {
            return None;
        }
        if self.ndim < 0 || self.ndim as usize > MAX_NDIM || (self.ndim > 0 && self.shape.is_none())
        {
            return None;
        }
        let fixed = match self.code {
            7..=14 => Some(8),
            15 | 16 => Some(6),
            17 => Some(4),
            _ => None,
        };
        if self.bits == 0 || self.lanes == 0 || fixed.is_some_and(|bits| bits != self.bits) {
            return None;
        }
        if self.count()? == 0 {
            return Some(0..0);
        }
        if self.data == 0 {
            return None;
        }
        let fits = |n: i128| i64::try_from(n).is_ok();
        let (mut lowest, mut highest) = (0_i128, 0_i128);
        let shape = self.shape.as_deref().unwrap_or_default();
        for (&extent, stride) in shape.iter().zip(self.full_strides()) {
            let reach = i128::from(extent - 1) * stride;
            if reach < 0 {
                lowest += reach
            } else {
                highest += reach
            }
            if !fits(reach) || !fits(lowest) || !fits(highest) {
                return None;
            }
        }
        let (start, end) = if self.packed() {
            let bits = self.element_bits();
            ((lowest * bits).div_euclid(8), (highest * bits + bits + 7).div_euclid(8))
        } else {
            (lowest * self.itemsize(), (highest + 1) * self.itemsize())
        };
        (fits(start) && fits(end) && fits(end - start)).then_some(start..end)
    }

    /// Returns true if the layout lies in the address space.
    pub fn is_placed(&self, extent: &Range<i128>) -> bool {
        if extent.is_empty() {
            return true;
        }
        let base = if self.is_addressable() { self.data as i128 } else { 0 };
        let first = base + i128::from(self.byte_offset);
        let limit = if self.is_addressable() { u64::MAX.into() } else { i128::from(i64::MAX) };
        // No memory is large enough for an offset above `i64::MAX`.
        i64::try_from(self.byte_offset).is_ok()
            && first <= limit
            && first + extent.start >= 0
            && first + extent.end <= limit
    }

    /// Returns the positions of all elements, sorted by index, the last axis fastest.
    pub fn positions(&self) -> Vec<i128> {
        let shape = self.shape.as_deref().unwrap_or_default();
        let strides = self.full_strides();
        let count = self.count().unwrap_or(0);
        let position = |mut nth: usize| {
            let axes = shape.iter().zip(&strides).rev();
            axes.map(|(&extent, &stride)| {
                let index = nth % extent as usize;
                nth /= extent as usize;
                index as i128 * stride
            })
            .sum()
        };
        (0..count).map(position).collect()
    }
}

/// The memory and the counter of an exported tensor.
struct Context {
    _memory: Box<[u8]>,
    _dims: [Box<[i64]>; 2],
    deleted: *const AtomicUsize,
}

/// A producer. It must outlive the tensors that it exports.
#[derive(Default)]
pub struct Producer {
    deleted: AtomicUsize,
    /// An exported tensor without a deleter, freed when the producer is dropped.
    kept: Cell<Option<Managed>>,
}

enum Managed {
    Versioned(*mut DLManagedTensorVersioned),
    Legacy(*mut DLManagedTensor),
}

impl Producer {
    /// Returns the number of deleter calls.
    pub fn deleted(&self) -> usize {
        self.deleted.load(Ordering::SeqCst)
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // SAFETY: `import_crafted` made it, and no other code frees it: it has no deleter.
        match self.kept.take() {
            Some(Managed::Versioned(managed)) => unsafe { delete(managed) },
            Some(Managed::Legacy(managed)) => unsafe { delete_legacy(managed) },
            None => {}
        }
    }
}

/// Exports a descriptor with its data in some memory, and returns the result of dlbridge's import.
pub fn import_crafted(
    descriptor: &Descriptor,
    data: *mut c_void,
    memory: Box<[u8]>,
    producer: &Producer,
) -> dlbridge::Result<Tensor> {
    let d = descriptor;
    let boxed = |list: &Option<Vec<i64>>| list.clone().unwrap_or_default().into_boxed_slice();
    let (dims, deleted) = ([boxed(&d.shape), boxed(&d.strides)], &raw const producer.deleted);
    let mut context = Box::new(Context { _memory: memory, _dims: dims, deleted });
    let pointer = |given: bool, dims: &mut [i64]| {
        if given { dims.as_mut_ptr() } else { ptr::null_mut() }
    };
    let [shape, strides] = &mut context._dims;
    let dl_tensor = DLTensor {
        data,
        device: DLDevice { device_type: DLDeviceType(d.device), device_id: 0 },
        ndim: d.ndim,
        dtype: DLDataType { code: DLDataTypeCode(d.code), bits: d.bits, lanes: d.lanes },
        shape: pointer(d.shape.is_some(), shape),
        strides: pointer(d.strides.is_some(), strides),
        byte_offset: d.byte_offset,
    };
    let manager_ctx = Box::into_raw(context).cast();
    if d.legacy {
        let deleter = d.deleter.then_some(delete_legacy as _);
        let managed = Box::into_raw(Box::new(DLManagedTensor { dl_tensor, manager_ctx, deleter }));
        producer.kept.set((!d.deleter).then_some(Managed::Legacy(managed)));
        // SAFETY: the struct is valid until the deleter runs or the producer is dropped, and no other code has it.
        unsafe { Tensor::from_raw_legacy(managed) }
    } else {
        let managed = Box::into_raw(Box::new(DLManagedTensorVersioned {
            version: DLPackVersion { major: d.major, minor: 1 },
            manager_ctx,
            deleter: d.deleter.then_some(delete as _),
            flags: d.flags,
            dl_tensor,
        }));
        producer.kept.set((!d.deleter).then_some(Managed::Versioned(managed)));
        // SAFETY: the struct is valid until the deleter runs or the producer is dropped, and no other code has it.
        unsafe { Tensor::from_raw(managed) }
    }
}

unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: `import_crafted` made both from boxes, and the counter outlives the tensor (`Producer`).
    unsafe {
        let managed = Box::from_raw(managed);
        let context = Box::from_raw(managed.manager_ctx.cast::<Context>());
        (*context.deleted).fetch_add(1, Ordering::SeqCst);
    }
}

unsafe extern "C" fn delete_legacy(managed: *mut DLManagedTensor) {
    // SAFETY: `import_crafted` made both from boxes, and the counter outlives the tensor (`Producer`).
    unsafe {
        let managed = Box::from_raw(managed);
        let context = Box::from_raw(managed.manager_ctx.cast::<Context>());
        (*context.deleted).fetch_add(1, Ordering::SeqCst);
    }
}
