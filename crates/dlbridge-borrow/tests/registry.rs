//! The registry grants any number of readers of a byte, or one writer.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::thread;

use dlbridge_borrow::{Label, Mode, Region, Registry};
use proptest::prelude::*;

const LABEL: &Label = &Label::new(b"a borrow");

/// A step of a test: borrow some bytes, or release the n-th borrow that is held.
#[derive(Clone, Debug)]
enum Action {
    Acquire { first: usize, count: usize, step: i64, writes: bool },
    Release(usize),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let acquire = (0..24_usize, 0..6_usize, 1..4_i64, any::<bool>())
        .prop_map(|(first, count, step, writes)| Action::Acquire { first, count, step, writes });
    let release = (0..8_usize).prop_map(Action::Release);
    prop::collection::vec(prop_oneof![3 => acquire, 1 => release], 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 1_000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A model of memory with a count for each byte: above zero readers, below zero a writer.
    #[test]
    fn borrows_in_any_sequence_never_share_a_written_byte(
        actions in actions(),
        others in prop_oneof![Just(0_usize), Just(100)],
    ) {
        let registry = Registry::new();
        // Many borrows elsewhere, of every size and on both sides, so that the registry searches by address.
        let others: Vec<_> = (0..others).map(|n| {
            let region = Region::new(if n % 2 == 0 { 2000 + 64 * n } else { 64 }, 1, [(n as i64 % 9, 2), (2, 32)]);
            let mode = if n % 2 == 0 { Mode::Write } else { Mode::Read };
            registry.acquire(region, mode, LABEL).unwrap()
        }).collect();
        let mut memory = [0_i32; 64];
        let mut held: Vec<(NonZeroUsize, Vec<usize>, i32)> = Vec::new();
        for action in actions {
            match action {
                Action::Acquire { first, count, step, writes } => {
                    let bytes: Vec<_> = (0..count).map(|i| first + i * step as usize).collect();
                    // Contiguous runs have a path of their own.
                    let region = match step {
                        1 => Region::bytes(1000 + first, count),
                        _ => Region::new(1000 + first, 1, [(count as i64, step)]),
                    };
                    let free = bytes.iter().all(|&b| if writes { memory[b] == 0 } else { memory[b] >= 0 });
                    let mode = if writes { Mode::Write } else { Mode::Read };
                    let granted = registry.acquire(region.clone(), mode, LABEL);
                    prop_assert_eq!(granted.is_ok(), free);
                    if let Ok(ticket) = granted {
                        let change = if writes { -1 } else { 1 };
                        bytes.iter().for_each(|&b| memory[b] += change);
                        held.push((ticket, bytes, change));
                    }
                }
                Action::Release(which) if !held.is_empty() => {
                    let (ticket, bytes, change) = held.swap_remove(which % held.len());
                    registry.release(ticket);
                    bytes.iter().for_each(|&b| memory[b] -= change);
                }
                Action::Release(_) => {}
            }
        }
        for ticket in held.into_iter().map(|(ticket, ..)| ticket).chain(others) {
            registry.release(ticket);
        }
        prop_assert!(registry.is_empty());
    }
}

#[test]
fn one_of_many_borrows_conflicts_with_a_new_one() {
    let registry = Registry::new();
    let held: Vec<_> = (0..200)
        .map(|n| {
            registry.acquire(
                Region::bytes(0x1000 * (1 + n), 1 << (n % 13)),
                Mode::Write,
                &Label::new(format!("{n}").as_bytes()),
            )
        })
        .map(Result::unwrap)
        .collect();
    let all = registry.acquire(Region::bytes(0, usize::MAX), Mode::Read, LABEL).unwrap_err();
    assert_eq!(all.mode, Mode::Write);
    for n in 0..200 {
        let last = Region::bytes(0x1000 * (1 + n) + (1 << (n % 13)) - 1, 1);
        let conflict = registry.acquire(last, Mode::Read, LABEL).unwrap_err();
        assert_eq!(conflict.label.as_str(), format!("{n}"));
    }
    held.into_iter().for_each(|ticket| registry.release(ticket));
    assert!(registry.is_empty());
    let all = registry.acquire(Region::bytes(0, usize::MAX), Mode::Write, LABEL).unwrap();
    registry.release(all);
}

#[test]
fn threads_borrow_at_once_and_never_write_together() {
    let registry = Arc::new(Registry::new());
    let users: Arc<[AtomicIsize; 8]> = Arc::default();
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let (registry, users) = (Arc::clone(&registry), Arc::clone(&users));
            thread::spawn(move || {
                let mut granted = 0;
                for turn in 0..if cfg!(miri) { 20 } else { 5_000 } {
                    let first = (seed * 7 + turn * 3) % 6;
                    let mode = if turn % 3 == 0 { Mode::Write } else { Mode::Read };
                    let region = Region::bytes(1000 + first, 3);
                    let Ok(ticket) = registry.acquire(region.clone(), mode, LABEL) else {
                        continue;
                    };
                    granted += 1;
                    let change = if mode == Mode::Write { -100 } else { 1 };
                    for user in &users[first..first + 3] {
                        let before = user.fetch_add(change, Ordering::Relaxed);
                        assert!(if mode == Mode::Write { before == 0 } else { before >= 0 });
                    }
                    for user in &users[first..first + 3] {
                        user.fetch_sub(change, Ordering::Relaxed);
                    }
                    registry.release(ticket);
                }
                granted
            })
        })
        .collect();
    assert!(threads.into_iter().map(|t| t.join().unwrap()).sum::<usize>() > 4);
    assert!(registry.is_empty());
}

/// More readers than lock-free places, in the same memory and in separate memory.
#[test]
fn writer_detects_any_number_of_readers() {
    for distance in [0, 1, 64, 4096] {
        let registry = Registry::new();
        let at = |reader: usize| Region::bytes(0x10_0000 + reader * distance, 1);
        let tickets: Vec<_> = (0..200)
            .map(|reader| registry.acquire(at(reader), Mode::Read, LABEL).unwrap())
            .collect();
        for (reader, ticket) in tickets.into_iter().enumerate() {
            assert!(
                registry.acquire(at(reader), Mode::Write, LABEL).is_err(),
                "{distance}: {reader}"
            );
            registry.release(ticket);
        }
        assert!(registry.is_empty());
        let writer = registry.acquire(at(0), Mode::Write, LABEL).unwrap();
        assert!(registry.acquire(at(0), Mode::Read, LABEL).is_err());
        registry.release(writer);
        assert!(registry.is_empty(), "a refused reader leaves no borrow");
    }
}

#[test]
fn conflict_names_the_existing_borrow() {
    let registry = Registry::new();
    let _reader =
        registry.acquire(Region::bytes(100, 4), Mode::Read, &Label::new(b"numpy.ndarray")).unwrap();
    let _writer = registry
        .acquire(Region::bytes(200, 4), Mode::Write, &Label::new("ä".repeat(60).as_bytes()))
        .unwrap();
    let conflict = registry.acquire(Region::bytes(103, 1), Mode::Write, LABEL).unwrap_err();
    assert_eq!((conflict.label.as_str(), conflict.mode), ("numpy.ndarray", Mode::Read));
    assert_eq!((conflict.region.start(), conflict.region.end()), (100, 104));
    let conflict = registry.acquire(Region::bytes(90, 120), Mode::Read, LABEL).unwrap_err();
    assert_eq!(conflict.label.to_string(), "ä".repeat(32), "cut at a character");
    assert_eq!(format!("{:?}", conflict.label), format!("{:?}", "ä".repeat(32)));
    assert_eq!(conflict.mode, Mode::Write);
}

/// Releases a ticket twice.
fn twice(region: Region, mode: Mode) {
    let registry = Registry::default();
    let ticket = registry.acquire(region, mode, LABEL).unwrap();
    registry.release(ticket);
    registry.release(ticket);
}

#[test]
#[should_panic(expected = "release takes each ticket once")]
fn reader_released_twice_panics() {
    twice(Region::bytes(100, 4), Mode::Read);
}

#[test]
#[should_panic(expected = "release takes each ticket once")]
fn writer_released_twice_panics() {
    twice(Region::bytes(100, 4), Mode::Write);
}

/// The old ticket of a place that the next reader holds.
#[test]
#[should_panic(expected = "release takes each ticket once")]
fn stale_ticket_of_a_reused_place_panics() {
    let registry = Registry::default();
    let first = registry.acquire(Region::bytes(100, 4), Mode::Read, LABEL).unwrap();
    registry.release(first);
    let _second = registry.acquire(Region::bytes(100, 4), Mode::Read, LABEL).unwrap();
    registry.release(first);
}
