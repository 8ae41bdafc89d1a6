//! Chains of owners, where each owner keeps the next tensor alive. Dropping a chain needs no deep stack.
//!
//! Miri runs shorter chains, because it is slow.
#![cfg(feature = "std")]

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Producer, delete, delete_the_legacy};
use dlbridge::{Access, Owner, Tensor};

/// More than the small stack has room for, even if each turn needed only eight bytes of it.
const TURNS: usize = if cfg!(miri) { 100 } else { 100_000 };

/// Runs on a thread with a small stack.
fn on_a_small_stack(f: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(512 << 10).spawn(f).unwrap().join().unwrap();
}

/// An owner that keeps another tensor alive, and exposes that tensor's memory.
struct Around(Tensor);

// SAFETY: the memory is that of the tensor, which is exclusive and kept here.
unsafe impl Owner for Around {
    type Item = u8;
    const ACCESS: Access = Access::Exclusive;

    fn items(&mut self) -> *mut [u8] {
        self.0.view_mut::<u8>().unwrap().into_mut_slice().unwrap()
    }
}

fn chain(mut tensor: Tensor, turns: usize) -> Tensor {
    for _ in 0..turns {
        tensor = Tensor::from_parts(Around(tensor), [3]).unwrap();
    }
    tensor
}

#[test]
fn chain_of_owners_drops_on_a_small_stack() {
    on_a_small_stack(|| {
        let tensor = chain(Tensor::from(vec![1_u8, 2, 3]), TURNS);
        assert_eq!(tensor.view::<u8>().unwrap().to_vec(), [1, 2, 3]);
        drop(tensor);
        delete(chain(Tensor::from(vec![1_u8, 2, 3]), TURNS).into_raw());
    });
}

#[test]
fn chain_of_legacy_tensors_drops_on_a_small_stack() {
    on_a_small_stack(|| {
        /// An owner that keeps a legacy managed tensor.
        struct Legacy(*mut dlbridge::sys::DLManagedTensor, Vec<u8>);
        // SAFETY: the deleter runs on any thread.
        unsafe impl Send for Legacy {}
        impl Drop for Legacy {
            fn drop(&mut self) {
                delete_the_legacy(self.0);
            }
        }
        // SAFETY: the memory is that of the vector, which the owner keeps.
        unsafe impl Owner for Legacy {
            type Item = u8;
            const ACCESS: Access = Access::Exclusive;

            fn items(&mut self) -> *mut [u8] {
                self.1.items()
            }
        }
        let mut tensor = Tensor::from(vec![1_u8]);
        for turn in 0..TURNS {
            let managed = match turn % 2 {
                0 => tensor.into_raw_legacy().unwrap(),
                _ => tensor.into_shared().to_raw_legacy().unwrap(),
            };
            tensor = Tensor::from_parts(Legacy(managed, vec![2]), [1]).unwrap();
        }
        drop(tensor);
    });
}

#[test]
fn chain_of_panicking_owners_is_dropped_to_its_end() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Furious(#[expect(dead_code, reason = "dropped")] Tensor, Vec<u8>);
    impl Drop for Furious {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
            std::panic::resume_unwind(Box::new("this owner always panics; the test expects it"));
        }
    }
    // SAFETY: the memory is that of the vector, which the owner keeps.
    unsafe impl Owner for Furious {
        type Item = u8;
        const ACCESS: Access = Access::Exclusive;

        fn items(&mut self) -> *mut [u8] {
            self.1.items()
        }
    }
    let turns = if cfg!(miri) { 40 } else { 20_000 };
    on_a_small_stack(move || {
        for _ in 0..2 {
            let mut tensor = Tensor::from(vec![0_u8]);
            for _ in 0..turns {
                tensor = Tensor::from_parts(Furious(tensor, vec![1]), [1]).unwrap();
            }
            drop(tensor);
        }
    });
    assert_eq!(DROPPED.load(Ordering::Relaxed), 2 * turns);
}

#[test]
fn chain_in_a_thread_local_variable_drops_when_the_thread_ends() {
    thread_local! {
        static KEPT: RefCell<Option<Tensor>> = const { RefCell::new(None) };
    }
    let producer = Producer::new(vec![1_u8, 2, 3], &[3]).flags(2);
    let deleted = producer.deleted();
    let tensor = producer.import().unwrap();
    on_a_small_stack(move || KEPT.set(Some(chain(tensor, TURNS))));
    assert_eq!(deleted.get(), 1);
}

#[test]
fn tensor_in_an_owner_is_dropped_before_the_owners_drop_continues() {
    struct Watching(Option<Tensor>, crate::common::Count, Vec<u8>);
    impl Drop for Watching {
        fn drop(&mut self) {
            assert_eq!(self.1.get(), 0);
            self.0 = None;
            assert_eq!(self.1.get(), 1);
        }
    }
    // SAFETY: the memory is that of the vector, which the owner keeps.
    unsafe impl Owner for Watching {
        type Item = u8;
        const ACCESS: Access = Access::Exclusive;

        fn items(&mut self) -> *mut [u8] {
            self.2.items()
        }
    }
    let producer = Producer::new(vec![1_u8], &[1]);
    let deleted = producer.deleted();
    let tensor = Some(producer.import().unwrap());
    drop(Tensor::from_parts(Watching(tensor, deleted, vec![1]), [1]).unwrap());
}

#[test]
fn tree_of_owners_is_dropped_completely() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Node(#[expect(dead_code, reason = "dropped")] Vec<Tensor>, Vec<u8>);
    impl Drop for Node {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
    // SAFETY: the memory is that of the vector, which the owner keeps.
    unsafe impl Owner for Node {
        type Item = u8;
        const ACCESS: Access = Access::Exclusive;

        fn items(&mut self) -> *mut [u8] {
            self.1.items()
        }
    }
    let node = |below| Tensor::from_parts(Node(below, vec![1]), [1]).unwrap();
    let depth = if cfg!(miri) { 40 } else { 1_000 };
    let mut tree = node(Vec::new());
    for _ in 0..depth {
        tree = node(vec![node(Vec::new()), tree, node(Vec::new())]);
    }
    on_a_small_stack(move || drop(tree));
    assert_eq!(DROPPED.load(Ordering::Relaxed), 3 * depth + 1);
}

#[cfg(feature = "bytes")]
#[test]
fn bytes_loops_drop_on_a_small_stack() {
    use bytes::Bytes;

    on_a_small_stack(|| {
        let mut tensor = Tensor::from(Bytes::from(vec![1_u8, 2, 3]));
        for _ in 0..TURNS {
            let shared = tensor.into_shared();
            tensor = Bytes::try_from(shared.share()).unwrap().into();
        }
        drop(tensor);
    });
}
