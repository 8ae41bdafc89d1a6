//! Dtypes and devices of text, and the check of a dtype.

use core::str::FromStr;

use crate::{DataType, Device, Error};

impl FromStr for DataType {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::from_name(name).ok_or(Error::UnknownDataTypeName)
    }
}

impl DataType {
    /// Whether such a dtype can exist: some bits, some lanes, and the width that the code demands.
    ///
    /// Codes this version does not know are taken as they are.
    ///
    /// # Errors
    /// [`Error::InvalidDataType`] otherwise.
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

    /// What `Display` writes; a device without a number is the first of its type.
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
