//! Layouts with any 64-bit numbers, on a device whose memory is never read. Compares slices, contiguity and sizes with
//! a model that cannot overflow, and checks the bounds of layouts in vectors.
#![no_main]

use std::ops::Range;

use arbitrary::{Result, Unstructured};
use dlbridge::{Error, Tensor, TensorRef};
use dlbridge_fuzz::{Descriptor, Producer, import_crafted};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut u = Unstructured::new(data);
    let _ = if u.ratio(1, 3).unwrap_or(false) { in_a_vector(&mut u) } else { on_a_device(&mut u) };
});

/// Extents, strides, and the distance in elements that the element at index zero has moved.
#[derive(Clone, Debug)]
struct Model {
    axes: Vec<(i128, i128)>,
    offset: i128,
}

impl Model {
    /// Moves the element at index zero. Numbers saturate if that element cannot exist.
    fn step(&mut self, steps: i128, stride: i128) {
        self.offset = self.offset.saturating_add(steps.saturating_mul(stride));
    }
}

fn on_a_device(u: &mut Unstructured<'_>) -> Result<()> {
    let mut d = Descriptor::arbitrary(u)?;
    d.device = 4;
    let producer = Producer::default();
    let data = std::ptr::without_provenance_mut(d.data);
    let Ok(tensor) = import_crafted(&d, data, Box::default(), &producer) else { return Ok(()) };
    let shape = tensor.shape().iter().map(|&extent| i128::from(extent));
    let mut model = Model { axes: shape.zip(d.full_strides()).collect(), offset: 0 };
    let mut part = TensorRef::from(&tensor);
    for _ in 0..4 {
        let Some(next) = step(&part, &mut model, u)? else { break };
        part = next;
        compare(&part, &model, &d);
    }
    Ok(())
}

fn compare(part: &TensorRef<'_>, model: &Model, d: &Descriptor) {
    let found = part.shape().iter().zip(part.strides());
    assert!(found.clone().count() == model.axes.len(), "{part:?} {model:?}");
    let empty = model.axes.iter().any(|axis| axis.0 == 0);
    for ((&extent, &stride), &(model_extent, model_stride)) in found.zip(&model.axes) {
        assert_eq!(i128::from(extent), model_extent);
        // Without a second index, the stride is meaningless.
        if model_extent > 1 && !empty {
            assert_eq!(i128::from(stride), model_stride, "{part:?} {model:?}");
        }
    }
    let count: i128 = if empty { 0 } else { model.axes.iter().map(|axis| axis.0).product() };
    assert_eq!(part.len() as i128, count);
    let bits = if d.packed() { d.element_bits() } else { d.itemsize() * 8 };
    assert_eq!(part.nbytes() as i128, (count * bits + 7) / 8);
    if empty {
        assert_eq!(part.byte_offset(), 0);
    } else {
        let moved = model.offset * bits;
        assert_eq!(moved % 8, 0, "a slice begins with a byte");
        assert_eq!(i128::from(part.byte_offset()), i128::from(d.byte_offset) + moved / 8);
    }
    assert_eq!(part.is_c_contiguous(), empty || contiguous(model.axes.iter().rev()));
    assert_eq!(part.is_f_contiguous(), empty || contiguous(model.axes.iter()));
    let view = part.view::<u8>();
    assert!(matches!(view, Err(Error::DataType { .. } | Error::NotHostAccessible { .. })));
}

/// Returns true if axes, fastest first, step through contiguous elements.
fn contiguous<'m>(mut axes: impl Iterator<Item = &'m (i128, i128)>) -> bool {
    let mut expected = 1;
    axes.all(|&(extent, stride)| {
        let fits = extent == 1 || stride == expected;
        expected *= extent;
        fits
    })
}

/// Applies one operation to tensor and model. Returns `None` if dlbridge refuses it for a valid reason.
fn step<'a>(
    part: &TensorRef<'a>,
    model: &mut Model,
    u: &mut Unstructured<'_>,
) -> Result<Option<TensorRef<'a>>> {
    let ndim = model.axes.len();
    let axis = u.int_in_range(0..=ndim + 1)?;
    let extent = model.axes.get(axis).map_or(0, |axis| axis.0) as usize;
    let mut next = model.clone();
    let found = match u.int_in_range(0..=6)? {
        0 => {
            let end = if u.ratio(1, 20)? { u.arbitrary()? } else { u.int_in_range(0..=extent)? };
            let start =
                if u.ratio(1, 20)? { u.arbitrary()? } else { u.int_in_range(0..=extent.min(end))? };
            let range: Range<usize> = start..end;
            let found = part.slice(axis, range);
            if axis < ndim && start <= end && end <= extent {
                next.step(start as i128, next.axes[axis].1);
                next.axes[axis].0 = (end - start) as i128;
                assert!(fits(&found));
            } else {
                assert!(matches!(
                    found,
                    Err(Error::InvalidAxis { .. } | Error::InvalidRange { .. })
                ));
            }
            found
        }
        1 => {
            let step = u.arbitrary::<usize>()?.max(1);
            if let Some(axis) = next.axes.get_mut(axis) {
                let step = step as i128;
                *axis = ((axis.0 + step - 1) / step, axis.1.saturating_mul(step));
            }
            let found = part.step_by(axis, step);
            assert_eq!(found.is_ok(), axis < ndim);
            found
        }
        2 => {
            if let Some(&(extent, stride)) = next.axes.get(axis) {
                next.step((extent - 1).max(0), stride);
                next.axes[axis].1 = stride.saturating_neg();
            }
            let found = part.flip(axis);
            assert!(axis >= ndim || fits(&found));
            found
        }
        3 => {
            let index = if u.ratio(1, 20)? { u.arbitrary()? } else { u.int_in_range(0..=extent)? };
            let found = part.index_axis(axis, index);
            if axis < ndim && index < extent {
                let (_, stride) = next.axes.remove(axis);
                next.step(index as i128, stride);
                assert!(fits(&found));
            } else {
                assert!(matches!(
                    found,
                    Err(Error::InvalidAxis { .. } | Error::InvalidRange { .. })
                ));
            }
            found
        }
        4 => {
            if axis <= ndim {
                next.axes.insert(axis, (1, 1));
            }
            let found = part.insert_axis(axis);
            assert_eq!(found.is_ok(), axis <= ndim);
            found
        }
        5 => {
            next.axes.reverse();
            Ok(part.transpose())
        }
        _ => {
            // Two neighbouring axes become one, if their strides match.
            let mut shape: Vec<usize> = next.axes.iter().map(|axis| axis.0 as usize).collect();
            if axis + 1 < ndim {
                let (outer, inner) = (next.axes[axis], next.axes.remove(axis + 1));
                next.axes[axis] = (outer.0 * inner.0, if inner.0 == 1 { outer.1 } else { inner.1 });
                shape[axis] = shape[axis].wrapping_mul(shape.remove(axis + 1));
                let even =
                    outer.0 <= 1 || inner.0 <= 1 || outer.1 == inner.1.saturating_mul(inner.0);
                let found = part.reshape(&shape);
                let empty = next.axes.iter().any(|axis| axis.0 == 0);
                assert_eq!(found.is_ok(), even || empty, "{part:?} {shape:?}");
                if outer.0 == 1 {
                    next.axes[axis].1 = inner.1;
                }
                found
            } else {
                part.reshape(&shape)
            }
        }
    };
    match found {
        Ok(found) => {
            *model = next;
            Ok(Some(found))
        }
        Err(Error::InvalidAxis { axis, ndim: found }) => {
            assert!(axis >= ndim && found == ndim);
            Ok(None)
        }
        Err(_) => Ok(None),
    }
}

/// Returns true if the slice was made, and false if it would begin within a byte.
fn fits(found: &std::result::Result<TensorRef<'_>, Error>) -> bool {
    matches!(found, Ok(_) | Err(Error::SubbytePacked { .. }))
}

/// A layout over a vector is accepted exactly if every index lies in the vector.
fn in_a_vector(u: &mut Unstructured<'_>) -> Result<()> {
    let owned = u.int_in_range(0..=40_usize)?;
    let ndim = u.int_in_range(0..=4_usize)?;
    let edge = [0, 1, usize::MAX, 1 << 62, 1 << 32];
    let mut extent = || if u.ratio(1, 9)? { Ok(*u.choose(&edge)?) } else { u.int_in_range(0..=5) };
    let shape: Vec<usize> = (0..ndim).map(|_| extent()).collect::<Result<_>>()?;
    let mut stride = || if u.ratio(1, 9)? { u.arbitrary() } else { u.int_in_range(-7..=7_isize) };
    let strides: Vec<isize> = (0..ndim).map(|_| stride()).collect::<Result<_>>()?;
    let offset = if u.ratio(1, 9)? { u.arbitrary()? } else { u.int_in_range(0..=owned)? };
    let product = shape.iter().try_fold(1_i128, |product, &extent| {
        let product = product.checked_mul(extent.max(1) as i128)?;
        (product <= isize::MAX as i128).then_some(product)
    });
    let (mut lowest, mut highest) = (offset as i128, offset as i128);
    for (&extent, &stride) in shape.iter().zip(&strides) {
        let reach = (extent as i128 - 1).saturating_mul(stride as i128);
        if reach < 0 {
            lowest = lowest.saturating_add(reach)
        } else {
            highest = highest.saturating_add(reach)
        }
    }
    let within = shape.contains(&0) || (lowest >= 0 && highest < owned as i128);
    let elements: Vec<u16> = (0..owned as u16).collect();
    match Tensor::from_parts_strided(elements, &shape, &strides, offset) {
        Ok(tensor) => {
            assert!(product.is_some() && within);
            if tensor.len() < 1000 {
                let expected = common_positions(&shape, &strides, offset);
                assert!(tensor.view::<u16>().unwrap().iter().copied().eq(expected));
            }
        }
        Err(_) => assert!(product.is_none() || !within),
    }
    Ok(())
}

fn common_positions(shape: &[usize], strides: &[isize], offset: usize) -> Vec<u16> {
    let count: usize = shape.iter().product();
    let position = |mut nth: usize| {
        let mut position = offset as isize;
        for (&extent, &stride) in shape.iter().zip(strides).rev() {
            position += (nth % extent) as isize * stride;
            nth /= extent;
        }
        position as u16
    };
    (0..count).map(position).collect()
}
