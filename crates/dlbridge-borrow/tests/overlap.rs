//! Compares regions with the sets of their bytes.

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
        Region::new(self.address, self.item, self.axes.iter().copied())
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
    fn overlap_of_few_axes_equals_that_of_byte_sets(a in strided(3), b in strided(3)) {
        let shared = a.bytes().intersection(&b.bytes()).next().is_some();
        prop_assert_eq!(a.region().overlaps(&b.region()), shared);
        prop_assert_eq!(b.region().overlaps(&a.region()), shared);
    }

    #[test]
    fn regions_reported_disjoint_share_no_byte(a in strided(6), b in strided(6)) {
        let shared = a.bytes().intersection(&b.bytes()).next().is_some();
        prop_assert!(a.region().overlaps(&b.region()) || !shared);
    }

    #[test]
    fn run_and_axes_describe_the_same_bytes(a in strided(5)) {
        let region = a.region();
        let axes = region.axes().iter().map(|&[last, step]| (last as i64 + 1, step as i64)).collect();
        let again = Strided { address: region.start(), item: region.run(), axes };
        prop_assert_eq!(again.bytes(), a.bytes());
    }

    #[test]
    fn bounds_equal_those_of_the_byte_set(a in strided(5)) {
        let (region, bytes) = (a.region(), a.bytes());
        prop_assert_eq!(region.is_empty(), bytes.is_empty());
        if let (Some(first), Some(last)) = (bytes.first(), bytes.last()) {
            prop_assert_eq!((region.start(), region.end()), (*first as usize, *last as usize + 1));
        }
    }
}

/// Returns a sub-matrix of a matrix with `columns` columns. `rows` and `cols` are (start, end, step).
fn part(columns: i64, rows: (i64, i64, i64), cols: (i64, i64, i64)) -> Region {
    let first = 0x10_0000 + (rows.0 * columns + cols.0) * 4;
    let extent = |(start, end, step): (i64, i64, i64)| (end - start + step - 1) / step;
    let axes = [(extent(rows), columns * 4 * rows.2), (extent(cols), 4 * cols.2)];
    Region::new(first as usize, 4, axes)
}

#[test]
fn sub_matrices_overlap_exactly_if_they_share_an_element() {
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
        // Two channels of an image: every third number.
        assert!(!part(columns, all, (0, 1920, 3)).overlaps(&part(columns, all, (2, 1920, 3))));
    }
}

fn all_of(columns: i64) -> (i64, i64, i64) {
    (0, columns, 1)
}

#[test]
fn matrix_and_its_transpose_overlap() {
    let matrix = Region::new(0x1000, 8, [(300, 4000), (500, 8)]);
    let transpose = Region::new(0x1000, 8, [(500, 8), (300, 4000)]);
    assert!(matrix.overlaps(&transpose));
    let backwards = Region::new(0x1000 + 8 * 149_999, 8, [(300, -4000), (500, -8)]);
    assert!(matrix.overlaps(&backwards));
}

#[test]
fn axes_of_extent_one_or_stride_zero_add_no_bytes() {
    let row = Region::new(0x1000, 1, [(1, i64::MAX), (4, 1), (1000, 0)]);
    assert_eq!((row.start(), row.end()), (0x1000, 0x1004));
    assert!(!row.overlaps(&Region::bytes(0x1004, 1)));
}

#[test]
fn extreme_extents_and_strides_do_not_wrap() {
    let huge = Region::new(0x1000, 1, [(i64::MAX, i64::MAX), (i64::MAX, i64::MIN)]);
    assert_eq!((huge.start(), huge.end()), (0, usize::MAX));
    assert!(Region::new(0x1000, 1, [(-3, 1)]).is_empty());
    assert!(Region::bytes(usize::MAX - 1, 8).overlaps(&Region::bytes(usize::MAX - 1, 1)));
    let all = Region::bytes(0, usize::MAX);
    assert!(all.overlaps(&all));
    // A region partly outside of the address space overlaps its whole span, so that no overlap is missed.
    assert!(Region::new(10, 1, [(2, -16)]).overlaps(&Region::bytes(10, 1)));
    let high = Region::new(usize::MAX - 3, 1, [(2, 16)]);
    let byte = Region::bytes(usize::MAX - 3, 1);
    assert!(high.overlaps(&byte) && byte.overlaps(&high));
}

#[test]
fn overlap_search_of_a_hard_case_is_bounded() {
    // Sums of many nearly equal numbers are hard for the search.
    let axes: Vec<_> = (0..30).map(|axis| (2, 2 * (1_000_003 + 7919 * axis))).collect();
    let a = Region::new(0x1000_0000, 1, axes.clone());
    let b = Region::new(0x1000_0001 + 10_000_000, 1, axes.clone());
    let begun = std::time::Instant::now();
    let _ = a.overlaps(&b);
    assert!(begun.elapsed().as_secs() < 5, "the search is bounded");
}
