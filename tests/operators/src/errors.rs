//! Operators that fail, wait for another thread, and call others.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use dlbridge_ops::op;

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

/// Calls another operator's function.
#[op]
pub(crate) fn nested(x: &[f32], out: &mut [f32]) {
    let mut inner = vec![0.0; x.len()];
    crate::softclip(x, &mut inner);
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
