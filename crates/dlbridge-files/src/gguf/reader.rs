//! Reads numbers, text and values from the header of a GGUF file, and never more than the file has.

use std::io::{BufRead, BufReader, Read};

use crate::formats::{GGUF as NAME, invalid};
use crate::{Fault, Value};

/// The longest header that is read, in bytes, as for safetensors. Values take up to 32 times as much memory.
const MAX_HEADER: u64 = crate::safetensors::MAX_HEADER;

/// The largest number of values that memory is reserved for before they are read.
const MAX_RESERVED: usize = 1 << 16;

/// The largest number of arrays within one another.
const MAX_DEPTH: usize = 8;

/// The largest number of values in the metadata. In memory each takes 24 bytes, and in the file a byte or more.
const MAX_VALUES: u64 = 10_000_000;

/// The number of bytes that are read at once.
const READ: usize = 1 << 16;

/// The types of the values that are not numbers.
const BOOL: u32 = 7;
const TEXT: u32 = 8;
const ARRAY: u32 = 9;

/// The smallest number of bytes of a value of each type.
const MIN_LEN: [u64; 13] = [1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8];

/// A position in a header.
pub(super) struct Reader<R> {
    file: BufReader<R>,
    position: u64,
    end: u64,
    /// The number of values so far.
    values: u64,
}

impl<R: Read> Reader<R> {
    pub(super) fn new(file: R, len: u64) -> Self {
        let file = BufReader::with_capacity(READ, file);
        Self { file, position: 0, end: len.min(MAX_HEADER), values: 0 }
    }

    /// The number of bytes that were read.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The number of bytes that a header can still have.
    pub(super) fn remaining(&self) -> u64 {
        self.end - self.position
    }

    /// Counts bytes that are about to be read, if they remain.
    fn claim(&mut self, len: u64) -> Result<(), Fault> {
        if len > self.remaining() {
            let reason = match self.end {
                MAX_HEADER => format!("the header has more than {MAX_HEADER} bytes, or is damaged"),
                _ => format!("the file has {} bytes, and ends within the header", self.end),
            };
            return Err(invalid(NAME, reason));
        }
        self.position += len;
        Ok(())
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        self.claim(N as u64)?;
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        self.bytes().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Fault> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// A text, whose length precedes it, made of its bytes.
    fn text<T>(&mut self, make: impl FnOnce(&[u8]) -> T) -> Result<T, Fault> {
        let len = self.u64()?;
        self.claim(len)?;
        let len = len as usize;
        if let Some(bytes) = self.file.buffer().get(..len) {
            let text = make(bytes);
            self.file.consume(len);
            return Ok(text);
        }
        let mut bytes = vec![0; len];
        self.file.read_exact(&mut bytes)?;
        Ok(make(&bytes))
    }

    /// The name of a tensor or the key of a value, which is UTF-8 and not empty.
    pub(super) fn name(&mut self, what: impl Fn() -> String) -> Result<String, Fault> {
        let name = self
            .text(|bytes| str::from_utf8(bytes).map(str::to_owned))?
            .map_err(|error| invalid(NAME, format!("{} is not UTF-8: {error}", what())))?;
        match name.is_empty() {
            true => Err(invalid(NAME, format!("{} is empty", what()))),
            false => Ok(name),
        }
    }

    /// A value of the metadata.
    pub(super) fn value(&mut self, key: &str, kind: u32) -> Result<Value, Fault> {
        let value = self.values(key, kind, 1, 0)?.pop();
        Ok(value.expect("one value"))
    }

    /// Values of one type, in `depth` arrays.
    fn values(
        &mut self,
        key: &str,
        kind: u32,
        len: u64,
        depth: usize,
    ) -> Result<Vec<Value>, Fault> {
        let min_len = MIN_LEN.get(kind as usize).ok_or_else(|| unknown(key, kind))?;
        if len > self.remaining() / min_len {
            let remaining = self.remaining();
            let reason = format!("the key {key:?} has {len} values, and {remaining} bytes follow");
            return Err(invalid(NAME, reason));
        }
        self.values = self.values.saturating_add(len);
        if self.values > MAX_VALUES {
            let reason = format!(
                "with the key {key:?} the metadata has more than {MAX_VALUES} values, the most allowed"
            );
            return Err(invalid(NAME, reason));
        }
        let mut values = Vec::with_capacity(MAX_RESERVED.min(len as usize));
        match kind {
            0 => self.numbers(&mut values, len, |b| Value::Uint(u8::from_le_bytes(b).into()))?,
            1 => self.numbers(&mut values, len, |b| Value::Int(i8::from_le_bytes(b).into()))?,
            2 => self.numbers(&mut values, len, |b| Value::Uint(u16::from_le_bytes(b).into()))?,
            3 => self.numbers(&mut values, len, |b| Value::Int(i16::from_le_bytes(b).into()))?,
            4 => self.numbers(&mut values, len, |b| Value::Uint(u32::from_le_bytes(b).into()))?,
            5 => self.numbers(&mut values, len, |b| Value::Int(i32::from_le_bytes(b).into()))?,
            6 => self.numbers(&mut values, len, |b| Value::Float(f32::from_le_bytes(b).into()))?,
            10 => self.numbers(&mut values, len, |b| Value::Uint(u64::from_le_bytes(b)))?,
            11 => self.numbers(&mut values, len, |b| Value::Int(i64::from_le_bytes(b)))?,
            12 => self.numbers(&mut values, len, |b| Value::Float(f64::from_le_bytes(b)))?,
            BOOL => {
                for _ in 0..len {
                    values.push(Value::Bool(self.boolean(key)?));
                }
            }
            TEXT => {
                for _ in 0..len {
                    // Tokens of some vocabularies are parts of characters.
                    values.push(Value::Text(
                        self.text(|bytes| String::from_utf8_lossy(bytes).into_owned())?,
                    ));
                }
            }
            ARRAY if depth < MAX_DEPTH => {
                for _ in 0..len {
                    let (kind, len) = (self.u32()?, self.u64()?);
                    values.push(Value::Array(self.values(key, kind, len, depth + 1)?));
                }
            }
            ARRAY => {
                let reason =
                    format!("the key {key:?} has arrays nested more than {MAX_DEPTH} deep");
                return Err(invalid(NAME, reason));
            }
            _ => return Err(unknown(key, kind)),
        }
        Ok(values)
    }

    /// Reads numbers of `N` bytes each.
    fn numbers<const N: usize>(
        &mut self,
        values: &mut Vec<Value>,
        len: u64,
        make: impl Fn([u8; N]) -> Value,
    ) -> Result<(), Fault> {
        self.claim(len * N as u64)?;
        let mut left = len as usize;
        while left > 0 {
            let (numbers, _) = self.file.fill_buf()?.as_chunks::<N>();
            let numbers = &numbers[..left.min(numbers.len())];
            values.extend(numbers.iter().map(|&bytes| make(bytes)));
            let read = numbers.len();
            self.file.consume(read * N);
            left -= read;
            if read == 0 {
                // The bytes of this one are not all in the buffer.
                let mut bytes = [0; N];
                self.file.read_exact(&mut bytes)?;
                values.push(make(bytes));
                left -= 1;
            }
        }
        Ok(())
    }

    fn boolean(&mut self, key: &str) -> Result<bool, Fault> {
        match self.bytes()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [byte] => {
                let reason =
                    format!("the boolean of the key {key:?} is {byte}, and must be 0 or 1");
                Err(invalid(NAME, reason))
            }
        }
    }
}

/// The fault that no value has a type.
fn unknown(key: &str, kind: u32) -> Fault {
    invalid(NAME, format!("the value of the key {key:?} has the type {kind}, which is unknown"))
}
