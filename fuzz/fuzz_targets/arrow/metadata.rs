//! The metadata of a schema.

use arbitrary::{Result, Unstructured};

use crate::numbers::{COUNTS, pick, seldom};

/// The metadata of a schema: pairs of texts, whose lengths may be negative.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) count: i32,
    pub(crate) pairs: Vec<[(i32, Text); 2]>,
}

#[derive(Debug)]
pub(crate) enum Text {
    Bytes(Vec<u8>),
    /// The JSON of fixed-shape tensors.
    Shape(Vec<i64>, Option<Vec<i64>>),
}

impl Text {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Shape(shape, None) => format!("{{\"shape\": {shape:?}}}").into_bytes(),
            Self::Shape(shape, Some(order)) => {
                format!("{{\"shape\": {shape:?}, \"permutation\": {order:?}}}").into_bytes()
            }
        }
    }
}

pub(crate) const NAME: &str = "ARROW:extension:name";
pub(crate) const SHAPE: &str = "ARROW:extension:metadata";
pub(crate) const FIXED_SHAPE: &str = "arrow.fixed_shape_tensor";
pub(crate) const NAMES: &[&str] =
    &[FIXED_SHAPE, FIXED_SHAPE, "arrow.bool8", "arrow.bool8", "tests.unknown", ""];

impl Metadata {
    pub(crate) fn arbitrary(u: &mut Unstructured<'_>, items: i64) -> Result<Self> {
        let mut texts = vec![(NAME, Text::Bytes(u.choose(NAMES)?.as_bytes().to_vec()))];
        let shape = match u.int_in_range(0..=3)? {
            0 => None,
            1 => Some(Text::Bytes(u.arbitrary()?)),
            _ => {
                let mut shape = vec![pick(u, items, COUNTS)?];
                if u.arbitrary()? {
                    shape.insert(u.int_in_range(0..=1)?, pick(u, 1, COUNTS)?);
                }
                let order = match u.int_in_range(0..=3)? {
                    0 | 1 => None,
                    2 => Some((0..shape.len() as i64).rev().collect()),
                    _ => Some(
                        (0..u.int_in_range(0..=3)?)
                            .map(|_| Ok(u.int_in_range(-1..=2)?))
                            .collect::<Result<_>>()?,
                    ),
                };
                Some(Text::Shape(shape, order))
            }
        };
        if let Some(shape) = shape {
            texts.insert(u.int_in_range(0..=1)?, (SHAPE, shape));
        }
        if seldom(u)? {
            texts.insert(0, ("k", Text::Bytes(u.arbitrary()?)));
        }
        let mut pairs = Vec::new();
        for (key, value) in texts {
            let key = Text::Bytes(key.as_bytes().to_vec());
            let mut sized = |text: Text| {
                let length = text.bytes().len() as i32;
                Ok((pick(u, length, &[-1, i32::MIN])?, text))
            };
            pairs.push([sized(key)?, sized(value)?]);
        }
        let count = pick(u, pairs.len() as i32, &[0, 1, -1, i32::MIN])?;
        Ok(Self { count, pairs })
    }

    pub(crate) fn bytes(&self) -> Box<[u8]> {
        let mut bytes = self.count.to_ne_bytes().to_vec();
        for (length, text) in self.pairs.iter().flatten() {
            bytes.extend(length.to_ne_bytes());
            bytes.extend(text.bytes());
        }
        bytes.into()
    }

    /// Returns the value of a key, or an error if a negative length comes before it.
    pub(crate) fn get(&self, wanted: &str) -> std::result::Result<Option<&Text>, ()> {
        let count = usize::try_from(self.count).map_err(|_| ())?;
        for [(key_length, key), (value_length, value)] in &self.pairs[..count] {
            if *key_length < 0 || *value_length < 0 {
                return Err(());
            }
            if key.bytes() == wanted.as_bytes() {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}
