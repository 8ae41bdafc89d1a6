//! Deleters that call wgpu while wgpu's callback starts them.

use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use dlbridge::{DataType, RawParts, Tensor};
use dlbridge_wgpu::{TENSOR_USAGES, TensorExt, VulkanExt, to_device, wait_for_deleters};
use wgpu::{BufferUsages, PollType};

use crate::gpu::{Gpu, gpu};
use crate::raw::{Memory, Vulkan};

/// The actions of a deleter.
type Work = fn(&Gpu);

/// The end of a tensor.
type End = fn(&Gpu, Tensor);

/// The owner of memory allocated by Vulkan. Its drop uses wgpu, and then sends a message.
struct User {
    _memory: Memory,
    gpu: Gpu,
    work: Work,
    done: Sender<()>,
}

impl Drop for User {
    fn drop(&mut self) {
        (self.work)(&self.gpu);
        self.done.send(()).unwrap();
    }
}

/// A tensor of wgpu over such memory.
fn made(gpu: &Gpu, work: Work, done: &Sender<()>) -> Tensor {
    let vulkan = Vulkan::of(gpu);
    let memory = vulkan.memory(&[1.0, 2.0]);
    let parts =
        RawParts { device: vulkan.place(), ..RawParts::new(memory.data(), DataType::FLOAT32) };
    let owner = User { _memory: memory, gpu: gpu.again(), work, done: done.clone() };
    // SAFETY: the owner keeps the buffer, which has two floats.
    let tensor = unsafe { Tensor::from_raw_parts(owner, parts, &[2], None::<&[i64]>) }.unwrap();
    // SAFETY: the buffer was made from that device, has this size, is initialised, and nothing else uses it.
    unsafe { tensor.into_webgpu(&gpu.device, 8) }.unwrap()
}

fn poll(gpu: &Gpu) {
    gpu.device.poll(PollType::wait_indefinitely()).unwrap();
}

#[test]
fn deleter_may_use_wgpu() {
    let Some(_) = gpu() else { return };
    let works: [(&str, Work); 5] = [
        ("waits", poll),
        ("submits", |gpu| {
            gpu.queue.submit([]);
        }),
        ("copies", |gpu| {
            let tensor = to_device(&[7.0_f32], &gpu.device).unwrap();
            assert_eq!(gpu.host(&tensor), [7.0]);
        }),
        ("waits for itself", |_| wait_for_deleters()),
        ("creates", |gpu| drop(gpu.buffer(16, TENSOR_USAGES | BufferUsages::VERTEX))),
    ];
    let ends: [(&str, End); 3] = [
        ("dropped", |_, tensor| drop(tensor)),
        ("written and dropped", |gpu, tensor| {
            let buffer = tensor.to_buffer().unwrap();
            gpu.queue.write_buffer(&buffer, 0, &[0; 8]);
            drop((tensor, buffer));
            gpu.queue.submit([]);
        }),
        ("destroyed", |_, tensor| tensor.to_buffer().unwrap().destroy()),
    ];
    for (does, work) in works {
        for (name, end) in ends {
            let (done, deleted) = mpsc::channel();
            // A separate thread, so that a deadlock becomes a failure.
            let user = thread::spawn(move || {
                let Some(gpu) = gpu() else { return };
                end(&gpu, made(&gpu, work, &done));
                poll(&gpu);
            });
            let deleted = deleted.recv_timeout(Duration::from_secs(20));
            assert_eq!(deleted, Ok(()), "a deleter {does} after its tensor is {name}");
            user.join().unwrap();
        }
    }
}
