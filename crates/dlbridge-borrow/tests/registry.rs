//! Any number of readers of a byte, or one writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::thread;

use dlbridge_borrow::{Mode, Region, Registry, Ticket};
use proptest::prelude::*;

/// What a test does: take a borrow of some bytes, or give the n-th of those back that are held.
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
    fn no_sequence_of_borrows_lets_a_writer_share_a_byte(actions in actions()) {
        let registry = Registry::new();
        let mut memory = [0_i32; 64];
        let mut held: Vec<(Ticket, Vec<usize>, i32)> = Vec::new();
        for action in actions {
            match action {
                Action::Acquire { first, count, step, writes } => {
                    let bytes: Vec<_> = (0..count).map(|i| first + i * step as usize).collect();
                    // Runs of bytes have a way of their own.
                    let region = match step {
                        1 => Region::bytes(1000 + first, count),
                        _ => Region::new(1000 + first, 1, &[count as i64], &[step]),
                    };
                    let free = bytes.iter().all(|&b| if writes { memory[b] == 0 } else { memory[b] >= 0 });
                    let mode = if writes { Mode::Write } else { Mode::Read };
                    let granted = registry.acquire(region.clone(), mode, "");
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
        for (ticket, ..) in held {
            registry.release(ticket);
        }
        prop_assert!(registry.is_empty());
    }
}

#[test]
fn threads_never_write_together() {
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
                    let Ok(ticket) = registry.acquire(region.clone(), mode, "a thread") else {
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

/// More than there are places for without the lock, in the same memory and in other.
#[test]
fn any_number_of_readers_is_seen_by_a_writer() {
    for distance in [0, 1, 64, 4096] {
        let registry = Registry::new();
        let at = |reader: usize| Region::bytes(0x10_0000 + reader * distance, 1);
        let tickets: Vec<_> =
            (0..200).map(|reader| registry.acquire(at(reader), Mode::Read, "r").unwrap()).collect();
        for (reader, ticket) in tickets.into_iter().enumerate() {
            assert!(
                registry.acquire(at(reader), Mode::Write, "w").is_err(),
                "{distance}: {reader}"
            );
            registry.release(ticket);
        }
        assert!(registry.is_empty());
        let writer = registry.acquire(at(0), Mode::Write, "w").unwrap();
        assert!(registry.acquire(at(0), Mode::Read, "r").is_err());
        registry.release(writer);
        assert!(registry.is_empty(), "the reader that was refused left nothing");
    }
}

#[test]
fn the_one_in_the_way_is_named() {
    let registry = Registry::new();
    let _reader = registry.acquire(Region::bytes(100, 4), Mode::Read, "numpy.ndarray").unwrap();
    let _writer = registry.acquire(Region::bytes(200, 4), Mode::Write, "ä".repeat(60)).unwrap();
    let conflict = registry.acquire(Region::bytes(103, 1), Mode::Write, "x").unwrap_err();
    assert_eq!((conflict.label.as_str(), conflict.mode), ("numpy.ndarray", Mode::Read));
    assert_eq!((conflict.region.start(), conflict.region.end()), (100, 104));
    let conflict = registry.acquire(Region::bytes(90, 120), Mode::Read, "x").unwrap_err();
    assert_eq!(conflict.label.to_string(), "ä".repeat(31), "cut at a character");
    assert_eq!(format!("{:?}", conflict.label), format!("{:?}", "ä".repeat(31)));
    assert_eq!(conflict.mode, Mode::Write);
}

/// Gives a ticket back twice.
fn twice(region: Region, mode: Mode) {
    let registry = Registry::default();
    let ticket = registry.acquire(region, mode, "").unwrap();
    let again = Ticket::from_number(ticket.number());
    registry.release(ticket);
    registry.release(again);
}

#[test]
#[should_panic(expected = "a ticket is given back once")]
fn a_reader_gives_its_ticket_back_once() {
    twice(Region::bytes(100, 4), Mode::Read);
}

#[test]
#[should_panic(expected = "a ticket is given back once")]
fn a_writer_gives_its_ticket_back_once() {
    twice(Region::bytes(100, 4), Mode::Write);
}

/// A ticket of a place that somebody else has now.
#[test]
#[should_panic(expected = "a ticket is given back once")]
fn a_ticket_is_not_that_of_the_next_reader() {
    let registry = Registry::default();
    let first = registry.acquire(Region::bytes(100, 4), Mode::Read, "").unwrap();
    let again = Ticket::from_number(first.number());
    registry.release(first);
    let _second = registry.acquire(Region::bytes(100, 4), Mode::Read, "").unwrap();
    registry.release(again);
}
