//! Tensors and views that cross threads.

use std::sync::{Barrier, mpsc};
use std::thread;

use crate::common::{Counted, Producer, delete, delete_the_legacy, take};
use dlbridge::sys::{DLManagedTensor, DLManagedTensorVersioned};
use dlbridge::{Tensor, TensorSlice, TensorSliceMut, TensorView, TensorViewMut};

const THREADS: usize = if cfg!(miri) { 3 } else { 8 };

/// A pointer to pass to a consumer on another thread.
struct Passed<M>(*mut M);
// SAFETY: DLPack lets a consumer call the deleter on any thread.
unsafe impl Send for Passed<DLManagedTensorVersioned> {}
// SAFETY: DLPack lets a consumer call the legacy deleter on any thread too.
unsafe impl Send for Passed<DLManagedTensor> {}

#[test]
fn public_types_are_send_and_sync() {
    fn crosses<T: Send + Sync>() {}
    crosses::<Tensor>();
    crosses::<TensorView<'_, f32>>();
    crosses::<TensorViewMut<'_, f32>>();
    crosses::<TensorSlice<f32>>();
    crosses::<TensorSliceMut<f32>>();
    crosses::<dlbridge::Error>();
}

#[test]
fn tensor_is_written_and_dropped_on_other_threads() {
    let (owner, dropped) = Counted::new(vec![1, 2, 3]);
    let mut tensor = Tensor::from_parts(owner, [3]).unwrap();
    let tensor = thread::spawn(move || {
        tensor.view_mut::<i32>().unwrap().iter_mut().for_each(|x| *x *= 10);
        tensor
    });
    let tensor = tensor.join().unwrap();
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [10, 20, 30]);
    thread::spawn(move || drop(tensor)).join().unwrap();
    assert_eq!(dropped.get(), 1);
}

#[test]
fn threads_read_one_tensor_through_own_and_shared_views() {
    let tensor = Tensor::from([[1_u64, 2, 3], [4, 5, 6]]);
    let shared = &tensor.view::<u64>().unwrap();
    thread::scope(|scope| {
        let readers: Vec<_> = (0..THREADS)
            .map(|i| {
                let tensor = &tensor;
                scope.spawn(move || {
                    let own = tensor.view::<u64>().unwrap();
                    own.iter().sum::<u64>() + shared[[i % 2, 0]]
                })
            })
            .collect();
        for (i, reader) in readers.into_iter().enumerate() {
            assert_eq!(reader.join().unwrap(), 21 + if i % 2 == 0 { 1 } else { 4 });
        }
    });
}

#[test]
fn threads_write_disjoint_slices_of_one_view() {
    let mut tensor = Tensor::from_parts(vec![0_u32; THREADS * 4], [THREADS, 4]).unwrap();
    let slice = tensor.view_mut::<u32>().unwrap().into_mut_slice().unwrap();
    thread::scope(|scope| {
        for (i, row) in slice.chunks_mut(4).enumerate() {
            scope.spawn(move || row.fill(i as u32));
        }
    });
    let mut view = tensor.view_mut::<u32>().unwrap();
    thread::scope(|scope| {
        for element in view.iter_mut() {
            scope.spawn(move || *element += 1);
        }
    });
    let view = tensor.view::<u32>().unwrap();
    assert!((0..THREADS).all(|i| view[[i, 3]] == i as u32 + 1));
}

#[test]
fn last_of_many_consumers_frees_the_owner() {
    let (owner, dropped) = Counted::new(vec![7_i16; 16]);
    let tensor = Tensor::from_parts(owner, [4, 4]).unwrap().into_shared();
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for i in 0..THREADS {
            // This thread exports in half of the cases, the consumer's thread in the other half.
            let lent = (i % 2 == 0).then(|| Passed(tensor.to_raw()));
            let (own, start, dropped) = (tensor.clone(), &start, &dropped);
            scope.spawn(move || {
                let managed = lent.unwrap_or_else(|| Passed(own.to_raw()));
                let legacy = own.to_raw_legacy().unwrap();
                drop(own);
                start.wait();
                assert_eq!(dropped.get(), 0);
                delete_the_legacy(legacy);
                let taken = take(managed.0).unwrap();
                assert_eq!(taken.view::<i16>().unwrap()[[3, 3]], 7);
                delete(taken.into_raw());
            });
        }
        drop(tensor);
    });
    assert_eq!(dropped.get(), 1);
}

#[test]
fn foreign_deleter_runs_on_the_thread_that_drops() {
    let (to_consumer, inbox) = mpsc::channel();
    let consumer = thread::spawn(move || {
        for (tensor, deleted) in inbox {
            let tensor: Tensor = tensor;
            assert_eq!(tensor.view::<f32>().unwrap().iter().sum::<f32>(), 3.0);
            let deleted: crate::common::Count = deleted;
            assert_eq!(deleted.get(), 0);
            drop(tensor);
            assert_eq!(deleted.get(), 1);
        }
    });
    for import in [Producer::import, Producer::import_legacy] {
        let producer = Producer::new(vec![1.0_f32, 2.0], &[2]);
        let deleted = producer.deleted();
        to_consumer.send((import(producer).unwrap(), deleted)).unwrap();
    }
    drop(to_consumer);
    consumer.join().unwrap();
}

#[test]
fn legacy_export_is_freed_on_another_thread() {
    let (owner, dropped) = Counted::new(vec![1_u8]);
    let passed = Passed(Tensor::from_parts(owner, [1]).unwrap().into_raw_legacy().unwrap());
    let consumer = thread::spawn(move || {
        let Passed(managed) = { passed };
        delete_the_legacy(managed);
    });
    consumer.join().unwrap();
    assert_eq!(dropped.get(), 1);
}
