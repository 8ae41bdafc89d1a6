//! Parses dtypes and devices, and checks dtypes.

use core::str::FromStr;

use crate::{DataType, Device, Error};

impl FromStr for DataType {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::from_name(name).ok_or(Error::UnknownDataTypeName)
    }
}

impl DataType {
    /// Checks that the dtype can exist: it has bits, lanes, and the width that its code demands.
    ///
    /// Accepts codes that this version does not know.
    ///
    /// # Errors
    /// [`Error::InvalidDataType`] if it cannot.
    ///
    /// ```
    /// use dlbridge::{DataType, DataTypeCode};
    ///
    /// assert!(DataType::new(DataTypeCode::FLOAT4_E2M1FN, 8, 1).check().is_err());
    /// assert!(DataType::new(DataTypeCode::FLOAT, 32, 0).check().is_err());
    /// ```
    #[inline]
    pub fn check(self) -> Result<(), Error> {
        match self.can_exist() {
            true => Ok(()),
            false => Err(Error::InvalidDataType { dtype: self }),
        }
    }
}

impl FromStr for Device {
    type Err = Error;

    /// Parses the text that `Display` writes; a device without a number is the first of its type.
    ///
    /// ```
    /// use dlbridge::{Device, DeviceType};
    ///
    /// assert_eq!("cpu".parse(), Ok(Device::CPU));
    /// assert_eq!("cuda:1".parse(), Ok(Device::new(DeviceType::CUDA, 1)));
    /// assert!("gpu".parse::<Device>().is_err());
    /// ```
    fn from_str(name: &str) -> Result<Self, Error> {
        Self::from_name(name).ok_or(Error::UnknownDeviceName)
    }
}
