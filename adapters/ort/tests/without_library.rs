//! Behaviour without a library of ONNX Runtime, and after a library becomes available.

use std::ffi::OsStr;
use std::{env, thread};

use dlbridge::Tensor;
use dlbridge_ort::{Error, TensorExt};
use dlbridge_testing::{Counted, Drops, required};

/// Makes ort look for another library.
fn name_library(path: &OsStr) {
    // SAFETY: the only test of this program, and its threads are joined.
    unsafe { env::set_var("ORT_DYLIB_PATH", path) };
}

#[test]
fn missing_library_returns_an_error_and_does_not_panic() {
    let library = env::var_os("ORT_DYLIB_PATH");
    let tensor =
        |drops: &Drops| Tensor::from_parts(Counted::new(vec![1.0_f32, 2.0], drops), [2]).unwrap();
    // Both a missing path and a file that is not a library fail.
    for path in [OsStr::new("/nowhere/libonnxruntime.so"), env::current_exe().unwrap().as_os_str()]
    {
        let drops = Drops::default();
        name_library(path);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (first, second) = (tensor(&drops), tensor(&drops));
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
        assert_eq!(drops.count(), 8);
        assert!(matches!(tensor(&drops).to_value(), Err(Error::Library { .. })));
    }
    let later =
        library.ok_or("ORT_DYLIB_PATH does not name a library for the second half of the test");
    let Some(library) = required("ONNX Runtime", later) else { return };
    name_library(&library);
    assert_eq!(tensor(&Drops::default()).into_value().unwrap().size(), Some(8));
}
