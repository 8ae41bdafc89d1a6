//! Arrow's types: decodes what a schema says about one level of an array, and the extension type of fixed-shape tensors.
//!
//! Source: "Data type description" in the Arrow C data interface, and "Fixed shape tensor" in the canonical extension
//! types of Apache Arrow.

use std::ffi::CStr;
use std::slice;

use dlbridge::DataType;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::abi::{ArrowSchema, broken};
use crate::frameworks::advice;
use dlbridge_pyo3::protocol::time::{Elements, Times};
use dlbridge_pyo3::python::error::beyond_tensors;

pub(super) const FIXED_SHAPE: &str = "arrow.fixed_shape_tensor";

/// The formats of numbers, and their dtypes.
const NUMBERS: [(&CStr, DataType); 11] = [
    (c"c", DataType::INT8),
    (c"C", DataType::UINT8),
    (c"s", DataType::INT16),
    (c"S", DataType::UINT16),
    (c"i", DataType::INT32),
    (c"I", DataType::UINT32),
    (c"l", DataType::INT64),
    (c"L", DataType::UINT64),
    (c"e", DataType::FLOAT16),
    (c"f", DataType::FLOAT32),
    (c"g", DataType::FLOAT64),
];

/// One level of an array.
pub(super) enum Level {
    /// Numbers.
    Numbers(DataType),
    /// Booleans, eight to a byte.
    Bits,
    /// Fixed-size lists, with this many items each.
    Lists(i64),
}

impl Level {
    /// The level that the format of a schema describes; with `times`, the level of those times.
    pub(super) fn of(schema: &ArrowSchema, times: Option<&Times>) -> PyResult<Self> {
        let format = schema.format()?.to_string_lossy();
        let is_bool8 = match (extension_name(schema)?.as_deref(), &*format) {
            (None | Some(FIXED_SHAPE), _) => false,
            (Some("arrow.bool8"), "c") => true,
            (Some(name), _) => return Err(unknown_extension(name)),
        };
        check_no_dictionary(schema)?;
        if let Some(times) = times {
            let (elements, zone) =
                if is_bool8 { (Elements::Named("bool"), "") } else { elements(&format) };
            return match (zone.is_empty() && times.choose(elements), zone) {
                (true, _) => Ok(Self::Numbers(DataType::INT64)),
                (_, zone) => Err(other_times(times, elements, zone)),
            };
        }
        match is_bool8 {
            // One byte for each boolean: any value except 0 is true.
            true => Ok(Self::Numbers(DataType::BOOL)),
            false => Self::of_format(&format),
        }
    }

    /// The level of a format without an extension type or a dictionary.
    fn of_format(format: &str) -> PyResult<Self> {
        if let Some((_, dtype)) =
            NUMBERS.iter().find(|(known, _)| known.to_bytes() == format.as_bytes())
        {
            return Ok(Self::Numbers(*dtype));
        }
        match format.strip_prefix("+w:").and_then(|items| items.parse().ok()) {
            _ if format == "b" => Ok(Self::Bits),
            Some(items) => Ok(Self::Lists(items)),
            None => Err(unfit(format, false)),
        }
    }
}

fn check_no_dictionary(schema: &ArrowSchema) -> PyResult<()> {
    match schema.dictionary.is_null() {
        true => Ok(()),
        false => Err(beyond_tensors(
            "the Arrow array is dictionary-encoded; decode the dictionary (dictionary_decode() of pyarrow; pyarrow.array(x) \
             makes its array of a column of pandas over Arrow), or import its codes (to_physical() of polars, .cat.codes \
             of a pandas category), first"
                .to_owned(),
        )),
    }
}

/// Refuses extension types and dictionaries.
pub(super) fn check_plain(schema: &ArrowSchema) -> PyResult<()> {
    match extension_name(schema)? {
        Some(name) => Err(unknown_extension(&name)),
        None => check_no_dictionary(schema),
    }
}

/// The units of times in formats, and NumPy's names for points and spans of time in that unit.
const UNITS: [(&str, &str, &str); 4] = [
    ("s", "datetime64[s]", "timedelta64[s]"),
    ("m", "datetime64[ms]", "timedelta64[ms]"),
    ("u", "datetime64[us]", "timedelta64[us]"),
    ("n", "datetime64[ns]", "timedelta64[ns]"),
];

/// The elements of a format, and their time zone.
fn elements(format: &str) -> (Elements<'_>, &str) {
    let unit = |letter: &str| UNITS.iter().find(|(known, ..)| *known == letter);
    let point = format.strip_prefix("ts").and_then(|rest| rest.split_once(':'));
    if let Some((letter, zone)) = point
        && let Some((_, point, _)) = unit(letter)
    {
        return (Elements::Named(point), zone);
    }
    let elements = match (format, format.strip_prefix("tD").and_then(unit)) {
        (_, Some((.., span))) => Elements::Named(span),
        // Milliseconds since 1970.
        ("tdm", _) => Elements::Named("datetime64[ms]"),
        ("tdD", _) => Elements::Dates,
        ("l", _) => Elements::Named("int64"),
        _ => Elements::Format(format),
    };
    (elements, "")
}

/// NumPy's name for the times of a format without a time zone.
pub(super) fn name_of_times(format: &str) -> Option<&str> {
    match elements(format) {
        (Elements::Dates, _) => Some("datetime64[D]"),
        (Elements::Named(name), "") if name != "int64" => Some(name),
        _ => None,
    }
}

/// The refusal of a column with other times than the accepted ones.
fn other_times(times: &Times, found: Elements<'_>, zone: &str) -> PyErr {
    let text = match zone {
        "" => times.with_remedy(&found, ""),
        zone => format!(
            "{found} with the time zone {zone}; remove the zone first, for example with \
             s.dt.convert_time_zone('UTC').dt.replace_time_zone(None) of polars, s.dt.tz_convert(None) of pandas, or a cast of \
             pyarrow to a timestamp without one, which all give the time in UTC"
        ),
    };
    times.set_found(text.clone());
    PyBufferError::new_err(format!("expected {}, got {text}", times.name()))
}

pub(super) fn extension_name(schema: &ArrowSchema) -> PyResult<Option<String>> {
    let name = metadata(schema, "ARROW:extension:name")?;
    Ok(name.map(|name| String::from_utf8_lossy(&name).into_owned()))
}

fn unknown_extension(name: &str) -> PyErr {
    beyond_tensors(format!(
        "the Arrow extension type '{name}' gives its storage a meaning that a tensor cannot express; if \
         the stored elements are what you want, take them first: array.storage of pyarrow, \
         series.ext.storage() of polars"
    ))
}

/// The refusal of a format, for a caller that needs offsets or one that needs numbers.
pub(super) fn unfit(format: &str, offsets: bool) -> PyErr {
    let arguments = (format, offsets, name_of_times(format));
    match Python::attach(|py| advice(py, "arrow_format", arguments)) {
        Ok(text) => {
            let text = text.unwrap_or_else(|| format!("the Arrow format '{format}' is refused"));
            if offsets { PyBufferError::new_err(text) } else { beyond_tensors(text) }
        }
        Err(error) => error,
    }
}

/// The format of a dtype, if Arrow has that type.
pub(super) fn of_dtype(dtype: DataType) -> Option<&'static CStr> {
    NUMBERS.iter().find(|(_, known)| *known == dtype).map(|(format, _)| *format)
}

/// The value of a key in a schema's metadata. A negative length is refused; one that is too large cannot be detected,
/// because the size of the metadata is unknown.
pub(super) fn metadata(schema: &ArrowSchema, key: &str) -> PyResult<Option<Vec<u8>>> {
    let mut place = schema.metadata.cast::<u8>();
    if place.is_null() {
        return Ok(None);
    }
    // SAFETY: Valid (`abi.rs`): the metadata begins with the number of pairs, and each pair has two texts, each
    // behind its length. `number` and `bytes` advance the pointer past what they read, so it always points at the
    // next of these.
    unsafe {
        for _ in 0..number(&mut place)? {
            let length = number(&mut place)?;
            let found = bytes(&mut place, length) == key.as_bytes();
            let length = number(&mut place)?;
            let value = bytes(&mut place, length);
            if found {
                return Ok(Some(value.to_vec()));
            }
        }
    }
    Ok(None)
}

/// Reads a number, and advances the pointer past it.
///
/// # Safety
/// The pointer leads to a 32-bit number.
unsafe fn number(place: &mut *const u8) -> PyResult<usize> {
    // SAFETY: the caller promises the four bytes of a number; an unaligned read accepts any address.
    let number = unsafe { place.cast::<i32>().read_unaligned() };
    *place = place.wrapping_add(4);
    usize::try_from(number).map_err(|_| broken("metadata with a negative length"))
}

/// Reads a text, and advances the pointer past it.
///
/// # Safety
/// The pointer leads to `length` bytes, at most `i32::MAX`, which nothing writes while the result lives.
unsafe fn bytes<'a>(place: &mut *const u8, length: usize) -> &'a [u8] {
    // SAFETY: the caller promises `length` bytes that nothing writes; their number fits an `isize`.
    let bytes = unsafe { slice::from_raw_parts(*place, length) };
    *place = place.wrapping_add(length);
    bytes
}

/// The extents of elements in C order, and the permutation of the axes.
pub(super) struct Shape {
    pub(super) extents: Vec<i64>,
    pub(super) permutation: Option<Vec<usize>>,
}

/// Returns true for the schema of fixed-shape tensors.
pub(super) fn is_fixed_shape(schema: &ArrowSchema) -> PyResult<bool> {
    Ok(extension_name(schema)?.is_some_and(|name| name == FIXED_SHAPE))
}

pub(super) fn not_read(what: &str) -> PyErr {
    PyBufferError::new_err(format!(
        "the Arrow array has {what}, whose axes are not read; take the storage of the tensors first"
    ))
}

impl Shape {
    /// The shape of elements without the extension type.
    pub(super) fn plain(extents: Vec<i64>) -> Self {
        Self { extents, permutation: None }
    }

    /// The shape of an array; its lists get the shape of their extension type, if they have that one.
    pub(super) fn of(py: Python<'_>, schema: &ArrowSchema, shape: Vec<i64>) -> PyResult<Self> {
        if !is_fixed_shape(schema)? {
            return Ok(Self::plain(shape));
        }
        let [length, items] = shape[..] else {
            return Err(not_read("tensors of a fixed shape whose elements are not numbers"));
        };
        let wrong = || broken("metadata that is not that of fixed-shape tensors");
        let text = metadata(schema, "ARROW:extension:metadata")?;
        let text = text.ok_or_else(wrong)?;
        let json = py.import(intern!(py, "json"))?;
        let fields = json.call_method1(intern!(py, "loads"), (text,)).map_err(|_| wrong())?;
        let extents = fields.get_item("shape").and_then(|shape| shape.extract::<Vec<i64>>());
        let mut extents = extents.map_err(|_| wrong())?;
        let product = extents.iter().try_fold(1_i64, |n, &extent| n.checked_mul(extent));
        if extents.iter().any(|&extent| extent < 0) || product != Some(items) {
            return Err(wrong());
        }
        let order = fields.call_method1(intern!(py, "get"), ("permutation",))?;
        let order = order.extract::<Option<Vec<usize>>>().map_err(|_| wrong())?;
        extents.insert(0, length);
        let permutation = match order {
            Some(order) if order.len() + 1 != extents.len() => return Err(wrong()),
            Some(order) => {
                // The addition saturates: the largest index is not an axis of the tensor either.
                let order = order.into_iter().map(|axis| axis.saturating_add(1));
                Some([0].into_iter().chain(order).collect())
            }
            None => None,
        };
        Ok(Self { extents, permutation })
    }
}
