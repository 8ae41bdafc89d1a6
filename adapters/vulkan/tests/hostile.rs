//! Tensors that lie about a buffer, and owners dropped in any order: copies never read outside the buffer.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use dlbridge::{DataType, Device as TensorDevice, DeviceType, RawParts, Tensor, TensorRef};
use dlbridge_vulkan::{Device, Error, TensorExt, to_device};
use support::device;

/// A tensor as another library may export it, with any handle, offset, extents and strides.
fn foreign(
    handle: usize,
    id: i32,
    byte_offset: u64,
    shape: &[usize],
    strides: &[i64],
) -> dlbridge::Result<Tensor> {
    let parts = RawParts {
        device: TensorDevice::new(DeviceType::VULKAN, id),
        byte_offset,
        ..RawParts::new(std::ptr::without_provenance_mut(handle), DataType::UINT8)
    };
    // SAFETY: the CPU makes no view of it, and copies read only bytes inside the buffer.
    unsafe { Tensor::from_raw_parts((), parts, shape, Some(strides)) }
}

/// Random numbers, the same in each run (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[test]
fn copy_of_any_layout_is_the_elements_or_refused() {
    const SIZE: i128 = 64;
    let Some(device) = device() else { return };
    let bytes: Vec<u8> = (0..SIZE as u8).collect();
    let tensor = to_device(&bytes, &device).unwrap();
    let handle = tensor.data().addr();
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let (mut copied, mut refused) = (0, 0);
    for _ in 0..3_000 {
        let extremes = [i64::MIN, -(1 << 62), -1, 0, 1, 1 << 62, i64::MAX];
        let (mut shape, mut strides) = (Vec::new(), Vec::new());
        for _ in 0..chance.below(4) {
            shape.push(1 + chance.below(4) as usize);
            strides.push(match chance.below(8) {
                0 => extremes[chance.below(7) as usize],
                _ => chance.below(41) as i64 - 20,
            });
        }
        let offset = match chance.below(12) {
            0 => chance.0,
            _ => chance.below(72),
        };
        let positions =
            shape.iter().zip(&strides).fold(vec![0_i128], |before, (&extent, &stride)| {
                let steps =
                    |start: i128| (0..extent as i128).map(move |i| start + i * i128::from(stride));
                before.into_iter().flat_map(steps).collect()
            });
        let place = |position: &i128| i128::from(offset) + position;
        let is_within = positions.iter().map(place).all(|place| (0..SIZE).contains(&place));
        let host = foreign(handle, 0, offset, &shape, &strides)
            .map_err(Error::from)
            .and_then(|tensor| tensor.to_host(&device));
        match host {
            Ok(host) => {
                let expected: Vec<u8> =
                    positions.iter().map(|p| bytes[place(p) as usize]).collect();
                assert!(is_within, "{shape:?} {strides:?} {offset}");
                assert_eq!(host.view::<u8>().unwrap().to_vec(), expected);
                copied += 1;
            }
            Err(refusal) => {
                assert!(!is_within, "{shape:?} {strides:?} {offset}: {refusal}");
                refused += 1;
            }
        }
    }
    assert!(copied > 300 && refused > 300, "{copied} copied, {refused} refused");
}

#[test]
fn element_in_front_of_the_buffer_is_refused() {
    let Some(device) = device() else { return };
    let tensor = to_device(&[0_u8; 64], &device).unwrap();
    let handle = tensor.data().addr();
    for (byte_offset, stride) in [(0, -1), (2, -1), (0, i64::MIN / 4), (63, -22)] {
        let backwards = foreign(handle, 0, byte_offset, &[4], &[stride]);
        let refusal = backwards.map_err(Error::from).and_then(|tensor| {
            let range = tensor.to_buffer()?.bytes();
            assert!(range.start < range.end, "{range:?}");
            tensor.to_host(&device)
        });
        assert!(refusal.is_err(), "{byte_offset} {stride}");
    }
}

#[test]
fn handle_that_the_device_did_not_make_is_refused() {
    let (Some(device), Some(other)) = (device(), device()) else { return };
    let gone = to_device(&[1_u8], &device).unwrap();
    let handle = gone.data().addr();
    drop(gone);
    let theirs = to_device(&[1_u8], &other).unwrap();
    for handle in [1, 4096, handle, usize::MAX, theirs.data().addr()] {
        let tensor = foreign(handle, 0, 0, &[1], &[1]).unwrap();
        assert!(matches!(tensor.to_host(&device), Err(Error::OtherDevice)), "{handle}");
    }
    let own = to_device(&[1_u8], &device).unwrap();
    for id in [-1, 1, i32::MIN, i32::MAX] {
        let tensor = foreign(own.data().addr(), id, 0, &[1], &[1]).unwrap();
        assert!(matches!(tensor.to_host(&device), Err(Error::OtherDevice)), "{id}");
    }
}

#[test]
fn physical_device_of_any_number_is_opened_or_refused() {
    let Some(_) = device() else { return };
    for id in [-1, i32::MIN, i32::MAX, 1000] {
        assert!(matches!(Device::new(id), Err(Error::NoDevice { .. })), "{id}");
    }
}

#[test]
fn source_larger_than_memory_is_an_error() {
    let Some(device) = device() else { return };
    let one = Tensor::from([7_u8]);
    for extent in [1 << 50, isize::MAX as usize] {
        let vast = TensorRef::from(&one).broadcast_to([extent]).unwrap();
        assert!(to_device(vast, &device).is_err(), "{extent}");
    }
    assert_eq!(to_device(&one, &device).unwrap().to_host(&device).unwrap().nbytes(), 1);
}

#[test]
fn thousands_of_exports_outlive_the_device_and_drop_on_any_thread() {
    let Some(device) = device() else { return };
    let made: Vec<_> = (0..1_500_u32)
        .map(|number| to_device(&[number; 3], &device).unwrap().into_shared())
        .collect();
    for (number, tensor) in (0..).zip(&made) {
        let host = tensor.to_host(&device).unwrap();
        assert_eq!(host.view::<u32>().unwrap().to_vec(), [number; 3]);
    }
    let mut exports: Vec<usize> = made.iter().map(|tensor| tensor.to_raw().addr()).collect();
    exports.extend(made.iter().map(|tensor| tensor.share().into_raw().addr()));
    drop((made, device));
    let exports = Arc::new(exports);
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let exports = Arc::clone(&exports);
            thread::spawn(move || {
                for &export in exports.iter().rev().skip(thread).step_by(4) {
                    let managed = std::ptr::with_exposed_provenance_mut(export);
                    // SAFETY: the pointer is an export from above, which no other thread uses.
                    drop(unsafe { Tensor::from_raw(managed) }.unwrap());
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn device_is_used_after_a_panic_that_held_the_queue() {
    let Some(device) = device() else { return };
    let tensor = to_device(&[1_u8, 2], &device).unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _queue = device.queue();
        panic!("while the queue is held");
    }));
    assert!(panic.is_err());
    assert_eq!(tensor.to_host(&device).unwrap().view::<u8>().unwrap().to_vec(), [1, 2]);
}

#[test]
fn tensor_dropped_while_others_copy_it_is_copied_whole_or_refused() {
    let Some(device) = device() else { return };
    for round in 0..40_u8 {
        let tensor = to_device(&[round; 256], &device).unwrap();
        let handle = tensor.data().addr();
        let copies: Vec<_> = (0..3)
            .map(|_| {
                let device = device.clone();
                thread::spawn(move || {
                    // A foreign tensor that keeps nothing alive: its producer breaks its promise.
                    let liar = foreign(handle, 0, 0, &[256], &[1]).unwrap();
                    liar.to_host(&device)
                })
            })
            .collect();
        drop(tensor);
        for copy in copies {
            match copy.join().unwrap() {
                Ok(host) => assert_eq!(host.view::<u8>().unwrap().to_vec(), [round; 256]),
                Err(refusal) => assert!(matches!(refusal, Error::OtherDevice), "{refusal}"),
            }
        }
    }
}
