//! Arrow structs with any numbers, with valid pointers wherever the numbers are valid. dlbridge must import or refuse
//! them as a second, simple reader does, must not read beyond a buffer or after its release, and must release each
//! struct once.
#![no_main]

mod abi;
mod array;
mod metadata;
mod numbers;
mod producer;
mod reader;
mod schema;

use std::ptr;
use std::sync::Once;
use std::sync::atomic::Ordering;

use _core::_core;
use arbitrary::{Result, Unstructured};
use dlbridge_pyo3::dlbridge::{Datetime64, Nanoseconds, Tensor, TensorRef};
use dlbridge_pyo3::{AllowCopy, PyReadonlyTensor};
use libfuzzer_sys::fuzz_target;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::abi::{ArrowArrayStream, ArrowDeviceArray, LIVE, live, poison};
use crate::array::Array;
use crate::numbers::{pick, seldom};
use crate::producer::{
    OfArray, OfDevice, OfStream, Place, Streamed, drop_array, drop_schema, drop_stream,
    get_last_error, get_next, get_schema, release_stream,
};
use crate::reader::{Expected, expected};
use crate::schema::Schema;

unsafe extern "C" {
    fn __lsan_disable();
    fn __lsan_enable();
}

fuzz_target!(|data: &[u8]| {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        // AddressSanitizer and LeakSanitizer see Python's objects only in memory of `malloc`.
        // SAFETY: no other thread runs yet.
        unsafe { std::env::set_var("PYTHONMALLOC", "malloc") };
        pyo3::append_to_inittab!(_core);
        Python::initialize();
        // PyO3 keeps parts of classes for ever.
        // SAFETY: these functions of LeakSanitizer are called in turn, on one thread.
        unsafe { __lsan_disable() };
        Python::attach(in_place_of_the_package).expect("the package's module");
        // SAFETY: as above.
        unsafe { __lsan_enable() };
    });
    let _ = Python::attach(|py| run(py, &mut Unstructured::new(data)));
    assert_eq!(LIVE.load(Ordering::SeqCst), 0, "structs not released");
});

/// Makes the extension module the package, which imports ask.
fn in_place_of_the_package(py: Python<'_>) -> PyResult<()> {
    let core = py.import("_core")?;
    core.setattr("_core", &core)?;
    py.import("sys")?.getattr("modules")?.set_item("dlbridge", &core)
}

fn run(py: Python<'_>, u: &mut Unstructured<'_>) -> Result<()> {
    let times = u.int_in_range(0..=3)? == 3;
    let depth = *u.choose(&[0, 0, 0, 1, 1, 1, 2, 3, 66])?;
    let schema = Schema::arbitrary(u, if times { depth.min(1) } else { depth }, times)?;
    let array = |u: &mut Unstructured<'_>| Array::arbitrary(u, &schema, None, times);
    match u.int_in_range(0..=4)? {
        0..=2 => {
            let array = array(u)?;
            let places =
                (Place::new(schema.make(), drop_schema), Place::new(array.make(), drop_array));
            let name = pick(u, c"arrow_array", &[c"other"])?;
            let capsules = [places.0.capsule(py, c"arrow_schema"), places.1.capsule(py, name)];
            let expected =
                if name == c"other" { Expected::Refused } else { expected(&schema, &array, times) };
            let answer = PyTuple::new(py, capsules).expect("a tuple").into_any();
            check(Bound::new(py, OfArray(answer.unbind())), &expected, times);
        }
        3 => {
            let array = array(u)?;
            let device = ArrowDeviceArray {
                array: array.make(),
                device_id: -1,
                device_type: pick(u, 1, &[0, -1, 2, 13, i32::MAX])?,
                sync_event: if seldom(u)? { poison() } else { ptr::null_mut() },
                reserved: [0; 3],
            };
            let usable = device.device_type == 1 && device.sync_event.is_null();
            let expected =
                if usable { expected(&schema, &array, times) } else { Expected::Refused };
            let schema = Place::new(schema.make(), drop_schema);
            let device = Place::new(device, |device| drop_array(&mut device.array));
            let capsules =
                [schema.capsule(py, c"arrow_schema"), device.capsule(py, c"arrow_device_array")];
            let answer = PyTuple::new(py, capsules).expect("a tuple").into_any();
            check(Bound::new(py, OfDevice(answer.unbind())), &expected, times);
        }
        _ => {
            let count = u.int_in_range(0..=3_usize)?;
            let arrays: Vec<_> = (0..count).map(|_| array(u)).collect::<Result<_>>()?;
            let schema_code = pick(u, 0, &[5, -1])?;
            let failing = if seldom(u)? { Some(u.int_in_range(0..=count)?) } else { None };
            let functions: [bool; 4] = [!seldom(u)?, !seldom(u)?, u.arbitrary()?, !seldom(u)?];
            // A released array ends the stream.
            let given = arrays.iter().position(|array| array.released).unwrap_or(count);
            let fails = failing.is_some_and(|left| count - left <= given) || schema_code != 0;
            let [full, empty]: [Vec<&Array>; 2] = [true, false].map(|full| {
                arrays[..given].iter().filter(|array| (array.length > 0) == full).collect()
            });
            // A stream without arrays has the elements of an empty one.
            let without = Array::empty(&schema, times);
            let chosen = match full[..] {
                [] => Some(empty.last().copied().unwrap_or(&without)),
                [only] => Some(only),
                _ => None,
            };
            let callable = functions[0] && functions[1] && functions[3];
            let expected = match chosen {
                Some(array) if callable && !fails => expected(&schema, array, times),
                _ => Expected::Refused,
            };
            let streamed = functions[3].then(|| {
                let arrays = arrays.iter().rev().map(Array::make).collect();
                live(Streamed { schema: Some(schema.make()), arrays, schema_code, failing })
            });
            let stream = ArrowArrayStream {
                get_schema: functions[0].then_some(get_schema),
                get_next: functions[1].then_some(get_next),
                get_last_error: functions[2].then_some(get_last_error),
                release: functions[3].then_some(release_stream),
                private_data: streamed.unwrap_or(poison()),
            };
            let stream = Place::new(stream, drop_stream);
            let answer = stream.capsule(py, c"arrow_array_stream");
            check(Bound::new(py, OfStream(answer.unbind())), &expected, times);
        }
    }
    Ok(())
}

/// Imports an object, and compares the result.
fn check<T>(object: PyResult<Bound<'_, T>>, expected: &Expected, times: bool) {
    let object = object.expect("an object").into_any();
    if times {
        let imported =
            object.extract::<PyReadonlyTensor<'_, Datetime64<Nanoseconds>, 1, AllowCopy>>();
        if let Some(times) = agrees(imported.map_err(PyErr::from), object.py(), expected)
            && let Expected::Imported { bytes: Some(bytes), .. } = expected
        {
            let found: Vec<i64> =
                times.iter().map(|time| time.count().unwrap_or(i64::MIN)).collect();
            let expected: Vec<i64> = bytes
                .chunks(8)
                .map(|number| i64::from_ne_bytes(number.try_into().expect("8 bytes")))
                .collect();
            assert_eq!(found, expected);
        }
        return;
    }
    let imported = dlbridge_pyo3::import(&object);
    if let Some(tensor) = agrees(imported, object.py(), expected) {
        let Expected::Imported { dtype, shape, bytes } = expected else {
            return;
        };
        assert_eq!((tensor.dtype(), tensor.shape()), (*dtype, &shape[..]));
        if let Some(bytes) = bytes {
            assert_eq!(TensorRef::from(&copy(&tensor)).as_bytes().expect("contiguous"), bytes);
        }
    }
}

fn copy(tensor: &Tensor) -> Tensor {
    tensor.to_copy().expect("memory for a copy")
}

/// Returns the result if both readers import. They must agree.
fn agrees<T>(found: PyResult<T>, py: Python<'_>, expected: &Expected) -> Option<T> {
    match found {
        Ok(imported) => {
            assert!(!matches!(expected, Expected::Refused), "imported, but should be refused");
            Some(imported)
        }
        Err(error) => {
            assert!(!matches!(expected, Expected::Imported { .. }), "refused: {error}");
            let known = error.is_instance_of::<PyBufferError>(py)
                || error.is_instance_of::<PyValueError>(py)
                || error.is_instance_of::<PyTypeError>(py);
            assert!(known, "{error}");
            None
        }
    }
}
