//! A machine without CUDA: nothing panics, and everything says so plainly.

use std::error::Error as _;

use cudarc::driver::{DriverError, sys::CUresult};
use dlbridge_cuda::{Error, context, device_of, is_present};

#[test]
fn without_a_driver_everything_says_so() {
    if is_present() {
        println!("skipped: this machine has the CUDA driver");
        return;
    }
    for error in [context(0).unwrap_err(), device_of(0x1000).unwrap_err()] {
        assert!(matches!(error, Error::NoDriver), "{error}");
        assert!(error.to_string().contains("there is no CUDA on this machine"), "{error}");
        assert!(error.source().is_none());
    }
}

#[test]
fn an_error_of_the_driver_can_be_told_without_it() {
    let error = Error::from(DriverError(CUresult::CUDA_ERROR_NO_DEVICE));
    assert_eq!(error.to_string(), "the CUDA driver: CUDA_ERROR_NO_DEVICE (code 100)");
    assert!(format!("{error:?}").contains("100"));
}
