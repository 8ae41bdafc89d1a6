//! The frameworks that dlbridge knows, one file each: how to call it, what it silently gets wrong, and what its
//! protocols do not report about its objects.

mod array_api_strict;
mod cupy;
mod dpnp;
pub(crate) mod dtypes;
mod fit;
mod framework;
mod import_rules;
mod jax;
mod mlx;
pub(crate) mod numpy;
mod onnxruntime;
mod paddle;
pub(crate) mod pandas;
mod pillow;
mod polars;
mod pyarrow;
mod tensorflow;
mod torch;
mod tvm_ffi;
mod warp;

use std::ptr;

use pyo3::prelude::*;

pub(crate) use framework::{
    Argument, Behaviour, Framework, Layout, Need, Offer, ReadOnly, Request,
};
pub(crate) use import_rules::{ArrayOf, ArrowRules, Attribute, ImportRules, State};

/// The import rules of the frameworks that need some. They are not fields of [`Framework`]: an extension without the
/// class `Tensor` exports nothing to a framework, and would still have to link all its functions.
pub(crate) static IMPORT_RULES: [&ImportRules; 9] = [
    &numpy::RULES,
    &torch::RULES,
    &jax::RULES,
    &tensorflow::RULES,
    &paddle::RULES,
    &pyarrow::RULES,
    &polars::RULES,
    &pandas::RULES,
    &pillow::RULES,
];

/// All frameworks, ordered as messages list them.
pub(crate) static FRAMEWORKS: [&Framework; 16] = [
    &numpy::NUMPY,
    &torch::TORCH,
    &jax::JAX,
    &tensorflow::TENSORFLOW,
    &paddle::PADDLE,
    &cupy::CUPY,
    &pyarrow::PYARROW,
    &mlx::MLX,
    &tvm_ffi::TVM_FFI,
    &onnxruntime::ONNXRUNTIME,
    &warp::WARP,
    &dpnp::DPNP,
    &array_api_strict::ARRAY_API_STRICT,
    &polars::POLARS,
    &pandas::PANDAS,
    &pillow::PILLOW,
];

/// The advice for an object of a framework that has no protocol.
pub(crate) fn remedy(object: &Bound<'_, PyAny>) -> Option<String> {
    IMPORT_RULES.iter().find_map(|rules| rules.remedy.and_then(|remedy| remedy(object)))
}

impl Framework {
    /// The framework with a name or an alias.
    pub(crate) fn by_name(name: &str) -> Option<&'static Self> {
        FRAMEWORKS
            .into_iter()
            .find(|framework| framework.name == name || framework.aliases.contains(&name))
    }

    /// The framework that the classes of a package belong to.
    pub(crate) fn by_package(package: &str) -> Option<&'static Self> {
        FRAMEWORKS
            .into_iter()
            .find(|framework| framework.package() == package || framework.classes == Some(package))
    }

    /// Its index in [`FRAMEWORKS`].
    pub(crate) fn index(&'static self) -> usize {
        // A loop that stops at this framework, which is always in the list.
        FRAMEWORKS.iter().take_while(|&&framework| !ptr::eq(framework, self)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `to_library::give` passes new tensors of these dtypes to a framework's table without checking how the
    /// framework reads them.
    #[test]
    fn common_dtypes_are_not_misread_by_frameworks_with_a_table() {
        for framework in FRAMEWORKS.iter().filter(|framework| framework.table_of.is_some()) {
            assert!(
                framework.misread.is_none_or(|(dtype, _)| !dtypes::is_common(dtype)),
                "{} misreads a common dtype",
                framework.name
            );
        }
    }
}
