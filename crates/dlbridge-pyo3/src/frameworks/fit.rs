//! Decides which tensors a framework shares, copies or refuses.

use dlbridge::Tensor;

use super::framework::{Behaviour, Framework, Layout, Need, ReadOnly, Request};

impl Framework {
    /// Why a tensor must be copied for this framework.
    pub(crate) fn needs_copy(
        &self,
        behaviour: &Behaviour,
        tensor: &Tensor,
        read_only: bool,
    ) -> Option<Need> {
        let name = self.name;
        if behaviour.copies {
            return Some(Need::new(
                format!("{name} copies everything that it imports"),
                "use another library",
            ));
        }
        if let Some(need) = (self.needs_copy)(tensor) {
            return Some(need);
        }
        if read_only && behaviour.read_only == ReadOnly::Lost {
            return Some(Need::new(
                format!(
                    "the tensor is read-only and {name} ignores that: its writes would change \
                     the source"
                ),
                format!("call {}.{}(t) if no code writes the result", self.module, self.function),
            ));
        }
        if tensor.is_read_only() && behaviour.request == Request::Legacy {
            return Some(Need::new(
                format!(
                    "the tensor is read-only and {name} imports legacy capsules, which cannot mark that"
                ),
                "start from writable memory",
            ));
        }
        if read_only && behaviour.read_only == ReadOnly::Copied {
            return Some(Need::new(
                format!("the tensor is read-only and {name} copies such data"),
                "start from writable memory",
            ));
        }
        let need = self.layout_needs_copy(behaviour, tensor);
        need.or_else(|| self.alignment_needs_copy(behaviour, tensor))
    }

    fn layout_needs_copy(&self, behaviour: &Behaviour, tensor: &Tensor) -> Option<Need> {
        let (name, shape, strides) = (self.name, tensor.shape(), tensor.strides());
        let backwards = is_backwards(tensor);
        let idle = behaviour.idle_strides && !backwards && strides.iter().any(|&stride| stride < 0);
        let fits = match behaviour.layout {
            _ if idle => false,
            Layout::Any => true,
            Layout::NonNegative => !backwards,
            Layout::Compact => is_compact(shape, strides),
            Layout::C => tensor.is_c_contiguous(),
        };
        Some(match idle {
            _ if fits => return None,
            // Such a tensor may be contiguous, and then only copy=True copies it.
            true => Need::new(
                format!("{name} rejects negative strides even for dimensions of extent 1"),
                "copy it once, with asdlpack(obj, copy=True)",
            ),
            false => Need::new(
                format!("{name} accepts {}", behaviour.layout.describe()),
                "make a contiguous copy once, with asdlpack(obj, contiguous='C')",
            ),
        })
    }

    fn alignment_needs_copy(&self, behaviour: &Behaviour, tensor: &Tensor) -> Option<Need> {
        let (name, align) = (self.name, behaviour.align);
        if tensor.is_empty() || tensor.data().addr().is_multiple_of(align) {
            return None;
        }
        Some(Need::new(
            format!("{name} copies data that is not aligned to {align} bytes"),
            format!("allocate it with dlbridge.empty, or asdlpack(obj, align={align}), once"),
        ))
    }

    /// Why this framework cannot import a tensor at all.
    pub(crate) fn refuses(&self, tensor: &Tensor) -> Option<String> {
        let (name, dtype, ndim) = (self.name, tensor.dtype(), tensor.ndim());
        let device = tensor.device();
        if self.cpu_only && !device.device_type().is_host_accessible() {
            return Some(format!(
                "{name} supports data on the CPU only, and this is on {device}; import it with \
                 asdlpack(obj, device='cpu'), if its producer can move it"
            ));
        }
        if ndim > self.max_ndim {
            return Some(format!(
                "{name} takes at most {} dimension{}, not {ndim}; reshape the tensor first",
                self.max_ndim,
                if self.max_ndim == 1 { "" } else { "s" }
            ));
        }
        if ndim < self.min_ndim {
            return Some(match ndim {
                0 => format!("{name} does not support 0-d tensors; reshape the tensor first"),
                ndim => format!(
                    "{name} takes tensors of at least {} dimensions, not {ndim}; reshape the tensor first",
                    self.min_ndim
                ),
            });
        }
        if let Some(reason) = (self.refuses)(tensor) {
            return Some(reason);
        }
        if dtype.lanes() == 1 && !(self.takes)(dtype) {
            return Some(format!(
                "{name} does not support {dtype}; convert the elements to another dtype first"
            ));
        }
        // Some frameworks silently read all lanes as one element.
        (dtype.lanes() != 1 && !(self.takes_lanes)(dtype))
            .then(|| format!("{name} does not support elements with several lanes, like {dtype}"))
    }
}

/// Returns true if a stride is negative, in a dimension with more than one index.
pub(super) fn is_backwards(tensor: &Tensor) -> bool {
    let mut dims = tensor.shape().iter().zip(tensor.strides());
    !tensor.is_empty() && dims.any(|(&extent, &stride)| extent > 1 && stride < 0)
}

/// Returns true if the elements are contiguous, in some order of the dimensions.
fn is_compact(shape: &[i64], strides: &[i64]) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let mut dims: Vec<_> = (0..shape.len()).filter(|&dim| shape[dim] != 1).collect();
    dims.sort_by_key(|&dim| strides[dim]);
    let mut expected = 1;
    dims.into_iter().all(|dim| {
        let fits = strides[dim] == expected;
        expected *= shape[dim];
        fits
    })
}
