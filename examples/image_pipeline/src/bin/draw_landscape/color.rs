//! Colours in linear light.

use std::ops::{Add, AddAssign, Mul};

/// A colour in linear light; 1.0 is white, more is brighter than white.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Color {
    /// Red.
    pub(crate) r: f32,
    /// Green.
    pub(crate) g: f32,
    /// Blue.
    pub(crate) b: f32,
}

impl Color {
    /// No light at all.
    pub(crate) const BLACK: Self = Self::new(0.0, 0.0, 0.0);

    /// A colour from its three parts.
    pub(crate) const fn new(r: f32, g: f32, b: f32) -> Self {
        Self { r, g, b }
    }

    /// Interpolates from `self` (at `t` = 0) to `other` (at `t` = 1).
    pub(crate) fn mix(self, other: Self, t: f32) -> Self {
        self * (1.0 - t) + other * t
    }
}

impl Add for Color {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::new(self.r + other.r, self.g + other.g, self.b + other.b)
    }
}

impl AddAssign for Color {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<f32> for Color {
    type Output = Self;
    fn mul(self, factor: f32) -> Self {
        Self::new(self.r * factor, self.g * factor, self.b * factor)
    }
}

impl Mul for Color {
    type Output = Self;
    fn mul(self, filter: Self) -> Self {
        Self::new(self.r * filter.r, self.g * filter.g, self.b * filter.b)
    }
}
