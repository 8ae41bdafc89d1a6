//! The operators of one extension.

use crate::operator::Operator;

/// The operators of one extension, which the macro [`library`](crate::library) makes.
///
/// ```no_run
/// # use dlbridge_ops::{library, op};
/// # #[op]
/// # fn double(x: &[f32], out: &mut [f32]) {}
/// library!("doubles": double);
///
/// let library: &'static dlbridge_ops::Library = &LIBRARY;
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct Library {
    pub(crate) namespace: &'static str,
    pub(crate) operators: &'static [Exported],
}

/// A kernel as PyTorch calls it: with the stack, the number of arguments on it, and the number of results to put there.
#[doc(hidden)]
pub type TorchKernel = unsafe extern "C-unwind" fn(*mut u64, u64, u64);

/// An operator with the functions that frameworks call.
#[doc(hidden)]
#[derive(Debug)]
pub struct Exported {
    pub(crate) operator: &'static Operator,
    pub(crate) torch: TorchKernel,
    pub(crate) torch_out: TorchKernel,
    pub(crate) torch_meta: TorchKernel,
    /// Python registers it; other programs find its symbol in the library.
    #[cfg_attr(not(feature = "python"), expect(dead_code))]
    pub(crate) xla: crate::xla::Handler,
}

impl Library {
    /// Made by the macro. The functions of an [`Exported`] are those of its operator, because only `private::exported` makes
    /// one.
    ///
    /// # Panics
    /// While it is compiled, if an operator's vjp is not among the operators.
    #[doc(hidden)]
    pub const fn new(namespace: &'static str, operators: &'static [Exported]) -> Self {
        let mut position = 0;
        while position < operators.len() {
            if let Some(vjp) = &operators[position].operator.vjp {
                let mut other = 0;
                while other < operators.len() && !is_same(operators[other].operator.name, vjp.name)
                {
                    other += 1;
                }
                assert!(other < operators.len(), "{}", vjp.missing);
            }
            position += 1;
        }
        Self { namespace, operators }
    }

    /// The operator that computes the gradients of another.
    pub(crate) fn vjp_of(&self, operator: &Operator) -> Option<&'static Operator> {
        let vjp = operator.vjp.as_ref()?;
        self.operators.iter().map(|one| one.operator).find(|one| one.name == vjp.name)
    }

    /// The namespace in PyTorch, and the prefix of the names in JAX.
    ///
    /// ```no_run
    /// # use dlbridge_ops::{library, op};
    /// # #[op]
    /// # fn double(x: &[f32], out: &mut [f32]) {}
    /// library!("doubles": double);
    ///
    /// fn main() {
    ///     assert_eq!(LIBRARY.namespace(), "doubles");
    /// }
    /// ```
    pub fn namespace(&self) -> &'static str {
        self.namespace
    }
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut position = 0;
    while position < one.len() && position < other.len() && one[position] == other[position] {
        position += 1;
    }
    position == one.len() && position == other.len()
}
