//! One call of an operator by XLA.

use std::cell::OnceCell;
use std::ffi::{CString, c_int};
use std::io::Write;
use std::mem::offset_of;
use std::ptr;

use dlbridge::{Device, DeviceType};
use smallvec::SmallVec;

use super::attributes::Attributes;
use super::buffers::failed;
use super::frame::{
    Api, Buffers, CallFrame, ErrorArguments, Extension, Known, MAJOR, MINOR, Metadata,
    MetadataExtension, Version, XlaError,
};
use super::stream;
use crate::Define;
use crate::error::{Error, ErrorKind, Result, entered};
use crate::exclusive::Arguments;
use crate::on_cuda::OnCuda;
use crate::operator::Operator;
use crate::outputs::unknown_device;
use crate::parameter::Kind;
use crate::value::List;

/// The handler of the operator: runs it once, or describes itself if XLA asks for that. Returns NULL, or an error that
/// XLA's own function made.
///
/// # Safety
/// `frame` points at a call frame of XLA: pointers, counts and sizes follow the interface, and until the handler returns
/// buffers stay valid, and no other code writes them. The handler is registered for the platform of the operator: `CUDA`
/// if it has a parameter [`OnCuda`], `cpu` otherwise. The frame does not have the platform, so the handler of an operator
/// for the CPU would read addresses of a device.
pub unsafe extern "C" fn call<O: Define>(frame: *mut CallFrame) -> *mut XlaError {
    // SAFETY: the caller guarantees the contract, which is the same.
    unsafe { handle(O::OPERATOR, frame) }
}

/// # Safety
/// The contract of [`call`].
unsafe fn handle(operator: &'static Operator, frame: *mut CallFrame) -> *mut XlaError {
    // SAFETY: the caller guarantees the frame.
    if unsafe { describe(frame) } {
        return ptr::null_mut();
    }
    // SAFETY: the caller guarantees the frame.
    match entered(operator.name(), || unsafe { execute(operator, frame) }).and_then(|result| result)
    {
        Ok(()) => ptr::null_mut(),
        // SAFETY: the caller guarantees the frame.
        Err(error) => unsafe { report(frame, &error) },
    }
}

/// If XLA asks for metadata, writes it and returns true. A description that is too short stays as it is: XLA refuses the
/// version that it finds there.
///
/// # Safety
/// The contract of [`call`].
unsafe fn describe(frame: *mut CallFrame) -> bool {
    let needed = offset_of!(CallFrame, extension) + size_of::<*mut Extension>();
    // SAFETY: the frame begins with its size.
    if !unsafe { CallFrame::knows(frame, needed) } {
        return false;
    }
    // SAFETY: `knows` found the frame to have the field.
    let mut extension = unsafe { (*frame).extension };
    // SAFETY: an extension begins with its size.
    while unsafe { Extension::knows(extension, Extension::NEEDED) } {
        // SAFETY: `knows` found the extension to have all fields.
        let Extension { struct_size, kind, next } = unsafe { extension.read() };
        if kind == Extension::METADATA {
            if struct_size >= MetadataExtension::NEEDED {
                // SAFETY: an extension of this type is a `MetadataExtension`, and the comparison found it to have all fields.
                let metadata = unsafe { (*extension.cast::<MetadataExtension>()).metadata };
                // SAFETY: the metadata begins with its size.
                if unsafe { Metadata::knows(metadata, Metadata::NEEDED) } {
                    let version = Version {
                        struct_size: Version::NEEDED,
                        extension: ptr::null_mut(),
                        major: MAJOR,
                        minor: MINOR,
                    };
                    // SAFETY: `knows` found the metadata to have both fields, which are for the handler to write.
                    unsafe {
                        (&raw mut (*metadata).version).write(version);
                        (&raw mut (*metadata).traits).write(0);
                    }
                }
            }
            return true;
        }
        extension = next;
    }
    false
}

/// Runs the operator.
///
/// # Safety
/// The contract of [`call`].
unsafe fn execute(operator: &'static Operator, frame: *mut CallFrame) -> Result<()> {
    let named = |error: Error| error.in_operator(operator.name());
    // SAFETY: the caller guarantees the frame, and keeps it as it is until the handler returns.
    let frame = unsafe { checked(frame) }.map_err(named)?;
    // SAFETY: the caller guarantees the attributes, and keeps them.
    let attributes = unsafe { Attributes::new(&frame.attributes) }.map_err(named)?;
    let cuda = match operator.on_cuda {
        // SAFETY: the call is under way, and `checked` found the functions up to `create_error`.
        true => Some(unsafe { stream::cuda(frame) }.map_err(named)?),
        false => None,
    };
    let device = cuda.map_or(Device::CPU, |cuda| Device::new(DeviceType::CUDA, cuda.device()));
    let lists = operator.inputs().filter(|one| matches!(one.kind, Kind::Ints | Kind::Floats));
    let lists: SmallVec<[OnceCell<List>; 1]> = lists.map(|_| OnceCell::new()).collect();
    let mut read = Arguments::default();
    // SAFETY: the caller guarantees the buffers, keeps them, and lets no other code write arguments or use results. They
    // are on the device: XLA gives a stream only to calls on CUDA, and the caller registered the handlers of other
    // operators for the CPU.
    unsafe { read.read_frame(operator, frame, &attributes, &lists, device) }.map_err(named)?;
    let stream = |_| cuda.map(OnCuda::stream).ok_or_else(unknown_device);
    operator.fill(&mut read.values, read.targets, &stream)
}

/// The frame, if it has all fields and is of a version that is known, for the stage in which operators run.
///
/// # Safety
/// The contract of [`call`], for `'a`.
unsafe fn checked<'a>(frame: *mut CallFrame) -> Result<&'a CallFrame> {
    // SAFETY: the frame begins with its size.
    if !unsafe { CallFrame::knows(frame, CallFrame::NEEDED) } {
        return Err(failed(
            "XLA's call frame is too short for version 0.3; install a newer jaxlib",
        ));
    }
    // SAFETY: `knows` found the frame aligned, not NULL, and complete; it stays as it is for `'a`.
    let frame = unsafe { &*frame };
    // SAFETY: the functions begin with their size.
    if !unsafe { Api::knows(frame.api, Api::NEEDED) } {
        return Err(failed("XLA's functions are missing"));
    }
    // SAFETY: `knows` found all fields that are known here.
    let version = unsafe { &(*frame.api).version };
    let Version { major, minor, .. } = *version;
    if version.struct_size != Version::NEEDED || major != MAJOR || minor < MINOR {
        let remedy = match (major, minor) < (MAJOR, MINOR) {
            true => "install a newer jaxlib",
            false => "update dlbridge-ops",
        };
        return Err(Error::of(
            ErrorKind::Missing,
            format_args!(
                "XLA has version {major}.{minor} of its foreign function interface, but the operator needs {MAJOR}.{MINOR} or \
                 a later minor version; {remedy}"
            ),
        ));
    }
    let sizes = [
        (frame.arguments.struct_size, Buffers::NEEDED),
        (frame.results.struct_size, Buffers::NEEDED),
        (frame.attributes.struct_size, super::frame::Attributes::NEEDED),
    ];
    if sizes.iter().any(|(found, known)| found != known) {
        return Err(failed(
            "XLA's call frame has parts of another size than version 0.3; update dlbridge-ops",
        ));
    }
    if frame.stage != CallFrame::EXECUTE {
        return Err(failed(format_args!(
            "XLA calls the operator in stage {}, but it runs only in stage {} (execute); register it for that",
            frame.stage,
            CallFrame::EXECUTE
        )));
    }
    Ok(frame)
}

/// Makes the error in XLA.
///
/// # Safety
/// The contract of [`call`].
unsafe fn report(frame: *const CallFrame, error: &Error) -> *mut XlaError {
    let code = match error.kind() {
        ErrorKind::Type | ErrorKind::Value | ErrorKind::Buffer => INVALID_ARGUMENT,
        ErrorKind::Memory => RESOURCE_EXHAUSTED,
        _ => INTERNAL,
    };
    let message = error.to_string().replace('\0', "\u{fffd}");
    let message = CString::new(message).unwrap_or_default();
    let needed = offset_of!(CallFrame, api) + size_of::<*const Api>();
    // SAFETY: the frame begins with its size.
    if unsafe { CallFrame::knows(frame, needed) } {
        // SAFETY: `knows` found the frame to have the field.
        let api = unsafe { (*frame).api };
        // SAFETY: the functions begin with their size.
        if unsafe { Api::knows(api, Api::NEEDED) }
            // SAFETY: `knows` found the functions to have the field.
            && let Some(create) = unsafe { (*api).create_error }
        {
            let mut arguments = ErrorArguments {
                struct_size: ErrorArguments::NEEDED,
                extension: ptr::null_mut(),
                message: message.as_ptr(),
                code,
            };
            // SAFETY: the function takes the struct of its interface, and copies the message.
            return unsafe { create(&raw mut arguments) };
        }
    }
    // XLA would take NULL for success, and use results that are not written.
    let _ = writeln!(std::io::stderr(), "an operator cannot report its error to XLA: {error}");
    std::process::abort()
}

/// The caller's mistake.
const INVALID_ARGUMENT: c_int = 3;
/// An allocation failed.
const RESOURCE_EXHAUSTED: c_int = 8;
/// An error of the operator.
const INTERNAL: c_int = 13;
