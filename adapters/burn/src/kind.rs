//! Kinds of burn's tensors.

use burn_flex::{Flex, FlexTensor};
use burn_std::DType;
use burn_tensor::{BackendPrimitive, Bool, Float, Int};

use crate::sealed::Sealed;

/// The kind of a tensor of burn: [`Float`], [`Int`] or [`Bool`].
///
/// ```
/// use burn_tensor::{Device, Int, Tensor};
/// use dlbridge_burn::{BurnExt, FlexKind};
///
/// fn address<const D: usize, K: FlexKind>(burn: Tensor<D, K>) -> usize {
///     burn.into_tensor().unwrap().data().addr()
/// }
/// assert_ne!(address(Tensor::<1, Int>::from_ints([1, 2], &Device::flex())), 0);
/// ```
pub trait FlexKind:
    Sealed + burn_tensor::kind::Basic + BackendPrimitive<Flex, Primitive = FlexTensor>
{
    /// The name of the kind.
    ///
    /// ```
    /// assert_eq!(<burn_tensor::Bool as dlbridge_burn::FlexKind>::NAME, "Bool");
    /// ```
    const NAME: &'static str;

    /// Returns whether elements of a dtype are of this kind.
    ///
    /// ```
    /// use dlbridge_burn::FlexKind;
    ///
    /// assert!(<burn_tensor::Int as FlexKind>::has(burn_std::DType::U8));
    /// ```
    fn has(dtype: DType) -> bool;
}

impl Sealed for Float {}
impl Sealed for Int {}
impl Sealed for Bool {}

impl FlexKind for Float {
    const NAME: &'static str = "Float";

    fn has(dtype: DType) -> bool {
        dtype.is_float()
    }
}

impl FlexKind for Int {
    const NAME: &'static str = "Int";

    fn has(dtype: DType) -> bool {
        dtype.is_int() || dtype.is_uint()
    }
}

impl FlexKind for Bool {
    const NAME: &'static str = "Bool";

    fn has(dtype: DType) -> bool {
        dtype.is_bool()
    }
}
