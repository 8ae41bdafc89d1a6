//! The headers of files that are written.

use std::collections::BTreeMap;

use dlbridge::DataType;
use serde_json::{Map, Value as Json, json};

use super::plan::Planned;
use crate::formats::SAFETENSORS;
use crate::safetensors::{DTYPES, MAX_HEADER, METADATA};
use crate::{Fault, npy};

/// The alignment of data, in bytes: that of JAX's arrays, the largest of all libraries.
pub(super) const ALIGNMENT: usize = 64;

/// The header of a safetensors file, with its length; the tensors follow in the given order.
pub(super) fn safetensors(
    tensors: &[&Planned],
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, Fault> {
    let mut header = Map::new();
    if !metadata.is_empty() {
        header.insert(METADATA.into(), json!(metadata));
    }
    let mut begin = 0;
    for tensor in tensors {
        let end = begin + tensor.nbytes();
        let dtype = safetensors_dtype(tensor.dtype).unwrap_or_default();
        header.insert(
            tensor.name.clone(),
            json!({"dtype": dtype, "shape": tensor.shape, "data_offsets": [begin, end]}),
        );
        begin = end;
    }
    let mut text = Json::Object(header).to_string().into_bytes();
    text.resize((8 + text.len()).next_multiple_of(ALIGNMENT) - 8, b' ');
    let len = text.len() as u64;
    if len > MAX_HEADER {
        let reason = format!("the header has {len} bytes, and at most {MAX_HEADER} are allowed");
        return Err(Fault::Unwritable { format: SAFETENSORS, reason });
    }
    Ok([&len.to_le_bytes()[..], &text].concat())
}

/// The name of a dtype in safetensors.
pub(super) fn safetensors_dtype(dtype: DataType) -> Option<&'static str> {
    DTYPES.iter().find(|(_, known)| *known == dtype).map(|&(name, _)| name)
}

/// The order of the tensors in a safetensors file, whose data has no gaps: those that fill multiples of 64 bytes come
/// first, then those of 32, and so on, so that as many as possible begin at such a multiple.
pub(super) fn safetensors_order(tensors: &[Planned]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_by_key(|&nth| {
        std::cmp::Reverse(tensors[nth].nbytes().trailing_zeros().min(ALIGNMENT.ilog2()))
    });
    order
}

/// The largest number of dimensions of NumPy's arrays.
pub(super) const NUMPY_MAX_NDIM: usize = 64;

/// The header of an npy file, of at most [`NUMPY_MAX_NDIM`] dimensions.
pub(super) fn npy(tensor: &Planned) -> Vec<u8> {
    let descr = npy_dtype(tensor.dtype).unwrap_or_default();
    let extents: String = tensor.shape.iter().map(|extent| format!("{extent}, ")).collect();
    let extents =
        if tensor.shape.len() > 1 { extents.trim_end_matches(", ") } else { extents.trim_end() };
    let mut text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}")
            .into_bytes();
    // Magic, version and length take ten bytes.
    text.resize((10 + text.len() + 1).next_multiple_of(ALIGNMENT) - 11, b' ');
    text.push(b'\n');
    let len = u16::try_from(text.len()).expect("64 extents have fewer digits");
    [&b"\x93NUMPY\x01\x00"[..], &len.to_le_bytes(), &text].concat()
}

/// NumPy's name of a dtype in little-endian order.
pub(super) fn npy_dtype(dtype: DataType) -> Option<String> {
    let (name, _) = npy::DTYPES.iter().find(|(_, known)| *known == dtype)?;
    Some(format!("{}{name}", if dtype.itemsize() == 1 { '|' } else { '<' }))
}
