//! The sky: its gradient, the sun with its glow, and a layer of clouds lit from below.

use crate::color::Color;
use crate::math::{exp, length, smoothstep};
use crate::noise::fractal;

/// The position of the sun, as tangents to the right and up.
pub(crate) const SUN: (f32, f32) = (0.165, 0.072);
/// The colour of the sun's light low over the horizon.
pub(crate) const SUNLIGHT: Color = Color::new(1.0, 0.56, 0.24);

/// The colour of the clear sky at an elevation.
fn gradient(elevation: f32) -> Color {
    const STOPS: [(f32, Color); 6] = [
        (0.00, Color::new(0.86, 0.45, 0.20)),
        (0.05, Color::new(0.80, 0.42, 0.23)),
        (0.12, Color::new(0.62, 0.37, 0.30)),
        (0.21, Color::new(0.36, 0.29, 0.36)),
        (0.32, Color::new(0.16, 0.20, 0.36)),
        (0.48, Color::new(0.055, 0.10, 0.25)),
    ];
    for pair in STOPS.windows(2) {
        let ((low, below), (high, above)) = (pair[0], pair[1]);
        if elevation < high {
            return below.mix(above, ((elevation - low) / (high - low)).max(0.0));
        }
    }
    STOPS[STOPS.len() - 1].1
}

/// The distance of a direction from the sun.
pub(crate) fn from_sun(azimuth: f32, elevation: f32) -> f32 {
    length(azimuth - SUN.0, elevation - SUN.1)
}

/// The light scattered around the sun.
fn glow(distance: f32) -> Color {
    Color::new(1.0, 0.78, 0.45) * (1.1 * exp(-distance / 0.022))
        + Color::new(1.0, 0.58, 0.25) * (0.55 * exp(-distance / 0.085))
        + Color::new(0.85, 0.36, 0.16) * (0.30 * exp(-distance / 0.30))
}

/// The density of the clouds in a direction, 0.0 to 1.0.
fn cloud_density(azimuth: f32, elevation: f32) -> f32 {
    let reach = 0.62 / (elevation + 0.075);
    let (x, z) = (azimuth * reach, reach * 1.25);
    let bend = fractal(x * 0.7 + 4.0, z * 0.7, 3, 40);
    let body = fractal(x * 0.8 + bend * 0.9, z * 1.15 + bend * 0.6 + 7.2, 7, 51);
    let cover = 0.05 + 0.05 * smoothstep(0.05, 0.25, elevation);
    smoothstep(-cover, 0.20, body)
}

/// The colour of the sky in a direction.
pub(crate) fn color(azimuth: f32, elevation: f32) -> Color {
    let distance = from_sun(azimuth, elevation);
    let scattered = glow(distance);
    let disc = smoothstep(0.0235, 0.0205, distance);
    let clear = gradient(elevation) + scattered + Color::new(2.6, 2.1, 1.3) * disc;

    let density = cloud_density(azimuth, elevation);
    if density <= 0.0 {
        return clear;
    }
    let step = 0.012 / distance.max(0.012);
    let toward = cloud_density(
        azimuth + (SUN.0 - azimuth) * step,
        (elevation + (SUN.1 - elevation) * step).max(0.0),
    );
    let lit = (0.42 + 1.5 * (density - toward) + 0.25 * (1.0 - density)).clamp(0.0, 1.0);
    let near_sun = exp(-distance / 0.32);
    let shade = gradient(elevation) * 0.34 + Color::new(0.05, 0.045, 0.07) + scattered * 0.2;
    let light = SUNLIGHT.mix(Color::new(0.95, 0.36, 0.30), 1.0 - near_sun) * (0.5 + 0.9 * near_sun);
    let cloud = shade + light * (lit * lit) + scattered * 0.35;
    let in_haze = smoothstep(0.0, 0.10, elevation);
    clear.mix(cloud, density * 0.92 * (0.35 + 0.65 * in_haze))
}

/// The colour of distant haze in a direction: warm toward the sun, blue away from it.
pub(crate) fn haze(azimuth: f32) -> Color {
    let off = (azimuth - SUN.0) / 0.30;
    let toward = exp(-off * off);
    Color::new(0.25, 0.25, 0.36).mix(Color::new(0.80, 0.44, 0.23), toward)
}
