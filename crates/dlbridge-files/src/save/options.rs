//! How tensors are written.

use std::collections::BTreeMap;

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
