//! Data types: the kind of an element, its width, and the names of both.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use dlbridge_sys as sys;

/// The code of an element type. Any code is a value, known or not.
///
/// Source: `DLDataTypeCode` of `dlpack.h` 1.3.
///
/// ```
/// use dlbridge::{DataType, DataTypeCode};
///
/// assert_eq!(DataType::FLOAT32.code(), DataTypeCode::FLOAT);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataTypeCode(u8);

/// The rule that makes a dtype's name of its code and bits.
#[derive(Clone, Copy)]
enum Naming {
    /// `int32`: the name, then the bits.
    WithBits,
    /// `float8_e4m3fn`: the name alone, valid only for this number of bits.
    Fixed(u8),
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $c_name:ident, $text:literal, $naming:expr;)*) => {
        impl DataTypeCode {
            $(
                $(#[$doc])*
                ///
                #[doc = concat!("```\nlet code = dlbridge::DataTypeCode::", stringify!($name),
                    ";\nassert_eq!(code.code(), dlbridge::sys::", stringify!($c_name), ".0);\n```")]
                pub const $name: Self = Self(sys::$c_name.0);
            )*
        }

        /// Every known code with the stem of its name.
        const NAMES: &[(DataTypeCode, &str, Naming)] =
            &[$((DataTypeCode::$name, $text, $naming),)*];
    };
}

codes! {
    /// Signed integers.
    INT = kDLInt, "int", Naming::WithBits;
    /// Unsigned integers.
    UINT = kDLUInt, "uint", Naming::WithBits;
    /// IEEE 754 binary floating point.
    FLOAT = kDLFloat, "float", Naming::WithBits;
    /// Opaque handles.
    OPAQUE_HANDLE = kDLOpaqueHandle, "handle", Naming::WithBits;
    /// The bfloat16 format.
    BFLOAT = kDLBfloat, "bfloat", Naming::WithBits;
    /// Complex numbers; the bits count both parts.
    COMPLEX = kDLComplex, "complex", Naming::WithBits;
    /// Booleans.
    BOOL = kDLBool, "bool", Naming::Fixed(8);
    /// 8-bit floats e3m4.
    FLOAT8_E3M4 = kDLFloat8_e3m4, "float8_e3m4", Naming::Fixed(8);
    /// 8-bit floats e4m3.
    FLOAT8_E4M3 = kDLFloat8_e4m3, "float8_e4m3", Naming::Fixed(8);
    /// 8-bit floats e4m3b11fnuz.
    FLOAT8_E4M3B11FNUZ = kDLFloat8_e4m3b11fnuz, "float8_e4m3b11fnuz", Naming::Fixed(8);
    /// 8-bit floats e4m3fn.
    FLOAT8_E4M3FN = kDLFloat8_e4m3fn, "float8_e4m3fn", Naming::Fixed(8);
    /// 8-bit floats e4m3fnuz.
    FLOAT8_E4M3FNUZ = kDLFloat8_e4m3fnuz, "float8_e4m3fnuz", Naming::Fixed(8);
    /// 8-bit floats e5m2.
    FLOAT8_E5M2 = kDLFloat8_e5m2, "float8_e5m2", Naming::Fixed(8);
    /// 8-bit floats e5m2fnuz.
    FLOAT8_E5M2FNUZ = kDLFloat8_e5m2fnuz, "float8_e5m2fnuz", Naming::Fixed(8);
    /// 8-bit powers of two, e8m0fnu.
    FLOAT8_E8M0FNU = kDLFloat8_e8m0fnu, "float8_e8m0fnu", Naming::Fixed(8);
    /// 6-bit floats e2m3fn.
    FLOAT6_E2M3FN = kDLFloat6_e2m3fn, "float6_e2m3fn", Naming::Fixed(6);
    /// 6-bit floats e3m2fn.
    FLOAT6_E3M2FN = kDLFloat6_e3m2fn, "float6_e3m2fn", Naming::Fixed(6);
    /// 4-bit floats e2m1fn.
    FLOAT4_E2M1FN = kDLFloat4_e2m1fn, "float4_e2m1fn", Naming::Fixed(4);
    /// Complex numbers of bfloat16; the bits count both parts. On the main branch of DLPack, after 1.3.
    BCOMPLEX = kDLBcomplex, "bcomplex", Naming::WithBits;
}

impl DataTypeCode {
    /// The code of a number.
    ///
    /// ```
    /// use dlbridge::DataTypeCode;
    ///
    /// assert_eq!(DataTypeCode::from_code(2), DataTypeCode::FLOAT);
    /// ```
    pub const fn from_code(code: u8) -> Self {
        Self(code)
    }

    /// The number of the code.
    ///
    /// ```
    /// assert_eq!(dlbridge::DataTypeCode::BOOL.code(), 6);
    /// ```
    pub const fn code(self) -> u8 {
        self.0
    }

    fn naming(self) -> Option<(&'static str, Naming)> {
        NAMES.iter().find(|(code, ..)| *code == self).map(|&(_, stem, naming)| (stem, naming))
    }
}

impl fmt::Debug for DataTypeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.naming() {
            Some((stem, _)) => f.write_str(stem),
            None => write!(f, "code{}", self.0),
        }
    }
}

/// The type of an element: its code, the width of one lane in bits, and the number of lanes.
///
/// Names are those of NumPy, ml_dtypes and PyTorch: `float32`, `bfloat16`, `float8_e4m3fn`; the suffix `x2` means two
/// lanes. A combination without such a name prints, and parses, as `code<code>_<bits>`.
///
/// Source: `DLDataType` of `dlpack.h` 1.3.
///
/// ```
/// use dlbridge::DataType;
///
/// assert_eq!(DataType::FLOAT32.to_string(), "float32");
/// assert_eq!("float8_e4m3fn".parse::<DataType>()?, DataType::FLOAT8_E4M3FN);
/// assert_eq!("bfloat16x2".parse::<DataType>()?.lanes(), 2);
/// # Ok::<(), dlbridge::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataType {
    code: DataTypeCode,
    bits: u8,
    lanes: u16,
}

macro_rules! dtypes {
    ($($name:ident = $code:ident, $bits:literal, $text:literal;)*) => {
        impl DataType {
            $(
                #[doc = concat!("`", $text, "`: ", stringify!($bits), " bits.")]
                ///
                #[doc = concat!("```\nassert_eq!(dlbridge::DataType::", stringify!($name),
                    ".to_string(), \"", $text, "\");\n```")]
                pub const $name: Self = Self::new(DataTypeCode::$code, $bits, 1);
            )*
        }
    };
}

dtypes! {
    INT2 = INT, 2, "int2";
    INT4 = INT, 4, "int4";
    INT8 = INT, 8, "int8";
    INT16 = INT, 16, "int16";
    INT32 = INT, 32, "int32";
    INT64 = INT, 64, "int64";
    INT128 = INT, 128, "int128";
    UINT1 = UINT, 1, "uint1";
    UINT2 = UINT, 2, "uint2";
    UINT4 = UINT, 4, "uint4";
    UINT8 = UINT, 8, "uint8";
    UINT16 = UINT, 16, "uint16";
    UINT32 = UINT, 32, "uint32";
    UINT64 = UINT, 64, "uint64";
    UINT128 = UINT, 128, "uint128";
    FLOAT16 = FLOAT, 16, "float16";
    FLOAT32 = FLOAT, 32, "float32";
    FLOAT64 = FLOAT, 64, "float64";
    BFLOAT16 = BFLOAT, 16, "bfloat16";
    COMPLEX32 = COMPLEX, 32, "complex32";
    COMPLEX64 = COMPLEX, 64, "complex64";
    COMPLEX128 = COMPLEX, 128, "complex128";
    BOOL = BOOL, 8, "bool";
    FLOAT8_E3M4 = FLOAT8_E3M4, 8, "float8_e3m4";
    FLOAT8_E4M3 = FLOAT8_E4M3, 8, "float8_e4m3";
    FLOAT8_E4M3B11FNUZ = FLOAT8_E4M3B11FNUZ, 8, "float8_e4m3b11fnuz";
    FLOAT8_E4M3FN = FLOAT8_E4M3FN, 8, "float8_e4m3fn";
    FLOAT8_E4M3FNUZ = FLOAT8_E4M3FNUZ, 8, "float8_e4m3fnuz";
    FLOAT8_E5M2 = FLOAT8_E5M2, 8, "float8_e5m2";
    FLOAT8_E5M2FNUZ = FLOAT8_E5M2FNUZ, 8, "float8_e5m2fnuz";
    FLOAT8_E8M0FNU = FLOAT8_E8M0FNU, 8, "float8_e8m0fnu";
    FLOAT6_E2M3FN = FLOAT6_E2M3FN, 6, "float6_e2m3fn";
    FLOAT6_E3M2FN = FLOAT6_E3M2FN, 6, "float6_e3m2fn";
    FLOAT4_E2M1FN = FLOAT4_E2M1FN, 4, "float4_e2m1fn";
    BCOMPLEX32 = BCOMPLEX, 32, "bcomplex32";
}

impl DataType {
    /// The dtype of a code, the bits of one lane, and a number of lanes.
    ///
    /// ```
    /// use dlbridge::{DataType, DataTypeCode};
    ///
    /// assert_eq!(DataType::new(DataTypeCode::FLOAT, 32, 1), DataType::FLOAT32);
    /// ```
    pub const fn new(code: DataTypeCode, bits: u8, lanes: u16) -> Self {
        Self { code, bits, lanes }
    }

    /// The kind of the element, without its width.
    ///
    /// ```
    /// use dlbridge::{DataType, DataTypeCode};
    ///
    /// assert_eq!(DataType::BFLOAT16.code(), DataTypeCode::BFLOAT);
    /// ```
    pub const fn code(self) -> DataTypeCode {
        self.code
    }

    /// The width of one lane in bits.
    ///
    /// ```
    /// assert_eq!(dlbridge::DataType::FLOAT6_E2M3FN.bits(), 6);
    /// ```
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// The number of lanes; 1 for scalars.
    ///
    /// ```
    /// assert_eq!(dlbridge::DataType::FLOAT32.lanes(), 1);
    /// ```
    pub const fn lanes(self) -> u16 {
        self.lanes
    }

    /// The same dtype with another number of lanes.
    ///
    /// ```
    /// assert_eq!(dlbridge::DataType::FLOAT32.with_lanes(4).to_string(), "float32x4");
    /// ```
    pub const fn with_lanes(self, lanes: u16) -> Self {
        Self { lanes, ..self }
    }

    /// The width of a whole element, all lanes together, in bits.
    ///
    /// ```
    /// assert_eq!(dlbridge::DataType::FLOAT32.with_lanes(4).element_bits(), 128);
    /// ```
    pub const fn element_bits(self) -> u32 {
        self.bits as u32 * self.lanes as u32
    }

    /// The number of bytes a single element takes, rounded up to whole bytes.
    ///
    /// ```
    /// use dlbridge::DataType;
    ///
    /// assert_eq!(DataType::COMPLEX64.itemsize(), 8);
    /// assert_eq!(DataType::FLOAT4_E2M1FN.itemsize(), 1);
    /// ```
    pub const fn itemsize(self) -> usize {
        self.element_bits().div_ceil(8) as usize
    }

    /// Returns true if elements are not a whole number of bytes, so that packed elements may share bytes.
    ///
    /// ```
    /// use dlbridge::DataType;
    ///
    /// assert!(DataType::FLOAT4_E2M1FN.is_subbyte());
    /// assert!(!DataType::FLOAT4_E2M1FN.with_lanes(2).is_subbyte());
    /// ```
    pub const fn is_subbyte(self) -> bool {
        !self.element_bits().is_multiple_of(8)
    }

    /// The size of one number in bytes: of a lane, or of half a complex lane. `None` if it is not whole.
    pub(crate) fn number_size(self) -> Option<usize> {
        let is_complex = matches!(self.code, DataTypeCode::COMPLEX | DataTypeCode::BCOMPLEX);
        let numbers = if is_complex { 2 } else { 1 };
        let bits = usize::from(self.bits);
        (bits != 0 && bits.is_multiple_of(8 * numbers)).then_some(bits / 8 / numbers)
    }

    /// True if the dtype can exist.
    #[inline]
    pub(crate) fn can_exist(self) -> bool {
        // Almost every tensor has one of these codes; the others need the table.
        let common = self.code.0 <= DataTypeCode::FLOAT.0;
        (common && self.bits != 0 && self.lanes != 0) || self.can_exist_by_name()
    }

    fn can_exist_by_name(self) -> bool {
        let common = self.code.0 <= DataTypeCode::FLOAT.0;
        let width_fits = match (common, self.code.naming()) {
            (true, _) | (_, None | Some((_, Naming::WithBits))) => true,
            // Some producers have booleans of one bit; they pass through as `code6_1`.
            (_, Some(_)) if self.code == DataTypeCode::BOOL => true,
            (_, Some((_, Naming::Fixed(bits)))) => bits == self.bits,
        };
        self.bits != 0 && self.lanes != 0 && width_fits
    }
}

impl From<sys::DLDataType> for DataType {
    fn from(dtype: sys::DLDataType) -> Self {
        Self::new(DataTypeCode(dtype.code.0), dtype.bits, dtype.lanes)
    }
}

impl From<DataType> for sys::DLDataType {
    fn from(dtype: DataType) -> Self {
        Self { code: sys::DLDataTypeCode(dtype.code.0), bits: dtype.bits, lanes: dtype.lanes }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_none() && f.precision().is_none() {
            return self.write_name(f);
        }
        let mut name = String::new();
        self.write_name(&mut name)?;
        f.pad(&name)
    }
}

impl DataType {
    fn write_name(self, to: &mut impl fmt::Write) -> fmt::Result {
        match self.code.naming() {
            Some((stem, Naming::WithBits)) => {
                to.write_str(stem)?;
                match self.bits {
                    8 => to.write_str("8")?,
                    16 => to.write_str("16")?,
                    32 => to.write_str("32")?,
                    64 => to.write_str("64")?,
                    bits => write!(to, "{bits}")?,
                }
            }
            Some((stem, Naming::Fixed(bits))) if bits == self.bits => to.write_str(stem)?,
            _ => write!(to, "code{}_{}", self.code.0, self.bits)?,
        }
        match self.lanes {
            1 => Ok(()),
            lanes => write!(to, "x{lanes}"),
        }
    }
}

impl fmt::Debug for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl DataType {
    /// The dtype of a name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        // Tries the whole name first: `complex64` also ends in an x and digits.
        scalar(name).or_else(|| {
            let (stem, lanes) = name.rsplit_once('x')?;
            Some(scalar(stem)?.with_lanes(number(lanes)?))
        })
    }
}

/// The one-lane dtype of a name.
fn scalar(name: &str) -> Option<DataType> {
    let named = NAMES.iter().find_map(|&(code, stem, naming)| {
        let bits = match naming {
            Naming::Fixed(bits) => (name == stem).then_some(bits)?,
            Naming::WithBits => number(name.strip_prefix(stem)?)?,
        };
        Some(DataType::new(code, bits, 1))
    });
    named.or_else(|| {
        let (code, bits) = name.strip_prefix("code")?.split_once('_')?;
        Some(DataType::new(DataTypeCode(number(code)?), number(bits)?, 1))
    })
}

/// A number in plain digits, without sign or leading zeros.
fn number<N: FromStr>(digits: &str) -> Option<N> {
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    (plain || digits == "0").then(|| digits.parse().ok())?
}
