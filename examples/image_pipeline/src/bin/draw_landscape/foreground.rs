//! The near bank with its conifers, painted over the scene stroke by stroke.

use crate::camera::{COLUMNS, ROWS, SAMPLES};
use crate::color::Color;
use crate::math::{exp, length, lerp, pow, smoothstep};
use crate::noise::{fractal, unit};

/// A conifer: the position of its foot and its height, in pixels of the finished picture.
struct Tree {
    x: f32,
    foot: f32,
    tall: f32,
}

/// The conifers, the ones behind first.
const TREES: [Tree; 11] = [
    Tree { x: 98.0, foot: 302.0, tall: 92.0 },
    Tree { x: 6.0, foot: 280.0, tall: 150.0 },
    Tree { x: 82.0, foot: 298.0, tall: 138.0 },
    Tree { x: 468.0, foot: 300.0, tall: 96.0 },
    Tree { x: 28.0, foot: 292.0, tall: 205.0 },
    Tree { x: 441.0, foot: 308.0, tall: 66.0 },
    Tree { x: 116.0, foot: 308.0, tall: 60.0 },
    Tree { x: 58.0, foot: 304.0, tall: 232.0 },
    Tree { x: 482.0, foot: 312.0, tall: 128.0 },
    Tree { x: 134.0, foot: 313.0, tall: 34.0 },
    Tree { x: 420.0, foot: 315.0, tall: 38.0 },
];

/// Paints the bank and the conifers over the scene.
pub(crate) fn paint(scene: &mut [Color]) {
    paint_bank(scene);
    for (number, tree) in TREES.iter().enumerate() {
        paint_tree(scene, tree, 200 + 10 * number as u32);
    }
    paint_grass(scene);
}

/// The upper edge of the bank in samples.
fn bank(x: f32) -> f32 {
    let left = 54.0 * smoothstep(260.0, -30.0, x);
    let right = 34.0 * smoothstep(300.0, 500.0, x);
    let bumps = 9.0 * fractal(x / 60.0, 0.5, 5, 160);
    (313.0 - left - right + bumps) * SAMPLES as f32
}

/// Fills the bank with earth and turf.
fn paint_bank(scene: &mut [Color]) {
    let size = SAMPLES as f32;
    for column in 0..COLUMNS {
        let x = column as f32 / size;
        let edge = bank(x);
        for row in (edge.max(0.0) as usize)..ROWS {
            let below = (row as f32 - edge) / size;
            let turf = fractal(x / 9.0, row as f32 / size / 5.0, 5, 165);
            let rim = exp(-below / 2.2);
            scene[row * COLUMNS + column] = Color::new(0.020, 0.021, 0.013) * (1.0 + 1.1 * turf)
                + Color::new(0.16, 0.085, 0.030) * (rim * (0.5 + turf).max(0.0));
        }
    }
}

/// Draws blades of grass along the edge of the bank.
fn paint_grass(scene: &mut [Color]) {
    let size = SAMPLES as f32;
    for blade in 0..5200 {
        let pick = |what: u32| unit(blade, 0, 170 + what);
        let x = pick(0) * COLUMNS as f32;
        let foot = bank(x / size) + (2.0 + 34.0 * pick(1) * pick(1)) * size;
        let tall = (2.5 + 6.0 * pick(2)) * size;
        let lean = (pick(3) - 0.38) * 1.3;
        let light = Color::new(0.15, 0.085, 0.030) * pow(pick(4), 5.0);
        let color = Color::new(0.014, 0.016, 0.009) + light;
        let mut way = 0.0;
        while way < tall {
            let t = way / tall;
            let thick = lerp(0.8, 0.2, t);
            dab(scene, x + lean * way * t, foot - way, thick, color, 0.85);
            way += 0.7;
        }
    }
}

/// Draws a conifer: the trunk, then whorls of drooping branches from the top down.
fn paint_tree(scene: &mut [Color], tree: &Tree, seed: u32) {
    let size = SAMPLES as f32;
    let (x, foot, tall) = (tree.x * size, tree.foot * size, tree.tall * size);
    let top = foot - tall;
    let mut y = top;
    while y < foot + 4.0 * size {
        let thick = lerp(0.4, 0.016 * tall, (y - top) / tall);
        dab(scene, x, y, thick, Color::new(0.018, 0.013, 0.010), 1.0);
        y += 0.7;
    }
    let whorls = (tall / (1.7 * size)) as i32;
    for whorl in 0..whorls {
        for branch in 0..12 {
            let pick = |what: u32| unit(whorl, branch, seed + what);
            let t = (whorl as f32 + pick(0)) / whorls as f32;
            let spread = 0.215 * tall * pow(t, 0.80) * (0.45 + 0.62 * pick(1)) + 1.0;
            let spread = spread * smoothstep(1.06, 0.80, t);
            let turn = ((pick(2) * 2.0 - 1.0) * 1.15).clamp(-1.0, 1.0);
            let depth = (1.0 - turn * turn).max(0.0).sqrt();
            let seed = seed + 100 * whorl as u32 + branch as u32;
            let branch = Branch { x, y: top + t * tall, reach: turn * spread, depth, age: t };
            draw_branch(scene, &branch, seed);
        }
    }
}

/// A branch of a conifer, in samples.
struct Branch {
    /// The point where it grows from the trunk.
    x: f32,
    y: f32,
    /// Its extent to the right.
    reach: f32,
    /// The fraction that points at the eye, 0.0 to 1.0.
    depth: f32,
    /// Its distance from the top of the tree, 0.0 to 1.0.
    age: f32,
}

/// Draws one branch with its hanging needles.
fn draw_branch(scene: &mut [Color], branch: &Branch, seed: u32) {
    let Branch { x, y, reach, depth, age } = *branch;
    let size = SAMPLES as f32;
    let length = reach.abs().max(1.0);
    let steps = (length / 0.8) as i32 + 2;
    let sunny = smoothstep(-0.3, 1.0, reach / (length + 6.0)) * (1.0 - 0.6 * depth);
    for step in 0..steps {
        let way = step as f32 / steps as f32;
        let droop = 0.32 * length * way * (1.25 - 0.55 * way) + depth * 3.0 * size * way;
        let lift = 0.10 * length * way * way * way;
        let (cx, cy) = (x + reach * way, y + droop - lift);
        let pick = |what: i32| unit(step, what, seed);
        let light = sunny * way * way * pick(0) * pick(0);
        let color = Color::new(0.011, 0.017, 0.011) * (0.6 + 0.9 * pick(1))
            + Color::new(0.115, 0.068, 0.024) * light;
        let hang = (1.4 + 3.6 * age) * size * 0.5 * (0.4 + pick(2)) * (1.1 - 0.6 * way);
        let mut down = 0.0;
        while down < hang {
            dab(scene, cx + (pick(3) - 0.5) * down, cy + down, 0.55, color, 0.8);
            down += 0.7;
        }
    }
}

/// Lays a soft round dab of colour on the scene.
fn dab(scene: &mut [Color], x: f32, y: f32, radius: f32, color: Color, opacity: f32) {
    let reach = radius + 1.0;
    let rows = (y - reach).floor().max(0.0) as usize..=(y + reach).ceil().max(0.0) as usize;
    for row in rows.take_while(|row| *row < ROWS) {
        let columns = (x - reach).floor().max(0.0) as usize..=(x + reach).ceil().max(0.0) as usize;
        for column in columns.take_while(|column| *column < COLUMNS) {
            let distance = length(column as f32 + 0.5 - x, row as f32 + 0.5 - y);
            let cover = smoothstep(radius + 0.5, radius - 0.5, distance) * opacity;
            let sample = &mut scene[row * COLUMNS + column];
            *sample = sample.mix(color, cover);
        }
    }
}
