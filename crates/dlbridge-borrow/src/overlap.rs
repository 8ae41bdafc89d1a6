//! Decides if two strided regions share a byte.
//!
//! The address of a byte is the region's start, plus a multiple of each stride within the extent, plus a place
//! within the element. Two regions share a byte if this equation has a solution in whole numbers within bounds:
//!
//! ```text
//! start a + sum(stride * index) + place  =  start b + sum(stride * index) + place
//! ```
//!
//! With the indices of `b` counted from their ends, all terms are on one side and positive:
//! `sum(coefficient * unknown) = target`. The search goes from the largest coefficient down; the most that the
//! smaller ones add up to leaves few values for each. In general this problem is hard, so the steps are counted.

/// An axis: the last index, and the bytes from one index to the next.
pub(crate) type Axis = [u64; 2];

/// After this many steps, two regions count as overlapping. Views of one matrix need a few.
const BUDGET: u32 = 2_000;

/// A coefficient with the largest value of its unknown.
struct Term {
    coefficient: u128,
    most: u128,
    /// The most that this and all smaller terms add up to.
    reach: u128,
    /// The greatest common divisor of this and all smaller coefficients.
    divisor: u128,
}

/// Returns true if `target` is a sum of one multiple of each axis' coefficient, each factor from 0 to the axis' last
/// index, and also if the search takes too long.
pub(crate) fn is_sum(target: u128, axes: impl Iterator<Item = Axis>) -> bool {
    // The largest coefficient first; equal ones become one term.
    let mut terms: Vec<Term> = Vec::new();
    for [most, coefficient] in axes.filter(|axis| !axis.contains(&0)) {
        let (most, coefficient) = (u128::from(most), u128::from(coefficient));
        let place = terms.partition_point(|term| term.coefficient > coefficient);
        match terms.get_mut(place) {
            Some(term) if term.coefficient == coefficient => term.most += most,
            _ => terms.insert(place, Term { coefficient, most, reach: 0, divisor: 0 }),
        }
    }
    let (mut reach, mut divisor) = (0_u128, 0);
    for term in terms.iter_mut().rev() {
        reach = reach.saturating_add(term.coefficient.saturating_mul(term.most));
        divisor = gcd(term.coefficient, divisor);
        (term.reach, term.divisor) = (reach, divisor);
    }
    let mut budget = BUDGET;
    is_solvable(&terms, target, &mut budget)
}

/// Returns true if values within bounds add up to the target, or if the budget runs out.
fn is_solvable(terms: &[Term], target: u128, budget: &mut u32) -> bool {
    let Some((term, smaller)) = terms.split_first() else { return target == 0 };
    if target > term.reach || !target.is_multiple_of(term.divisor) {
        return false;
    }
    let rest = smaller.first().map_or(0, |next| next.reach);
    let fewest = target.saturating_sub(rest).div_ceil(term.coefficient);
    let most = term.most.min(target / term.coefficient);
    (fewest..=most).any(|value| {
        let Some(left) = budget.checked_sub(1) else { return true };
        *budget = left;
        is_solvable(smaller, target - value * term.coefficient, budget)
    })
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
