//! The arithmetic of the drawing, with the same result on every system.
//!
//! The last bit of `f32::exp` depends on the system's mathematics library, so the few functions
//! that are not plain arithmetic are computed in `f64` and rounded once.

/// Interpolates from `a` (at `t` = 0) to `b` (at `t` = 1).
pub(crate) fn lerp(a: f32, b: f32, t: f32) -> f32 {
    a + (b - a) * t
}

/// 0 up to `low`, 1 from `high`, and smooth between; decreasing if `high` is below `low`.
pub(crate) fn smoothstep(low: f32, high: f32, x: f32) -> f32 {
    let t = ((x - low) / (high - low)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// e to the power of `x`.
pub(crate) fn exp(x: f32) -> f32 {
    f64::from(x).exp() as f32
}

/// `x` to the power of `y`.
pub(crate) fn pow(x: f32, y: f32) -> f32 {
    f64::from(x).powf(f64::from(y)) as f32
}

/// The length of the vector (`x`, `y`).
pub(crate) fn length(x: f32, y: f32) -> f32 {
    (x * x + y * y).sqrt()
}
