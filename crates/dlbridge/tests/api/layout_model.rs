//! Compares the arithmetic of layouts with 128-bit numbers: which layouts are accepted or refused and why, sizes,
//! contiguity and the order of the elements, for any `i64` shapes and strides.

use crate::common::{Counted, Producer, indices, through_both};
use crate::layout_import::{Description, Rng, positive};
use dlbridge::{Error, Tensor};

/// The number of random layouts per test.
const CASES: usize = if cfg!(miri) { 30 } else { 10_000 };

#[test]
fn layout_is_accepted_exactly_if_all_its_numbers_fit() {
    let mut rng = Rng(1);
    let mut taken = 0;
    for _ in 0..CASES {
        let description = Description::random(&mut rng);
        taken += usize::from(description.check(Producer::import, description.padded));
        description.check(Producer::import_legacy, false);
    }
    // Both results must be frequent, so that the test checks both.
    assert!((CASES / 5..CASES * 4 / 5).contains(&taken), "{taken} of {CASES}");
}

#[test]
#[cfg(target_pointer_width = "64")]
fn each_limit_holds_to_the_last_unit() {
    use crate::layout_import::UINT1;
    use dlbridge::DeviceType;

    const MAX: i64 = i64::MAX;
    const FAR: u64 = i64::MAX as u64;
    let bits = |shape: &[i64], strides: &[i64]| Description {
        dtype: UINT1,
        ..Description::new(shape, strides, 1 << 60)
    };
    let cuda = |data: usize, stride: i64, byte_offset: u64| Description {
        device: DeviceType::CUDA,
        data,
        ..Description::new(&[2], &[stride], byte_offset)
    };
    // Each line has a number that just fits, and one that does not.
    let pairs = [
        (Description::new(&[MAX, 1], &[0, 0], 0), Description::new(&[1 << 62, 2], &[0, 0], 0)),
        (
            Description::new(&[MAX, 0], &[0, 0], 0),
            Description::new(&[1 << 62, 0, 2], &[0, 0, 0], 0),
        ),
        (bits(&[2], &[MAX]), bits(&[2, 2], &[MAX, 1])),
        (bits(&[2], &[i64::MIN]), bits(&[2, 2], &[i64::MIN, -1])),
        (Description::new(&[2], &[MAX - 1], 0), Description::new(&[2], &[MAX], 0)),
        (Description::new(&[2], &[2 - MAX], FAR - 1), Description::new(&[2], &[i64::MIN], FAR - 1)),
        (
            Description::new(&[2, 2], &[MAX - 9, -8], 8),
            Description::new(&[2, 2], &[MAX - 9, -9], 9),
        ),
        (Description::new(&[2], &[-7], 7), Description::new(&[2], &[-7], 6)),
        (Description::new(&[2], &[7], FAR - 8), Description::new(&[2], &[7], FAR - 7)),
        (cuda(3, -7, 4), cuda(3, -7, 3)),
        (cuda(9, 7, FAR), cuda(9, 7, FAR + 1)),
        (cuda(usize::MAX - 8, 7, 0), cuda(usize::MAX - 7, 7, 0)),
    ];
    for (fits, does_not) in pairs {
        for import in [Producer::import, Producer::import_legacy] {
            assert!(fits.check(import, false), "{fits:?}");
            assert!(!does_not.check(import, false), "{does_not:?}");
        }
    }
}

/// Returns true if the elements are contiguous, the last axis fastest.
fn adjacent(shape: &[usize], strides: &[i64]) -> bool {
    let position = |index: &Vec<usize>| -> i64 {
        index.iter().zip(strides).map(|(&i, stride)| i as i64 * stride).sum()
    };
    indices(shape).iter().map(position).eq(0..shape.iter().product::<usize>() as i64)
}

#[test]
#[cfg_attr(miri, ignore = "many cases, and no memory is touched")]
fn layout_is_contiguous_exactly_if_its_elements_have_no_gaps() {
    let mut found = [0; 2];
    for shape in indices(&[4; 3]) {
        let extents: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
        for steps in indices(&[12; 3]) {
            let strides: Vec<i64> = steps.iter().map(|&step| step as i64 - 2).collect();
            let tensor = Description::new(&extents, &strides, 99).producer().import().unwrap();
            let reversed = |list: &[i64]| list.iter().rev().copied().collect::<Vec<_>>();
            let f_shape: Vec<usize> = shape.iter().rev().copied().collect();
            let expected = [adjacent(&shape, &strides), adjacent(&f_shape, &reversed(&strides))];
            let answers = [tensor.is_c_contiguous(), tensor.is_f_contiguous()];
            assert_eq!(answers, expected, "{shape:?} {strides:?}");
            for (found, answer) in found.iter_mut().zip(answers) {
                *found += usize::from(answer);
            }
        }
    }
    assert!(found[0] > 0 && found[0] == found[1], "both orders are found equally often: {found:?}");
}

#[test]
fn iteration_follows_indices_in_c_order() {
    let mut rng = Rng(2);
    for _ in 0..CASES / 20 {
        let ndim = rng.below(5);
        let shape: Vec<usize> = (0..ndim).map(|_| rng.choose(&[0, 1, 2, 2, 3, 3, 4])).collect();
        let strides: Vec<i64> = (0..ndim).map(|_| rng.below(23) as i64 - 11).collect();
        let extents: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
        let (lowest, highest) = Description::new(&extents, &strides, 0).elements();
        let position = |index: &Vec<usize>| {
            let steps = index.iter().zip(&strides).map(|(&i, &stride)| i as i64 * stride);
            (steps.sum::<i64>() - lowest as i64) as u32
        };
        // The value of each element is its distance from the lowest one.
        let values: Vec<u32> = (0..=(highest - lowest) as u32).collect();
        let make = || {
            let producer = Producer::new(values.clone(), &extents).strides(&strides);
            producer.byte_offset(-lowest as u64 * 4)
        };
        let expected: Vec<u32> = indices(&shape).iter().map(position).collect();
        through_both(make, |tensor| {
            let tensor = tensor.unwrap();
            let view = tensor.view::<u32>().unwrap();
            assert!(view.iter().eq(&expected), "{shape:?} {strides:?}");
            assert!(indices(&shape).iter().map(|index| view.get(index).unwrap()).eq(&expected));
            assert_eq!(view.get(&shape), (ndim == 0).then(|| &expected[0]));
            assert_eq!(view.to_vec(), expected);
            let slice = adjacent(&shape, &strides).then_some(&expected[..]);
            assert_eq!(view.as_slice(), slice);
            let copy = tensor.to_copy().unwrap();
            assert_eq!(copy.view::<u32>().unwrap().as_slice(), Some(&expected[..]));
        });
    }
}

/// Returns the error of a layout within an owner of `owner` bytes.
fn fault(shape: &[usize], strides: &[isize], offset: usize, owner: usize) -> Option<Error> {
    let (extents, steps): (Vec<Option<i64>>, Vec<i64>) =
        shape.iter().zip(strides).map(|(&e, &s)| (i64::try_from(e).ok(), s as i64)).unzip();
    let Some(extents) = extents.into_iter().collect::<Option<Vec<i64>>>() else {
        return Some(Error::TooLarge);
    };
    let description = Description::new(&extents, &steps, 0);
    if isize::try_from(positive(&description.shape)).is_err() {
        return Some(Error::TooLarge);
    }
    let (lowest, highest) = description.elements();
    let moved = |end: i128| end.saturating_add(offset as i128);
    let within = moved(lowest) >= 0 && moved(highest) < owner as i128;
    let number = |n: i128| i64::try_from(n).ok();
    if description.is_empty() || within {
        return None;
    }
    // The error has a position only if all three numbers fit into `i64`.
    let numbers = (number(lowest), number(highest), number(offset as i128));
    let (Some(_), Some(_), Some(_)) = numbers else { return Some(Error::TooLarge) };
    match (number(moved(lowest)), number(moved(highest))) {
        (Some(lowest), Some(highest)) => Some(Error::OutOfBounds { lowest, highest, owner }),
        _ => Some(Error::TooLarge),
    }
}

#[test]
fn layout_is_accepted_exactly_if_it_lies_in_the_owner() {
    let mut rng = Rng(3);
    let mut made = 0;
    for _ in 0..CASES {
        let (ndim, owned) = (rng.below(5), rng.below(60));
        let extent = |rng: &mut Rng| match rng.below(16) {
            0 => (rng.next() >> rng.below(64)) as usize,
            _ => rng.choose(&[0, 1, 2, 2, 3, 4]),
        };
        let shape: Vec<usize> = (0..ndim).map(|_| extent(&mut rng)).collect();
        let strides: Vec<isize> = (0..ndim).map(|_| rng.number() as isize).collect();
        let offset = match rng.below(16) {
            0 => (rng.next() >> rng.below(64)) as usize,
            _ => rng.below(owned + 2),
        };
        let expected = fault(&shape, &strides, offset, owned);
        let (owner, dropped) = Counted::new((0..owned as u8).collect::<Vec<_>>());
        match Tensor::from_parts_strided(owner, &shape, &strides, offset) {
            Ok(tensor) => {
                assert_eq!(expected, None, "{shape:?} {strides:?} {offset} {owned}");
                let lead = |index: &Vec<usize>| -> isize {
                    index.iter().zip(&strides).map(|(&i, stride)| i as isize * stride).sum()
                };
                // Elements may repeat many times, so check only small tensors.
                if tensor.len() < 1000 {
                    let positions = indices(&shape);
                    let bytes = positions.iter().map(|index| (offset as isize + lead(index)) as u8);
                    assert!(tensor.view::<u8>().unwrap().iter().copied().eq(bytes));
                }
                assert_eq!(dropped.get(), 0);
                made += 1;
            }
            Err(error) => assert_eq!(Some(error), expected, "{shape:?} {strides:?} {offset}"),
        }
        assert_eq!(dropped.get(), 1);
    }
    assert!((CASES / 5..CASES * 4 / 5).contains(&made), "{made} of {CASES}");
}
