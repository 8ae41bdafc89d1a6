//! Drivers and libraries that a machine may lack.

use std::env;
use std::fmt::Display;

/// Returns what a test needs, or `None` after printing the reason.
///
/// `cargo xtask ci` and `nightly` set `DLBRIDGE_REQUIRE`. Then the test fails instead.
#[track_caller]
pub fn required<T>(name: &str, found: Result<T, impl Display>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(reason) => {
            assert!(env::var_os("DLBRIDGE_REQUIRE").is_none(), "{name} is required: {reason}");
            println!("skipped: no {name}: {reason}");
            None
        }
    }
}
