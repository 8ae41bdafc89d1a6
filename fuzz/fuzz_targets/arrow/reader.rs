//! A second, simple reader: it refuses arrays, or returns their elements.

use dlbridge_pyo3::dlbridge::DataType;

use crate::abi::Child;
use crate::array::Array;
use crate::metadata::{SHAPE, Text};
use crate::numbers::MOST;
use crate::schema::{Level, Schema};

/// The required result of an import.
pub(crate) enum Expected {
    Refused,
    /// This reader cannot decide: both results are right.
    Either,
    /// The elements in C order, if they have memory.
    Imported {
        dtype: DataType,
        shape: Vec<i64>,
        bytes: Option<Vec<u8>>,
    },
}

/// Returns the number of nulls among the imported elements of a level.
pub(crate) fn nulls(array: &Array, first: i128, count: i128) -> i128 {
    let has_buffers = array.n_buffers > 0 && array.buffers == Child::Right;
    match array.validity.filter(|_| has_buffers) {
        _ if array.null_count == 0 || count == 0 => 0,
        None => i128::from(array.null_count.max(0)),
        Some(byte) => {
            (first..first + count).filter(|nth| byte >> (nth % 8) & 1 == 0).count() as i128
        }
    }
}

pub(crate) fn expected(schema: &Schema, array: &Array, times: bool) -> Expected {
    read(schema, array, times).unwrap_or(Expected::Refused)
}

/// Reads an array. Returns `None` for arrays that it refuses.
pub(crate) fn read(root: &Schema, array: &Array, times: bool) -> Option<Expected> {
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
    // An empty tensor may still have extents whose product overflows.
    let product = shape.iter().try_fold(1_i64, |n, &extent| n.checked_mul(extent.max(1)));
    if product.and_then(|n| n.checked_mul(dtype.itemsize() as i64)).is_none() {
        return Some(Expected::Either);
    }
    let Some(order) = order else { return Some(Expected::Imported { dtype, shape, bytes }) };
    let bytes = bytes.map(|bytes| permuted(&bytes, dtype.itemsize(), &shape, &order));
    let shape = order.iter().map(|&axis| shape[axis]).collect();
    Some(Expected::Imported { dtype, shape, bytes })
}

/// Returns the elements in C order after a permutation of their axes.
pub(crate) fn permuted(bytes: &[u8], itemsize: usize, shape: &[i64], order: &[usize]) -> Vec<u8> {
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
