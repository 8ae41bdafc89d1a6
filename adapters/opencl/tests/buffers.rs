//! Buffers of a real OpenCL, on its first device: PoCL in CI.
//!
//! Without a device the tests are skipped, or fail if `DLBRIDGE_REQUIRE` is set.

use std::ptr;
use std::sync::{Mutex, PoisonError};

use dlbridge::{Access, DataType, Device as TensorDevice, DeviceType, RawParts, Tensor};
use dlbridge_opencl::{BufferExt, Error, TensorExt, to_device};
use dlbridge_testing::{
    Narrow, assert_bytes, assert_slices, for_each_dtype, for_each_shape, numbers, required,
    through_c, through_legacy_c,
};
use opencl3::command_queue::{CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CommandQueue};
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, Device, get_all_devices};
use opencl3::kernel::{ExecuteKernel, Kernel};
use opencl3::memory::{
    Buffer, CL_FLOAT, CL_MEM_OBJECT_IMAGE2D, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE, CL_RGBA, ClMem,
    Image, retain_mem_object,
};
use opencl3::program::Program;
use opencl3::types::{CL_BLOCKING, cl_image_desc, cl_image_format};

struct OpenCl {
    context: Context,
    queue: CommandQueue,
}

/// Returns OpenCL, or prints the reason and returns `None`.
fn opencl() -> Option<OpenCl> {
    // While one thread lists the devices, PoCL reports none to a second thread.
    static LOOKING: Mutex<()> = Mutex::new(());
    let looking = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    let found = get_all_devices(CL_DEVICE_TYPE_ALL);
    drop(looking);
    let made = found.map_err(|e| e.to_string()).and_then(|devices| {
        let device = Device::new(*devices.first().ok_or("OpenCL lists no device")?);
        let context = Context::from_device(&device).map_err(|e| e.to_string())?;
        let queue = CommandQueue::create_default(&context, 0).map_err(|e| e.to_string())?;
        Ok(OpenCl { context, queue })
    });
    required("OpenCL", made)
}

impl OpenCl {
    fn buffer<T>(&self, flags: u64, count: usize) -> Buffer<T> {
        // SAFETY: the context lives, and the call names no host memory.
        unsafe { Buffer::create(&self.context, flags, count, ptr::null_mut()) }.unwrap()
    }

    fn filled(&self, elements: &[f32]) -> Buffer<f32> {
        let mut buffer = self.buffer(CL_MEM_READ_WRITE, elements.len());
        // SAFETY: the buffer has as many elements, and the blocking call returns after the copy.
        unsafe { self.queue.enqueue_write_buffer(&mut buffer, CL_BLOCKING, 0, elements, &[]) }
            .unwrap();
        buffer
    }
}

#[test]
fn buffer_and_tensor_convert_both_ways() {
    let Some(cl) = opencl() else { return };
    let buffer = cl.filled(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let handle = buffer.get();
    let tensor = buffer.into_tensor([2, 3]).unwrap();
    assert_eq!((tensor.shape(), tensor.strides()), (&[2, 3][..], &[3, 1][..]));
    assert_eq!((tensor.dtype(), tensor.byte_offset()), (DataType::FLOAT32, 0));
    assert_eq!(tensor.device(), TensorDevice::new(DeviceType::OPENCL, 0));
    assert_eq!((tensor.data(), tensor.access()), (handle, Access::Shared));
    assert_eq!(tensor.device().to_string(), "opencl:0");
    assert!(tensor.view::<f32>().is_err(), "the CPU cannot read it");
    let again: Buffer<f32> = tensor.to_buffer().unwrap();
    assert_eq!(again.get(), handle);
    assert_eq!(numbers(&tensor.to_host(&cl.queue).unwrap()), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn references_are_retained_and_released() {
    let Some(cl) = opencl() else { return };
    let buffer = cl.filled(&[0.0; 4]);
    let count = || buffer.reference_count().unwrap();
    assert_eq!(count(), 1);
    let tensor = buffer.to_tensor([4]).unwrap();
    assert_eq!(count(), 2);
    let part = tensor.slice(0, 1..3).unwrap();
    assert_eq!(count(), 2, "the slice takes over the tensor's reference");
    let second: Buffer<f32> = part.to_buffer().unwrap();
    assert_eq!(count(), 3);
    let consumed = second.into_tensor([4]).unwrap();
    assert_eq!(count(), 3);
    let managed = consumed.into_raw();
    drop(part);
    assert_eq!(count(), 2);
    // SAFETY: `managed` is from `into_raw`, and its deleter is called once.
    unsafe { (*managed).deleter.unwrap()(managed) };
    assert_eq!(count(), 1);
    assert!(matches!(buffer.to_tensor([5]), Err(Error::TooSmall { first: 0, end: 20, size: 16 })));
    assert_eq!(count(), 1, "a refused tensor releases its reference");
}

#[test]
fn tensor_outlives_the_buffer_and_crosses_the_c_abi() {
    let Some(cl) = opencl() else { return };
    let tensor = through_c(cl.filled(&[1.0, 2.0]).into_tensor([2]).unwrap());
    assert_eq!(numbers(&tensor.to_host(&cl.queue).unwrap()), [1.0, 2.0]);
    let tensor = through_legacy_c(tensor);
    assert_eq!(numbers(&tensor.to_host(&cl.queue).unwrap()), [1.0, 2.0]);
}

#[test]
fn slices_are_the_parent_and_a_byte_offset() {
    let Some(cl) = opencl() else { return };
    assert_slices(
        |host| to_device(host, &cl.context, &cl.queue).unwrap(),
        |tensor| tensor.to_host(&cl.queue).unwrap(),
    );
}

#[test]
fn kernel_writes_are_visible_in_the_tensor() {
    let Some(cl) = opencl() else { return };
    const SOURCE: &str = "kernel void twice(global float* x, ulong first) {
        x[first + get_global_id(0)] *= 2;
    }";
    let program = Program::create_and_build_from_source(&cl.context, SOURCE, "").unwrap();
    let kernel = Kernel::create(&program, "twice").unwrap();
    let tensor = cl.filled(&[1.0, 2.0, 3.0, 4.0]).into_tensor([2, 2]).unwrap();
    let second = tensor.index_axis(0, 1).unwrap();
    let buffer: Buffer<f32> = second.to_buffer().unwrap();
    let first = second.byte_offset() / 4;
    // SAFETY: both arguments have the kernel's types, and the buffer has an element for each work item after `first`.
    let event = unsafe {
        ExecuteKernel::new(&kernel)
            .set_arg(&buffer)
            .set_arg(&first)
            .set_global_work_size(2)
            .enqueue_nd_range(&cl.queue)
    };
    event.unwrap().wait().unwrap();
    assert_eq!(numbers(&second.to_host(&cl.queue).unwrap()), [6.0, 8.0]);
    let whole = buffer.into_tensor([4]).unwrap();
    assert_eq!(numbers(&whole.to_host(&cl.queue).unwrap()), [1.0, 2.0, 6.0, 8.0]);
}

#[test]
fn every_dtype_round_trips() {
    let Some(cl) = opencl() else { return };
    for_each_dtype(|dtype, bytes| {
        let mut buffer = cl.buffer::<u8>(CL_MEM_READ_WRITE, bytes.len() + 32);
        // SAFETY: the buffer has these bytes, and the blocking call returns after the copy.
        unsafe { cl.queue.enqueue_write_buffer(&mut buffer, CL_BLOCKING, 32, bytes, &[]) }.unwrap();
        let tensor = buffer.into_tensor_of(dtype, 32, [3]).unwrap();
        assert_eq!((tensor.dtype(), tensor.byte_offset()), (dtype, 32));
        let host = tensor.to_host(&cl.queue).unwrap();
        assert_bytes(&host, dtype, bytes);
        let back = to_device(&host, &cl.context, &cl.queue).unwrap();
        assert_bytes(&back.to_host(&cl.queue).unwrap(), dtype, bytes);
    });
}

#[test]
fn copy_of_empty_scalar_and_strided_keeps_the_elements() {
    let Some(cl) = opencl() else { return };
    for_each_shape(|host| {
        let device = to_device(host, &cl.context, &cl.queue).unwrap();
        assert_eq!((device.shape(), device.dtype()), (host.shape(), host.dtype()));
        assert_eq!(device.device().device_type(), DeviceType::OPENCL);
        assert_eq!(numbers(&device.to_host(&cl.queue).unwrap()), numbers(host));
    });
    let column = to_device(&[[1_i64, 2], [3, 4]], &cl.context, &cl.queue).unwrap();
    assert_eq!(column.to_host(&cl.queue).unwrap().view::<i64>().unwrap().to_vec(), [1, 2, 3, 4]);
}

#[test]
fn read_only_buffer_becomes_a_read_only_tensor() {
    let Some(cl) = opencl() else { return };
    let tensor = cl.buffer::<f32>(CL_MEM_READ_ONLY, 4).into_tensor([4]).unwrap();
    assert!(tensor.is_read_only());
    assert!(tensor.into_raw_legacy().is_err(), "the legacy struct cannot express read-only");
}

#[test]
fn unsuitable_buffer_or_tensor_is_refused() {
    let Some(cl) = opencl() else { return };
    let short = cl.filled(&[0.0; 4]).into_tensor_of(DataType::FLOAT32, 8, [3]);
    assert!(matches!(short, Err(Error::TooSmall { first: 8, end: 20, size: 16 })));
    let far = cl.filled(&[0.0; 4]).into_tensor_of(DataType::FLOAT32, 1 << 62, [1]);
    assert!(matches!(far, Err(Error::TooSmall { .. })));
    assert!(cl.filled(&[0.0; 4]).into_tensor([usize::MAX, 2]).is_err());
    let tensor = cl.filled(&[0.0; 4]).into_tensor([4]).unwrap();
    let other = tensor.to_buffer::<i32>().err().unwrap();
    assert!(other.to_string().contains("float32"), "{other}");
    let host = Tensor::from(vec![1.0_f32]);
    assert!(matches!(host.to_buffer::<f32>(), Err(Error::NotOpenCl { .. })));
    assert!(matches!(host.to_host(&cl.queue), Err(Error::NotOpenCl { .. })));
    assert!(to_device(&tensor, &cl.context, &cl.queue).is_err(), "it is not host memory");
    let second = opencl().unwrap();
    assert!(matches!(tensor.to_host(&second.queue), Err(Error::OtherContext)));
    assert!(matches!(to_device(&host, &cl.context, &second.queue), Err(Error::OtherContext)));
}

#[test]
fn read_only_tensor_is_not_exported_as_writable() {
    let Some(cl) = opencl() else { return };
    let tensor = cl.filled(&[1.0; 4]).into_tensor([4]).unwrap().into_read_only();
    let refusal = tensor.to_buffer::<f32>().err().unwrap();
    assert!(matches!(refusal, Error::Tensor(dlbridge::Error::ReadOnly)), "{refusal}");
    // SAFETY: the test only compares the handle.
    let bytes = unsafe { tensor.to_byte_buffer() }.unwrap();
    assert_eq!(bytes.get(), tensor.data());
    // OpenCL itself marks this buffer as read-only.
    let tensor = cl.buffer::<f32>(CL_MEM_READ_ONLY, 4).into_tensor([4]).unwrap();
    assert!(tensor.to_buffer::<f32>().unwrap().into_tensor([4]).unwrap().is_read_only());
}

#[test]
fn elements_without_a_rust_type_become_bytes() {
    let Some(cl) = opencl() else { return };
    let buffer = cl.buffer::<u8>(CL_MEM_READ_WRITE, 64);
    let handle = buffer.get();
    let tensor = buffer.into_tensor_of(DataType::FLOAT32.with_lanes(4), 0, [4]).unwrap();
    // SAFETY: the tensor is writable.
    assert_eq!(unsafe { tensor.to_byte_buffer() }.unwrap().get(), handle);
    let empty = cl.filled(&[0.0; 4]).into_tensor([0]).unwrap();
    assert!(matches!(empty.to_buffer::<f32>(), Err(Error::Empty)));
    assert_eq!(empty.to_host(&cl.queue).unwrap().shape(), [0]);
}

#[test]
fn typed_subbyte_elements_take_a_byte_each() {
    let Some(cl) = opencl() else { return };
    let make = || cl.buffer::<Narrow>(CL_MEM_READ_WRITE, 4);
    for tensor in [make().into_tensor([4]).unwrap(), make().to_tensor([4]).unwrap()] {
        assert_eq!((tensor.is_subbyte_padded(), tensor.nbytes()), (true, 4));
        assert!(tensor.to_buffer::<Narrow>().is_ok());
    }
    assert!(matches!(make().into_tensor([8]), Err(Error::TooSmall { .. })));
    let packed = make().into_tensor_of(DataType::FLOAT4_E2M1FN, 0, [8]).unwrap();
    assert_eq!((packed.is_subbyte_padded(), packed.nbytes()), (false, 4));
    let refusal = packed.to_buffer::<Narrow>().err().unwrap();
    assert!(matches!(refusal, Error::Tensor(dlbridge::Error::SubbytePacked { .. })));
}

#[test]
fn sub_buffer_becomes_a_tensor() {
    let Some(cl) = opencl() else { return };
    let parent = cl.filled(&(0..96).map(|i| i as f32).collect::<Vec<_>>());
    // SAFETY: the region is within the parent, and aligned to 1024 bits.
    let part = unsafe { parent.create_sub_buffer(CL_MEM_READ_WRITE, 32, 8) }.unwrap();
    drop(parent);
    assert!(matches!(part.to_tensor([9]), Err(Error::TooSmall { size: 32, .. })));
    let tensor = part.into_tensor([8]).unwrap();
    assert_eq!(numbers(&tensor.to_host(&cl.queue).unwrap())[..3], [32.0, 33.0, 34.0]);
}

#[test]
fn image_is_refused() {
    let Some(cl) = opencl() else { return };
    let format =
        cl_image_format { image_channel_order: CL_RGBA, image_channel_data_type: CL_FLOAT };
    // SAFETY: all fields are numbers or pointers, and zero is valid for both.
    let mut description: cl_image_desc = unsafe { std::mem::zeroed() };
    description.image_type = CL_MEM_OBJECT_IMAGE2D;
    (description.image_width, description.image_height) = (4, 4);
    // SAFETY: every device supports the format, and the call names no host memory.
    let image = unsafe {
        Image::create(&cl.context, CL_MEM_READ_WRITE, &format, &description, ptr::null_mut())
    };
    let Ok(image) = image else {
        println!("skipped: the device does not support images");
        return;
    };
    // SAFETY: the image lives.
    unsafe { retain_mem_object(image.get()) }.unwrap();
    let disguised: Buffer<f32> = Buffer::new(image.get());
    assert!(matches!(disguised.into_tensor([4]), Err(Error::NotABuffer)));
}

#[test]
fn foreign_tensor_is_checked_against_the_buffer() {
    let Some(cl) = opencl() else { return };
    let buffer = cl.filled(&[0.0; 4]);
    let device = TensorDevice::new(DeviceType::OPENCL, 0);
    let parts = RawParts { device, ..RawParts::new(buffer.get(), DataType::FLOAT32) };
    // SAFETY: nothing reads the missing element: the copy must refuse it, which is the test.
    let tensor = unsafe { Tensor::from_raw_parts(buffer, parts, &[5], None::<&[i64]>) }.unwrap();
    let refusal = tensor.to_host(&cl.queue).unwrap_err();
    assert!(matches!(refusal, Error::TooSmall { first: 0, end: 20, size: 16 }), "{refusal}");
}

#[test]
fn copy_waits_for_an_out_of_order_queue() {
    let Some(cl) = opencl() else { return };
    const SOURCE: &str = "kernel void slow(global float* x) {
        float sum = 0;
        for (int i = 0; i < 20000000; i++) sum += x[0] * 0.5f;
        x[0] = sum > 0 ? 7 : 8;
    }";
    let properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    let queue = CommandQueue::create_default(&cl.context, properties).unwrap();
    let program = Program::create_and_build_from_source(&cl.context, SOURCE, "").unwrap();
    let kernel = Kernel::create(&program, "slow").unwrap();
    let tensor = cl.filled(&[1.0]).into_tensor([1]).unwrap();
    let buffer: Buffer<f32> = tensor.to_buffer().unwrap();
    let mut run = ExecuteKernel::new(&kernel);
    // SAFETY: the argument has the kernel's type.
    let event = unsafe { run.set_arg(&buffer).set_global_work_size(1).enqueue_nd_range(&queue) };
    let _event = event.unwrap();
    queue.flush().unwrap();
    assert_eq!(numbers(&tensor.to_host(&queue).unwrap()), [7.0]);
}
