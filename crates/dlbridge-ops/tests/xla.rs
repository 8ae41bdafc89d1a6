//! Call frames made by hand: what the handler reads of them, and what it refuses.
#![allow(missing_docs, clippy::too_many_arguments)]

use std::cell::RefCell;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use dlbridge_ops::xla::frame::{
    Api, Attributes, Buffer, Buffers, CallFrame, DestroyArguments, ErrorArguments, Extension,
    Known, List, Metadata, MetadataExtension, OrdinalArguments, Scalar, StreamArguments, Text,
    Version,
};
use dlbridge_ops::xla::{XlaError, call};
use dlbridge_ops::{CudaArray, CudaInPlace, CudaOut, Define, Floats, InPlace, Ints, OnCuda, op};

#[op]
fn double(x: &[f32], out: &mut [f32]) {
    out.iter_mut().zip(x).for_each(|(out, x)| *out = 2.0 * x);
}

#[op]
fn add_(mut x: InPlace<'_, f32>, y: &[f32]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

#[op(default(by = 2.0))]
fn sum(
    x: &[f32],
    y: Option<&[f32]>,
    z: Option<&[f32]>,
    by: f64,
    add: i64,
    negate: bool,
    name: &str,
    ints: Ints<'_>,
    floats: Floats<'_>,
    out: &mut [f32],
) -> Result<(), String> {
    if name == "fail" {
        return Err("the name is\0fail".to_owned());
    }
    let first = |tensor: Option<&[f32]>| tensor.map_or(0.0, |tensor| tensor[0]);
    let all = first(Some(x)) + 10.0 * first(y) + 100.0 * first(z);
    let numbers = add as f64 + ints.iter().sum::<i64>() as f64 + floats.iter().sum::<f64>();
    let value = f64::from(all) * by + numbers + name.len() as f64;
    out[0] = if negate { -value } else { value } as f32;
    Ok(())
}

#[op]
fn invert(x: &[bool], out: &mut [bool]) {
    out.iter_mut().zip(x).for_each(|(out, x)| *out = !x);
}

#[op]
fn panics(x: &[f32], out: &mut [f32]) {
    out[0] = x[1];
}

thread_local! {
    /// What the operators on CUDA find: device, stream, and addresses.
    static FOUND: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

#[op]
fn on_cuda(x: CudaArray<'_, f32, 1>, cuda: OnCuda<'_>, by: f64, mut out: CudaOut<'_, f32, 1>) {
    let [len] = out.dims();
    let (x, out) = (x.as_ptr().addr(), out.as_mut_ptr().addr());
    FOUND.set(vec![cuda.device() as usize, cuda.stream().addr(), x, out, len, by as usize]);
}

#[op]
fn on_cuda_(cuda: OnCuda<'_>, mut x: CudaInPlace<'_, f32>) {
    FOUND.set(vec![cuda.stream().addr(), x.as_mut_ptr().addr()]);
}

const F32: c_int = 11;
const S32: c_int = 4;
const PRED: c_int = 1;

type Outcome = Result<(), (c_int, String)>;

thread_local! {
    static ERROR: RefCell<Option<(c_int, String)>> = const { RefCell::new(None) };
}

/// Keeps the error for the test instead of making one of XLA.
unsafe extern "C" fn create_error(arguments: *mut ErrorArguments) -> *mut XlaError {
    // SAFETY: the handler passes the struct of the interface.
    let arguments = unsafe { &*arguments };
    assert_eq!(arguments.struct_size, 28);
    // SAFETY: the message ends with a NUL.
    let message = unsafe { CStr::from_ptr(arguments.message) }.to_str().unwrap().to_owned();
    ERROR.set(Some((arguments.code, message)));
    ptr::NonNull::dangling().as_ptr()
}

/// An error of XLA that `get_stream` makes for calls without a context.
unsafe extern "C" fn destroy_error(arguments: *mut DestroyArguments) {
    // SAFETY: the handler passes the struct of the interface.
    let arguments = unsafe { &*arguments };
    assert_eq!((arguments.struct_size, arguments.error.addr()), (24, 0x77));
}

/// The stream is the context, as XLA passes it on.
unsafe extern "C" fn get_stream(arguments: *mut StreamArguments) -> *mut XlaError {
    // SAFETY: the handler passes the struct of the interface.
    let arguments = unsafe { &mut *arguments };
    assert_eq!(arguments.struct_size, 32);
    if arguments.context.is_null() {
        return ptr::without_provenance_mut(0x77);
    }
    arguments.stream = arguments.context;
    ptr::null_mut()
}

unsafe extern "C" fn get_ordinal(arguments: *mut OrdinalArguments) -> *mut XlaError {
    // SAFETY: the handler passes the struct of the interface.
    let arguments = unsafe { &mut *arguments };
    assert_eq!(arguments.struct_size, 28);
    arguments.ordinal = 3;
    ptr::null_mut()
}

fn api() -> Api {
    Api {
        struct_size: 192,
        extension: ptr::null_mut(),
        version: Version { struct_size: 24, extension: ptr::null_mut(), major: 0, minor: 3 },
        internal: ptr::null(),
        create_error: Some(create_error),
        error_message: ptr::null(),
        destroy_error: Some(destroy_error),
        register: ptr::null(),
        get_stream: Some(get_stream),
        others: [ptr::null(); 12],
        get_ordinal: Some(get_ordinal),
    }
}

fn buffer<T>(dtype: c_int, data: *mut T, shape: &[i64]) -> Buffer {
    Buffer {
        struct_size: Buffer::NEEDED,
        extension: ptr::null_mut(),
        dtype,
        data: data.cast(),
        ndim: shape.len() as i64,
        shape: shape.as_ptr(),
    }
}

/// An attribute's name, type and value.
type Attribute<'a> = (&'a str, c_int, *const c_void);

/// Calls the handler with a frame that `change` has changed.
fn call_with<O: Define>(
    arguments: &[Buffer],
    results: &[Buffer],
    attributes: &[Attribute<'_>],
    change: impl FnOnce(&mut CallFrame, &mut Api),
) -> Outcome {
    let types = [Buffers::BUFFER; 8];
    let arguments: Vec<_> = arguments.iter().map(ptr::from_ref).collect();
    let results: Vec<_> = results.iter().map(ptr::from_ref).collect();
    let buffers = |entries: &[*const Buffer]| Buffers {
        struct_size: Buffers::NEEDED,
        extension: ptr::null_mut(),
        count: entries.len() as i64,
        types: types.as_ptr(),
        entries: entries.as_ptr(),
    };
    let texts: Vec<_> =
        attributes.iter().map(|(name, ..)| Text { data: name.as_ptr(), len: name.len() }).collect();
    let names: Vec<_> = texts.iter().map(ptr::from_ref).collect();
    let kinds: Vec<_> = attributes.iter().map(|(_, kind, _)| *kind).collect();
    let values: Vec<_> = attributes.iter().map(|(.., value)| *value).collect();
    let mut api = api();
    let mut frame = CallFrame {
        struct_size: size_of::<CallFrame>(),
        extension: ptr::null_mut(),
        api: ptr::null(),
        context: ptr::null_mut(),
        stage: CallFrame::EXECUTE,
        arguments: buffers(&arguments),
        results: buffers(&results),
        attributes: Attributes {
            struct_size: Attributes::NEEDED,
            extension: ptr::null_mut(),
            count: attributes.len() as i64,
            types: kinds.as_ptr(),
            names: names.as_ptr(),
            values: values.as_ptr(),
        },
    };
    change(&mut frame, &mut api);
    frame.api = &raw const api;
    // SAFETY: the frame follows the interface: lists have their counts, and buffers their elements.
    let error = unsafe { call::<O>(&raw mut frame) };
    let found = ERROR.take();
    assert_eq!(error.is_null(), found.is_none());
    found.map_or(Ok(()), Err)
}

fn run<O: Define>(arguments: &[Buffer], results: &[Buffer]) -> Outcome {
    call_with::<O>(arguments, results, &[], |_, _| {})
}

/// Doubles three numbers in a frame that `change` has changed.
fn changed(change: impl FnOnce(&mut CallFrame, &mut Api)) -> Outcome {
    let (mut x, mut out) = ([1.0_f32, 2.0, 3.0], [0.0_f32; 3]);
    let x = buffer(F32, x.as_mut_ptr(), &[3]);
    call_with::<double::Operator>(&[x], &[buffer(F32, out.as_mut_ptr(), &[3])], &[], change)
}

#[track_caller]
fn refuses(outcome: Outcome, code: c_int, message: &str) {
    let (found, text) = outcome.expect_err("the call must be refused");
    assert!(text.contains(message), "{text}");
    assert_eq!(found, code, "{text}");
}

#[test]
fn structs_have_the_sizes_of_the_interface() {
    let sizes = [
        (CallFrame::NEEDED, 168),
        (Buffers::NEEDED, 40),
        (Attributes::NEEDED, 48),
        (Buffer::NEEDED, 48),
        (Metadata::NEEDED, 36),
        (MetadataExtension::NEEDED, 32),
        (Extension::NEEDED, 24),
        (Version::NEEDED, 24),
        (Api::NEEDED, 56),
        (ErrorArguments::NEEDED, 28),
        (size_of::<Api>(), 192),
        (DestroyArguments::NEEDED, 24),
        (StreamArguments::NEEDED, 32),
        (OrdinalArguments::NEEDED, 28),
        (size_of::<Scalar>(), 16),
        (size_of::<List>(), 24),
        (size_of::<Text>(), 16),
    ];
    for (found, expected) in sizes {
        assert_eq!(found, expected);
    }
}

#[test]
fn call_fills_result() {
    let (mut x, mut out) = ([1.0_f32, 2.0, 3.0, 4.0], [0.0_f32; 4]);
    let arguments = [buffer(F32, x.as_mut_ptr(), &[2, 2])];
    run::<double::Operator>(&arguments, &[buffer(F32, out.as_mut_ptr(), &[2, 2])]).unwrap();
    assert_eq!(out, [2.0, 4.0, 6.0, 8.0]);
}

#[test]
fn call_with_null_memory_of_no_elements_succeeds() {
    let none = ptr::null_mut::<f32>();
    let arguments = [buffer(F32, none, &[0, 3])];
    run::<double::Operator>(&arguments, &[buffer(F32, none, &[0, 3])]).unwrap();
}

#[test]
fn result_that_is_not_aligned_is_filled() {
    let (mut x, mut out) = ([1.0_f32, 2.0], [0_u8; 12]);
    let arguments = [buffer(F32, x.as_mut_ptr(), &[2])];
    let place = out.as_mut_ptr().wrapping_add(1).cast::<f32>();
    let skip = usize::from(place.is_aligned());
    let result = buffer(F32, place.wrapping_byte_add(skip), &[2]);
    run::<double::Operator>(&arguments, &[result]).unwrap();
    let filled: Vec<u8> = [2.0_f32, 4.0].iter().flat_map(|one| one.to_ne_bytes()).collect();
    assert_eq!(out[1 + skip..9 + skip], filled);
}

#[test]
fn wrong_buffers_are_refused() {
    let (mut x, mut out) = ([1.0_f32, 2.0], [0.0_f32; 2]);
    let (x, out) = (x.as_mut_ptr(), out.as_mut_ptr());
    let ok = || buffer(F32, out, &[2]);
    let result = |x: Buffer, out: Buffer| run::<double::Operator>(&[x], &[out]);
    refuses(result(buffer(S32, x, &[2]), ok()), 3, "double: x must be float32, but is int32");
    refuses(result(buffer(99, x, &[2]), ok()), 3, "x has a dtype without an equivalent");
    refuses(result(buffer(F32, x, &[-1]), ok()), 13, "the memory of x is invalid");
    refuses(result(buffer(F32, x, &[1 << 40, 1 << 40]), ok()), 13, "the memory of x is invalid");
    let null = ptr::null_mut::<f32>();
    refuses(result(buffer(F32, null, &[2]), ok()), 13, "the memory of x is invalid");
    let ndim = Buffer { ndim: -1, ..buffer(F32, x, &[2]) };
    refuses(result(ndim, ok()), 13, "the shape of x is invalid");
    let short = Buffer { struct_size: 40, ..buffer(F32, x, &[2]) };
    refuses(result(short, ok()), 13, "description of x is too short");

    let x = || buffer(F32, x, &[2]);
    let other = buffer(S32, out, &[2]);
    refuses(result(x(), other), 3, "out must be float32, but is int32; pass a tensor of");
    let other = buffer(F32, out, &[1, 2]);
    refuses(result(x(), other), 3, "out must have the shape [2], but has [1, 2]");
    refuses(result(x(), x()), 3, "out is written and shares memory with x");
    let two = run::<double::Operator>(&[x(), x()], &[ok()]);
    refuses(two, 3, "1 tensors are expected, but XLA passes 2");
    refuses(run::<double::Operator>(&[x()], &[]), 3, "1 results are expected, but XLA passes 0");
}

#[test]
fn in_place_tensor_with_its_own_memory_is_changed_there() {
    let (mut x, mut y) = ([1.0_f32, 2.0], [10.0_f32, 20.0]);
    let at = x.as_mut_ptr();
    let arguments = [buffer(F32, at, &[2]), buffer(F32, y.as_mut_ptr(), &[2])];
    run::<add_::Operator>(&arguments, &[buffer(F32, at, &[2])]).unwrap();
    assert_eq!(x, [11.0, 22.0]);
}

#[test]
fn in_place_tensor_with_other_memory_is_copied() {
    let (mut x, mut y, mut result) = ([1.0_f32, 2.0], [10.0_f32, 20.0], [0.0_f32; 2]);
    let arguments = [buffer(F32, x.as_mut_ptr(), &[2]), buffer(F32, y.as_mut_ptr(), &[2])];
    run::<add_::Operator>(&arguments, &[buffer(F32, result.as_mut_ptr(), &[2])]).unwrap();
    assert_eq!((x, result), ([1.0, 2.0], [11.0, 22.0]));
}

#[test]
fn in_place_tensor_that_overlaps_is_refused() {
    let mut x = [1.0_f32; 4];
    let at = x.as_mut_ptr();
    let part = |from: usize| buffer(F32, at.wrapping_add(from), &[2]);
    let same = run::<add_::Operator>(&[part(0), part(0)], &[part(0)]);
    refuses(same, 3, "add_: x is written and shares memory with y");
    let shifted = run::<add_::Operator>(&[part(0), part(2)], &[part(1)]);
    refuses(shifted, 3, "the memory of the result x overlaps that of an argument");
    let others = run::<add_::Operator>(&[part(0), part(2)], &[part(2)]);
    refuses(others, 3, "the memory of the result x overlaps that of an argument");
    let null = buffer(F32, ptr::null_mut::<f32>(), &[2]);
    refuses(run::<add_::Operator>(&[part(0), part(2)], &[null]), 13, "the memory of x is invalid");
    let other = run::<add_::Operator>(&[part(0), part(2)], &[buffer(F32, at, &[1, 2])]);
    refuses(other, 3, "x changes in place, so its result must be float32 of shape [2]");
}

/// Calls `sum` with attributes of several types; `extra` replaces or adds attributes.
fn sums(
    present: i64,
    arguments: &[f32],
    name: &str,
    extra: &[Attribute<'_>],
) -> Result<f32, (c_int, String)> {
    let mut values = arguments.to_vec();
    let at = values.as_mut_ptr();
    let arguments: Vec<_> =
        (0..values.len()).map(|i| buffer(F32, at.wrapping_add(i), &[1])).collect();
    let (add, negate) = (5_u16, 1_u8);
    let (ints, floats) = ([1_i32, -3], [0.5_f64, 0.25]);
    let add = Scalar { dtype: 7, value: (&raw const add).cast() };
    let negate = Scalar { dtype: PRED, value: (&raw const negate).cast() };
    let present = Scalar { dtype: 5, value: (&raw const present).cast() };
    let ints = List { dtype: S32, len: 2, data: ints.as_ptr().cast() };
    let floats = List { dtype: 12, len: 2, data: floats.as_ptr().cast() };
    let name = Text { data: name.as_ptr(), len: name.len() };
    let mut attributes: Vec<Attribute<'_>> = vec![
        ("add", Attributes::SCALAR, (&raw const add).cast()),
        ("dlbridge.present", Attributes::SCALAR, (&raw const present).cast()),
        ("floats", Attributes::LIST, (&raw const floats).cast()),
        ("ints", Attributes::LIST, (&raw const ints).cast()),
        ("name", Attributes::TEXT, (&raw const name).cast()),
        ("negate", Attributes::SCALAR, (&raw const negate).cast()),
    ];
    attributes.retain(|(name, ..)| extra.iter().all(|(other, ..)| name != other));
    attributes.extend(extra);
    let mut out = [0.0_f32];
    let results = [buffer(F32, out.as_mut_ptr(), &[1])];
    call_with::<sum::Operator>(&arguments, &results, &attributes, |_, _| {})?;
    Ok(out[0])
}

#[test]
fn attributes_of_other_widths_are_converted() {
    let numbers = 5.0 - 2.0 + 0.75 + 3.0;
    assert_eq!(sums(0b11, &[1.0, 2.0, 3.0], "abc", &[]).unwrap(), -(2.0 * 321.0 + numbers));
    let by = 0.5_f32;
    let by = Scalar { dtype: F32, value: (&raw const by).cast() };
    let by = ("by", Attributes::SCALAR, (&raw const by).cast());
    assert_eq!(sums(0b11, &[1.0, 2.0, 3.0], "abc", &[by]).unwrap(), -(0.5 * 321.0 + numbers));
}

#[test]
fn absent_optional_inputs_are_those_without_a_bit() {
    let numbers = 5.0 - 2.0 + 0.75;
    assert_eq!(sums(0b00, &[1.0], "", &[]).unwrap(), -(2.0 + numbers));
    assert_eq!(sums(0b01, &[1.0, 2.0], "", &[]).unwrap(), -(42.0 + numbers));
    assert_eq!(sums(0b10, &[1.0, 3.0], "", &[]).unwrap(), -(602.0 + numbers));
    refuses(sums(0b01, &[1.0], "", &[]).map(drop), 3, "2 tensors are expected, but XLA passes 1");
}

#[test]
fn wrong_attributes_are_refused() {
    let refused = |name: &'static str, kind, value: *const c_void, message: &str| {
        refuses(sums(0, &[1.0], "", &[(name, kind, value)]).map(drop), 3, message);
    };
    let (two, many) = (2_u8, u64::MAX);
    let two = Scalar { dtype: PRED, value: (&raw const two).cast() };
    let many = Scalar { dtype: 9, value: (&raw const many).cast() };
    let invalid = [0xff_u8];
    let bytes = Text { data: invalid.as_ptr(), len: 1 };
    let null = List { dtype: S32, len: 2, data: ptr::null() };
    let (two, many) = ((&raw const two).cast(), (&raw const many).cast());
    refused("negate", Attributes::SCALAR, two, "negate must be a boolean, but");
    refused("add", Attributes::SCALAR, many, "add must be an integer, but");
    refused("by", Attributes::SCALAR, many, "by must be a float, but");
    refused("name", Attributes::TEXT, (&raw const bytes).cast(), "name must be a string, but");
    refused("ints", Attributes::LIST, (&raw const null).cast(), "ints must be a list of integers");
    refused("floats", Attributes::SCALAR, many, "floats must be a list of floats, but");
    refused("other", Attributes::SCALAR, many, "there is no attribute other; known: by, add,");
    let (mut x, mut out) = ([1.0_f32; 3], [0.0_f32]);
    let x: Vec<_> = x.iter_mut().map(|x| buffer(F32, x, &[1])).collect();
    let missing = run::<sum::Operator>(&x, &[buffer(F32, out.as_mut_ptr(), &[1])]);
    refuses(missing, 3, "the attribute add is missing");
}

#[test]
fn error_and_panic_of_the_operator_are_reported() {
    refuses(sums(0, &[1.0], "fail", &[]).map(drop), 13, "sum: the name is\u{fffd}fail");
    let (mut x, mut out) = ([1.0_f32], [0.0_f32]);
    let arguments = [buffer(F32, x.as_mut_ptr(), &[1])];
    let outcome = run::<panics::Operator>(&arguments, &[buffer(F32, out.as_mut_ptr(), &[1])]);
    refuses(outcome, 13, "panics: panicked: index out of bounds");
}

#[test]
fn invalid_boolean_is_refused() {
    let (mut x, mut out) = ([0_u8, 1], [9_u8; 2]);
    let arguments = [buffer(PRED, x.as_mut_ptr(), &[2])];
    run::<invert::Operator>(&arguments, &[buffer(PRED, out.as_mut_ptr(), &[2])]).unwrap();
    assert_eq!(out, [1, 0]);
    let mut x = [0_u8, 2];
    let arguments = [buffer(PRED, x.as_mut_ptr(), &[2])];
    let outcome = run::<invert::Operator>(&arguments, &[buffer(PRED, out.as_mut_ptr(), &[2])]);
    refuses(outcome, 3, "invert: x: ");
}

#[test]
fn unknown_frames_are_refused() {
    changed(|_, _| {}).unwrap();
    let newer = |frame: &mut CallFrame, api: &mut Api| {
        (frame.struct_size, api.struct_size, api.version.minor) = (400, 400, 9);
    };
    changed(newer).unwrap();
    let short = changed(|frame, _| frame.struct_size = CallFrame::NEEDED - 8);
    refuses(short, 13, "XLA's call frame is too short");
    let version = |major, minor| {
        changed(move |_, api| (api.version.major, api.version.minor) = (major, minor))
    };
    let needed =
        "of its foreign function interface, but the operator needs 0.3 or a later minor version";
    for (major, minor, remedy) in [
        (0, 2, "install a newer jaxlib"),
        (0, -1, "install a newer jaxlib"),
        (1, 3, "update dlbridge-ops"),
        (1, 0, "update dlbridge-ops"),
    ] {
        let message = format!("XLA has version {major}.{minor} {needed}; {remedy}");
        refuses(version(major, minor), 13, &message);
    }
    let size = changed(|_, api| api.version.struct_size = 32);
    refuses(size, 13, "XLA has version 0.3");
    let parts = changed(|frame, _| frame.arguments.struct_size = 48);
    refuses(parts, 13, "parts of another size");
    let parts = changed(|frame, _| frame.attributes.struct_size = 40);
    refuses(parts, 13, "parts of another size");
    refuses(changed(|frame, _| frame.stage = 1), 13, "XLA calls the operator in stage 1");
    let count = changed(|frame, _| frame.attributes.count = -1);
    refuses(count, 13, "XLA passes -1 attributes");
    let types = [2; 1];
    let kind = changed(|frame, _| frame.arguments.types = types.as_ptr());
    refuses(kind, 13, "XLA passes x as type 2, not as an array");
}

#[test]
fn metadata_is_filled_in_without_a_call() {
    let version = Version { struct_size: 0, extension: ptr::null_mut(), major: -1, minor: -1 };
    let mut metadata = Metadata { struct_size: Metadata::NEEDED, version, traits: 7 };
    let metadata = &raw mut metadata;
    let head = Extension { struct_size: 32, kind: Extension::METADATA, next: ptr::null_mut() };
    let mut extension = MetadataExtension { head, metadata };
    let extension = &raw mut extension;
    let next = extension.cast();
    let mut first = Extension { struct_size: 24, kind: 77, next };
    let first = &raw mut first;
    call_with::<double::Operator>(&[], &[], &[], |frame, _| frame.extension = first).unwrap();
    // SAFETY: the handler has returned, and no reference is alive.
    let found = unsafe { metadata.read() };
    assert_eq!((found.version.major, found.version.minor, found.traits), (0, 3, 0));
    assert_eq!((found.struct_size, found.version.struct_size), (36, 24));

    // SAFETY: no reference is alive.
    unsafe { ((*metadata).version.minor, (*extension).head.struct_size) = (-1, Extension::NEEDED) };
    call_with::<double::Operator>(&[], &[], &[], |frame, _| frame.extension = next).unwrap();
    // SAFETY: the handler has returned, and no reference is alive.
    assert_eq!(unsafe { (*metadata).version.minor }, -1);

    // SAFETY: no reference is alive.
    unsafe { (*extension).head.struct_size = MetadataExtension::NEEDED };
    // SAFETY: as above.
    unsafe { ((*metadata).struct_size, (*metadata).version.minor) = (16, -1) };
    call_with::<double::Operator>(&[], &[], &[], |frame, _| frame.extension = next).unwrap();
    // SAFETY: the handler has returned, and no reference is alive.
    assert_eq!(unsafe { (*metadata).version.minor }, -1);
}

#[test]
fn operator_on_cuda_gets_device_stream_and_addresses() {
    let by = 2.0_f64;
    let by = Scalar { dtype: 12, value: (&raw const by).cast() };
    let by = ("by", Attributes::SCALAR, (&raw const by).cast());
    let x = ptr::without_provenance_mut::<f32>(0x1000);
    let out = ptr::without_provenance_mut::<f32>(0x2000);
    let called = |change: fn(&mut CallFrame, &mut Api)| {
        let (x, out) = (buffer(F32, x, &[5]), buffer(F32, out, &[5]));
        call_with::<on_cuda::Operator>(&[x], &[out], &[by], change)
    };
    called(|frame, _| frame.context = ptr::without_provenance_mut(0x5000)).unwrap();
    assert_eq!(FOUND.take(), [3, 0x5000, 0x1000, 0x2000, 5, 2]);
    refuses(called(|_, _| ()), 13, "on_cuda: XLA has no CUDA stream for this call; register");
    let older = called(|_, api| api.struct_size = 80);
    refuses(older, 13, "XLA has no function XLA_FFI_Stream_Get, which operators on CUDA need");
    let older = called(|frame, api| {
        (frame.context, api.struct_size) = (ptr::without_provenance_mut(0x5000), 184);
    });
    refuses(older, 13, "XLA has no function XLA_FFI_DeviceOrdinal_Get, which");
    assert!(FOUND.take().is_empty());
}

#[test]
fn tensor_on_cuda_changes_only_in_its_own_memory() {
    let x = ptr::without_provenance_mut::<f32>(0x1000);
    let called = |result| {
        let arguments = [buffer(F32, x, &[2])];
        call_with::<on_cuda_::Operator>(
            &arguments,
            &[buffer(F32, result, &[2])],
            &[],
            |frame, _| {
                frame.context = ptr::without_provenance_mut(0x5000);
            },
        )
    };
    called(x).unwrap();
    assert_eq!(FOUND.take(), [0x5000, 0x1000]);
    let other = called(ptr::without_provenance_mut::<f32>(0x2000));
    refuses(other, 13, "x changes in place, but XLA's result is other memory");
    assert!(FOUND.take().is_empty());
}
