//! Draws `assets/landscape.png`: a mountain lake at sunset.
//!
//! Everything in the picture comes from the formulas in these files; the `image` crate only
//! writes the PNG. Run it with `cargo run --release -p image_pipeline --bin draw_landscape`
//! (an argument names another file for the picture).

mod camera;
mod color;
mod film;
mod foreground;
mod math;
mod noise;
mod sky;
mod terrain;
mod water;

use camera::{COLUMNS, ROWS, column_tangent, row_tangent};
use color::Color;
use image::RgbImage;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Renders the scene, in linear light, with `SAMPLES` samples per pixel along each axis.
fn render_scene() -> Vec<Color> {
    let land = terrain::render(terrain::Eye::Real);
    let mirror = water::Mirror::new();
    let mut scene = vec![Color::BLACK; COLUMNS * ROWS];
    for row in 0..ROWS {
        let elevation = row_tangent(row as f32 + 0.5);
        for column in 0..COLUMNS {
            let azimuth = column_tangent(column as f32 + 0.5);
            scene[row * COLUMNS + column] = match land.get(column, elevation) {
                Some(color) => color,
                None if elevation > 0.0 => sky::color(azimuth, elevation),
                None => water::color(&mirror, azimuth, -elevation),
            };
        }
    }
    foreground::paint(&mut scene);
    scene
}

/// Draws the whole picture.
fn draw() -> RgbImage {
    film::develop(&render_scene())
}

/// The picture that belongs to this example.
fn shipped_picture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets").join("landscape.png")
}

fn main() -> ExitCode {
    let path = std::env::args_os().nth(1).map_or_else(shipped_picture, PathBuf::from);
    match draw().save(&path) {
        Ok(()) => {
            println!("{}", path.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This program draws the shipped file; one level of difference is rounding.
    #[test]
    fn shipped_picture_equals_the_drawing() {
        let shipped =
            image::open(shipped_picture()).expect("the shipped picture opens").into_rgb8();
        let drawn = draw();
        assert_eq!(drawn.dimensions(), shipped.dimensions());
        let worst = drawn.iter().zip(shipped.iter()).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(worst <= Some(1), "a sample differs by {worst:?} levels");
    }
}
