//! The size of the picture, and the directions of its samples.

/// Width of the finished picture in pixels.
pub(crate) const WIDTH: usize = 480;
/// Height of the finished picture in pixels.
pub(crate) const HEIGHT: usize = 320;
/// Samples per pixel along each axis.
pub(crate) const SAMPLES: usize = 2;
/// Width of the scene in samples.
pub(crate) const COLUMNS: usize = WIDTH * SAMPLES;
/// Height of the scene in samples.
pub(crate) const ROWS: usize = HEIGHT * SAMPLES;
/// Focal length in samples.
pub(crate) const FOCAL: f32 = 430.0 * SAMPLES as f32;
/// Row of the horizon in samples.
pub(crate) const HORIZON: f32 = 182.0 * SAMPLES as f32;

/// The tangent of the horizontal angle of a column.
pub(crate) fn column_tangent(column: f32) -> f32 {
    (column - COLUMNS as f32 / 2.0) / FOCAL
}

/// The tangent of the elevation of a row, negative below the horizon.
pub(crate) fn row_tangent(row: f32) -> f32 {
    (HORIZON - row) / FOCAL
}
