//! Which tensors a framework shares, copies or refuses.

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
                format!("{name} copies whatever it takes"),
                "work in another library",
            ));
        }
        if let Some(need) = (self.needs_copy)(tensor) {
            return Some(need);
        }
        if read_only && behaviour.read_only == ReadOnly::Lost {
            return Some(Need::new(
                format!(
                    "the tensor is read-only and {name} ignores that: what it writes would change \
                     the source"
                ),
                format!("call {}.{} yourself if nobody writes", self.module, self.function),
            ));
        }
        if tensor.is_read_only() && behaviour.request == Request::Legacy {
            return Some(Need::new(
                format!(
                    "the tensor is read-only and {name} takes legacy capsules, which cannot say so"
                ),
                "start from memory that may be written",
            ));
        }
        if read_only && behaviour.read_only == ReadOnly::Copied {
            return Some(Need::new(
                format!("the tensor is read-only and {name} copies such data"),
                "start from memory that may be written",
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
        let reason = match idle {
            _ if fits => return None,
            true => format!("{name} takes no negative strides, though no step is taken"),
            false => format!("{name} takes {}", behaviour.layout.describe()),
        };
        Some(Need::new(reason, "make the data so with asdlpack(obj, contiguous='C'), once"))
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

    /// Why this framework cannot have a tensor at all.
    pub(crate) fn refuses(&self, tensor: &Tensor) -> Option<String> {
        let (name, dtype, ndim) = (self.name, tensor.dtype(), tensor.ndim());
        let device = tensor.device();
        if self.cpu_only && !device.device_type().is_host_accessible() {
            return Some(format!(
                "{name} takes data on the CPU only, and this is on {device}; import it with \
                 asdlpack(obj, device='cpu'), if its producer can move it"
            ));
        }
        if ndim > self.max_ndim {
            return Some(format!(
                "{name} takes at most {} dimensions, not {ndim}; reshape the tensor first",
                self.max_ndim
            ));
        }
        if ndim < self.min_ndim {
            return Some(match ndim {
                0 => format!("{name} takes no tensor without a dimension; reshape it first"),
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
                "{name} takes no {dtype}; convert the elements to another dtype first"
            ));
        }
        // Some read the lanes as one element without an error.
        (dtype.lanes() != 1 && !(self.takes_lanes)(dtype))
            .then(|| format!("{name} takes no elements of several lanes, like {dtype}"))
    }
}

/// Returns true if a step along some dimension leads backwards.
pub(super) fn is_backwards(tensor: &Tensor) -> bool {
    let mut dims = tensor.shape().iter().zip(tensor.strides());
    !tensor.is_empty() && dims.any(|(&extent, &stride)| extent > 1 && stride < 0)
}

/// Returns true if the elements have no gaps in the order of some permutation of the dimensions.
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
