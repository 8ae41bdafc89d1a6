//! From linear light to the finished picture: bloom, exposure, vignette, grain.

use crate::camera::{COLUMNS, HEIGHT, SAMPLES, WIDTH};
use crate::color::Color;
use crate::math::{pow, smoothstep};
use crate::noise::{gradient, unit};
use image::{Rgb, RgbImage};

/// Develops the scene into the picture.
pub(crate) fn develop(scene: &[Color]) -> RgbImage {
    let plain = shrink(scene);
    let bloom = blur(&plain.iter().map(|c| highlights(*c)).collect::<Vec<_>>(), 14);
    RgbImage::from_fn(WIDTH as u32, HEIGHT as u32, |x, y| {
        let at = y as usize * WIDTH + x as usize;
        let light = (plain[at] + bloom[at] * 0.30) * vignette(x, y);
        let grain = grain(x as i32, y as i32);
        Rgb([light.r, light.g, light.b].map(|part| level(part, grain)))
    })
}

/// Averages the samples of every pixel.
fn shrink(scene: &[Color]) -> Vec<Color> {
    let mut pixels = vec![Color::BLACK; WIDTH * HEIGHT];
    let share = 1.0 / (SAMPLES * SAMPLES) as f32;
    for (at, sample) in scene.iter().enumerate() {
        let (row, column) = (at / COLUMNS, at % COLUMNS);
        let bright = sample.r.max(sample.g).max(sample.b).max(1.5) / 1.5;
        pixels[row / SAMPLES * WIDTH + column / SAMPLES] += *sample * (share / bright);
    }
    pixels
}

/// The light of a colour above the brightness that blooms.
fn highlights(color: Color) -> Color {
    color * smoothstep(0.7, 1.6, color.r.max(color.g))
}

/// Blurs a picture with two passes of a box of `2 * radius + 1` pixels.
fn blur(picture: &[Color], radius: usize) -> Vec<Color> {
    let mut result = picture.to_vec();
    for _ in 0..2 {
        result = box_blur(&result, radius, 1, WIDTH);
        result = box_blur(&result, radius, WIDTH, HEIGHT);
    }
    result
}

/// Averages every pixel with its neighbours along one axis, `stride` apart, `count` in a line.
fn box_blur(picture: &[Color], radius: usize, stride: usize, count: usize) -> Vec<Color> {
    let share = 1.0 / (2 * radius + 1) as f32;
    (0..picture.len())
        .map(|at| {
            let place = at / stride % count;
            let start = at - place * stride;
            let line = place.saturating_sub(radius)..=(place + radius).min(count - 1);
            line.fold(Color::BLACK, |sum, i| sum + picture[start + i * stride]) * share
        })
        .collect()
}

/// The light that the lens lets through toward the corners.
fn vignette(x: u32, y: u32) -> f32 {
    let right = (x as f32 + 0.5) / WIDTH as f32 - 0.5;
    let down = (y as f32 + 0.5) / HEIGHT as f32 - 0.5;
    let off = right * right + down * down * 0.8;
    1.0 - 0.42 * smoothstep(0.08, 0.48, off)
}

/// The grain of the film at a pixel, about -1.0 to 1.0.
fn grain(x: i32, y: i32) -> f32 {
    let fine = unit(x, y, 7) + unit(x, y, 8) - 1.0;
    0.6 * fine + 0.5 * gradient(x as f32 / 1.7, y as f32 / 1.7, 9)
}

/// The level of a part of the light: filmic shoulder, gamma, grain.
fn level(light: f32, grain: f32) -> u8 {
    let exposed = light.max(0.0) * 1.02;
    let curve = (exposed * (2.51 * exposed + 0.03)) / (exposed * (2.43 * exposed + 0.59) + 0.14);
    let tone = pow(curve.clamp(0.0, 1.0), 1.0 / 2.2);
    let rough = 0.011 * (1.0 - 0.6 * tone);
    ((tone + grain * rough) * 255.0 + 0.5).clamp(0.0, 255.0) as u8
}
