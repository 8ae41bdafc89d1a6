//! Non-maximum suppression: an operator whose result has a shape that depends on the values.

use dlbridge_ops::{Array, Dynamic, Error, View, op};

/// The indices of the boxes that overlap no kept box of a higher score, by falling score.
///
/// A box is [x1, y1, x2, y2]. Two boxes overlap if their intersection is more than `threshold` of their union.
#[op(default(threshold = 0.5), require(boxes[..] == [scores[0], 4]))]
pub(crate) fn non_maximum_suppression(
    boxes: View<'_, f32, 2>,
    scores: Array<'_, f32, 1>,
    threshold: f64,
    kept: Dynamic<'_, i64, 1>,
) -> Result<(), Error> {
    let corners: Vec<[f32; 4]> =
        (0..scores.len()).map(|i| std::array::from_fn(|corner| boxes[[i, corner]])).collect();
    let mut by_score: Vec<usize> = (0..scores.len()).collect();
    by_score.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let mut found: Vec<usize> = Vec::new();
    for i in by_score {
        let overlaps = |&other: &usize| overlap(corners[i], corners[other]) > threshold;
        if !found.iter().any(overlaps) {
            found.push(i);
        }
    }
    let mut kept = kept.allocate([found.len()])?;
    kept.iter_mut().zip(found).for_each(|(kept, i)| *kept = i as i64);
    Ok(())
}

/// The intersection of two boxes, divided by their union.
fn overlap(a: [f32; 4], b: [f32; 4]) -> f64 {
    let area =
        |[x1, y1, x2, y2]: [f32; 4]| f64::from((x2 - x1).max(0.0)) * f64::from((y2 - y1).max(0.0));
    let shared = area([a[0].max(b[0]), a[1].max(b[1]), a[2].min(b[2]), a[3].min(b[3])]);
    if shared == 0.0 { 0.0 } else { shared / (area(a) + area(b) - shared) }
}
