//! The format [safetensors](https://github.com/huggingface/safetensors): a length of 8 bytes, a header in JSON, and the data.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

use dlbridge::{DataType, MAX_NDIM};
use indexmap::IndexMap;
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer as _};

use crate::formats::{SAFETENSORS as NAME, invalid};
use crate::index::Index;
use crate::{Entry, Fault, Value};

/// The name in the header that the format reserves for metadata.
pub(crate) const METADATA: &str = "__metadata__";

/// The longest header that the format's own library reads, in bytes.
pub(crate) const MAX_HEADER: u64 = 100_000_000;

/// The dtypes of the format, and their names in a header.
pub(crate) const DTYPES: [(&str, DataType); 22] = [
    ("F32", DataType::FLOAT32),
    ("BF16", DataType::BFLOAT16),
    ("F16", DataType::FLOAT16),
    ("F64", DataType::FLOAT64),
    ("I64", DataType::INT64),
    ("I32", DataType::INT32),
    ("I16", DataType::INT16),
    ("I8", DataType::INT8),
    ("U8", DataType::UINT8),
    ("U16", DataType::UINT16),
    ("U32", DataType::UINT32),
    ("U64", DataType::UINT64),
    ("BOOL", DataType::BOOL),
    ("C64", DataType::COMPLEX64),
    ("F8_E5M2", DataType::FLOAT8_E5M2),
    ("F8_E4M3", DataType::FLOAT8_E4M3FN),
    ("F8_E8M0", DataType::FLOAT8_E8M0FNU),
    ("F8_E4M3FNUZ", DataType::FLOAT8_E4M3FNUZ),
    ("F8_E5M2FNUZ", DataType::FLOAT8_E5M2FNUZ),
    ("F6_E2M3", DataType::FLOAT6_E2M3FN),
    ("F6_E3M2", DataType::FLOAT6_E3M2FN),
    ("F4", DataType::FLOAT4_E2M1FN),
];

/// The index of a file of `len` bytes.
pub(crate) fn index(file: &mut impl Read, len: u64) -> Result<Index, Fault> {
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let header_len = u64::from_le_bytes(length);
    if header_len > MAX_HEADER {
        let reason =
            format!("the header has {header_len} bytes, and at most {MAX_HEADER} are allowed");
        return Err(invalid(NAME, reason));
    }
    let rest = len.saturating_sub(8);
    if header_len > rest {
        let reason = format!("the header has {header_len} bytes, and only {rest} follow");
        return Err(invalid(NAME, reason));
    }
    let mut header = vec![0; header_len as usize];
    file.read_exact(&mut header)?;
    let text = std::str::from_utf8(&header)
        .map_err(|error| invalid(NAME, format!("the header is not UTF-8: {error}")))?;
    parsed(text, 8 + header_len, rest - header_len)
}

/// The index that a header describes, for data of `data_len` bytes from byte `begin` on.
fn parsed(header: &str, begin: u64, data_len: u64) -> Result<Index, Fault> {
    let mut json = serde_json::Deserializer::from_str(header);
    let Header { tensors: mut described, metadata } = json
        .deserialize_map(Headers)
        .and_then(|header| json.end().map(|()| header))
        .map_err(|error| invalid(NAME, format!("the header is not valid: {error}")))?;
    let tensors = IndexMap::with_capacity(described.len());
    let mut index = Index { tensors, metadata, ..Index::default() };
    // The format's own library demands this order of the data, without gaps.
    described.sort_by_key(|(_, tensor)| tensor.data_offsets);
    let mut end = 0;
    for (name, Described { dtype, shape, data_offsets: range }) in described {
        if range.0 != end {
            return Err(invalid(
                NAME,
                format!(
                    "tensor {name:?} begins at byte {} of the data, and the one before ends at {end}",
                    range.0
                ),
            ));
        }
        let is_swapped = cfg!(target_endian = "big") && dtype.element_bits() > 8;
        let entry = Entry { is_swapped, ..Entry::stored(dtype, shape, begin + range.0) };
        if entry.shape.len() > MAX_NDIM {
            let ndim = entry.shape.len();
            let reason = format!(
                "tensor {name:?} has {ndim} dimensions, and at most {MAX_NDIM} are allowed"
            );
            return Err(invalid(NAME, reason));
        }
        let bits = entry.bits().ok_or_else(|| too_large(&name))?;
        if !bits.is_multiple_of(8) {
            return Err(invalid(
                NAME,
                format!("tensor {name:?} has {bits} bits, which are not whole bytes"),
            ));
        }
        let nbytes = (bits / 8) as u64;
        if range.1 < range.0 || range.1 - range.0 != nbytes {
            return Err(invalid(
                NAME,
                format!(
                    "tensor {name:?} is at bytes {}..{}, but {} elements of {dtype} have {nbytes} bytes",
                    range.0,
                    range.1,
                    shape_text(&entry.shape)
                ),
            ));
        }
        end = range.1;
        index.add(NAME, name, Ok(entry))?;
    }
    if end != data_len {
        return Err(invalid(
            NAME,
            format!(
                "the tensors have {end} bytes of data, and {data_len} follow the header{}",
                if data_len < end { "; it is incomplete" } else { "" }
            ),
        ));
    }
    Ok(index)
}

fn too_large(name: &str) -> Fault {
    invalid(NAME, format!("tensor {name:?} has more bytes than any file"))
}

/// A shape as in messages: `2 x 3`.
fn shape_text(shape: &[usize]) -> String {
    let extents: Vec<String> = shape.iter().map(usize::to_string).collect();
    extents.join(" x ")
}

/// The content of a header.
#[derive(Default)]
struct Header {
    tensors: Vec<(String, Described)>,
    metadata: BTreeMap<String, Value>,
}

/// The description of a tensor in a header.
struct Described {
    dtype: DataType,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

/// Visits a header.
struct Headers;

impl<'de> Visitor<'de> for Headers {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a description for each tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header::default();
        let mut has_metadata = false;
        while let Some(name) = map.next_key::<String>()? {
            if name != METADATA {
                header.tensors.push((name, map.next_value()?));
                continue;
            }
            if has_metadata {
                return Err(de::Error::custom("it has two objects __metadata__"));
            }
            has_metadata = true;
            let metadata: Option<BTreeMap<String, String>> = map.next_value()?;
            header.metadata = metadata
                .unwrap_or_default()
                .into_iter()
                .map(|(key, text)| (key, Value::Text(text)))
                .collect();
        }
        Ok(header)
    }
}

impl<'de> Deserialize<'de> for Described {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Descriptions)
    }
}

/// Visits the description of a tensor.
struct Descriptions;

impl<'de> Visitor<'de> for Descriptions {
    type Value = Described;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with dtype, shape and data_offsets")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Described, A::Error> {
        let (mut dtype, mut shape, mut range) = (None, None, None);
        while let Some(Text(key)) = map.next_key()? {
            let is_second = match &*key {
                "dtype" => dtype.replace(known(&map.next_value::<Text<'_>>()?.0)?).is_some(),
                "shape" => shape.replace(map.next_value()?).is_some(),
                "data_offsets" => range.replace(map.next_value()?).is_some(),
                // As strict as the format's own library: numbers, text and nesting are checked.
                _ => map.next_value::<Ignored>().map(|_| false)?,
            };
            if is_second {
                return Err(de::Error::custom(format_args!("a tensor has two fields {key:?}")));
            }
        }
        Ok(Described {
            dtype: dtype.ok_or_else(|| de::Error::missing_field("dtype"))?,
            shape: shape.ok_or_else(|| de::Error::missing_field("shape"))?,
            data_offsets: range.ok_or_else(|| de::Error::missing_field("data_offsets"))?,
        })
    }
}

/// The dtype of a name.
fn known<E: de::Error>(name: &str) -> Result<DataType, E> {
    let found = DTYPES.iter().find(|(known, _)| *known == name).map(|&(_, dtype)| dtype);
    found.ok_or_else(|| E::custom(format_args!("the dtype {name:?} is unknown")))
}

/// Text, which is borrowed from the header unless it has escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A value that is checked and dropped.
struct Ignored;

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

/// Accepts values of these types.
macro_rules! accepts {
    ($($visit:ident: $value:ty),+) => {
        $(fn $visit<E>(self, _: $value) -> Result<Self, E> {
            Ok(self)
        })+
    };
}

impl<'de> Visitor<'de> for Ignored {
    type Value = Self;

    accepts!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while let Some(Self) = items.next_element()? {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while let Some((Self, Self)) = items.next_entry()? {}
        Ok(self)
    }
}
