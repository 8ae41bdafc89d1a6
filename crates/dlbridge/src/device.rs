//! Devices: the place of a tensor's data.

use alloc::format;
use core::fmt;

use dlbridge_sys as sys;

/// The kind of device that holds the data. Any code is a value, known or not.
///
/// Source: `DLDeviceType` of `dlpack.h` 1.3.
///
/// ```
/// use dlbridge::DeviceType;
///
/// assert_eq!(DeviceType::CUDA.to_string(), "cuda");
/// assert_eq!(DeviceType::from_code(99).to_string(), "device_type_99");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceType(i32);

macro_rules! device_types {
    ($($(#[$doc:meta])* $name:ident = $c_name:ident, $text:literal;)*) => {
        impl DeviceType {
            $(
                $(#[$doc])*
                ///
                #[doc = concat!("```\nassert_eq!(dlbridge::DeviceType::", stringify!($name),
                    ".to_string(), \"", $text, "\");\n```")]
                pub const $name: Self = Self(sys::$c_name.0);
            )*

            /// The name of a known device type, as Python frameworks write it.
            ///
            /// ```
            /// use dlbridge::DeviceType;
            ///
            /// assert_eq!(DeviceType::CUDA_MANAGED.name(), Some("cuda_managed"));
            /// assert_eq!(DeviceType::from_code(0).name(), None);
            /// ```
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

device_types! {
    /// Main memory.
    CPU = kDLCPU, "cpu";
    /// Memory of a CUDA GPU.
    CUDA = kDLCUDA, "cuda";
    /// Main memory pinned by CUDA.
    CUDA_HOST = kDLCUDAHost, "cuda_host";
    /// An OpenCL memory object.
    OPENCL = kDLOpenCL, "opencl";
    /// A Vulkan buffer.
    VULKAN = kDLVulkan, "vulkan";
    /// A Metal buffer.
    METAL = kDLMetal, "metal";
    /// A Verilog simulator's buffer.
    VPI = kDLVPI, "vpi";
    /// Memory of a ROCm GPU.
    ROCM = kDLROCM, "rocm";
    /// Main memory pinned by ROCm.
    ROCM_HOST = kDLROCMHost, "rocm_host";
    /// An extension device.
    EXT_DEV = kDLExtDev, "ext_dev";
    /// CUDA unified memory.
    CUDA_MANAGED = kDLCUDAManaged, "cuda_managed";
    /// oneAPI unified shared memory.
    ONE_API = kDLOneAPI, "oneapi";
    /// A WebGPU buffer.
    WEB_GPU = kDLWebGPU, "webgpu";
    /// A Qualcomm Hexagon DSP.
    HEXAGON = kDLHexagon, "hexagon";
    /// A Microsoft MAIA device.
    MAIA = kDLMAIA, "maia";
    /// An AWS Trainium device.
    TRN = kDLTrn, "trn";
    /// Memory of a TPU. On the main branch of DLPack, after 1.3.
    TPU = kDLTPU, "tpu";
    /// Main memory pinned for a TPU. On the main branch of DLPack, after 1.3.
    TPU_HOST = kDLTPUHost, "tpu_host";
    /// Memory of a Huawei Ascend NPU. On the main branch of DLPack, after 1.3.
    ASCEND = kDLAscend, "ascend";
}

impl DeviceType {
    /// The device type of a DLPack code.
    ///
    /// ```
    /// assert_eq!(dlbridge::DeviceType::from_code(1), dlbridge::DeviceType::CPU);
    /// ```
    pub const fn from_code(code: i32) -> Self {
        Self(code)
    }

    /// The DLPack code.
    ///
    /// ```
    /// assert_eq!(dlbridge::DeviceType::CPU.code(), 1);
    /// ```
    pub const fn code(self) -> i32 {
        self.0
    }

    /// Returns true if the CPU may read the memory through its address: main memory, and memory pinned by CUDA or ROCm.
    ///
    /// Returns false for CUDA unified memory: the CPU may read it only while no kernel uses it, and the address alone
    /// does not show that.
    ///
    /// ```
    /// use dlbridge::DeviceType;
    ///
    /// assert!(DeviceType::CUDA_HOST.is_host_accessible());
    /// assert!(!DeviceType::CUDA.is_host_accessible());
    /// assert!(!DeviceType::CUDA_MANAGED.is_host_accessible());
    /// ```
    pub const fn is_host_accessible(self) -> bool {
        matches!(self, Self::CPU | Self::CUDA_HOST | Self::ROCM_HOST)
    }

    /// Returns true if `data` is an address, to which bytes can be added, and not a handle.
    ///
    /// On OpenCL, Vulkan, Metal and WebGPU it is a handle. Device types that this version does not know, and those
    /// whose meaning the specification leaves open, count as handles too.
    ///
    /// ```
    /// use dlbridge::DeviceType;
    ///
    /// assert!(DeviceType::CUDA.is_addressable());
    /// assert!(!DeviceType::OPENCL.is_addressable());
    /// ```
    pub const fn is_addressable(self) -> bool {
        self.is_host_accessible()
            || matches!(self, Self::CUDA | Self::CUDA_MANAGED | Self::ROCM | Self::ONE_API)
    }
}

impl fmt::Display for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => f.pad(&format!("device_type_{}", self.0)),
        }
    }
}

impl fmt::Debug for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A device: its type, and its number among the devices of that type.
///
/// Prints as `cpu`, `cuda:1`, ...; a number of 0 is left out if the memory is the host's.
///
/// ```
/// use dlbridge::{Device, DeviceType};
///
/// assert_eq!(Device::CPU.to_string(), "cpu");
/// assert_eq!(Device::new(DeviceType::CUDA, 1).to_string(), "cuda:1");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    device_type: DeviceType,
    id: i32,
}

impl Device {
    /// Main memory.
    ///
    /// ```
    /// assert!(dlbridge::Device::CPU.device_type().is_host_accessible());
    /// ```
    pub const CPU: Self = Self::new(DeviceType::CPU, 0);

    /// The device of a type and a number.
    ///
    /// ```
    /// use dlbridge::{Device, DeviceType};
    ///
    /// assert_eq!(Device::new(DeviceType::CPU, 0), Device::CPU);
    /// ```
    pub const fn new(device_type: DeviceType, id: i32) -> Self {
        Self { device_type, id }
    }

    /// The kind of device.
    ///
    /// ```
    /// use dlbridge::{Device, DeviceType};
    ///
    /// assert_eq!(Device::CPU.device_type(), DeviceType::CPU);
    /// ```
    pub const fn device_type(self) -> DeviceType {
        self.device_type
    }

    /// The number among the devices of the type.
    ///
    /// ```
    /// assert_eq!(dlbridge::Device::CPU.id(), 0);
    /// ```
    pub const fn id(self) -> i32 {
        self.id
    }
}

impl Device {
    /// The device of a name as `Display` writes it; without a number, the first of its type.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let (device_type, id) = name.split_once(':').unwrap_or((name, "0"));
        let known =
            (1..=DeviceType::ASCEND.0).map(DeviceType).find(|t| t.name() == Some(device_type));
        let known =
            known.or_else(|| Some(DeviceType(number(device_type.strip_prefix("device_type_")?)?)));
        Some(Self::new(known?, number(id)?))
    }
}

/// Parses a number as `Display` writes it: without `+` and leading zeros.
fn number(digits: &str) -> Option<i32> {
    let unsigned = digits.strip_prefix('-').unwrap_or(digits);
    let plain = digits == "0" || unsigned.starts_with(|first| matches!(first, '1'..='9'));
    plain.then(|| digits.parse().ok())?
}

impl From<sys::DLDevice> for Device {
    fn from(device: sys::DLDevice) -> Self {
        Self::new(DeviceType(device.device_type.0), device.device_id)
    }
}

impl From<Device> for sys::DLDevice {
    fn from(device: Device) -> Self {
        Self { device_type: sys::DLDeviceType(device.device_type.0), device_id: device.id }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.id == 0 && self.device_type.is_host_accessible() {
            self.device_type.fmt(f)
        } else {
            f.pad(&format!("{}:{}", self.device_type, self.id))
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
