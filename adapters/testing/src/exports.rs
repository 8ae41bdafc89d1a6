//! Exports and imports of tensors through C.

use dlbridge::Tensor;

/// Exports a tensor and imports it again.
pub fn through_c(tensor: Tensor) -> Tensor {
    // SAFETY: `into_raw` just exported it, and nothing else imports it.
    unsafe { Tensor::from_raw(tensor.into_raw()) }.expect("an exported tensor is imported")
}

/// Exports a tensor with the legacy struct and imports it again.
pub fn through_legacy_c(tensor: Tensor) -> Tensor {
    let managed = tensor.into_raw_legacy().expect("the legacy struct can describe it");
    // SAFETY: `into_raw_legacy` just exported it, and nothing else imports it.
    unsafe { Tensor::from_raw_legacy(managed) }.expect("an exported tensor is imported")
}

/// Exports a tensor to a consumer that only calls the deleter.
pub fn consume(tensor: Tensor) {
    let managed = tensor.into_raw();
    // SAFETY: `into_raw` just exported it, and its deleter is called once.
    unsafe { (*managed).deleter.expect("an exported tensor has a deleter")(managed) };
}
