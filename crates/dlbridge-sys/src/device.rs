//! Device types and devices.

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
