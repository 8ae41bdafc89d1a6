//! The format Arrow IPC, also called Feather 2: record batches, and a footer that says where they are.

use std::io::{Read, Seek, SeekFrom};

use arrow_ipc::{Block, Endianness, RecordBatch, convert, root_as_footer, root_as_message};
use arrow_schema::{DataType as Type, Schema};
use dlbridge::DataType;

use crate::format::{ARROW as NAME, Format, data_len, invalid, unsupported};
use crate::safetensors::MAX_HEADER;
use crate::{Entry, Fault, Index, Value};

/// The files of [Arrow IPC](https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format): a tensor for each column
/// of numbers without nulls, and for fixed-size lists of such, if the file is one record batch and not compressed.
///
/// Other columns are refused when they are requested. If all are, the file is refused.
///
/// ```
/// use dlbridge_files::{ArrowIpc, Format};
///
/// assert!(ArrowIpc.matches(b"ARROW1\0\0"));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrowIpc;

/// The first bytes of a file.
const MAGIC: &[u8] = b"ARROW1\0\0";

/// The last bytes of a file, after the length of the footer.
const END: &[u8; 6] = b"ARROW1";

/// The bytes before the length of a message, except in files of old releases.
const CONTINUATION: [u8; 4] = [0xff; 4];

impl Format for ArrowIpc {
    fn name(&self) -> &'static str {
        NAME
    }

    fn matches(&self, start: &[u8]) -> bool {
        start.starts_with(MAGIC)
    }

    fn index<R: Read + Seek>(&self, file: &mut R, len: u64) -> Result<Index, Fault> {
        let bytes = footer(file, len)?;
        let footer = root_as_footer(&bytes)
            .map_err(|error| invalid(NAME, format!("its footer is damaged: {error}")))?;
        let schema = footer.schema().ok_or_else(|| invalid(NAME, "it has no schema"))?;
        if schema.endianness() != Endianness::Little {
            return Err(unsupported(
                NAME,
                "its numbers are big-endian; write it on another machine",
            ));
        }
        let schema = convert::try_fb_to_schema(schema)
            .map_err(|error| unsupported(NAME, format!("its schema is unknown: {error}")))?;
        let blocks: Vec<Block> = footer
            .recordBatches()
            .map(|blocks| blocks.iter().copied().collect())
            .unwrap_or_default();
        let index = match &*blocks {
            [] => columns(&schema, None)?,
            [block] => batch(file, len, &schema, block)?,
            several => {
                let reason = format!(
                    "it is split over {} record batches; write the file as one",
                    several.len()
                );
                all_refused(&schema, &reason)
            }
        };
        if index.tensors.is_empty()
            && let Some((name, reason)) = index.refused.first_key_value()
        {
            return Err(unsupported(NAME, format!("column {name:?}: {reason}")));
        }
        let metadata = schema.metadata.into_iter().map(|(key, text)| (key, Value::Text(text)));
        Ok(Index { metadata: metadata.collect(), ..index })
    }
}

/// Reads the footer.
fn footer<R: Read + Seek>(file: &mut R, len: u64) -> Result<Vec<u8>, Fault> {
    const TAIL: u64 = 4 + END.len() as u64;
    let room = len.checked_sub(TAIL + MAGIC.len() as u64);
    let room =
        room.ok_or_else(|| invalid(NAME, format!("it has {len} bytes, too few for a footer")))?;
    let mut tail = [0; TAIL as usize];
    file.seek(SeekFrom::Start(len - TAIL))?;
    file.read_exact(&mut tail)?;
    let (length, end) = tail.split_at(4);
    if end != END {
        return Err(invalid(
            NAME,
            "it does not end with ARROW1: it is a stream, or was not closed",
        ));
    }
    let length = i32::from_le_bytes([length[0], length[1], length[2], length[3]]);
    match u64::try_from(length) {
        Ok(length) if length <= room.min(MAX_HEADER) => read(file, len - TAIL - length, length),
        _ => Err(invalid(NAME, format!("its footer has {length} bytes, and {room} are before it"))),
    }
}

fn read<R: Read + Seek>(file: &mut R, begin: u64, len: u64) -> Result<Vec<u8>, Fault> {
    let mut bytes = vec![0; len as usize];
    file.seek(SeekFrom::Start(begin))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The columns of the only record batch.
fn batch<R: Read + Seek>(
    file: &mut R,
    len: u64,
    schema: &Schema,
    block: &Block,
) -> Result<Index, Fault> {
    let number = |number: i64| u64::try_from(number).ok();
    let place = || {
        let (begin, header) = (number(block.offset())?, number(block.metaDataLength().into())?);
        let body = begin.checked_add(header)?;
        let end = body.checked_add(number(block.bodyLength())?)?;
        (end <= len && header <= MAX_HEADER).then_some((begin, header, body..end))
    };
    let (begin, header, body) =
        place().ok_or_else(|| invalid(NAME, "its batch is not within the file"))?;
    let bytes = read(file, begin, header)?;
    let prefix = if bytes.starts_with(&CONTINUATION) { 8 } else { 4 };
    let message = bytes.get(prefix..).unwrap_or_default();
    let message = root_as_message(message)
        .map_err(|error| invalid(NAME, format!("the header of its batch is damaged: {error}")))?;
    let batch = message.header_as_record_batch();
    let batch =
        batch.ok_or_else(|| invalid(NAME, "its footer leads to another message than a batch"))?;
    if batch.compression().is_some() {
        return Ok(all_refused(schema, "it is compressed; write the file without compression"));
    }
    columns(schema, Some((batch, body)))
}

fn all_refused(schema: &Schema, reason: &str) -> Index {
    let names = schema.fields().iter().map(|field| field.name().clone());
    Index { refused: names.map(|name| (name, reason.to_owned())).collect(), ..Index::default() }
}

/// A batch, and the bytes of the file that it has.
type Batch<'a> = (RecordBatch<'a>, std::ops::Range<u64>);

/// The columns of a batch; without one they are empty.
fn columns(schema: &Schema, batch: Option<Batch<'_>>) -> Result<Index, Fault> {
    let mut index = Index::default();
    let (mut node, mut buffer) = (0, 0);
    // After a type of unknown layout the places of the others are unknown.
    let mut is_lost = false;
    for field in schema.fields() {
        let (name, kind) = (field.name(), field.data_type());
        let found = match (elements(kind), is_lost) {
            (_, true) => {
                Err("it is behind a column whose memory layout is unknown here".to_owned())
            }
            (None, _) => Err(format!("its elements are {kind}, which no tensor has")),
            (Some((dtype, inner)), _) => match &batch {
                None => Ok(Entry::stored(dtype, [vec![0], inner].concat(), 0)),
                Some(batch) => column(batch, (node, buffer), dtype, inner)
                    .map_err(|fault| invalid(NAME, format!("column {name:?}: {fault}")))?,
            },
        };
        if index.tensors.contains_key(name) || index.refused.contains_key(name) {
            return Err(invalid(NAME, format!("two columns have the name {name:?}")));
        }
        match found {
            Ok(entry) => _ = index.tensors.insert(name.clone(), entry),
            Err(reason) => _ = index.refused.insert(name.clone(), reason),
        }
        match layout(kind) {
            Some((nodes, buffers)) => (node, buffer) = (node + nodes, buffer + buffers),
            None => is_lost = true,
        }
    }
    Ok(index)
}

/// The description of a column whose first node and buffer are known; or why it cannot be read, or what is damaged.
fn column(
    (batch, body): &Batch<'_>,
    (node, buffer): (usize, usize),
    dtype: DataType,
    inner: Vec<usize>,
) -> Result<Result<Entry, String>, String> {
    let nodes = batch.nodes().filter(|nodes| node + inner.len() < nodes.len());
    // A list has a buffer for nulls, and numbers have two: for nulls, and for themselves.
    let data = buffer + inner.len() + 1;
    let buffers = batch.buffers().filter(|buffers| data < buffers.len());
    let (nodes, buffers) =
        nodes.zip(buffers).ok_or("the batch has fewer columns than the schema")?;
    let own = || (node..=node + inner.len()).map(|nth| nodes.get(nth));
    if own().any(|node| node.null_count() != 0) {
        return Ok(Err("it has nulls; fill them first".to_owned()));
    }
    let rows = usize::try_from(nodes.get(node).length()).map_err(|_| "its length is negative")?;
    let shape = [vec![rows], inner].concat();
    let needed = data_len(dtype, &shape).ok_or("it has more elements than any file")?;
    let (begin, len) = (buffers.get(data).offset(), buffers.get(data).length());
    let (begin, len) = (u64::try_from(begin), u64::try_from(len));
    let (Ok(begin), Ok(len)) = (begin, len) else {
        return Err("its buffer is before the batch".into());
    };
    if needed > len || begin.checked_add(len).is_none_or(|end| end > body.end - body.start) {
        return Err(format!("{rows} rows have {needed} bytes, which are not within the batch"));
    }
    let is_swapped = cfg!(target_endian = "big") && dtype.element_bits() > 8;
    Ok(Ok(Entry { is_swapped, ..Entry::stored(dtype, shape, body.start + begin) }))
}

/// The dtype of numbers, and the lengths of the fixed-size lists that they are in.
fn elements(kind: &Type) -> Option<(DataType, Vec<usize>)> {
    let dtype = match kind {
        Type::Int8 => DataType::INT8,
        Type::Int16 => DataType::INT16,
        Type::Int32 => DataType::INT32,
        Type::Int64 => DataType::INT64,
        Type::UInt8 => DataType::UINT8,
        Type::UInt16 => DataType::UINT16,
        Type::UInt32 => DataType::UINT32,
        Type::UInt64 => DataType::UINT64,
        Type::Float16 => DataType::FLOAT16,
        Type::Float32 => DataType::FLOAT32,
        Type::Float64 => DataType::FLOAT64,
        Type::FixedSizeList(item, len) => {
            let (dtype, inner) = elements(item.data_type())?;
            return Some((dtype, [vec![usize::try_from(*len).ok()?], inner].concat()));
        }
        _ => return None,
    };
    Some((dtype, Vec::new()))
}

/// The number of nodes and buffers of a type in a batch; `None` if they are not fixed.
fn layout(kind: &Type) -> Option<(usize, usize)> {
    let with = |nodes, buffers, item: &Type| {
        layout(item).map(|(more_nodes, more)| (nodes + more_nodes, buffers + more))
    };
    match kind {
        Type::Null => Some((1, 0)),
        Type::Utf8 | Type::LargeUtf8 | Type::Binary | Type::LargeBinary => Some((1, 3)),
        Type::List(item) | Type::LargeList(item) | Type::Map(item, _) => {
            with(1, 2, item.data_type())
        }
        Type::FixedSizeList(item, _) => with(1, 1, item.data_type()),
        Type::Struct(fields) => {
            let add = |(nodes, buffers), field: &std::sync::Arc<arrow_schema::Field>| {
                with(nodes, buffers, field.data_type())
            };
            fields.iter().try_fold((1, 1), add)
        }
        _ if kind.is_primitive() => Some((1, 2)),
        Type::Boolean | Type::FixedSizeBinary(_) | Type::Dictionary(..) => Some((1, 2)),
        _ => None,
    }
}
