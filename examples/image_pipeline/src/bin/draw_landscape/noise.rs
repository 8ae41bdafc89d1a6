//! Repeatable noise: a hash of integers, gradient noise on it, and sums of octaves.

use crate::math::lerp;

/// Mixes two integers and a seed into one well-spread number.
pub(crate) fn hash(x: i32, y: i32, seed: u32) -> u32 {
    let mut h = seed.wrapping_mul(0x9e37_79b9);
    h = (h ^ x as u32).wrapping_mul(0x85eb_ca6b);
    h ^= h >> 15;
    h = (h ^ y as u32).wrapping_mul(0xc2b2_ae35);
    h ^= h >> 13;
    h = h.wrapping_mul(0x27d4_eb2f);
    h ^ (h >> 16)
}

/// A number in `0.0..1.0` for two integers and a seed.
pub(crate) fn unit(x: i32, y: i32, seed: u32) -> f32 {
    (hash(x, y, seed) >> 8) as f32 / (1 << 24) as f32
}

/// The gradient at a lattice point, times the offset from it.
fn slope(ix: i32, iy: i32, dx: f32, dy: f32, seed: u32) -> f32 {
    let h = hash(ix, iy, seed);
    let gx = (h & 0xffff) as f32 / 32767.5 - 1.0;
    let gy = (h >> 16) as f32 / 32767.5 - 1.0;
    gx * dx + gy * dy
}

/// Gradient noise, about -1.0 to 1.0, with features of size one.
pub(crate) fn gradient(x: f32, y: f32, seed: u32) -> f32 {
    let (fx, fy) = (x.floor(), y.floor());
    let (ix, iy) = (fx as i32, fy as i32);
    let (dx, dy) = (x - fx, y - fy);
    let fade = |t: f32| t * t * t * (t * (t * 6.0 - 15.0) + 10.0);
    let top = lerp(slope(ix, iy, dx, dy, seed), slope(ix + 1, iy, dx - 1.0, dy, seed), fade(dx));
    let bottom = lerp(
        slope(ix, iy + 1, dx, dy - 1.0, seed),
        slope(ix + 1, iy + 1, dx - 1.0, dy - 1.0, seed),
        fade(dx),
    );
    lerp(top, bottom, fade(dy)) * 1.6
}

/// The position in the next octave: twice as fine, and rotated to hide the lattice.
fn next_octave(x: f32, y: f32) -> (f32, f32) {
    (1.6 * x - 1.2 * y + 17.3, 1.2 * x + 1.6 * y - 5.9)
}

/// Fractal noise: octaves of gradient noise, each half as strong as the one before.
pub(crate) fn fractal(mut x: f32, mut y: f32, octaves: u32, seed: u32) -> f32 {
    let (mut sum, mut strength) = (0.0, 0.5);
    for octave in 0..octaves {
        sum += strength * gradient(x, y, seed + octave);
        strength *= 0.5;
        (x, y) = next_octave(x, y);
    }
    sum
}

/// Ridged fractal noise, 0.0 to about 1.0: sharp crests, rough near the crests, smooth in the
/// valleys.
pub(crate) fn ridged(mut x: f32, mut y: f32, octaves: u32, seed: u32) -> f32 {
    let (mut sum, mut strength, mut weight) = (0.0, 0.5, 1.0_f32);
    for octave in 0..octaves {
        let crest = 1.0 - gradient(x, y, seed + octave).abs();
        let crest = crest * crest * weight;
        sum += strength * crest;
        weight = (crest * 1.5).clamp(0.0, 1.0);
        strength *= 0.46;
        (x, y) = next_octave(x, y);
    }
    sum
}
