//! The header of an npy file: a dict in Python's notation with three keys, and the dtypes that it names.

use dlbridge::{DataType, MAX_NDIM};

use crate::Fault;
use crate::formats::{NPY as NAME, invalid, unsupported};

/// The values of a header.
pub(super) struct Header<'a> {
    /// The dtype, as NumPy writes it.
    pub(super) descr: &'a [u8],
    pub(super) is_fortran: bool,
    pub(super) shape: Vec<usize>,
}

/// Parses a header. Its bytes are those of Latin-1 or UTF-8, and all that a tensor can have is ASCII.
pub(super) fn parse(text: &[u8]) -> Result<Header<'_>, Fault> {
    let mut parser = Parser { text, at: 0 };
    let (mut descr, mut is_fortran, mut shape) = (None, None, None);
    parser.expect(b'{')?;
    while !parser.accept(b'}') {
        let key = parser.string()?;
        parser.expect(b':')?;
        let is_again = match key {
            b"descr" => descr.replace(parser.descr()?).is_some(),
            b"fortran_order" => is_fortran.replace(parser.boolean()?).is_some(),
            b"shape" => shape.replace(parser.shape()?).is_some(),
            _ => {
                let key = key.escape_ascii();
                let reason = format!(
                    "the header has the key '{key}', and only descr, fortran_order and shape are allowed"
                );
                return Err(invalid(NAME, reason));
            }
        };
        if is_again {
            let reason = format!("the header has the key '{}' twice", key.escape_ascii());
            return Err(invalid(NAME, reason));
        }
        if !parser.accept(b',') {
            parser.expect(b'}')?;
            break;
        }
    }
    if parser.next().is_some() {
        return Err(parser.unexpected("the end"));
    }
    let lacks = |key: &str| invalid(NAME, format!("the header lacks the key '{key}'"));
    Ok(Header {
        descr: descr.ok_or_else(|| lacks("descr"))?,
        is_fortran: is_fortran.ok_or_else(|| lacks("fortran_order"))?,
        shape: shape.ok_or_else(|| lacks("shape"))?,
    })
}

/// A position in a header.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    /// The next byte after whitespace, which stays where it is.
    fn next(&mut self) -> Option<u8> {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r' | b'\x0c') => self.at += 1,
                next => return next.copied(),
            }
        }
    }

    /// Skips a byte, if it is the next.
    fn accept(&mut self, byte: u8) -> bool {
        let is_next = self.next() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        match self.accept(byte) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("'{}'", char::from(byte)))),
        }
    }

    /// The fault that other bytes follow than expected.
    fn unexpected(&mut self, expected: &str) -> Fault {
        let reason = match self.next() {
            Some(found) => {
                let found = found.escape_ascii();
                format!(
                    "the header has '{found}' at byte {}, where {expected} is expected",
                    self.at
                )
            }
            None => format!("the header ends where {expected} is expected"),
        };
        invalid(NAME, reason)
    }

    /// Text in quotation marks.
    fn string(&mut self) -> Result<&'a [u8], Fault> {
        let Some(quote @ (b'\'' | b'"')) = self.next() else {
            return Err(self.unexpected("text in quotation marks"));
        };
        let text = &self.text[self.at + 1..];
        let Some(len) = text.iter().position(|&byte| byte == quote) else {
            return Err(invalid(
                NAME,
                format!("the text at byte {} of the header has no end", self.at),
            ));
        };
        let text = &text[..len];
        if text.contains(&b'\\') {
            let reason = format!("the text at byte {} of the header has an escape", self.at);
            return Err(invalid(NAME, reason));
        }
        self.at += len + 2;
        Ok(text)
    }

    /// The text of a dtype. Those of structures are lists, and those of arrays in an array tuples.
    fn descr(&mut self) -> Result<&'a [u8], Fault> {
        match self.next() {
            Some(b'[' | b'(') => Err(unsupported(
                NAME,
                "the dtype has fields, which no tensor has; save each field as an array of its own",
            )),
            _ => self.string(),
        }
    }

    fn boolean(&mut self) -> Result<bool, Fault> {
        self.next();
        for (text, value) in [(&b"True"[..], true), (b"False", false)] {
            if self.text[self.at..].starts_with(text) {
                self.at += text.len();
                return Ok(value);
            }
        }
        Err(self.unexpected("True or False"))
    }

    /// A tuple of integers.
    fn shape(&mut self) -> Result<Vec<usize>, Fault> {
        self.expect(b'(')?;
        let mut shape = Vec::new();
        while !self.accept(b')') {
            if shape.len() == MAX_NDIM {
                let reason = format!("the array has more than {MAX_NDIM} dimensions");
                return Err(unsupported(NAME, reason));
            }
            shape.push(self.extent()?);
            if self.accept(b',') {
                continue;
            }
            if shape.len() == 1 {
                // To Python this is a number in parentheses.
                return Err(self.unexpected("','"));
            }
            self.expect(b')')?;
            break;
        }
        Ok(shape)
    }

    fn extent(&mut self) -> Result<usize, Fault> {
        self.next();
        // NumPy 2 writes its own integers like this: `np.int64(2)`.
        if let Some(rest) = self.text[self.at..].strip_prefix(b"np.") {
            self.at += b"np.".len();
            self.at += rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            self.expect(b'(')?;
            let extent = self.number()?;
            self.expect(b')')?;
            return Ok(extent);
        }
        self.number()
    }

    fn number(&mut self) -> Result<usize, Fault> {
        let mut extent = None;
        self.next();
        while let Some(digit @ b'0'..=b'9') = self.text.get(self.at) {
            let next = extent
                .unwrap_or(0_usize)
                .checked_mul(10)
                .and_then(|tens| tens.checked_add(usize::from(digit - b'0')));
            let Some(next) = next else {
                let reason = format!("the extent at byte {} of the header is too large", self.at);
                return Err(invalid(NAME, reason));
            };
            extent = Some(next);
            self.at += 1;
        }
        let extent = extent.ok_or_else(|| self.unexpected("an extent"))?;
        // Python 2 wrote long integers like this.
        if self.text.get(self.at) == Some(&b'L') {
            self.at += 1;
        }
        Ok(extent)
    }
}

/// The dtypes that tensors have, without the byte order.
pub(crate) const DTYPES: [(&str, DataType); 14] = [
    ("b1", DataType::BOOL),
    ("i1", DataType::INT8),
    ("i2", DataType::INT16),
    ("i4", DataType::INT32),
    ("i8", DataType::INT64),
    ("u1", DataType::UINT8),
    ("u2", DataType::UINT16),
    ("u4", DataType::UINT32),
    ("u8", DataType::UINT64),
    ("f2", DataType::FLOAT16),
    ("f4", DataType::FLOAT32),
    ("f8", DataType::FLOAT64),
    ("c8", DataType::COMPLEX64),
    ("c16", DataType::COMPLEX128),
];

/// The dtype that a text stands for, and true if the byte order is the one that this machine does not have.
pub(super) fn dtype(descr: &[u8]) -> Result<(DataType, bool), Fault> {
    let (order, name) = match descr {
        [order @ (b'<' | b'>' | b'=' | b'|'), name @ ..] => (*order, name),
        // NumPy reads this as the order of the machine.
        _ => (b'=', descr),
    };
    let known = DTYPES.iter().find(|(known, _)| known.as_bytes() == name);
    let &(_, dtype) = known.ok_or_else(|| refused(descr, name))?;
    let foreign = if cfg!(target_endian = "little") { b'>' } else { b'<' };
    Ok((dtype, order == foreign && dtype.itemsize() > 1))
}

/// The fault that no tensor has a dtype.
fn refused(descr: &[u8], name: &[u8]) -> Fault {
    let reason = match name {
        [b'V', ..] if matches!(name, b"V1" | b"V2") => {
            "which no tensor has; NumPy writes bfloat16 and float8 like this, so save the array as safetensors"
        }
        [b'V', ..] => {
            "which is bytes of no known kind; view the array as numbers and save it again"
        }
        [b'O', ..] => "which is Python objects; convert the array to numbers and save it again",
        [b'S' | b'U' | b'a', ..] => {
            "which is text; no tensor has it, so convert the array to numbers"
        }
        [b'M' | b'm', ..] => "which is dates or times; view the array as int64 and save it again",
        [b'f' | b'c', ..] => "which no tensor has; convert the array to float64 or complex128",
        _ => return invalid(NAME, format!("the dtype \"{}\" is unknown", descr.escape_ascii())),
    };
    unsupported(NAME, format!("the dtype is \"{}\", {reason}", descr.escape_ascii()))
}
