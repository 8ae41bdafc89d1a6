//! Schemas with any fields.

use std::ptr;
use std::sync::atomic::Ordering;

use arbitrary::{Result, Unstructured};
use dlbridge_pyo3::dlbridge::DataType;

use crate::abi::{ArrowSchema, Child, LIVE, WRONG_CHILDREN, list, live, poison};
use crate::metadata::{FIXED_SHAPE, Metadata, NAME, Text};
use crate::numbers::{COUNTS, pick, seldom};

/// One level of a schema, with the levels below.
pub(crate) struct Schema {
    pub(crate) format: Option<Vec<u8>>,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) n_children: i64,
    pub(crate) children: Child,
    pub(crate) dictionary: bool,
    pub(crate) released: bool,
    pub(crate) child: Option<Box<Schema>>,
}

pub(crate) const NUMBERS: &[(&[u8], DataType)] = &[
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

pub(crate) const OTHERS: &[&[u8]] = &[
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
pub(crate) enum Level {
    Numbers(DataType),
    Bits,
    Lists(i64),
}

impl Schema {
    pub(crate) fn arbitrary(u: &mut Unstructured<'_>, depth: usize, times: bool) -> Result<Self> {
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

    /// Returns the kind of level, if a tensor can express it.
    pub(crate) fn level(&self, times: bool) -> Option<Level> {
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

    pub(crate) fn is_fixed_shape(&self) -> std::result::Result<bool, ()> {
        let Some(metadata) = &self.metadata else { return Ok(false) };
        Ok(metadata.get(NAME)?.is_some_and(|name| name.bytes() == FIXED_SHAPE.as_bytes()))
    }

    pub(crate) fn make(&self) -> ArrowSchema {
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

pub(crate) struct SchemaParts {
    pub(crate) _texts: [Option<Box<[u8]>>; 2],
    pub(crate) child: Option<*mut ArrowSchema>,
    pub(crate) _list: Option<Box<*mut ArrowSchema>>,
}

pub(crate) unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: `make` made the schema, and the consumer releases it once.
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
