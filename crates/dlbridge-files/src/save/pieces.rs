//! The bytes of a tensor in C order, piece by piece.

use std::io::Write;

use dlbridge::TensorRef;

use crate::Fault;
use crate::file::tensor_fault;

/// The largest copy of a piece, in bytes.
const PIECE: u128 = 16 << 20;

/// Writes the elements in C order and little-endian, those of packed dtypes packed. Asks between two pieces, and returns
/// `None` as soon as the answer is false.
pub(super) fn write(
    name: &str,
    tensor: &TensorRef<'_>,
    out: &mut impl Write,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<()>, Fault> {
    let fault = |error| tensor_fault(name, error);
    let dtype = tensor.dtype();
    let is_padded = dtype.is_subbyte() && tensor.is_subbyte_padded();
    let is_swapped = cfg!(target_endian = "big") && dtype.element_bits() > 8;
    if tensor.is_c_contiguous() && !is_swapped && !is_padded {
        for piece in tensor.as_bytes().map_err(fault)?.chunks(PIECE as usize) {
            if !go_on() {
                return Ok(None);
            }
            out.write_all(piece)?;
        }
        return Ok(Some(()));
    }
    // Eight elements of any width are whole bytes. A piece of packed elements must not begin within a byte, so they are
    // copied at once.
    let step = if is_padded { 8 } else { 1 };
    let first = tensor.shape().iter().position(|&extent| extent > 1);
    let axis = first.filter(|&axis| {
        let is_large = tensor.nbytes() > PIECE && tensor.shape()[axis] > step;
        is_large && (is_padded || !dtype.is_subbyte())
    });
    let Some(axis) = axis else {
        let copy = match (is_swapped, is_padded) {
            (true, _) => tensor.to_byte_swapped(),
            (_, true) => tensor.to_copy().and_then(|copy| copy.to_packed()),
            (false, false) => tensor.to_copy(),
        };
        out.write_all(TensorRef::from(&copy.map_err(fault)?).as_bytes().map_err(fault)?)?;
        return Ok(go_on().then_some(()));
    };
    // Fewer than all, because the tensor is larger than a piece and the extent than a step.
    let (extent, step) = (tensor.shape()[axis] as usize, step as usize);
    let rows = (PIECE * extent as u128 / tensor.nbytes()) as usize;
    let rows = (rows / step * step).max(step);
    for begin in (0..extent).step_by(rows) {
        let piece = tensor.slice(axis, begin..extent.min(begin + rows)).map_err(fault)?;
        if write(name, &piece, out, go_on)?.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(()))
}
