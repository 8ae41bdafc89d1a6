//! A machine without CUDA: nothing panics, and each function returns a clear error.

use std::error::Error as _;

use cudarc::driver::{DriverError, sys::CUresult};
use dlbridge_cuda::{Error, context, device_of, is_present};

#[test]
fn functions_without_driver_return_no_driver() {
    if is_present() {
        println!("skipped: this machine has the CUDA driver");
        return;
    }
    for error in [context(0).unwrap_err(), device_of(0x1000).unwrap_err()] {
        assert!(matches!(error, Error::NoDriver), "{error}");
        assert!(error.to_string().contains("CUDA is not available on this machine"), "{error}");
        assert!(error.source().is_none());
    }
}

#[test]
fn driver_error_without_driver_is_displayed() {
    let error = Error::from(DriverError(CUresult::CUDA_ERROR_NO_DEVICE));
    assert_eq!(error.to_string(), "the CUDA driver: CUDA_ERROR_NO_DEVICE (code 100)");
    assert!(format!("{error:?}").contains("100"));
}
