//! The lake: the mirrored land and sky, broken by ripples.

use crate::camera::{COLUMNS, FOCAL, HORIZON, column_tangent};
use crate::color::Color;
use crate::math::{length, lerp, pow, smoothstep};
use crate::noise::{fractal, gradient};
use crate::sky;
use crate::terrain::{self, EYE_HEIGHT, Eye};

/// The land and sky over the water, as a mirror-smooth lake would show them.
pub(crate) struct Mirror {
    /// Colours, the row of the horizon first, upward.
    samples: Vec<Color>,
}

impl Mirror {
    /// The number of rows above the horizon.
    const ROWS: usize = HORIZON as usize;

    /// Renders land and sky as seen from below the water.
    pub(crate) fn new() -> Self {
        let land = terrain::render(Eye::Mirrored);
        let mut samples = Vec::with_capacity(Self::ROWS * COLUMNS);
        for row in 0..Self::ROWS {
            let elevation = (row as f32 + 0.5) / FOCAL;
            for column in 0..COLUMNS {
                let azimuth = column_tangent(column as f32 + 0.5);
                let seen = land.get(column, elevation);
                samples.push(seen.unwrap_or_else(|| sky::color(azimuth, elevation)));
            }
        }
        Self { samples }
    }

    /// The colour in a direction; outside the picture, the colour at its edge.
    fn get(&self, azimuth: f32, elevation: f32) -> Color {
        let column = (azimuth * FOCAL + COLUMNS as f32 / 2.0).clamp(0.0, COLUMNS as f32 - 1.0);
        let row = (elevation * FOCAL).clamp(0.0, Self::ROWS as f32 - 1.0);
        self.samples[row as usize * COLUMNS + column as usize]
    }
}

/// The slope of the water (to the right, away) at a place, as far as the eye can resolve it.
fn ripples(x: f32, z: f32) -> (f32, f32) {
    let (mut right, mut away) = (0.0, 0.0);
    let ruffled = 0.35 + 0.9 * smoothstep(-0.12, 0.25, fractal(x / 170.0, z / 60.0, 4, 120));
    let footprint = z * z / (EYE_HEIGHT * FOCAL);
    let mut length = 9.0;
    for octave in 0..5 {
        let seen = (length / (footprint * 1.5)).min(1.0);
        let steep = 0.013 * ruffled * seen;
        right += 0.5 * steep * gradient(x / length, z / (0.6 * length), 130 + octave);
        away += steep * gradient(x / length + 31.0, z / (0.6 * length), 140 + octave);
        length *= 0.55;
    }
    (right, away)
}

/// The colour of the water `depression` under the horizon.
pub(crate) fn color(mirror: &Mirror, azimuth: f32, depression: f32) -> Color {
    let z = EYE_HEIGHT / depression.max(1e-4);
    let x = azimuth * z;
    let (right, away) = ripples(x, z);
    let wind = smoothstep(0.05, 0.30, fractal(x / 420.0 + 9.0, z / 150.0, 4, 150));

    let side = azimuth + right * 1.2;
    let mut seen = Color::BLACK;
    for tap in 0..4 {
        let blur = (tap as f32 - 1.5) * (0.002 + 0.012 * wind);
        seen += mirror.get(side, (depression + 2.0 * away + blur).abs()) * 0.25;
    }
    let upright = depression / length(depression, 1.0);
    let shine = lerp(0.30, 1.0, pow(1.0 - upright, 4.0)) * lerp(1.0, 0.88, wind);
    let deep = Color::new(0.012, 0.030, 0.042) + sky::haze(azimuth) * (0.05 * wind);
    deep + seen * Color::new(0.93, 0.95, 1.0) * shine
}
