//! A device of wgpu's Vulkan backend, if there is one.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use dlbridge::Tensor;
use dlbridge_testing::{numbers, required};
use wgpu::util::{BufferInitDescriptor, DeviceExt};
use wgpu::{
    Adapter, Backends, BindGroupDescriptor, BindGroupEntry, BufferDescriptor, BufferUsages,
    ComputePipelineDescriptor, Device, DeviceDescriptor, Instance, InstanceDescriptor, Limits,
    Queue, ShaderModuleDescriptor, ShaderSource,
};

pub(crate) struct Gpu {
    /// The source of a second device.
    adapter: Option<Adapter>,
    pub(crate) device: Device,
    pub(crate) queue: Queue,
}

/// Returns the output of a future of a native backend.
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("native backends do not wait"),
    }
}

/// Returns a device, or prints the reason and returns `None`.
pub(crate) fn gpu() -> Option<Gpu> {
    let backends = Backends::VULKAN;
    let instance = Instance::new(InstanceDescriptor {
        backends,
        ..InstanceDescriptor::new_without_display_handle()
    });
    let made = ready(instance.request_adapter(&Default::default()))
        .map_err(|e| e.to_string())
        .and_then(|adapter| Gpu::new(adapter, Limits::default()));
    required("Vulkan", made)
}

impl Gpu {
    fn new(adapter: Adapter, required_limits: Limits) -> Result<Self, String> {
        let descriptor = DeviceDescriptor { required_limits, ..Default::default() };
        let (device, queue) =
            ready(adapter.request_device(&descriptor)).map_err(|e| e.to_string())?;
        Ok(Self { adapter: Some(adapter), device, queue })
    }

    /// Makes another device of the same adapter.
    pub(crate) fn other(&self, limits: Limits) -> Self {
        Self::new(self.adapter.clone().unwrap(), limits).unwrap()
    }

    /// A device of a backend that copies, but does not compute.
    pub(crate) fn noop() -> Self {
        let (device, queue) = Device::noop(&Default::default());
        Self { adapter: None, device, queue }
    }

    pub(crate) fn buffer(&self, size: u64, usage: BufferUsages) -> wgpu::Buffer {
        let descriptor = BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        self.device.create_buffer(&descriptor)
    }

    pub(crate) fn filled(&self, elements: &[f32]) -> wgpu::Buffer {
        let contents: Vec<u8> = elements.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let usage = dlbridge_wgpu::TENSOR_USAGES;
        self.device.create_buffer_init(&BufferInitDescriptor {
            label: None,
            contents: &contents,
            usage,
        })
    }

    pub(crate) fn host(&self, tensor: &Tensor) -> Vec<f32> {
        use dlbridge_wgpu::TensorExt;

        numbers(&tensor.to_host(&self.device, &self.queue).unwrap())
    }

    /// Runs one invocation of a shader.
    pub(crate) fn run(&self, source: &str, bindings: &[wgpu::BindingResource<'_>]) {
        let source = ShaderSource::Wgsl(source.into());
        let module =
            self.device.create_shader_module(ShaderModuleDescriptor { label: None, source });
        let pipeline = self.device.create_compute_pipeline(&ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: None,
            compilation_options: Default::default(),
            cache: None,
        });
        let entries: Vec<BindGroupEntry<'_>> = (0..)
            .zip(bindings)
            .map(|(binding, resource)| BindGroupEntry { binding, resource: resource.clone() })
            .collect();
        let group = self.device.create_bind_group(&BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(1, 1, 1);
        drop(pass);
        self.queue.submit([encoder.finish()]);
    }
}
