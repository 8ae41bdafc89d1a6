//! One thread to sixteen: shared state must not make them wait. Tensors share the allocator; borrows share the one
//! registry of the process.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use dlbridge_borrow::{Mode, Region, Registry};

use crate::rows;

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

/// Prints the calls of a thread per microsecond, alone and as one of several, as JSON.
pub(crate) fn print(quick: bool) {
    let time = Duration::from_millis(if quick { 100 } else { 1000 });
    let registry = Registry::new();
    let borrow = |thread: usize, mode: Mode| {
        // Each thread borrows memory of its own, like two callers with two arrays.
        let region = Region::bytes(0x10_0000 * (1 + thread), 4096);
        if let Ok(ticket) = registry.acquire(region, mode, "bench") {
            registry.release(ticket);
        }
    };
    let named = |name| rows::named(name).map(|row| row.run).expect("it is a row");
    let (ours, dlpark, floor) = (named("vec/dlbridge"), named("vec/dlpark"), named("vec/floor"));
    let works: [(&str, &(dyn Fn(usize) + Sync)); 5] = [
        ("vec/floor", &|_| floor()),
        ("vec/dlbridge", &|_| ours()),
        ("vec/dlpark", &|_| dlpark()),
        ("borrow/dlbridge", &|thread| borrow(thread, Mode::Read)),
        ("borrow for writing/dlbridge", &|thread| borrow(thread, Mode::Write)),
    ];
    let lines: Vec<String> = works
        .iter()
        .map(|(name, work)| {
            let rates =
                THREADS.map(|threads| format!(r#""{threads}": {:.3}"#, rate(*work, threads, time)));
            format!(r#""{name}": {{{}}}"#, rates.join(", "))
        })
        .collect();
    println!("{{{}}}", lines.join(", "));
}

/// Returns the calls of each thread per microsecond.
fn rate(work: &(dyn Fn(usize) + Sync), threads: usize, time: Duration) -> f64 {
    let start = Barrier::new(threads);
    let rates: Vec<f64> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let begun = Instant::now();
                    let mut calls = 0_u64;
                    while begun.elapsed() < time {
                        for _ in 0..1000 {
                            work(thread);
                        }
                        calls += 1000;
                    }
                    calls as f64 / begun.elapsed().as_secs_f64() / 1e6
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    rates.iter().sum::<f64>() / threads as f64
}
