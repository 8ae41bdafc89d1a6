//! The first inflated bytes of a member.

use std::io::{self, BufRead, Read};

use flate2::{Decompress, FlushDecompress, Status};

/// The largest number of deflated bytes that are inflated at once. The inflater works as far ahead as its input allows,
/// and only the header is read.
const STEP: usize = 16;

/// Inflates a stream with a given inflater: a new one for each member would take longer than their headers.
pub(super) struct Inflated<'a, B> {
    stream: B,
    inflater: &'a mut Decompress,
}

impl<'a, B: BufRead> Inflated<'a, B> {
    pub(super) fn new(stream: B, inflater: &'a mut Decompress) -> Self {
        inflater.reset(false);
        Self { stream, inflater }
    }
}

impl<B: BufRead> Read for Inflated<'_, B> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let input = self.stream.fill_buf()?;
            let input = &input[..input.len().min(STEP)];
            let (read, written) = (self.inflater.total_in(), self.inflater.total_out());
            let status =
                self.inflater.decompress(input, bytes, FlushDecompress::None).map_err(|_| {
                    io::Error::new(io::ErrorKind::InvalidData, "the deflated bytes are damaged")
                })?;
            let read = (self.inflater.total_in() - read) as usize;
            let written = (self.inflater.total_out() - written) as usize;
            self.stream.consume(read);
            if written > 0 || read == 0 || status == Status::StreamEnd {
                return Ok(written);
            }
        }
    }
}
