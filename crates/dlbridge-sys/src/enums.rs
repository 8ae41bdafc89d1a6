//! The open enumerations, device types and dtype codes, and the structs that hold them.

use crate::codes;

/// The kind of device that holds the data. An open newtype: any `i32` is a valid value.
///
/// The header's enumeration is `int32_t`-sized.
///
/// ```
/// use dlbridge_sys::{DLDeviceType, kDLCUDA};
///
/// assert_eq!(DLDeviceType(2), kDLCUDA);
/// let from_the_future = DLDeviceType(99);
/// assert_ne!(from_the_future, kDLCUDA);
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DLDeviceType(pub i32);

codes! { DLDeviceType:
    /// Main memory.
    kDLCPU = 1,
    /// Memory of a CUDA GPU.
    kDLCUDA = 2,
    /// Main memory pinned by CUDA (`cudaMallocHost`).
    kDLCUDAHost = 3,
    /// An OpenCL memory object; `data` is a `cl_mem`.
    kDLOpenCL = 4,
    /// A Vulkan buffer; `data` is an opaque handle.
    kDLVulkan = 7,
    /// A Metal buffer; `data` is an opaque handle.
    kDLMetal = 8,
    /// A Verilog simulator's buffer.
    kDLVPI = 9,
    /// Memory of a ROCm GPU.
    kDLROCM = 10,
    /// Main memory pinned by ROCm (`hipMallocHost`).
    kDLROCMHost = 11,
    /// Reserved for extension devices; producer and consumer agree on the meaning.
    kDLExtDev = 12,
    /// CUDA unified memory (`cudaMallocManaged`).
    kDLCUDAManaged = 13,
    /// oneAPI unified shared memory; ask the runtime for the kind: host, device or shared.
    kDLOneAPI = 14,
    /// A WebGPU buffer; `data` is an opaque handle.
    kDLWebGPU = 15,
    /// A Qualcomm Hexagon DSP.
    kDLHexagon = 16,
    /// A Microsoft MAIA device.
    kDLMAIA = 17,
    /// An AWS Trainium device.
    kDLTrn = 18,
    /// Memory of a TPU. On the main branch of DLPack, after 1.3.
    kDLTPU = 19,
    /// Main memory pinned for a TPU. On the main branch of DLPack, after 1.3.
    kDLTPUHost = 20,
    /// Memory of a Huawei Ascend NPU. On the main branch of DLPack, after 1.3.
    kDLAscend = 21,
}

/// One device: its type and its number among the devices of that type.
///
/// ```
/// use dlbridge_sys::{DLDevice, kDLCUDA};
///
/// let second_gpu = DLDevice { device_type: kDLCUDA, device_id: 1 };
/// assert_eq!(second_gpu.device_id, 1);
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DLDevice {
    /// The kind of device.
    pub device_type: DLDeviceType,
    /// The number of the device; 0 for main, pinned and managed memory.
    pub device_id: i32,
}

/// The code of an element type. An open newtype: any `u8` is a valid value.
///
/// The header keeps the code in a `uint8_t` field and lists the values in an enumeration that no
/// struct or function uses, so this newtype has the width of the field.
///
/// ```
/// use dlbridge_sys::{DLDataTypeCode, kDLFloat};
///
/// assert_eq!(DLDataTypeCode(2), kDLFloat);
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DLDataTypeCode(pub u8);

codes! { DLDataTypeCode:
    /// Signed integers.
    kDLInt = 0,
    /// Unsigned integers.
    kDLUInt = 1,
    /// IEEE 754 binary floating point.
    kDLFloat = 2,
    /// Opaque handles; producer and consumer must agree on their meaning.
    kDLOpaqueHandle = 3,
    /// The bfloat16 format.
    kDLBfloat = 4,
    /// Complex numbers, real part first; `bits` counts both parts.
    kDLComplex = 5,
    /// Booleans, one byte each by convention.
    kDLBool = 6,
    /// 8-bit floats, 3 exponent and 4 mantissa bits.
    kDLFloat8_e3m4 = 7,
    /// 8-bit floats, 4 exponent and 3 mantissa bits, with infinities.
    kDLFloat8_e4m3 = 8,
    /// 8-bit floats, 4 exponent and 3 mantissa bits, bias 11, finite, unsigned zero.
    kDLFloat8_e4m3b11fnuz = 9,
    /// 8-bit floats, 4 exponent and 3 mantissa bits, finite.
    kDLFloat8_e4m3fn = 10,
    /// 8-bit floats, 4 exponent and 3 mantissa bits, finite, unsigned zero.
    kDLFloat8_e4m3fnuz = 11,
    /// 8-bit floats, 5 exponent and 2 mantissa bits, with infinities.
    kDLFloat8_e5m2 = 12,
    /// 8-bit floats, 5 exponent and 2 mantissa bits, finite, unsigned zero.
    kDLFloat8_e5m2fnuz = 13,
    /// 8-bit powers of two, no sign, no zero.
    kDLFloat8_e8m0fnu = 14,
    /// 6-bit floats, 2 exponent and 3 mantissa bits; `bits` must be 6.
    kDLFloat6_e2m3fn = 15,
    /// 6-bit floats, 3 exponent and 2 mantissa bits; `bits` must be 6.
    kDLFloat6_e3m2fn = 16,
    /// 4-bit floats, 2 exponent and 1 mantissa bit; `bits` must be 4.
    kDLFloat4_e2m1fn = 17,
    /// Complex numbers of two bfloat16, real part first; `bits` counts both. On the main branch of DLPack, after 1.3.
    kDLBcomplex = 18,
}

/// The type of an element: its code, the width of one lane, and the number of lanes.
///
/// Values have the byte order of the machine. Elements narrower than a byte are packed from the
/// lowest bit up, unless the tensor's padded flag says that each takes a whole byte.
///
/// ```
/// use dlbridge_sys::{DLDataType, kDLFloat};
///
/// let float32 = DLDataType { code: kDLFloat, bits: 32, lanes: 1 };
/// assert_eq!(float32.bits, 32);
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DLDataType {
    /// The kind of element: integer, float, complex and so on.
    pub code: DLDataTypeCode,
    /// The width of one lane in bits.
    pub bits: u8,
    /// The number of lanes; 1 for scalars.
    pub lanes: u16,
}
