//! Arrays with any numbers, in memory exactly as large as the numbers need.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering;

use arbitrary::{Result, Unstructured};
use dlbridge_pyo3::dlbridge::DataType;

use crate::abi::{ArrowArray, Child, LIVE, WRONG_CHILDREN, list, live, poison};
use crate::numbers::{COUNTS, LARGE, MOST_MADE, pick, seldom};
use crate::schema::{Level, Schema};

/// One level of an array, with the levels below.
pub(crate) struct Array {
    pub(crate) length: i64,
    pub(crate) null_count: i64,
    pub(crate) offset: i64,
    pub(crate) n_buffers: i64,
    pub(crate) buffers: Child,
    /// The byte that fills the validity bits.
    pub(crate) validity: Option<u8>,
    /// The seed of the data, and the distance of its start from an aligned address in bytes.
    pub(crate) data: Option<(u8, usize)>,
    pub(crate) n_children: i64,
    pub(crate) children: Child,
    pub(crate) dictionary: bool,
    pub(crate) released: bool,
    pub(crate) level: Option<Level>,
    pub(crate) child: Option<Box<Array>>,
}

impl Array {
    /// Returns an array of a schema, mostly with enough elements.
    pub(crate) fn arbitrary(
        u: &mut Unstructured<'_>,
        schema: &Schema,
        length: Option<i64>,
        times: bool,
    ) -> Result<Self> {
        let level = schema.level(times);
        let is_top = length.is_none();
        let is_list = schema.child.is_some();
        let mut offset = if u.int_in_range(0..=3)? == 3 { u.int_in_range(0..=9)? } else { 0 };
        let mut length = length.map_or_else(|| u.int_in_range(0..=10), Ok)?;
        if seldom(u)? {
            let short = length.saturating_sub(1);
            length = *u.choose(&[short, short, short, 0, -1, i64::MIN])?;
        }
        // An import reads bits, booleans and times, so their memory must exist.
        let read = matches!(level, Some(Level::Bits | Level::Numbers(DataType::BOOL))) || times;
        let large: &[i64] = if read { &[(1 << 57) + 1, 1 << 58, i64::MAX] } else { LARGE };
        if seldom(u)? {
            length = *u.choose(large)?;
        }
        if seldom(u)? {
            offset = *u.choose(large)?;
        }
        if seldom(u)? {
            offset = *u.choose(&[-1, i64::MIN])?;
        }
        // A list may use only some of its items, so a reader refuses no number of them.
        if read && !is_top && i128::from(length) > MOST_MADE {
            length = 0;
        }
        let items = match level {
            Some(Level::Lists(items)) => items,
            _ => 1,
        };
        let below = length
            .saturating_add(offset)
            .saturating_mul(items)
            .saturating_add(u.int_in_range(0..=1)?);
        let child = match &schema.child {
            Some(schema) => Some(Box::new(Self::arbitrary(u, schema, Some(below), times)?)),
            None => None,
        };
        let validity = if u.int_in_range(0..=2)? == 2 {
            Some(pick(u, 0xff, &[0, 0x7f, 0xfe, 0x55])?)
        } else {
            None
        };
        let made = (0..=MOST_MADE).contains(&(i128::from(length) + i128::from(offset)));
        let data = (u.arbitrary()?, if seldom(u)? { u.int_in_range(0..=7)? } else { 0 });
        Ok(Self {
            length,
            null_count: *u.choose(&[0, 0, -1, -1, 1, i64::MIN, i64::MAX])?,
            offset,
            n_buffers: pick(u, if is_list { 1 } else { 2 }, COUNTS)?,
            buffers: pick(u, Child::Right, &[Child::NoList, Child::OddList])?,
            validity: validity.filter(|_| made),
            data: if seldom(u)? { None } else { Some(data) },
            n_children: pick(u, i64::from(child.is_some()), COUNTS)?,
            children: pick(u, Child::Right, WRONG_CHILDREN)?,
            dictionary: seldom(u)?,
            released: seldom(u)?,
            level,
            child,
        })
    }

    /// Returns an array without elements, children and memory.
    pub(crate) fn empty(schema: &Schema, times: bool) -> Self {
        Self {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 2,
            buffers: Child::Right,
            validity: None,
            data: None,
            n_children: 0,
            children: Child::Right,
            dictionary: false,
            released: false,
            level: schema.level(times),
            child: None,
        }
    }

    /// Returns the end of the elements, and true if they have memory.
    pub(crate) fn end(&self) -> (usize, bool) {
        let end = i128::from(self.length) + i128::from(self.offset);
        let fits = self.length >= 0 && self.offset >= 0 && end <= MOST_MADE;
        (if fits { end as usize } else { 0 }, fits)
    }

    pub(crate) fn itemsize(&self) -> usize {
        match self.level {
            Some(Level::Numbers(dtype)) => dtype.itemsize(),
            _ => 1,
        }
    }

    /// Returns the bytes of the data.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let (end, _) = self.end();
        let count = match self.level {
            Some(Level::Bits) => end.div_ceil(8),
            _ => end * self.itemsize(),
        };
        let seed = self.data.map_or(0, |(seed, _)| seed);
        // Booleans that are 0 and 1, or any byte.
        let mask = if seed < 128 { 0xff } else { 1 };
        (0..count).map(|nth| (nth as u8).wrapping_mul(37).wrapping_add(seed) & mask).collect()
    }

    pub(crate) fn make(&self) -> ArrowArray {
        let numbers = [self.length, self.null_count, self.offset, self.n_buffers, self.n_children];
        let [length, null_count, offset, n_buffers, n_children] = numbers;
        if self.released {
            return ArrowArray {
                length,
                null_count,
                offset,
                n_buffers,
                n_children,
                buffers: poison(),
                children: poison(),
                dictionary: poison(),
                release: None,
                private_data: poison(),
            };
        }
        let (end, fits) = self.end();
        let validity = self.validity.map(|byte| vec![byte; end.div_ceil(8)].into_boxed_slice());
        let data = self.data.map(|(_, shift)| {
            let memory = [vec![0; shift], self.bytes()].concat().into_boxed_slice();
            (memory, shift)
        });
        let places = [
            validity.as_ref().map_or(ptr::null(), |bits| bits.as_ptr().cast()),
            match &data {
                Some((memory, shift)) if fits && memory.len() > *shift => {
                    memory[*shift..].as_ptr().cast()
                }
                Some((_, shift)) => poison::<c_void>().wrapping_byte_add(*shift).cast_const(),
                None => ptr::null(),
            },
            poison::<c_void>().cast_const(),
        ];
        let mut list_of_buffers: Option<Box<[*const c_void]>> = None;
        let buffers = match self.buffers {
            Child::NoList => ptr::null_mut(),
            Child::OddList => poison::<*const c_void>().wrapping_byte_add(1),
            _ if n_buffers <= 0 => poison(),
            _ => list_of_buffers.insert(places[..n_buffers.min(3) as usize].into()).as_mut_ptr(),
        };
        let child = self.child.as_ref().map(|child| Box::into_raw(Box::new(child.make())));
        let (list, children) = list(child, n_children, self.children);
        let memory = [validity, data.map(|(memory, _)| memory)];
        ArrowArray {
            length,
            null_count,
            offset,
            n_buffers,
            n_children,
            buffers,
            children,
            dictionary: if self.dictionary { poison() } else { ptr::null_mut() },
            release: Some(release_array),
            private_data: live(ArrayParts {
                _memory: memory,
                _buffers: list_of_buffers,
                child,
                _list: list,
            }),
        }
    }
}

pub(crate) struct ArrayParts {
    pub(crate) _memory: [Option<Box<[u8]>>; 2],
    pub(crate) _buffers: Option<Box<[*const c_void]>>,
    pub(crate) child: Option<*mut ArrowArray>,
    pub(crate) _list: Option<Box<*mut ArrowArray>>,
}

pub(crate) unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: `make` made the array, and the consumer releases it once.
    unsafe {
        let parts = Box::from_raw((*array).private_data.cast::<ArrayParts>());
        if let Some(child) = parts.child {
            let mut child = Box::from_raw(child);
            if let Some(release) = child.release {
                release(&mut *child);
            }
        }
        (*array).release = None;
    }
    LIVE.fetch_sub(1, Ordering::SeqCst);
}
