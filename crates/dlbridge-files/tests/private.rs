//! Private tensors: pages that are copied when they are written.
// Miri cannot map or rename files.
#![cfg(not(miri))]

mod common;

use std::fs;

use common::Folder;
use dlbridge::{Access, Tensor};
use dlbridge_files::{SaveOptions, TensorFile, save};

/// A file of tensors that share pages, and whose values are their numbers.
fn mapped(folder: &Folder, lens: &[usize]) -> TensorFile {
    let path = folder.join("x.safetensors");
    let tensors: Vec<(String, Tensor)> = lens
        .iter()
        .enumerate()
        .map(|(nth, len)| (format!("{nth}"), Tensor::from(vec![nth as u8; *len])))
        .collect();
    let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    save(&path, named, &SaveOptions::default()).unwrap();
    // SAFETY: nothing else has the file.
    unsafe { TensorFile::map(&path) }.unwrap()
}

fn values(tensor: &Tensor) -> Vec<u8> {
    tensor.view::<u8>().unwrap().to_vec()
}

#[test]
fn neighbours_do_not_see_each_other() {
    let folder = Folder::new();
    let lens = [5000, 1, 20_000, 63, 70_001, 4096, 0, 3];
    let file = mapped(&folder, &lens);
    let take = |nth: usize| file.private_tensor(&nth.to_string()).unwrap();
    let mut tensors: Vec<Tensor> = (0..lens.len()).map(take).collect();
    for (nth, tensor) in tensors.iter_mut().enumerate() {
        assert_eq!(tensor.access(), Access::Exclusive);
        assert_eq!(values(tensor), vec![nth as u8; lens[nth]]);
        tensor.view_mut::<u8>().unwrap().iter_mut().for_each(|byte| *byte = 100 + nth as u8);
    }
    // Every second one ends, and the others keep what was written.
    let mut kept: Vec<_> =
        tensors.into_iter().enumerate().filter(|(nth, _)| nth % 2 == 1).collect();
    for (nth, tensor) in &kept {
        assert_eq!(values(tensor), vec![100 + *nth as u8; lens[*nth]]);
    }
    for (nth, len) in lens.iter().enumerate() {
        assert_eq!(values(&take(nth)), vec![nth as u8; *len], "taken again, it is as in the file");
    }
    drop(file);
    fs::remove_file(folder.join("x.safetensors")).unwrap();
    for (nth, tensor) in &mut kept {
        assert_eq!(values(tensor), vec![100 + *nth as u8; lens[*nth]]);
        tensor.view_mut::<u8>().unwrap().iter_mut().for_each(|byte| *byte = 1);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn tensors_of_a_file_are_parts_of_one_map() {
    let folder = Folder::new();
    let file = mapped(&folder, &[4096, 64]);
    let address = |tensor: &Tensor| tensor.data() as usize;
    let [x, y] = ["0", "1"].map(|name| file.private_tensor(name).unwrap());
    assert_eq!(address(&y) - address(&x), 4096);
    let again = file.private_tensor("1").unwrap();
    assert_ne!(address(&again), address(&y));
}

/// The bytes of the copied pages around an address.
#[cfg(target_os = "linux")]
fn copied(address: usize) -> usize {
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = smaps.lines().skip_while(|line| {
        let range = line.split(' ').next().unwrap().split_once('-');
        let Some((begin, end)) = range else { return true };
        let [begin, end] = [begin, end].map(|text| usize::from_str_radix(text, 16));
        !matches!((begin, end), (Ok(begin), Ok(end)) if (begin..end).contains(&address))
    });
    let line = lines.find(|line| line.starts_with("Anonymous:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

#[test]
#[cfg(target_os = "linux")]
fn dropped_tensor_frees_its_copied_pages() {
    let folder = Folder::new();
    let file = mapped(&folder, &[8 << 20, 64]);
    let [mut x, y] = ["0", "1"].map(|name| file.private_tensor(name).unwrap());
    let place = y.data() as usize;
    assert_eq!(copied(place), 0);
    x.view_mut::<u8>().unwrap().iter_mut().for_each(|byte| *byte = 1);
    assert!(copied(place) >= 8 << 20);
    drop(x);
    // A page may be shared with `y`.
    assert!(copied(place) <= 64 << 10);
}

#[test]
#[cfg(target_os = "linux")]
fn tensors_that_share_pages_free_them_after_the_last() {
    let folder = Folder::new();
    let lens: Vec<usize> = (0..3000).map(|nth| 1 + nth * 37 % 9000).collect();
    let file = mapped(&folder, &lens);
    let write = |nth: usize| {
        let mut tensor = file.private_tensor(&nth.to_string()).unwrap();
        tensor.view_mut::<u8>().unwrap().iter_mut().for_each(|byte| *byte = 1);
        tensor
    };
    let kept = write(0);
    let mut others: Vec<Tensor> = (1..lens.len()).map(write).collect();
    assert!(copied(kept.data() as usize) >= lens.iter().sum());
    // In an order that is neither that of the file nor its reverse.
    while let Some(nth) = others.len().checked_sub(1) {
        drop(others.swap_remove(nth / 2));
    }
    assert!(copied(kept.data() as usize) <= 128 << 10);
    assert_eq!(values(&kept), vec![1; lens[0]]);
}
