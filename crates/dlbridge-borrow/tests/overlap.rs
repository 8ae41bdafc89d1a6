//! Regions against the sets of their bytes.

use std::collections::BTreeSet;

use dlbridge_borrow::Region;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Strided {
    address: usize,
    item: usize,
    axes: Vec<(i64, i64)>,
}

impl Strided {
    fn region(&self) -> Region {
        let (shape, strides): (Vec<_>, Vec<_>) = self.axes.iter().copied().unzip();
        Region::new(self.address, self.item, &shape, &strides)
    }

    fn bytes(&self) -> BTreeSet<i64> {
        let mut firsts = vec![self.address as i64];
        for &(extent, stride) in &self.axes {
            let steps = || (0..extent).map(move |index| index * stride);
            firsts = firsts.iter().flat_map(|first| steps().map(move |s| first + s)).collect();
        }
        firsts.into_iter().flat_map(|first| first..first + self.item as i64).collect()
    }
}

fn strided(max_axes: usize) -> impl Strategy<Value = Strided> {
    let axis = (0..5_i64, -12..13_i64);
    (1000..1060_usize, 0..5_usize, prop::collection::vec(axis, 0..=max_axes))
        .prop_map(|(address, item, axes)| Strided { address, item, axes })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 8 } else { 4_000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn overlap_is_that_of_the_sets_of_bytes(a in strided(3), b in strided(3)) {
        let shared = a.bytes().intersection(&b.bytes()).next().is_some();
        prop_assert_eq!(a.region().overlaps(&b.region()), shared);
        prop_assert_eq!(b.region().overlaps(&a.region()), shared);
    }

    #[test]
    fn what_is_said_to_be_disjoint_is(a in strided(6), b in strided(6)) {
        let shared = a.bytes().intersection(&b.bytes()).next().is_some();
        prop_assert!(a.region().overlaps(&b.region()) || !shared);
    }

    #[test]
    fn bounds_are_those_of_the_bytes(a in strided(5)) {
        let (region, bytes) = (a.region(), a.bytes());
        prop_assert_eq!(region.is_empty(), bytes.is_empty());
        if let (Some(first), Some(last)) = (bytes.first(), bytes.last()) {
            prop_assert_eq!((region.start(), region.end()), (*first as usize, *last as usize + 1));
        }
    }
}

/// A matrix of `rows` by `columns` numbers, and a part of it.
fn part(columns: i64, rows: (i64, i64, i64), cols: (i64, i64, i64)) -> Region {
    let first = 0x10_0000 + (rows.0 * columns + cols.0) * 4;
    let shape = [(rows.1 - rows.0 + rows.2 - 1) / rows.2, (cols.1 - cols.0 + cols.2 - 1) / cols.2];
    Region::new(first as usize, 4, &shape, &[columns * 4 * rows.2, 4 * cols.2])
}

#[test]
fn parts_of_a_large_matrix() {
    for columns in [1920, 1921] {
        let all = (0, 1080, 1);
        let even = part(columns, all, (0, columns, 2));
        let odd = part(columns, all, (1, columns, 2));
        assert!(!even.overlaps(&odd), "columns of {columns}");
        assert!(even.overlaps(&part(columns, all, (2, columns, 2))));
        assert!(!part(columns, (0, 1080, 2), all_of(columns)).overlaps(&part(
            columns,
            (1, 1080, 2),
            all_of(columns)
        )));
        assert!(!part(columns, all, (0, 960, 1)).overlaps(&part(columns, all, (960, columns, 1))));
        assert!(part(columns, all, (0, 961, 1)).overlaps(&part(columns, all, (960, columns, 1))));
        // The channels of a picture, and every third number.
        assert!(!part(columns, all, (0, 1920, 3)).overlaps(&part(columns, all, (2, 1920, 3))));
    }
}

fn all_of(columns: i64) -> (i64, i64, i64) {
    (0, columns, 1)
}

#[test]
fn a_matrix_and_its_transpose_overlap() {
    let matrix = Region::new(0x1000, 8, &[300, 500], &[4000, 8]);
    let transpose = Region::new(0x1000, 8, &[500, 300], &[8, 4000]);
    assert!(matrix.overlaps(&transpose));
    let backwards = Region::new(0x1000 + 8 * 149_999, 8, &[300, 500], &[-4000, -8]);
    assert!(matrix.overlaps(&backwards));
}

#[test]
fn axes_of_one_index_and_broadcast_ones_do_not_matter() {
    let row = Region::new(0x1000, 1, &[1, 4, 1000], &[i64::MAX, 1, 0]);
    assert_eq!((row.start(), row.end()), (0x1000, 0x1004));
    assert!(!row.overlaps(&Region::bytes(0x1004, 1)));
}

#[test]
fn extremes_are_not_wrapped() {
    let huge = Region::new(0x1000, 1, &[i64::MAX, i64::MAX], &[i64::MAX, i64::MIN]);
    assert_eq!((huge.start(), huge.end()), (0, usize::MAX));
    assert!(Region::new(0x1000, 1, &[-3], &[1]).is_empty());
    assert!(Region::bytes(usize::MAX - 1, 8).overlaps(&Region::bytes(usize::MAX - 1, 1)));
    let all = Region::bytes(0, usize::MAX);
    assert!(all.overlaps(&all));
    // What is partly outside of the address space is not reckoned with, so that nothing is missed.
    assert!(Region::new(10, 1, &[2], &[-16]).overlaps(&Region::bytes(10, 1)));
    let high = Region::new(usize::MAX - 3, 1, &[2], &[16]);
    let byte = Region::bytes(usize::MAX - 3, 1);
    assert!(high.overlaps(&byte) && byte.overlaps(&high));
}

#[test]
fn what_takes_too_long_to_prove_counts_as_overlapping() {
    // Sums of many numbers that are nearly equal: a hard case for the search.
    let shape = [2; 30];
    let strides: Vec<i64> = (0..30).map(|axis| 2 * (1_000_003 + 7919 * axis)).collect();
    let a = Region::new(0x1000_0000, 1, &shape, &strides);
    let b = Region::new(0x1000_0001 + 10_000_000, 1, &shape, &strides);
    let begun = std::time::Instant::now();
    let _ = a.overlaps(&b);
    assert!(begun.elapsed().as_secs() < 5, "the search is bounded");
}

#[test]
#[should_panic(expected = "as many strides as extents")]
fn strides_and_extents_go_together() {
    let _ = Region::new(0x1000, 4, &[2], &[]);
}
