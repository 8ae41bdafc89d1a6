//! The tensors that will be written, before their data, and how they are written.

use std::collections::BTreeMap;

use dlbridge::{DataType, TensorRef};

/// How tensors are written.
///
/// ```
/// use dlbridge_files::SaveOptions;
///
/// let options = SaveOptions::default().metadata([("license", "MIT")]).max_shard_bytes(5_000_000_000);
/// assert_eq!(options, options.clone());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaveOptions {
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) max_shard_bytes: Option<u64>,
}

impl SaveOptions {
    /// Text by key, for the header of a safetensors file; other formats refuse it.
    ///
    /// ```
    /// let options = dlbridge_files::SaveOptions::default().metadata([("format", "pt")]);
    /// # drop(options);
    /// ```
    pub fn metadata<K: Into<String>, V: Into<String>>(
        mut self,
        metadata: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.metadata = metadata.into_iter().map(|(key, text)| (key.into(), text.into())).collect();
        self
    }

    /// The number of bytes of data above which a safetensors file is split: into `model-00001-of-00002.safetensors` and so
    /// on, with `model.safetensors.index.json`. A larger tensor has a file of its own.
    ///
    /// ```
    /// let options = dlbridge_files::SaveOptions::default().max_shard_bytes(5_000_000_000);
    /// # drop(options);
    /// ```
    pub fn max_shard_bytes(mut self, bytes: u64) -> Self {
        self.max_shard_bytes = Some(bytes);
        self
    }
}

/// The name, dtype and shape of a tensor that will be written.
///
/// ```
/// use dlbridge::DataType;
/// use dlbridge_files::Planned;
///
/// assert_eq!(Planned::new("x", DataType::FLOAT32, [2, 3]).nbytes(), 24);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    pub(super) name: String,
    pub(super) dtype: DataType,
    pub(super) shape: Vec<usize>,
}

impl Planned {
    /// The plan for a tensor of this name, dtype and shape. Formats have no lanes: pairs of floats of four bits, which
    /// PyTorch has, become twice as many floats in the last dimension.
    pub fn new(name: impl Into<String>, dtype: DataType, shape: impl Into<Vec<usize>>) -> Self {
        let (name, mut shape) = (name.into(), shape.into());
        if dtype != DataType::FLOAT4_E2M1FN.with_lanes(2) {
            return Self { name, dtype, shape };
        }
        match shape.last_mut() {
            Some(last) => *last = last.saturating_mul(2),
            None => shape.push(2),
        }
        Self { name, dtype: DataType::FLOAT4_E2M1FN, shape }
    }

    /// The plan for a tensor.
    ///
    /// ```
    /// use dlbridge::TensorRef;
    /// use dlbridge_files::Planned;
    ///
    /// assert_eq!(Planned::of("x", &TensorRef::from(&[1_u16, 2])).nbytes(), 4);
    /// ```
    pub fn of(name: impl Into<String>, tensor: &TensorRef<'_>) -> Self {
        let shape: Vec<usize> = tensor.shape().iter().map(|&extent| extent as usize).collect();
        Self::new(name, tensor.dtype(), shape)
    }

    pub(super) fn bits(&self) -> u128 {
        self.shape.iter().fold(u128::from(self.dtype.element_bits()), |product, &extent| {
            product.saturating_mul(extent as u128)
        })
    }

    /// The number of bytes in a file, those of packed elements together.
    pub fn nbytes(&self) -> u64 {
        u64::try_from(self.bits().div_ceil(8)).unwrap_or(u64::MAX)
    }
}
