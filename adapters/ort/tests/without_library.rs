//! Where there is no library of ONNX Runtime, and where one comes later.

mod support;

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, thread};

use dlbridge::Tensor;
use dlbridge_ort::{Error, TensorExt};
use support::Counted;

/// Lets ort look elsewhere.
fn name_library(path: &OsStr) {
    // SAFETY: the only test of this program, and its threads are joined.
    unsafe { env::set_var("ORT_DYLIB_PATH", path) };
}

#[test]
fn there_is_an_error_and_no_panic() {
    let library = env::var_os("ORT_DYLIB_PATH");
    let dropped = Arc::new(AtomicUsize::new(0));
    let tensor = || Tensor::from_parts(Counted(vec![1.0, 2.0], dropped.clone()), [2]).unwrap();
    // Neither a path that is not there nor a file that is no library.
    for path in [OsStr::new("/nowhere/libonnxruntime.so"), env::current_exe().unwrap().as_os_str()]
    {
        dropped.store(0, Ordering::Relaxed);
        name_library(path);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (first, second) = (tensor(), tensor());
                thread::spawn(move || {
                    // SAFETY: no model runs on the input.
                    [first.into_value().err(), unsafe { second.into_input() }.err()]
                        .map(Option::unwrap)
                })
            })
            .collect();
        for error in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
            assert!(matches!(error, Error::Library { .. }), "{error}");
            assert!(error.to_string().contains("ORT_DYLIB_PATH"), "{error}");
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 8);
        assert!(matches!(tensor().to_value(), Err(Error::Library { .. })));
    }
    let Some(library) = library else {
        assert!(env::var_os("DLBRIDGE_REQUIRE").is_none(), "ORT_DYLIB_PATH must name a library");
        println!("skipped: ORT_DYLIB_PATH names no library that could come later");
        return;
    };
    name_library(&library);
    assert_eq!(tensor().into_value().unwrap().size(), Some(8));
}
