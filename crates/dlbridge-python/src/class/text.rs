//! The text of a tensor, for `repr`.

use dlbridge::{DataType, SubbyteView, TensorRef};

use super::elements::Value;
use dlbridge_pyo3::PyTensor;
use dlbridge_pyo3::borrow::Guard;

/// The text of `repr`: the first elements, and the layout.
pub(super) fn repr(this: &PyTensor) -> String {
    let tuple = |numbers: &[i64]| match numbers {
        [one] => format!("({one},)"),
        _ => format!("({})", numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
    };
    let bool = |value| if value { "True" } else { "False" };
    let protocol =
        this.imported_by().map_or("None".to_owned(), |protocol| format!("'{}'", protocol.name()));
    let elements = text(this, "dlbridge.Tensor(".len());
    let elements = elements.map(|text| text + ", ").unwrap_or_default();
    format!(
        "dlbridge.Tensor({elements}shape={}, strides={}, dtype='{}', device='{}', readonly={}, \
         protocol={protocol}, copied={})",
        tuple(this.tensor().shape()),
        tuple(this.tensor().strides()),
        this.tensor().dtype(),
        this.tensor().device(),
        bool(this.is_read_only()),
        bool(this.record().reason.is_some()),
    )
}

/// A tensor with more elements than this shows only those at both ends of each dimension.
const ALL: usize = 100;
/// A tensor that would still show more than this shows none.
const MOST: usize = 256;

/// The elements as text, without those in the middle if there are many. `None` for memory that the CPU cannot read or
/// that is borrowed for writing, and for elements without a value.
pub(super) fn text(tensor: &PyTensor, indent: usize) -> Option<String> {
    let tensor = tensor.tensor();
    let on_cpu = tensor.device().device_type().is_host_accessible();
    if !on_cpu || !Value::exists(tensor.dtype()) {
        return None;
    }
    if tensor.is_empty() {
        return Some("[]".to_owned());
    }
    // The number of elements at each end of a dimension.
    let ends = match tensor.ndim() {
        _ if tensor.len() <= ALL => usize::MAX / 2,
        ..=2 => 3,
        _ => 1,
    };
    let shown = tensor
        .shape()
        .iter()
        .try_fold(1_usize, |product, &extent| product.checked_mul((extent as usize).min(2 * ends)));
    shown.filter(|&shown| shown <= MOST)?;
    let _reading = Guard::reading(tensor, "tensor that is shown").ok()?;
    let source = TensorRef::from(&**tensor);
    let packed = match tensor.dtype().is_subbyte() {
        true => Some(source.view_subbyte().ok()?),
        false => None,
    };
    let mut text = Text { source, packed, ends, indent, index: Vec::new(), written: String::new() };
    text.write(0)?;
    Some(text.written)
}

struct Text<'a> {
    source: TensorRef<'a>,
    packed: Option<SubbyteView<'a>>,
    ends: usize,
    indent: usize,
    index: Vec<usize>,
    written: String,
}

impl Text<'_> {
    /// Writes the dimensions that do not have an index yet.
    fn write(&mut self, axis: usize) -> Option<()> {
        let ndim = self.source.ndim();
        if axis == ndim {
            let element = self.element()?;
            self.written.push_str(&element);
            return Some(());
        }
        let extent = self.source.shape()[axis] as usize;
        let ends = self.ends;
        let gap = extent.saturating_sub(2 * ends);
        let between = match axis + 1 == ndim {
            true => ", ".to_owned(),
            false => format!(",\n{}", " ".repeat(self.indent + axis + 1)),
        };
        self.written.push('[');
        for nth in 0..extent - gap {
            if nth != 0 {
                self.written.push_str(&between);
            }
            if gap != 0 && nth == ends {
                self.written.push_str("...");
                self.written.push_str(&between);
            }
            self.index.push(if nth < ends { nth } else { nth + gap });
            self.write(axis + 1)?;
            self.index.pop();
        }
        self.written.push(']');
        Some(())
    }

    fn element(&self) -> Option<String> {
        let dtype = self.source.dtype();
        if let Some(packed) = &self.packed {
            let bits = packed.get(&self.index)?;
            return Some(shown(dtype, &bits.to_le_bytes()));
        }
        let mut element = self.source.clone();
        for &index in &self.index {
            element = element.index_axis(0, index).ok()?;
        }
        let copy = element.to_copy().ok()?;
        let bytes = TensorRef::from(&copy).as_bytes().ok()?;
        Some(shown(dtype, bytes))
    }
}

fn shown(dtype: DataType, bytes: &[u8]) -> String {
    let lanes = 0..usize::from(dtype.lanes());
    let mut lanes = lanes.map(|lane| Value::of_lane(dtype, bytes, lane).to_string());
    match lanes.len() {
        1 => lanes.next().unwrap_or_default(),
        _ => format!("({})", lanes.collect::<Vec<_>>().join(", ")),
    }
}
