//! Operators that fail, wait for another thread, and call others.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use dlbridge_ops::{Error, ErrorKind, Uninit, op};

/// The number of values that functions have made and not dropped.
static ALIVE: AtomicI64 = AtomicI64::new(0);

/// A value of a function, which counts itself.
struct Counted;

impl Counted {
    fn new() -> Self {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Fails if an element is negative.
#[op]
pub(crate) fn fails(x: &[f32], out: &mut [f32]) -> Result<(), String> {
    match x.iter().find(|x| **x < 0.0) {
        Some(x) => Err(format!("x has the element {x}; it must not be negative")),
        None => {
            out.copy_from_slice(x);
            Ok(())
        }
    }
}

/// Panics if an element is negative.
#[op]
pub(crate) fn panics(x: &[f32], out: &mut [f32]) {
    let index = x.iter().position(|x| *x < 0.0);
    assert!(index.is_none(), "element {} is negative", index.unwrap_or_default());
    out.copy_from_slice(x);
}

/// The number of values that functions have made and not dropped; this call makes one. Fails with the class
/// of a wrong value, and drops its value, if x begins with a negative element; panics if it begins with NaN.
#[op(shape(out = []))]
pub(crate) fn alive(x: &[f32], out: &mut [i64]) -> Result<(), Error> {
    let _counted = Counted::new();
    let first = x.first().copied().unwrap_or_default();
    assert!(!first.is_nan(), "x begins with NaN");
    if first < 0.0 {
        return Err(Error::of(ErrorKind::Value, format!("x begins with {first}")));
    }
    out[0] = ALIVE.load(Ordering::Relaxed);
    Ok(())
}

/// Calls another operator's function.
#[op]
pub(crate) fn nested(x: &[f32], out: &mut [Uninit<f32>]) {
    let mut inner = vec![0.0; x.len()];
    crate::softclip(x, Uninit::of(&mut inner));
    crate::softclip(&inner, out);
}

/// The number of calls of `meets`, and the news of another.
static CALLS: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());

/// True if another thread called the operator during the call, for which it waits 20 seconds.
#[op(shape(out = []))]
pub(crate) fn meets(x: &[f32], out: &mut [bool]) {
    let _ = x;
    let (calls, news) = &CALLS;
    let mut count = calls.lock().unwrap();
    *count += 1;
    news.notify_all();
    let pair = count.next_multiple_of(2);
    let wait = news.wait_timeout_while(count, Duration::from_secs(20), |count| *count < pair);
    out[0] = !wait.unwrap().1.timed_out();
}
