//! The mountains: a height field, and its picture drawn column by column from front to back.

use crate::camera::{COLUMNS, FOCAL, ROWS, column_tangent};
use crate::color::Color;
use crate::math::{exp, length, pow, smoothstep};
use crate::noise::{fractal, gradient, ridged, unit};
use crate::sky::{self, SUNLIGHT};

/// Height of the eye over the water in metres.
pub(crate) const EYE_HEIGHT: f32 = 30.0;
/// The nearest and farthest land in the picture, in metres from the eye.
const NEAR: f32 = 420.0;
const FAR: f32 = 15_000.0;
/// The direction to the light, for shading: right, up, away. It is higher and further right than
/// the sun, so that the slopes show their shape.
const LIGHT: [f32; 3] = [0.87, 0.36, 0.33];

/// The viewpoint on the land.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eye {
    /// From above the water.
    Real,
    /// From the same distance below the water: the view that a mirror-smooth lake shows.
    Mirrored,
}

/// The drawn land: the colours of all samples with land.
pub(crate) struct Land {
    /// Colours, bottom row first.
    samples: Vec<Option<Color>>,
    /// The row of the horizon, counted from the bottom.
    base: i32,
}

impl Land {
    /// The land seen in a column at an elevation.
    pub(crate) fn get(&self, column: usize, elevation: f32) -> Option<Color> {
        let row = self.base + (elevation * FOCAL).floor() as i32;
        let row = usize::try_from(row).ok().filter(|row| *row < ROWS)?;
        self.samples[row * COLUMNS + column.min(COLUMNS - 1)]
    }
}

/// The distance of a place behind the shore, in metres; negative on the lake.
fn behind_shore(x: f32, z: f32) -> f32 {
    let bays = 1500.0 * fractal(x / 520.0 + 3.1, z / 900.0, 4, 70);
    let point = 640.0 * smoothstep(-40.0, -420.0, x) + 380.0 * smoothstep(330.0, 620.0, x);
    z - 1750.0 - bays + point
}

/// The height of the land in metres over the water, negative under it.
fn height(x: f32, z: f32, octaves: u32) -> f32 {
    let shore = behind_shore(x, z);
    if shore < -60.0 {
        return -10.0;
    }
    let valley = {
        let off = (x - sky::SUN.0 * z) / (0.17 * z + 120.0);
        1.0 - 0.80 * exp(-off * off)
    };
    let foot = 55.0 * smoothstep(0.0, 700.0, shore) * (1.0 + fractal(x / 400.0, z / 400.0, 4, 90));
    let rise = smoothstep(150.0, 3800.0, shore);
    let far = smoothstep(5200.0, 9500.0, z);
    let crests = ridged(x / 2900.0 + 11.7, z / 2900.0 + 2.45, octaves, 80);
    let mountains = (1580.0 + 1250.0 * far) * rise * valley * pow(crests, 1.25);
    let ground = shore.min(60.0) * 0.12 + foot + mountains;
    ground + treetops(x, z, ground)
}

/// The roughness that a forest gives to the land.
fn treetops(x: f32, z: f32, ground: f32) -> f32 {
    let forest = forest(x, z, ground);
    if forest <= 0.0 {
        return 0.0;
    }
    let grain = 1.0 - gradient(x / 7.0, z / 9.0, 97).abs();
    forest * (5.0 + 15.0 * grain * grain)
}

/// The density of the forest, 0.0 to 1.0.
fn forest(x: f32, z: f32, ground: f32) -> f32 {
    if ground > 800.0 {
        return 0.0;
    }
    let edge = 330.0 + 420.0 * fractal(x / 420.0, z / 420.0, 5, 93);
    smoothstep(edge, edge - 110.0, ground) * smoothstep(0.2, 1.2, ground)
}

/// The fraction of the light that reaches a place past the mountains.
fn sunshine(x: f32, y: f32, z: f32) -> f32 {
    let mut clear = 1.0_f32;
    let mut way = 45.0;
    while way < 2600.0 && clear > 0.0 {
        let above = y + LIGHT[1] * way - height(x + LIGHT[0] * way, z + LIGHT[2] * way, 5);
        clear = clear.min(0.5 + above / (0.11 * way));
        way *= 1.33;
    }
    clear.clamp(0.0, 1.0)
}

/// The colour of the bare surface at a place.
fn surface(x: f32, y: f32, z: f32, upness: f32) -> Color {
    let patches = fractal(x / 130.0, z / 130.0, 5, 60);
    let rock = Color::new(0.20, 0.175, 0.165) * (1.0 + 0.9 * patches);
    let meadow = Color::new(0.085, 0.085, 0.038) * (1.0 + 0.8 * patches);
    let snow = Color::new(0.80, 0.80, 0.86);
    let wood = Color::new(0.030, 0.044, 0.026) * (1.0 + 0.7 * gradient(x / 16.0, z / 16.0, 61));
    let steepness = smoothstep(0.80, 0.62, upness + 0.12 * patches);
    let ground = meadow.mix(rock, steepness.max(smoothstep(250.0, 520.0, y + 200.0 * patches)));
    let snowline = 640.0 + 260.0 * patches;
    let lies =
        smoothstep(snowline, snowline + 160.0, y) * smoothstep(0.50, 0.70, upness + 0.1 * patches);
    ground.mix(snow, lies).mix(wood, forest(x, z, y - 8.0))
}

/// The colour of a place of the land, as the eye sees it.
fn shade(x: f32, y: f32, z: f32, azimuth: f32) -> Color {
    let reach = (z * 0.0016).max(3.0);
    let slope_x = (height(x + reach, z, 9) - height(x - reach, z, 9)) / (2.0 * reach);
    let slope_z = (height(x, z + reach, 9) - height(x, z - reach, 9)) / (2.0 * reach);
    let upness = 1.0 / (1.0 + slope_x * slope_x + slope_z * slope_z).sqrt();
    let facing = (LIGHT[1] - LIGHT[0] * slope_x - LIGHT[2] * slope_z) * upness;
    let sun = if facing > 0.0 { facing * sunshine(x, y + 4.0, z) } else { 0.0 };
    let ambient = Color::new(0.26, 0.27, 0.40) * (0.35 + 0.65 * upness);
    let lit = surface(x, y, z, upness) * (ambient + SUNLIGHT * (3.6 * sun));

    let distance = z * length(azimuth, 1.0);
    let air = 1.0 - exp(-(distance - 300.0).max(0.0) / (8200.0 + 4.0 * y));
    let mist = 0.50
        * smoothstep(70.0, 4.0, y + 34.0 * fractal(x / 260.0, z / 700.0, 4, 66))
        * smoothstep(700.0, 2200.0, z);
    let haze = sky::haze(azimuth);
    lit.mix(haze, air).mix(haze * 1.04, mist)
}

/// Draws the land.
pub(crate) fn render(eye: Eye) -> Land {
    let (eye_height, base) = match eye {
        Eye::Real => (EYE_HEIGHT, ROWS as i32 / 3),
        Eye::Mirrored => (-EYE_HEIGHT, 0),
    };
    let mut land = Land { samples: vec![None; COLUMNS * ROWS], base };
    for column in 0..COLUMNS {
        let azimuth = column_tangent(column as f32 + 0.5);
        draw_column(&mut land, column, azimuth, eye_height);
    }
    land
}

/// Draws one column of the land, from the near end to the far one.
fn draw_column(land: &mut Land, column: usize, azimuth: f32, eye_height: f32) {
    let mut filled = -1;
    let mut z = NEAR * (1.0 + 0.004 * unit(column as i32, 0, 5));
    while z < FAR && filled + 1 < ROWS as i32 {
        let x = azimuth * z;
        let y = height(x, z, 9);
        let row = land.base + ((y - eye_height) / z * FOCAL).floor() as i32;
        if y > 0.0 && row > filled {
            let color = shade(x, y, z, azimuth);
            // Land begins at its shore; in the mirror there is nothing to see below it.
            let shore = land.base - (eye_height / z * FOCAL).ceil() as i32;
            let first = if eye_height > 0.0 { shore.max(filled + 1) } else { filled + 1 };
            for row in first..=row.min(ROWS as i32 - 1) {
                land.samples[row as usize * COLUMNS + column] = Some(color);
            }
            filled = row;
        }
        z *= 1.004;
    }
}
