//! Runs threads that use one registry, in every possible order.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --package dlbridge-borrow --lib --release`

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::{Label, Mode, Region, Registry};

/// Runs threads that use the cells that they borrow; loom fails if two conflict. Returns the number of
/// granted borrows.
fn writers(regions: &'static [&'static [usize]], mode: fn(usize) -> Mode) -> usize {
    let registry = Arc::new(Registry::default());
    let cells: Arc<[UnsafeCell<usize>; 2]> = Arc::default();
    let threads: Vec<_> = regions
        .iter()
        .enumerate()
        .map(|(number, places)| {
            let (registry, cells) = (Arc::clone(&registry), Arc::clone(&cells));
            thread::spawn(move || {
                let region = Region::bytes(1000 + places[0], places.len());
                let Ok(ticket) = registry.acquire(region, mode(number), &Label::new(b"")) else {
                    return 0;
                };
                for &place in *places {
                    match mode(number) {
                        Mode::Read => cells[place].with(|cell| {
                            let _ = cell;
                        }),
                        Mode::Write => cells[place].with_mut(|cell| {
                            let _ = cell;
                        }),
                    }
                }
                registry.release(ticket);
                1
            })
        })
        .collect();
    let granted = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(registry.is_empty());
    granted
}

#[test]
fn two_writers_of_the_same_memory_do_not_conflict() {
    loom::model(|| assert!((1..=2).contains(&writers(&[&[0, 1], &[1]], |_| Mode::Write))));
}

#[test]
fn two_writers_of_disjoint_memory_are_both_granted() {
    loom::model(|| assert_eq!(writers(&[&[0], &[1]], |_| Mode::Write), 2));
}

#[test]
fn two_readers_are_both_granted() {
    loom::model(|| assert_eq!(writers(&[&[0, 1], &[0, 1]], |_| Mode::Read), 2));
}

#[test]
fn reader_and_writer_do_not_conflict() {
    let mode = |number| if number == 0 { Mode::Read } else { Mode::Write };
    loom::model(move || assert!((1..=2).contains(&writers(&[&[0], &[0, 1]], mode))));
}

#[test]
fn two_readers_and_a_writer_do_not_conflict() {
    let mode = |number| if number == 2 { Mode::Write } else { Mode::Read };
    // All orders would be too many.
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || assert!((1..=3).contains(&writers(&[&[0], &[1], &[0, 1]], mode))));
}
