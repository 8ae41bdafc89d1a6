//! Children of this process.

use std::ffi::c_int;

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(code: c_int) -> !;
    fn alarm(seconds: u32) -> u32;
}

/// Returns the status of a child that runs `work` and exits with its result. A child that waits for ever is killed; its
/// status is not 0.
pub(crate) fn child(work: fn() -> c_int) -> c_int {
    // SAFETY: the child calls `work`, which takes locks that are free, and ends without destructors.
    unsafe {
        match fork() {
            0 => {
                alarm(10);
                _exit(work())
            }
            process => {
                let mut status = -1;
                assert_eq!(waitpid(process, &mut status, 0), process);
                status
            }
        }
    }
}
