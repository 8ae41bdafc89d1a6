//! The check of offsets. Other libraries use them to read items, and do not check them.
//!
//! The offsets are copied block by block, and the copies are checked: no reference to memory that other code may write
//! is made.

use std::ops::Range;

use dlbridge::{DataType, Element, Result, Tensor, TensorRef};
use pyo3::prelude::*;

use dlbridge_pyo3::copies;

/// The number of offsets that are copied at once: few enough for the first-level cache.
const BLOCK: usize = 1 << 12;

/// The first and the last offset, or what is wrong with the offsets: they must not decrease or be negative. They are
/// `int32` or `int64` in one dimension, at least one, and borrowed for reading.
pub(crate) fn range(offsets: &TensorRef<'_>) -> PyResult<std::result::Result<Range<i64>, String>> {
    // With a stride of 0, any number of offsets are one in memory.
    let len = if offsets.strides() == [0] { 1 } else { offsets.len() };
    copies::detached(len.saturating_mul(offsets.dtype().itemsize()), |go_on| {
        let mut scan = Scan { first: None, last: 0 };
        for begin in (0..len).step_by(BLOCK) {
            if begin > 0 && !go_on() {
                return Ok(None);
            }
            let end = len.min(begin + BLOCK);
            let block = offsets.slice(0, begin..end)?.to_copy()?;
            let fault = match block.dtype() {
                DataType::INT32 => scan.fault::<i32>(&block, begin)?,
                _ => scan.fault::<i64>(&block, begin)?,
            };
            if let Some(fault) = fault {
                return Ok(Some(Err(fault)));
            }
        }
        Ok(Some(Ok(scan.first.unwrap_or(0)..scan.last)))
    })
}

/// The offsets that were read.
struct Scan {
    first: Option<i64>,
    last: i64,
}

impl Scan {
    /// Reads further offsets, of which `begin` is the index of the first; returns what is wrong with them.
    fn fault<T: Element + Copy + PartialOrd + Into<i64>>(
        &mut self,
        offsets: &Tensor,
        begin: usize,
    ) -> Result<Option<String>> {
        let view = offsets.view::<T>()?;
        let offsets = view.as_slice().expect("a copy is contiguous");
        // Without an early exit, so that the compiler can vectorise it.
        let increase = offsets.windows(2).fold(true, |so_far, pair| so_far & (pair[0] <= pair[1]));
        if let (true, [first, .., last]) = (increase, offsets)
            && (*first).into() >= self.last
        {
            self.first.get_or_insert((*first).into());
            self.last = (*last).into();
            return Ok(None);
        }
        for (index, &offset) in (begin..).zip(offsets) {
            let offset = offset.into();
            if offset < self.last {
                let last = self.last;
                return Ok(Some(match self.first {
                    None => format!("the first offset is {offset}, below 0"),
                    Some(_) => {
                        format!("the offsets decrease from {last} to {offset} at index {index}")
                    }
                }));
            }
            self.first.get_or_insert(offset);
            self.last = offset;
        }
        Ok(None)
    }
}
