//! A blur for pictures of any framework, and a filter that works in place.

use dlbridge::Tensor;
use dlbridge_pyo3::{COrder, Like, PyReadonlyTensor, PyReadwriteTensor, dims};
use pyo3::prelude::*;

/// uint8 pixels of shape [height, width, 3] in C order.
type Rgb = (COrder, dims!(_, _, 3));

/// Returns the mean of the pixels in a square of `2 * radius + 1` around each pixel, as a picture of the caller's
/// framework. The square is cut off at the edges.
#[pyfunction]
fn blur<'py>(image: PyReadonlyTensor<'py, u8, 3, Rgb>, radius: usize) -> PyResult<Like<'py>> {
    let [height, width, channels] = image.dims();
    let pixels = image.slice();
    let blurred = image.object().py().detach(|| {
        // A larger square contains no more pixels.
        let radius = radius.min(height.max(width));
        let rows = along(pixels, radius, height, width * channels, 1);
        along(&rows, radius, width, channels, height)
    });
    let blurred = Tensor::from_parts(blurred, [height, width, channels])?;
    Ok(image.like(blurred))
}

/// Returns the means along one axis, which has `count` steps of `stride` elements in each of `outer` blocks.
fn along(pixels: &[u8], radius: usize, count: usize, stride: usize, outer: usize) -> Vec<u8> {
    let mut means = vec![0; pixels.len()];
    for piece in 0..outer {
        for column in 0..stride {
            let at = |step: usize| (piece * count + step) * stride + column;
            let mut sum: u32 = (0..radius.min(count)).map(|step| u32::from(pixels[at(step)])).sum();
            for step in 0..count {
                if step + radius < count {
                    sum += u32::from(pixels[at(step + radius)]);
                }
                if step > radius {
                    sum -= u32::from(pixels[at(step - radius - 1)]);
                }
                let seen = (step + radius).min(count - 1) - step.saturating_sub(radius) + 1;
                means[at(step)] = (sum / seen as u32) as u8;
            }
        }
    }
    means
}

/// Divides all values of a picture by two, in place, with any strides and any number of channels.
#[pyfunction]
fn darken(mut image: PyReadwriteTensor<'_, u8, 3>) {
    image.iter_mut().for_each(|value| *value /= 2);
}

/// The extension module.
#[pymodule(gil_used = true)]
mod image_filter {
    #[pymodule_export]
    use super::{blur, darken};
}
