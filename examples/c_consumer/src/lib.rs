//! A camera that exports its pictures to C. `camera.h` describes the functions.
//!
//! No function takes a raw pointer: `Option<&mut MaybeUninit<T>>` is C's `T *`, including NULL and uninitialised
//! memory. So the only unsafe code is the implementation of `Owner` and the call of a C function.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, Ordering};

use dlbridge::sys::{DLManagedTensor, DLManagedTensorVersioned, DLTensor};
use dlbridge::{Access, Error, Owner, Tensor, TensorRefMut};

/// `camera_status`.
#[derive(Clone, Copy)]
#[repr(i32)]
pub enum Status {
    /// `CAMERA_OK`
    Ok = 0,
    /// `CAMERA_NO_OUTPUT`
    NoOutput = 1,
    /// `CAMERA_NO_MEMORY`
    NoMemory = 2,
    /// `CAMERA_READ_ONLY`
    ReadOnly = 3,
    /// `CAMERA_BROKEN`
    Broken = 4,
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        match error {
            Error::TooLarge | Error::OutOfMemory { .. } => Self::NoMemory,
            Error::LegacyReadOnly => Self::ReadOnly,
            _ => Self::Broken,
        }
    }
}

/// The place for a function's result: `T *` in C.
type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Stores the result of `make` in `out`. Catches panics, which must not unwind into C.
fn answer<T>(out: Out<'_, T>, make: impl FnOnce() -> Result<T, Status>) -> Status {
    let Some(out) = out else { return Status::NoOutput };
    match catch_unwind(AssertUnwindSafe(make)) {
        Ok(Ok(made)) => {
            out.write(made);
            Status::Ok
        }
        Ok(Err(status)) => status,
        Err(_) => Status::Broken,
    }
}

/// The frames that have not been dropped.
static ALIVE: AtomicI64 = AtomicI64::new(0);

/// The bytes of a picture. Any type can own a tensor's memory.
struct Frame(Vec<u8>);

// SAFETY: forwards to `Vec<u8>`, whose `items` keeps the promises of `Owner`.
unsafe impl Owner for Frame {
    type Item = u8;
    const ACCESS: Access = Access::Exclusive;

    fn items(&mut self) -> *mut [u8] {
        self.0.items()
    }
}

impl Frame {
    fn new(height: u32, width: u32) -> Result<Self, Status> {
        let size = [height as usize, width as usize, 3];
        let size = size.into_iter().try_fold(1_usize, usize::checked_mul);
        let size = size.ok_or(Status::NoMemory)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).map_err(|_| Status::NoMemory)?;
        bytes.extend((0..=u8::MAX).cycle().take(size));
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Ok(Self(bytes))
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

fn frame(height: u32, width: u32) -> Result<Tensor, Status> {
    let shape = [height as usize, width as usize, 3];
    Ok(Tensor::from_parts(Frame::new(height, width)?, shape)?)
}

fn frame_upside_down(height: u32, width: u32) -> Result<Tensor, Status> {
    let frame = Frame::new(height, width)?;
    let row = 3 * width as usize;
    let shape = [height as usize, width as usize, 3];
    let last_row = (height as usize).saturating_sub(1) * row;
    Ok(Tensor::from_parts_strided(frame, shape, [-(row as isize), 3, 1], last_row)?)
}

/// Linear light, for a gamma of 2.
static GAMMA: [f32; 256] = {
    let mut table = [0.0; 256];
    let mut value = 0;
    while value < 256 {
        let v = value as f32 / 255.0;
        table[value] = v * v;
        value += 1;
    }
    table
};

/// `camera_message`
#[unsafe(no_mangle)]
pub extern "C" fn camera_message(status: i32) -> *const c_char {
    const MESSAGES: [&CStr; 5] = [
        c"no error",
        c"out is NULL; pass the address of a pointer",
        c"no memory for the picture; request a smaller one",
        c"the legacy struct cannot express read-only data; request the versioned one",
        c"the camera has a defect; see standard error",
    ];
    let message = usize::try_from(status).ok().and_then(|status| MESSAGES.get(status));
    message.unwrap_or(&c"not a camera_status").as_ptr()
}

/// `camera_frame`
#[unsafe(no_mangle)]
pub extern "C" fn camera_frame(
    height: u32,
    width: u32,
    out: Out<'_, *mut DLManagedTensorVersioned>,
) -> Status {
    answer(out, || Ok(frame(height, width)?.into_raw()))
}

/// `camera_frame_upside_down`
#[unsafe(no_mangle)]
pub extern "C" fn camera_frame_upside_down(
    height: u32,
    width: u32,
    out: Out<'_, *mut DLManagedTensorVersioned>,
) -> Status {
    answer(out, || Ok(frame_upside_down(height, width)?.into_raw()))
}

/// `camera_frame_for_two`
#[unsafe(no_mangle)]
pub extern "C" fn camera_frame_for_two(
    height: u32,
    width: u32,
    out: Out<'_, [*mut DLManagedTensorVersioned; 2]>,
) -> Status {
    answer(out, || {
        // Read-only, because the two consumers do not know of each other.
        let frame = frame(height, width)?.into_read_only().into_shared();
        Ok([frame.to_raw(), frame.to_raw()])
    })
}

/// `camera_frame_filtered`
///
/// # Safety
/// The filter must write only elements of the tensor, and must not keep a pointer to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn camera_frame_filtered(
    height: u32,
    width: u32,
    filter: Option<unsafe extern "C" fn(*mut DLTensor)>,
    out: Out<'_, *mut DLManagedTensorVersioned>,
) -> Status {
    answer(out, || {
        let mut frame = frame(height, width)?;
        let mut borrowed = TensorRefMut::try_from(&mut frame)?;
        if let Some(filter) = filter {
            // SAFETY: the description is valid during the call, and the caller guarantees that the filter writes only
            // elements.
            unsafe { filter(&mut *borrowed.dl_tensor()) };
        }
        Ok(frame.into_raw())
    })
}

/// `camera_gamma_table`
#[unsafe(no_mangle)]
pub extern "C" fn camera_gamma_table(out: Out<'_, *mut DLManagedTensorVersioned>) -> Status {
    answer(out, || Ok(Tensor::from(&GAMMA).into_raw()))
}

/// `camera_frame_legacy`
#[unsafe(no_mangle)]
pub extern "C" fn camera_frame_legacy(
    height: u32,
    width: u32,
    out: Out<'_, *mut DLManagedTensor>,
) -> Status {
    // Dropping the error also drops the tensor in it.
    answer(out, || frame(height, width)?.into_raw_legacy().map_err(|(_, error)| error.into()))
}

/// `camera_gamma_table_legacy`
#[unsafe(no_mangle)]
pub extern "C" fn camera_gamma_table_legacy(out: Out<'_, *mut DLManagedTensor>) -> Status {
    answer(out, || Tensor::from(&GAMMA).into_raw_legacy().map_err(|(_, error)| error.into()))
}

/// `camera_frames_alive`
#[unsafe(no_mangle)]
pub extern "C" fn camera_frames_alive() -> i64 {
    ALIVE.load(Ordering::Relaxed)
}
