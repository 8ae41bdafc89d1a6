//! Results for C: a status and a message, and never a panic.

use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use dlbridge::{DataType, Error};

/// `stats_status`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// `STATS_OK`
    Ok = 0,
    /// `STATS_VERSION`
    Version = 1,
    /// `STATS_INVALID`
    Invalid = 2,
    /// `STATS_DEVICE`
    Device = 3,
    /// `STATS_DTYPE`
    DataType = 4,
    /// `STATS_USAGE`
    Usage = 5,
    /// `STATS_BROKEN`
    Broken = 6,
}

/// `stats_message`
#[repr(C)]
pub struct Message {
    text: [u8; 256],
}

impl Message {
    fn new(text: &str) -> Self {
        let mut message = Self { text: [0; 256] };
        // Leaves room for the zero, and does not split a character.
        let end = (0..256).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        message.text[..end].copy_from_slice(&text.as_bytes()[..end]);
        message
    }
}

/// The place for a function's result: `T *` in C, to memory that need not be initialised, or NULL.
pub(crate) type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// A reason for a missing result.
#[derive(Debug)]
pub(crate) enum Failure {
    Tensor(Error),
    DataType(DataType),
    Null(&'static str),
    Thread(io::Error),
    Panic,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Tensor(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Thread(error)
    }
}

impl Failure {
    fn status(&self) -> Status {
        match self {
            Self::Tensor(Error::Version { .. }) => Status::Version,
            Self::Tensor(Error::NotHostAccessible { .. }) => Status::Device,
            Self::Tensor(_) => Status::Invalid,
            Self::DataType(_) => Status::DataType,
            Self::Null(_) => Status::Usage,
            Self::Thread(_) | Self::Panic => Status::Broken,
        }
    }

    fn sentence(&self) -> String {
        match self {
            Self::Tensor(error) => error.to_string(),
            Self::DataType(dtype) => {
                format!("cannot sum {dtype} elements; pass int32, float32 or float64")
            }
            Self::Null(argument) => format!("{argument} is NULL; pass an address"),
            Self::Thread(error) => format!("cannot start a thread for the job: {error}"),
            Self::Panic => "stats has a defect; the details are on standard error".into(),
        }
    }
}

/// Returns the place for a result, or a failure that names the argument.
pub(crate) fn place<'a, T>(
    out: Out<'a, T>,
    argument: &'static str,
) -> Result<&'a mut MaybeUninit<T>, Failure> {
    out.ok_or(Failure::Null(argument))
}

/// Runs the body of a function that C calls, and returns its status. Catches panics, which must not unwind into C.
pub(crate) fn answer(
    message: Out<'_, Message>,
    body: impl FnOnce() -> Result<(), Failure>,
) -> Status {
    let done = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Failure::Panic));
    let Err(failure) = done else { return Status::Ok };
    if let Some(message) = message {
        message.write(Message::new(&failure.sentence()));
    }
    failure.status()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(message: &Message) -> &str {
        let end = message.text.iter().position(|&byte| byte == 0).unwrap();
        std::str::from_utf8(&message.text[..end]).unwrap()
    }

    #[test]
    fn panic_becomes_a_status() {
        let mut message = MaybeUninit::new(Message::new(""));
        let status = answer(Some(&mut message), || panic!("on purpose"));
        assert_eq!(status, Status::Broken);
        // SAFETY: the message was initialised above.
        let message = unsafe { message.assume_init() };
        assert_eq!(text(&message), "stats has a defect; the details are on standard error");
        assert_eq!(answer(None, || panic!("on purpose")), Status::Broken);
    }

    #[test]
    fn long_message_is_cut_between_characters() {
        assert_eq!(text(&Message::new("short")), "short");
        assert_eq!(text(&Message::new(&"x".repeat(300))), "x".repeat(255));
        // 127 characters of two bytes fit before the zero.
        assert_eq!(text(&Message::new(&"é".repeat(200))), "é".repeat(127));
    }
}
