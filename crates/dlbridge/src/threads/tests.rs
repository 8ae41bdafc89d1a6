//! Tests of the pool, and of jobs on helpers that these tests drive.

use core::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use std::vec::Vec;
use std::{format, thread};

use super::job::{self, Helper};
use super::{MAX_NUM_THREADS, num_threads, pool, set_num_threads, split};

const ROUNDS: usize = if cfg!(miri) { 3 } else { 300 };

/// Numbers how often each index was visited.
fn counts(len: usize) -> Vec<AtomicUsize> {
    (0..len).map(|_| AtomicUsize::new(0)).collect()
}

fn assert_each_once(counts: &[AtomicUsize], context: &str) {
    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{context}: {counts:?}");
}

#[test]
fn split_any_extent_visits_every_index_once() {
    let extents: &[usize] = match cfg!(miri) {
        true => &[0, 1, 5, 64, 65, 129],
        false => &[0, 1, 2, 3, 5, 63, 64, 65, 100, 127, 129, 1000],
    };
    for &extent in extents {
        for (parts, grain) in [(1, 64), (2, 1), (2, 64), (3, 64), (3, 7), (8, 16)] {
            let visited = counts(extent);
            split(extent, parts, grain, &|begin, end| {
                visited[begin..end]
                    .iter()
                    .for_each(|count| _ = count.fetch_add(1, Ordering::Relaxed));
            });
            assert_each_once(&visited, &format!("{extent} in {parts} by {grain}"));
        }
    }
}

#[test]
fn pool_several_callers_at_once_each_part_runs_once() {
    thread::scope(|scope| {
        for caller in 0..4 {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let visited = counts(10);
                    pool::run(3, 10, &|part| _ = visited[part].fetch_add(1, Ordering::Relaxed));
                    assert_each_once(&visited, &format!("caller {caller}, round {round}"));
                }
            });
        }
    });
}

/// Other tests use the pool meanwhile, so a copy runs during each change.
#[test]
fn set_num_threads_during_copies_keeps_every_part() {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                let visited = counts(10);
                pool::run(4, 10, &|part| _ = visited[part].fetch_add(1, Ordering::Relaxed));
                assert_each_once(&visited, &format!("round {round}"));
            }
            done.store(true, Ordering::Relaxed);
        });
        let mut number = 0;
        while !done.load(Ordering::Relaxed) {
            number = number % 5 + 1;
            set_num_threads(NonZeroUsize::new(number).unwrap());
            assert_eq!(num_threads(), number);
            thread::yield_now();
        }
    });
    set_num_threads(NonZeroUsize::MAX);
    assert_eq!(num_threads(), MAX_NUM_THREADS);
    set_num_threads(NonZeroUsize::new(3).unwrap());
    assert_eq!(num_threads(), 3);
}

#[test]
fn pool_panic_on_any_thread_reaches_the_caller_and_the_pool_works_on() {
    for panicking in 0..6 {
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool::run(3, 6, &|part| assert_ne!(part, panicking, "the panic of a part"));
        }));
        let message = result.unwrap_err();
        assert!(
            message.downcast_ref::<std::string::String>().unwrap().contains("the panic of a part")
        );
        let visited = counts(6);
        pool::run(3, 6, &|part| _ = visited[part].fetch_add(1, Ordering::Relaxed));
        assert_each_once(&visited, &format!("after part {panicking}"));
    }
}

#[test]
fn job_helper_that_never_wakes_up_is_not_waited_for() {
    let (helper, visited) = (Helper::new(), counts(4));
    let helpers = [Arc::clone(&helper)];
    job::run(4, &|part| _ = visited[part].fetch_add(1, Ordering::Relaxed), &helpers, || ());
    assert_each_once(&visited, "without the helper");
    // The job is gone, and the helper finds none.
    assert!(helper.work());
    assert!(!helper.wait(Duration::ZERO));
}

#[test]
fn job_helper_that_works_is_waited_for() {
    let (helper, visited, both) = (Helper::new(), counts(2), Barrier::new(2));
    let serving = thread::spawn({
        let helper = Arc::clone(&helper);
        move || {
            assert!(helper.wait(Duration::from_secs(60)));
            assert!(helper.work());
            // The end.
            assert!(helper.wait(Duration::from_secs(60)));
            assert!(!helper.work());
        }
    });
    // Neither part ends before the other begins, so each thread has one.
    let part = |part: usize| {
        both.wait();
        visited[part].fetch_add(1, Ordering::Relaxed);
    };
    job::run(2, &part, &[Arc::clone(&helper)], || ());
    assert_each_once(&visited, "with the helper");
    helper.end();
    serving.join().unwrap();
}

#[test]
fn job_panic_of_a_helper_reaches_the_caller_after_all_parts() {
    let (helper, both) = (Helper::new(), Barrier::new(2));
    let caller = thread::current().id();
    let serving = thread::spawn({
        let helper = Arc::clone(&helper);
        move || helper.wait(Duration::from_secs(60)) && helper.work()
    });
    let ended = AtomicBool::new(false);
    let part = |_| {
        both.wait();
        assert_eq!(thread::current().id(), caller, "a helper panics");
        ended.store(true, Ordering::Relaxed);
    };
    let helpers = [helper];
    let result = catch_unwind(AssertUnwindSafe(|| job::run(2, &part, &helpers, || ())));
    assert!(result.is_err());
    assert!(ended.load(Ordering::Relaxed));
    assert!(serving.join().unwrap());
}

/// Miri's rules for pointers forbid what rayon does.
#[cfg(all(feature = "rayon", not(miri)))]
#[test]
fn split_in_a_rayon_pool_uses_its_threads_even_if_all_are_busy() {
    let rayon = rayon_core::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let on_pool = |_: &()| {
        rayon.install(|| {
            let visited = counts(1000);
            split(1000, 2, 1, &|begin, end| {
                assert!(rayon_core::current_thread_index().is_some());
                visited[begin..end]
                    .iter()
                    .for_each(|count| _ = count.fetch_add(1, Ordering::Relaxed));
            });
            assert_each_once(&visited, "in rayon");
        })
    };
    on_pool(&());
    // The other thread of the pool waits for the copy, so it cannot help.
    let done = Barrier::new(2);
    rayon.in_place_scope(|scope| {
        scope.spawn(|_| _ = done.wait());
        on_pool(&());
        done.wait();
    });
}
