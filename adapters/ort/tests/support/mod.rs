//! The environment of ONNX Runtime, a tensor that counts its drops, and small models in the protobuf encoding of ONNX.
#![allow(dead_code, reason = "each test uses some of it")]

use std::env;
use std::sync::OnceLock;

use dlbridge::{Access, Tensor};
use dlbridge_testing::{Drops, foreign, required};
use ort::environment::Environment;

/// The number of float32 in ONNX.
const FLOAT: u64 = 1;

/// The environment of ONNX Runtime, or `None` after printing the reason.
pub(crate) fn environment() -> Option<&'static Environment> {
    static ENVIRONMENT: OnceLock<Result<Environment, String>> = OnceLock::new();
    let made = ENVIRONMENT.get_or_init(|| {
        let path = env::var_os("ORT_DYLIB_PATH").ok_or("ORT_DYLIB_PATH does not name a library")?;
        let builder = ort::init_from(path).map_err(|e| e.to_string())?;
        builder.with_telemetry(false).build().map_err(|e| e.to_string())
    });
    required("ONNX Runtime", made.as_ref())
}

/// A tensor of [[1, 2], [3, 4]] with an access, and a counter of its drops.
pub(crate) fn square(access: Access) -> (Tensor, Drops) {
    foreign(&[1.0_f32, 2.0, 3.0, 4.0], &[2, 2], access)
}

/// A model of one input `x` and one output, of float32.
pub(crate) struct Model {
    /// Operators, each with its inputs and its output.
    pub(crate) nodes: Vec<(&'static str, Vec<&'static str>, &'static str)>,
    /// Constants, with their extents and elements.
    pub(crate) constants: Vec<(&'static str, Vec<u64>, Vec<f32>)>,
    /// The name of the output.
    pub(crate) output: &'static str,
    /// The number of dimensions of input and output.
    pub(crate) ndim: usize,
}

impl Model {
    /// Encodes the model as in a file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut graph = Vec::new();
        for (operator, inputs, output) in &self.nodes {
            let mut node = Vec::new();
            inputs.iter().for_each(|name| field(&mut node, 1, name.as_bytes()));
            field(&mut node, 2, output.as_bytes());
            field(&mut node, 4, operator.as_bytes());
            field(&mut graph, 1, &node);
        }
        field(&mut graph, 2, b"graph");
        for (name, extents, elements) in &self.constants {
            let mut tensor = Vec::new();
            extents.iter().for_each(|&extent| number(&mut tensor, 1, extent));
            number(&mut tensor, 2, FLOAT);
            field(&mut tensor, 8, name.as_bytes());
            let bytes: Vec<u8> = elements.iter().flat_map(|e| e.to_le_bytes()).collect();
            field(&mut tensor, 9, &bytes);
            field(&mut graph, 5, &tensor);
        }
        field(&mut graph, 11, &self.described("x"));
        field(&mut graph, 12, &self.described(self.output));
        let mut operators = Vec::new();
        number(&mut operators, 2, 13);
        let mut model = Vec::new();
        number(&mut model, 1, 8);
        field(&mut model, 7, &graph);
        field(&mut model, 8, &operators);
        model
    }

    /// The name and the type of an input or an output, whose extents may be any.
    fn described(&self, name: &str) -> Vec<u8> {
        let mut shape = Vec::new();
        for axis in 0..self.ndim {
            let mut extent = Vec::new();
            field(&mut extent, 2, format!("{name}{axis}").as_bytes());
            field(&mut shape, 1, &extent);
        }
        let mut tensor = Vec::new();
        number(&mut tensor, 1, FLOAT);
        field(&mut tensor, 2, &shape);
        let (mut kind, mut value) = (Vec::new(), Vec::new());
        field(&mut kind, 1, &tensor);
        field(&mut value, 1, name.as_bytes());
        field(&mut value, 2, &kind);
        value
    }
}

/// Appends a field of bytes: a string, or a message.
fn field(message: &mut Vec<u8>, tag: u64, bytes: &[u8]) {
    varint(message, tag << 3 | 2);
    varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

/// Appends a field that is a number.
fn number(message: &mut Vec<u8>, tag: u64, value: u64) {
    varint(message, tag << 3);
    varint(message, value);
}

/// Appends seven bits at a time, the lowest first.
fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}
