//! A compute shader doubles tensors from Rust: whole ones, and slices in place.

mod support;

use ash::vk;
use dlbridge::Tensor;
use dlbridge_testing::numbers;
use dlbridge_vulkan::{BufferRef, Device, TensorExt, to_device};
use naga::back::spv;
use naga::front::wgsl;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use support::device;

const SOURCE: &str = "
    struct Places { first: i32, rows: i32, columns: i32, row_stride: i32, column_stride: i32 }

    @group(0) @binding(0) var<storage, read_write> elements: array<f32>;
    var<immediate> places: Places;

    @compute @workgroup_size(64)
    fn twice(@builtin(global_invocation_id) id: vec3<u32>) {
        let i = i32(id.x);
        if i < places.rows * places.columns {
            let row = i / places.columns * places.row_stride;
            let column = i % places.columns * places.column_stride;
            elements[places.first + row + column] *= 2.0;
        }
    }
";

fn spirv() -> Vec<u32> {
    let module = wgsl::parse_str(SOURCE).unwrap();
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::IMMEDIATES);
    let info = validator.validate(&module).unwrap();
    spv::write_vec(&module, &info, &spv::Options::default(), None).unwrap()
}

/// The shader on a device.
struct Twice<'a> {
    device: &'a Device,
    module: vk::ShaderModule,
    set: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
}

impl<'a> Twice<'a> {
    fn new(device: &'a Device) -> Self {
        let (ash, words) = (device.ash(), spirv());
        let module = vk::ShaderModuleCreateInfo::default().code(&words);
        let stage = vk::ShaderStageFlags::COMPUTE;
        let bindings = [vk::DescriptorSetLayoutBinding::default()
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(1)
            .stage_flags(stage)];
        let set = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        let constants = [vk::PushConstantRange::default().stage_flags(stage).size(20)];
        // SAFETY: the shader was validated, and has one buffer and five numbers, as the layout declares.
        unsafe {
            let module = ash.create_shader_module(&module, None).unwrap();
            let set = ash.create_descriptor_set_layout(&set, None).unwrap();
            let sets = [set];
            let layout = vk::PipelineLayoutCreateInfo::default()
                .set_layouts(&sets)
                .push_constant_ranges(&constants);
            let layout = ash.create_pipeline_layout(&layout, None).unwrap();
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(stage)
                .module(module)
                .name(c"twice");
            let pipeline = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
            let cache = vk::PipelineCache::null();
            let pipeline = ash.create_compute_pipelines(cache, &[pipeline], None).unwrap()[0];
            Self { device, module, set, layout, pipeline }
        }
    }

    /// Doubles the elements of a matrix; the first is `first` elements after the beginning of the binding.
    fn run(&self, tensor: &Tensor, bound: vk::DescriptorBufferInfo, first: i32) {
        let (shape, strides) = (tensor.shape(), tensor.strides());
        let places =
            [first, shape[0] as i32, shape[1] as i32, strides[0] as i32, strides[1] as i32];
        let ash = self.device.ash();
        let sizes = [vk::DescriptorPoolSize::default()
            .ty(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(1)];
        let pool = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        let family = self.device.parts().queue_family;
        let commands = vk::CommandPoolCreateInfo::default().queue_family_index(family);
        let (sets, bound) = ([self.set], [bound]);
        // SAFETY: the shader reads and writes the tensor's elements, which are bound; all objects are destroyed after
        // it has run.
        unsafe {
            let pool = ash.create_descriptor_pool(&pool, None).unwrap();
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool);
            let sets = ash.allocate_descriptor_sets(&info.set_layouts(&sets)).unwrap();
            let write = vk::WriteDescriptorSet::default()
                .dst_set(sets[0])
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .buffer_info(&bound);
            ash.update_descriptor_sets(&[write], &[]);
            let buffers = ash.create_command_pool(&commands, None).unwrap();
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(buffers)
                .command_buffer_count(1);
            let recorded = ash.allocate_command_buffers(&info).unwrap();
            self.record(recorded[0], sets[0], &places);
            let work = [vk::SubmitInfo::default().command_buffers(&recorded)];
            let fence = ash.create_fence(&vk::FenceCreateInfo::default(), None).unwrap();
            ash.queue_submit(*self.device.queue(), &work, fence).unwrap();
            ash.wait_for_fences(&[fence], true, u64::MAX).unwrap();
            ash.destroy_fence(fence, None);
            ash.destroy_command_pool(buffers, None);
            ash.destroy_descriptor_pool(pool, None);
        }
    }

    /// # Safety
    /// `buffer` must be a new command buffer, and `set` must bind a buffer that has the places.
    unsafe fn record(&self, buffer: vk::CommandBuffer, set: vk::DescriptorSet, places: &[i32; 5]) {
        let ash = self.device.ash();
        let constants: Vec<u8> = places.iter().flat_map(|place| place.to_ne_bytes()).collect();
        let groups = ((places[1] * places[2]) as u32).div_ceil(64);
        let visible = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
            .dst_access_mask(vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE)];
        let all = vk::PipelineStageFlags::ALL_COMMANDS;
        let shader = vk::PipelineStageFlags::COMPUTE_SHADER;
        let none = vk::DependencyFlags::empty();
        let point = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: the caller guarantees a new command buffer, and a set whose buffer has the places. Pipeline and
        // layout belong to the same device.
        unsafe {
            ash.begin_command_buffer(buffer, &vk::CommandBufferBeginInfo::default()).unwrap();
            ash.cmd_pipeline_barrier(buffer, all, shader, none, &visible, &[], &[]);
            ash.cmd_bind_pipeline(buffer, point, self.pipeline);
            ash.cmd_bind_descriptor_sets(buffer, point, self.layout, 0, &[set], &[]);
            let stage = vk::ShaderStageFlags::COMPUTE;
            ash.cmd_push_constants(buffer, self.layout, stage, 0, &constants);
            ash.cmd_dispatch(buffer, groups, 1, 1);
            ash.end_command_buffer(buffer).unwrap();
        }
    }

    /// Binds the whole buffer, and doubles the elements at the tensor's byte offset.
    fn in_whole(&self, tensor: &Tensor) {
        let buffer = tensor.to_buffer().unwrap();
        let bound =
            vk::DescriptorBufferInfo::default().buffer(buffer.handle()).range(vk::WHOLE_SIZE);
        self.run(tensor, bound, (tensor.byte_offset() / 4) as i32);
    }

    /// Binds as little of the buffer as possible, and doubles the elements. Returns whether the binding begins before
    /// them.
    fn in_slice(&self, tensor: &Tensor) -> bool {
        let (bound, rest) = self.around(tensor.to_buffer().unwrap());
        self.run(tensor, bound, ((tensor.byte_offset() - bound.offset) / 4) as i32);
        rest != 0
    }

    /// Returns a binding for a slice, which begins at a multiple of the device's alignment, and its distance to the
    /// slice.
    fn around(&self, buffer: BufferRef<'_>) -> (vk::DescriptorBufferInfo, u64) {
        let parts = self.device.parts();
        // SAFETY: instance and physical device live.
        let properties =
            unsafe { parts.instance.get_physical_device_properties(parts.physical_device) };
        let alignment = properties.limits.min_storage_buffer_offset_alignment;
        let bytes = buffer.bytes();
        let rest = bytes.start % alignment;
        let info = vk::DescriptorBufferInfo::default()
            .buffer(buffer.handle())
            .offset(bytes.start - rest)
            .range(bytes.end - bytes.start + rest);
        (info, rest)
    }
}

impl Drop for Twice<'_> {
    fn drop(&mut self) {
        let ash = self.device.ash();
        // SAFETY: the objects were made from the device, which lives, and no commands run.
        unsafe {
            ash.destroy_pipeline(self.pipeline, None);
            ash.destroy_pipeline_layout(self.layout, None);
            ash.destroy_descriptor_set_layout(self.set, None);
            ash.destroy_shader_module(self.module, None);
        }
    }
}

#[test]
fn shader_doubles_a_tensor_of_rust() {
    let Some(device) = device() else { return };
    let twice = Twice::new(&device);
    let values: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let doubled: Vec<f32> = values.iter().map(|value| 2.0 * value).collect();
    let host = Tensor::from(values).reshape([40, 25]).unwrap();
    let tensor = to_device(&host, &device).unwrap();
    twice.in_whole(&tensor);
    assert_eq!(numbers(&tensor.to_host(&device).unwrap()), doubled);
    // A consumer that has only the managed tensor.
    let managed = tensor.into_raw();
    // SAFETY: a valid managed tensor, which this test owns.
    let consumed = unsafe { Tensor::from_raw(managed) }.unwrap();
    twice.in_whole(&consumed);
    let doubled: Vec<f32> = doubled.iter().map(|value| 2.0 * value).collect();
    assert_eq!(numbers(&consumed.to_host(&device).unwrap()), doubled);
}

#[test]
fn shader_doubles_slices_in_place() {
    let Some(device) = device() else { return };
    let twice = Twice::new(&device);
    type Slicing = fn(Tensor) -> dlbridge::Result<Tensor>;
    let slicings: [(&str, Slicing); 5] = [
        ("rows", |t| t.slice(0, 5..17)),
        ("a block", |t| t.slice(0, 3..9)?.slice(1, 1..4)),
        ("steps", |t| t.slice(1, 3..)?.step_by(1, 3)?.step_by(0, 2)),
        ("backwards", |t| t.slice(0, 1..7)?.flip(0)?.flip(1)),
        ("transposed", |t| Ok(t.slice(1, 2..5)?.transpose())),
    ];
    let values: Vec<f32> = (0..500).map(|i| i as f32).collect();
    let whole = || Tensor::from(values.clone()).reshape([20, 25]).unwrap();
    let mut began_before = 0;
    for (name, sliced) in slicings {
        for bind_slice in [false, true] {
            let parent = to_device(&whole(), &device).unwrap().into_shared();
            // SAFETY: `to_raw` exported the tensor, and it is imported once; nothing else writes the elements.
            let exported = unsafe { Tensor::from_raw(parent.to_raw()) }.unwrap();
            let tensor = sliced(exported).unwrap();
            match bind_slice {
                true => began_before += usize::from(twice.in_slice(&tensor)),
                false => twice.in_whole(&tensor),
            }
            let expected = numbers(&sliced(whole()).unwrap());
            let expected: Vec<f32> = expected.into_iter().map(|value| 2.0 * value).collect();
            assert_eq!(numbers(&tensor.to_host(&device).unwrap()), expected, "{name}");
            // The other elements are unchanged: the sum grew only by the slice.
            let sum = |values: &[f32]| values.iter().sum::<f32>();
            let all = numbers(&parent.to_host(&device).unwrap());
            assert_eq!(sum(&all) - sum(&values), sum(&expected) / 2.0, "{name}");
        }
    }
    assert!(began_before > 0, "no slice began off the binding alignment");
}
