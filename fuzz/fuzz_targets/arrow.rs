//! Arrow structs with any numbers, whose pointers are valid as far as the numbers are: they are imported or refused as a
//! second, simple reader says, nothing is read beyond a buffer or after its release, and each struct is released once.
#![no_main]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::Once;
use std::sync::atomic::{AtomicIsize, Ordering};

use arbitrary::{Result, Unstructured};
use dlbridge_pyo3::dlbridge::{DataType, Datetime64, Nanoseconds, Tensor, TensorRef};
use dlbridge_pyo3::{AllowCopy, PyReadonlyTensor};
use libfuzzer_sys::fuzz_target;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

fuzz_target!(|data: &[u8]| {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        // AddressSanitizer and the search for leaks see objects of Python only in memory of `malloc`.
        // SAFETY: no other thread runs yet.
        unsafe { std::env::set_var("PYTHONMALLOC", "malloc") };
        Python::initialize();
    });
    let _ = Python::attach(|py| run(py, &mut Unstructured::new(data)));
    assert_eq!(LIVE.load(Ordering::SeqCst), 0, "structs that were not released");
});

/// The structs that are not released.
static LIVE: AtomicIsize = AtomicIsize::new(0);

/// An aligned address that nothing may read.
const POISON: usize = 0x1000;

fn poison<T>() -> *mut T {
    ptr::without_provenance_mut(POISON)
}

#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowDeviceArray {
    array: ArrowArray,
    device_id: i64,
    device_type: i32,
    sync_event: *mut c_void,
    reserved: [i64; 3],
}

type Get<T> = unsafe extern "C" fn(*mut ArrowArrayStream, *mut T) -> c_int;

#[repr(C)]
struct ArrowArrayStream {
    get_schema: Option<Get<ArrowSchema>>,
    get_next: Option<Get<ArrowArray>>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

/// Mostly the right value, otherwise a wrong one.
fn pick<T: Copy>(u: &mut Unstructured<'_>, right: T, wrong: &[T]) -> Result<T> {
    if u.int_in_range(0..=19)? == 19 { Ok(*u.choose(wrong)?) } else { Ok(right) }
}

/// True for one of many inputs.
fn seldom(u: &mut Unstructured<'_>) -> Result<bool> {
    pick(u, false, &[true])
}

const COUNTS: &[i64] = &[0, 1, 2, 3, -1, i64::MIN, 1 << 62, i64::MAX];

/// Numbers of bytes and elements that fit no address space, or hardly.
const LARGE: &[i64] = &[1 << 40, 1 << 54, (1 << 57) + 1, 1 << 58, 1 << 61, 1 << 62, i64::MAX];

/// The largest number of elements whose memory is made.
const MOST_MADE: i128 = 1 << 12;

/// More bytes than this are refused.
const MOST: i128 = 1 << 57;

/// How a pointer to a child is wrong.
#[derive(Clone, Copy, PartialEq)]
enum Child {
    Right,
    NoList,
    OddList,
    Null,
    Odd,
}

const WRONG_CHILDREN: &[Child] = &[Child::NoList, Child::OddList, Child::Null, Child::Odd];

/// The metadata of a schema: pairs of texts with lengths that may be negative.
#[derive(Debug)]
struct Metadata {
    count: i32,
    pairs: Vec<[(i32, Text); 2]>,
}

#[derive(Debug)]
enum Text {
    Bytes(Vec<u8>),
    /// The JSON of fixed-shape tensors.
    Shape(Vec<i64>, Option<Vec<i64>>),
}

impl Text {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Shape(shape, None) => format!("{{\"shape\": {shape:?}}}").into_bytes(),
            Self::Shape(shape, Some(order)) => {
                format!("{{\"shape\": {shape:?}, \"permutation\": {order:?}}}").into_bytes()
            }
        }
    }
}

const NAME: &str = "ARROW:extension:name";
const SHAPE: &str = "ARROW:extension:metadata";
const FIXED_SHAPE: &str = "arrow.fixed_shape_tensor";
const NAMES: &[&str] =
    &[FIXED_SHAPE, FIXED_SHAPE, "arrow.bool8", "arrow.bool8", "tests.unknown", ""];

impl Metadata {
    fn arbitrary(u: &mut Unstructured<'_>, items: i64) -> Result<Self> {
        let mut texts = vec![(NAME, Text::Bytes(u.choose(NAMES)?.as_bytes().to_vec()))];
        let shape = match u.int_in_range(0..=3)? {
            0 => None,
            1 => Some(Text::Bytes(u.arbitrary()?)),
            _ => {
                let mut shape = vec![pick(u, items, COUNTS)?];
                if u.arbitrary()? {
                    shape.insert(u.int_in_range(0..=1)?, pick(u, 1, COUNTS)?);
                }
                let order = match u.int_in_range(0..=3)? {
                    0 | 1 => None,
                    2 => Some((0..shape.len() as i64).rev().collect()),
                    _ => Some(
                        (0..u.int_in_range(0..=3)?)
                            .map(|_| Ok(u.int_in_range(-1..=2)?))
                            .collect::<Result<_>>()?,
                    ),
                };
                Some(Text::Shape(shape, order))
            }
        };
        if let Some(shape) = shape {
            texts.insert(u.int_in_range(0..=1)?, (SHAPE, shape));
        }
        if seldom(u)? {
            texts.insert(0, ("k", Text::Bytes(u.arbitrary()?)));
        }
        let mut pairs = Vec::new();
        for (key, value) in texts {
            let key = Text::Bytes(key.as_bytes().to_vec());
            let mut sized = |text: Text| {
                let length = text.bytes().len() as i32;
                Ok((pick(u, length, &[-1, i32::MIN])?, text))
            };
            pairs.push([sized(key)?, sized(value)?]);
        }
        let count = pick(u, pairs.len() as i32, &[0, 1, -1, i32::MIN])?;
        Ok(Self { count, pairs })
    }

    fn bytes(&self) -> Box<[u8]> {
        let mut bytes = self.count.to_ne_bytes().to_vec();
        for (length, text) in self.pairs.iter().flatten() {
            bytes.extend(length.to_ne_bytes());
            bytes.extend(text.bytes());
        }
        bytes.into()
    }

    /// The value of a key; an error if a negative number comes first.
    fn get(&self, wanted: &str) -> std::result::Result<Option<&Text>, ()> {
        let count = usize::try_from(self.count).map_err(|_| ())?;
        for [(key_length, key), (value_length, value)] in &self.pairs[..count] {
            if *key_length < 0 || *value_length < 0 {
                return Err(());
            }
            if key.bytes() == wanted.as_bytes() {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

/// One level of a schema, and those below.
struct Schema {
    format: Option<Vec<u8>>,
    metadata: Option<Metadata>,
    n_children: i64,
    children: Child,
    dictionary: bool,
    released: bool,
    child: Option<Box<Schema>>,
}

const NUMBERS: &[(&[u8], DataType)] = &[
    (b"c", DataType::INT8),
    (b"C", DataType::UINT8),
    (b"s", DataType::INT16),
    (b"S", DataType::UINT16),
    (b"i", DataType::INT32),
    (b"I", DataType::UINT32),
    (b"l", DataType::INT64),
    (b"L", DataType::UINT64),
    (b"e", DataType::FLOAT16),
    (b"f", DataType::FLOAT32),
    (b"g", DataType::FLOAT64),
];

const OTHERS: &[&[u8]] = &[
    b"",
    b"n",
    b"u",
    b"w:8",
    b"tdD",
    b"tdm",
    b"tss:",
    b"tsn:",
    b"tsn:UTC",
    b"tsns:",
    b"tDn",
    b"+s",
    b"+l",
    b"+w:",
    b"+w:-1",
    b"+w:9223372036854775807",
    b"\xff\xfe",
    b"b",
    b"c",
    b"l",
];

/// The elements of a level.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Numbers(DataType),
    Bits,
    Lists(i64),
}

impl Schema {
    fn arbitrary(u: &mut Unstructured<'_>, depth: usize, times: bool) -> Result<Self> {
        let items = if depth > 3 { 1 } else { u.int_in_range(0..=3)? };
        let right = match depth {
            0 if times => b"tsn:".to_vec(),
            0 if u.int_in_range(0..=4)? == 0 => b"b".to_vec(),
            0 => u.choose(NUMBERS)?.0.to_vec(),
            _ => format!("+w:{items}").into_bytes(),
        };
        let format = match u.int_in_range(0..=39)? {
            37 => None,
            38 => Some(u.choose(OTHERS)?.to_vec()),
            39 => {
                Some(u.arbitrary::<Vec<u8>>()?.into_iter().take_while(|&byte| byte != 0).collect())
            }
            _ => Some(right),
        };
        let child =
            if depth > 0 { Some(Box::new(Self::arbitrary(u, depth - 1, times)?)) } else { None };
        Ok(Self {
            format,
            metadata: if u.int_in_range(0..=7)? == 7 {
                Some(Metadata::arbitrary(u, items)?)
            } else {
                None
            },
            n_children: pick(u, i64::from(child.is_some()), COUNTS)?,
            children: pick(u, Child::Right, WRONG_CHILDREN)?,
            dictionary: seldom(u)?,
            released: seldom(u)?,
            child,
        })
    }

    /// The level, if a tensor can express it.
    fn level(&self, times: bool) -> Option<Level> {
        let format = self.format.as_deref()?;
        let name = match &self.metadata {
            None => None,
            Some(metadata) => metadata.get(NAME).ok()?.map(Text::bytes),
        };
        let boolean = match name.as_deref() {
            None => false,
            Some(name) if name == FIXED_SHAPE.as_bytes() => false,
            Some(b"arrow.bool8") if format == b"c" => true,
            Some(_) => return None,
        };
        if self.dictionary {
            return None;
        }
        if times {
            return (format == b"tsn:").then_some(Level::Numbers(DataType::INT64));
        }
        if boolean {
            return Some(Level::Numbers(DataType::BOOL));
        }
        if let Some((_, dtype)) = NUMBERS.iter().find(|(of, _)| *of == format) {
            return Some(Level::Numbers(*dtype));
        }
        match format {
            b"b" => Some(Level::Bits),
            _ => {
                let items = format.strip_prefix(b"+w:")?;
                Some(Level::Lists(str::from_utf8(items).ok()?.parse().ok()?))
            }
        }
    }

    fn is_fixed_shape(&self) -> std::result::Result<bool, ()> {
        let Some(metadata) = &self.metadata else { return Ok(false) };
        Ok(metadata.get(NAME)?.is_some_and(|name| name.bytes() == FIXED_SHAPE.as_bytes()))
    }

    fn make(&self) -> ArrowSchema {
        if self.released {
            return ArrowSchema {
                format: poison(),
                name: poison(),
                metadata: poison(),
                flags: 0,
                n_children: 1,
                children: poison(),
                dictionary: poison(),
                release: None,
                private_data: poison(),
            };
        }
        let format =
            self.format.as_ref().map(|format| [format, &b"\0"[..]].concat().into_boxed_slice());
        let metadata = self.metadata.as_ref().map(Metadata::bytes);
        let child = self.child.as_ref().map(|child| Box::into_raw(Box::new(child.make())));
        let text = |text: &Option<Box<[u8]>>| {
            text.as_ref().map_or(ptr::null(), |text| text.as_ptr().cast())
        };
        let (format_text, metadata_text) = (text(&format), text(&metadata));
        let (list, children) = list(child, self.n_children, self.children);
        ArrowSchema {
            format: format_text,
            name: poison(),
            metadata: metadata_text,
            flags: 0,
            n_children: self.n_children,
            children,
            dictionary: if self.dictionary { poison() } else { ptr::null_mut() },
            release: Some(release_schema),
            private_data: live(SchemaParts { _texts: [format, metadata], child, _list: list }),
        }
    }
}

/// The list of one child, of exactly its size, and the pointer to it.
fn list<T>(child: Option<*mut T>, count: i64, wrong: Child) -> (Option<Box<*mut T>>, *mut *mut T) {
    let entry = match (wrong, child) {
        (_, None) | (Child::Null, _) => ptr::null_mut(),
        (Child::Odd, Some(child)) => child.wrapping_byte_add(1),
        (_, Some(child)) => child,
    };
    match wrong {
        Child::NoList => (None, ptr::null_mut()),
        Child::OddList => (None, poison::<*mut T>().wrapping_byte_add(1)),
        _ if count != 1 => (None, poison()),
        _ => {
            let mut list = Box::new(entry);
            let place = ptr::from_mut(&mut *list);
            (Some(list), place)
        }
    }
}

/// The data that a struct points at, counted until it is released.
fn live<T>(parts: T) -> *mut c_void {
    LIVE.fetch_add(1, Ordering::SeqCst);
    Box::into_raw(Box::new(parts)).cast()
}

struct SchemaParts {
    _texts: [Option<Box<[u8]>>; 2],
    child: Option<*mut ArrowSchema>,
    _list: Option<Box<*mut ArrowSchema>>,
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the interface: made by `make`, and released once.
    unsafe {
        let parts = Box::from_raw((*schema).private_data.cast::<SchemaParts>());
        if let Some(child) = parts.child {
            let mut child = Box::from_raw(child);
            if let Some(release) = child.release {
                release(&mut *child);
            }
        }
        (*schema).release = None;
    }
    LIVE.fetch_sub(1, Ordering::SeqCst);
}

/// One level of an array, and those below.
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    buffers: Child,
    /// The bits, each byte the same.
    validity: Option<u8>,
    /// The data, and how many bytes from an aligned address it begins.
    data: Option<(u8, usize)>,
    n_children: i64,
    children: Child,
    dictionary: bool,
    released: bool,
    level: Option<Level>,
    child: Option<Box<Array>>,
}

impl Array {
    /// An array of a schema, with mostly enough elements.
    fn arbitrary(
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
        // Bits, booleans and times are read at once, so their memory must be there.
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
        // A list may want only some of the items, so no number of them is refused.
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

    /// The end of the elements, and whether there is memory for them.
    fn end(&self) -> (usize, bool) {
        let end = i128::from(self.length) + i128::from(self.offset);
        let fits = self.length >= 0 && self.offset >= 0 && end <= MOST_MADE;
        (if fits { end as usize } else { 0 }, fits)
    }

    fn itemsize(&self) -> usize {
        match self.level {
            Some(Level::Numbers(dtype)) => dtype.itemsize(),
            _ => 1,
        }
    }

    /// The bytes of the data.
    fn bytes(&self) -> Vec<u8> {
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

    fn make(&self) -> ArrowArray {
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

struct ArrayParts {
    _memory: [Option<Box<[u8]>>; 2],
    _buffers: Option<Box<[*const c_void]>>,
    child: Option<*mut ArrowArray>,
    _list: Option<Box<*mut ArrowArray>>,
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: as for a schema.
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

/// The result that an import must have.
enum Expected {
    Refused,
    /// This reader does not know.
    Either,
    /// The elements in C order, if there is memory for them.
    Imported {
        dtype: DataType,
        shape: Vec<i64>,
        bytes: Option<Vec<u8>>,
    },
}

/// The number of nulls among the elements of a level that are to be imported.
fn nulls(array: &Array, first: i128, count: i128) -> i128 {
    let has_buffers = array.n_buffers > 0 && array.buffers == Child::Right;
    match array.validity.filter(|_| has_buffers) {
        _ if array.null_count == 0 || count == 0 => 0,
        None => i128::from(array.null_count.max(0)),
        Some(byte) => {
            (first..first + count).filter(|nth| byte >> (nth % 8) & 1 == 0).count() as i128
        }
    }
}

fn expected(schema: &Schema, array: &Array, times: bool) -> Expected {
    read(schema, array, times).unwrap_or(Expected::Refused)
}

/// The simple reader: `None` for arrays that it refuses.
fn read(root: &Schema, array: &Array, times: bool) -> Option<Expected> {
    if root.released || array.released {
        return None;
    }
    let (mut schema, mut array) = (root, array);
    let mut shape = vec![array.length];
    let (mut first, mut count) = (i128::from(array.offset), i128::from(array.length));
    let (dtype, bytes) = loop {
        if array.length < 0 || array.offset < 0 || array.dictionary {
            return None;
        }
        let level = schema.level(times)?;
        let itemsize = if let Level::Numbers(dtype) = level { dtype.itemsize() as i128 } else { 1 };
        if count * itemsize > MOST || first * itemsize > MOST {
            return None;
        }
        let nulls = nulls(array, first, count);
        let has_buffers = array.buffers == Child::Right && array.n_buffers == 2;
        let has_data = has_buffers && (array.data.is_some() || count == 0);
        let filled = times && nulls > 0;
        match level {
            Level::Lists(items) => {
                let (Some(inner), Some(inner_array)) = (&schema.child, &array.child) else {
                    return None;
                };
                let right = schema.children == Child::Right && array.children == Child::Right;
                let counts = (items >= 0, schema.n_children, array.n_children, array.n_buffers);
                if nulls > 0 || !right || counts != (true, 1, 1, 1) || shape.len() == 64 {
                    return None;
                }
                if inner.released || inner_array.released || inner.is_fixed_shape() != Ok(false) {
                    return None;
                }
                let items = i128::from(items);
                let (start, wanted) = (first * items, count * items);
                if start + wanted > i128::from(inner_array.length) || inner_array.offset < 0 {
                    return None;
                }
                shape.push(items as i64);
                (schema, array) = (inner, inner_array);
                (first, count) = (start + i128::from(array.offset), wanted);
            }
            _ if (schema.n_children, array.n_children) != (0, 0) || !has_data => return None,
            Level::Bits if nulls > 0 => return None,
            Level::Bits => {
                let bits = array.bytes();
                let bit = |nth: i128| bits[nth as usize / 8] >> (nth % 8) & 1;
                break (DataType::BOOL, Some((first..first + count).map(bit).collect::<Vec<u8>>()));
            }
            Level::Numbers(dtype) => {
                let validity = array.validity;
                if nulls > 0 && (!filled || validity.is_none()) {
                    return None;
                }
                if !array.end().1 {
                    break (dtype, None);
                }
                let places = (first * itemsize) as usize..((first + count) * itemsize) as usize;
                let mut bytes = array.bytes().get(places).unwrap_or_default().to_vec();
                if dtype == DataType::BOOL {
                    bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
                }
                for (nth, number) in bytes.chunks_mut(8).enumerate().filter(|_| filled) {
                    if validity.is_some_and(|bits| bits >> ((first as usize + nth) % 8) & 1 == 0) {
                        number.copy_from_slice(&i64::MIN.to_ne_bytes());
                    }
                }
                break (dtype, Some(bytes));
            }
        }
    };
    let mut order = None;
    if root.is_fixed_shape().ok()? {
        let [length, items] = shape[..] else { return None };
        let metadata = root.metadata.as_ref()?;
        let (extents, permutation) = match metadata.get(SHAPE).ok()?? {
            Text::Bytes(_) => return Some(Expected::Either),
            Text::Shape(extents, permutation) => (extents, permutation),
        };
        let product = extents.iter().try_fold(1_i64, |n, &extent| n.checked_mul(extent));
        if extents.iter().any(|&extent| extent < 0) || product != Some(items) {
            return None;
        }
        shape = [&[length], &extents[..]].concat();
        if let Some(permutation) = permutation {
            let mut sorted = permutation.clone();
            sorted.sort_unstable();
            if !sorted.into_iter().eq(0..extents.len() as i64) {
                return None;
            }
            order = Some(
                [0].into_iter()
                    .chain(permutation.iter().map(|axis| *axis as usize + 1))
                    .collect::<Vec<_>>(),
            );
        }
    }
    // A tensor without elements may still have extents without a product.
    let product = shape.iter().try_fold(1_i64, |n, &extent| n.checked_mul(extent.max(1)));
    if product.and_then(|n| n.checked_mul(dtype.itemsize() as i64)).is_none() {
        return Some(Expected::Either);
    }
    let Some(order) = order else { return Some(Expected::Imported { dtype, shape, bytes }) };
    let bytes = bytes.map(|bytes| permuted(&bytes, dtype.itemsize(), &shape, &order));
    let shape = order.iter().map(|&axis| shape[axis]).collect();
    Some(Expected::Imported { dtype, shape, bytes })
}

/// Elements in C order after their axes were permuted.
fn permuted(bytes: &[u8], itemsize: usize, shape: &[i64], order: &[usize]) -> Vec<u8> {
    let stride = |axis: usize| shape[axis + 1..].iter().product::<i64>() as usize;
    let count = bytes.len() / itemsize;
    let position = |mut nth: usize| {
        let mut position = 0;
        for &axis in order.iter().rev() {
            position += nth % shape[axis] as usize * stride(axis);
            nth /= shape[axis] as usize;
        }
        position
    };
    (0..count).map(position).flat_map(|at| bytes[at * itemsize..][..itemsize].to_vec()).collect()
}

/// An object with one of the methods of the interface.
macro_rules! producer {
    ($name:ident, $method:ident) => {
        #[pyclass(frozen)]
        struct $name(Py<PyAny>);

        #[pymethods]
        impl $name {
            fn $method(&self, py: Python<'_>) -> Py<PyAny> {
                self.0.clone_ref(py)
            }
        }
    };
}

producer!(OfArray, __arrow_c_array__);
producer!(OfDevice, __arrow_c_device_array__);
producer!(OfStream, __arrow_c_stream__);

/// A struct behind a capsule without a destructor, released at the end unless the consumer has moved it out.
struct Place<T> {
    place: *mut T,
    release: fn(&mut T),
}

impl<T> Place<T> {
    fn new(value: T, release: fn(&mut T)) -> Self {
        Self { place: Box::into_raw(Box::new(value)), release }
    }

    fn capsule<'py>(&self, py: Python<'py>, name: &'static CStr) -> Bound<'py, PyAny> {
        let place = NonNull::new(self.place.cast::<c_void>()).expect("a box is never NULL");
        // SAFETY: the place outlives the capsule.
        unsafe { PyCapsule::new_with_pointer(py, place, name) }.expect("a capsule").into_any()
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        // SAFETY: made of a box.
        let mut value = unsafe { Box::from_raw(self.place) };
        (self.release)(&mut value);
    }
}

fn drop_schema(schema: &mut ArrowSchema) {
    if let Some(release) = schema.release {
        // SAFETY: not released yet.
        unsafe { release(schema) };
    }
}

fn drop_array(array: &mut ArrowArray) {
    if let Some(release) = array.release {
        // SAFETY: as above.
        unsafe { release(array) };
    }
}

fn drop_stream(stream: &mut ArrowArrayStream) {
    if let Some(release) = stream.release {
        // SAFETY: as above.
        unsafe { release(stream) };
    }
}

/// The answer of a stream.
struct Streamed {
    schema: Option<ArrowSchema>,
    /// The last comes first.
    arrays: Vec<ArrowArray>,
    schema_code: c_int,
    /// The array that fails, counted from the last.
    failing: Option<usize>,
}

unsafe extern "C" fn must_not_release<T>(_: *mut T) {
    panic!("released what a function that failed left");
}

unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, place: *mut ArrowSchema) -> c_int {
    // SAFETY: the interface.
    unsafe {
        let streamed = &mut *(*stream).private_data.cast::<Streamed>();
        if streamed.schema_code != 0 {
            (*place).release = Some(must_not_release);
            return streamed.schema_code;
        }
        place.write(streamed.schema.take().expect("the schema is read once"));
    }
    0
}

unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, place: *mut ArrowArray) -> c_int {
    // SAFETY: the interface.
    unsafe {
        let streamed = &mut *(*stream).private_data.cast::<Streamed>();
        if streamed.failing == Some(streamed.arrays.len()) {
            (*place).release = Some(must_not_release);
            return -1;
        }
        if let Some(array) = streamed.arrays.pop() {
            place.write(array);
        }
    }
    0
}

unsafe extern "C" fn get_last_error(_: *mut ArrowArrayStream) -> *const c_char {
    c"the reason \xff".as_ptr()
}

unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: the interface.
    unsafe {
        let mut streamed = Box::from_raw((*stream).private_data.cast::<Streamed>());
        streamed.schema.iter_mut().for_each(drop_schema);
        streamed.arrays.iter_mut().for_each(drop_array);
        (*stream).release = None;
    }
    LIVE.fetch_sub(1, Ordering::SeqCst);
}

fn run(py: Python<'_>, u: &mut Unstructured<'_>) -> Result<()> {
    let times = u.int_in_range(0..=3)? == 3;
    let depth = *u.choose(&[0, 0, 0, 1, 1, 1, 2, 3, 66])?;
    let schema = Schema::arbitrary(u, if times { depth.min(1) } else { depth }, times)?;
    let array = |u: &mut Unstructured<'_>| Array::arbitrary(u, &schema, None, times);
    match u.int_in_range(0..=4)? {
        0..=2 => {
            let array = array(u)?;
            let places =
                (Place::new(schema.make(), drop_schema), Place::new(array.make(), drop_array));
            let name = pick(u, c"arrow_array", &[c"other"])?;
            let capsules = [places.0.capsule(py, c"arrow_schema"), places.1.capsule(py, name)];
            let expected =
                if name == c"other" { Expected::Refused } else { expected(&schema, &array, times) };
            let answer = PyTuple::new(py, capsules).expect("a tuple").into_any();
            check(Bound::new(py, OfArray(answer.unbind())), &expected, times);
        }
        3 => {
            let array = array(u)?;
            let device = ArrowDeviceArray {
                array: array.make(),
                device_id: -1,
                device_type: pick(u, 1, &[0, -1, 2, 13, i32::MAX])?,
                sync_event: if seldom(u)? { poison() } else { ptr::null_mut() },
                reserved: [0; 3],
            };
            let usable = device.device_type == 1 && device.sync_event.is_null();
            let expected =
                if usable { expected(&schema, &array, times) } else { Expected::Refused };
            let schema = Place::new(schema.make(), drop_schema);
            let device = Place::new(device, |device| drop_array(&mut device.array));
            let capsules =
                [schema.capsule(py, c"arrow_schema"), device.capsule(py, c"arrow_device_array")];
            let answer = PyTuple::new(py, capsules).expect("a tuple").into_any();
            check(Bound::new(py, OfDevice(answer.unbind())), &expected, times);
        }
        _ => {
            let count = u.int_in_range(0..=3_usize)?;
            let arrays: Vec<_> = (0..count).map(|_| array(u)).collect::<Result<_>>()?;
            let schema_code = pick(u, 0, &[5, -1])?;
            let failing = if seldom(u)? { Some(u.int_in_range(0..=count)?) } else { None };
            let functions: [bool; 4] = [!seldom(u)?, !seldom(u)?, u.arbitrary()?, !seldom(u)?];
            // An array that was released is the end.
            let given = arrays.iter().position(|array| array.released).unwrap_or(count);
            let fails = failing.is_some_and(|left| count - left <= given) || schema_code != 0;
            let [full, empty]: [Vec<&Array>; 2] = [true, false].map(|full| {
                arrays[..given].iter().filter(|array| (array.length > 0) == full).collect()
            });
            let chosen = match full[..] {
                [] => empty.last().copied(),
                [only] => Some(only),
                _ => None,
            };
            let callable = functions[0] && functions[1] && functions[3];
            let expected = match chosen {
                Some(array) if callable && !fails => expected(&schema, array, times),
                _ => Expected::Refused,
            };
            let streamed = functions[3].then(|| {
                let arrays = arrays.iter().rev().map(Array::make).collect();
                live(Streamed { schema: Some(schema.make()), arrays, schema_code, failing })
            });
            let stream = ArrowArrayStream {
                get_schema: functions[0].then_some(get_schema),
                get_next: functions[1].then_some(get_next),
                get_last_error: functions[2].then_some(get_last_error),
                release: functions[3].then_some(release_stream),
                private_data: streamed.unwrap_or(poison()),
            };
            let stream = Place::new(stream, drop_stream);
            let answer = stream.capsule(py, c"arrow_array_stream");
            check(Bound::new(py, OfStream(answer.unbind())), &expected, times);
        }
    }
    Ok(())
}

/// Imports an object, and compares the result.
fn check<T>(object: PyResult<Bound<'_, T>>, expected: &Expected, times: bool) {
    let object = object.expect("an object").into_any();
    if times {
        let imported =
            object.extract::<PyReadonlyTensor<'_, Datetime64<Nanoseconds>, 1, AllowCopy>>();
        if let Some(times) = agrees(imported.map_err(PyErr::from), object.py(), expected)
            && let Expected::Imported { bytes: Some(bytes), .. } = expected
        {
            let found: Vec<i64> =
                times.iter().map(|time| time.count().unwrap_or(i64::MIN)).collect();
            let expected: Vec<i64> = bytes
                .chunks(8)
                .map(|number| i64::from_ne_bytes(number.try_into().expect("8 bytes")))
                .collect();
            assert_eq!(found, expected);
        }
        return;
    }
    let imported = dlbridge_pyo3::import(&object);
    if let Some(tensor) = agrees(imported, object.py(), expected) {
        let Expected::Imported { dtype, shape, bytes } = expected else {
            return;
        };
        assert_eq!((tensor.dtype(), tensor.shape()), (*dtype, &shape[..]));
        if let Some(bytes) = bytes {
            assert_eq!(TensorRef::from(&copy(&tensor)).as_bytes().expect("contiguous"), bytes);
        }
    }
}

fn copy(tensor: &Tensor) -> Tensor {
    tensor.to_copy().expect("memory for a copy")
}

/// The result, if both readers import; they must agree.
fn agrees<T>(found: PyResult<T>, py: Python<'_>, expected: &Expected) -> Option<T> {
    match found {
        Ok(imported) => {
            assert!(!matches!(expected, Expected::Refused), "imported, and should be refused");
            Some(imported)
        }
        Err(error) => {
            assert!(!matches!(expected, Expected::Imported { .. }), "refused: {error}");
            let known = error.is_instance_of::<PyBufferError>(py)
                || error.is_instance_of::<PyValueError>(py)
                || error.is_instance_of::<PyTypeError>(py);
            assert!(known, "{error}");
            None
        }
    }
}
