//! memmap2 0.9: file maps and anonymous maps as owners.

use memmap2::{Mmap, MmapMut};

use crate::{Access, Owner, Tensor};

// SAFETY: the map keeps its address when its handle moves, is initialised, and is only read. No other code writes it
// while it lives: the caller of the unsafe function that mapped a file promised that, and an anonymous map made
// read-only is private to the process.
unsafe impl Owner for Mmap {
    type Item = u8;
    const ACCESS: Access = Access::Immutable;

    fn items(&mut self) -> *mut [u8] {
        core::ptr::slice_from_raw_parts_mut(self.as_ptr().cast_mut(), self.len())
    }
}

// SAFETY: the map keeps its address when its handle moves, is initialised, and is writable. The handle gives out
// `&mut [u8]`, so the caller that mapped a file promised that no other code reads or writes it. `MmapMut::map_anon` is
// safe: its memory is private to the process, and new.
unsafe impl Owner for MmapMut {
    type Item = u8;
    const ACCESS: Access = Access::Exclusive;

    fn items(&mut self) -> *mut [u8] {
        core::ptr::slice_from_raw_parts_mut(self.as_mut_ptr(), self.len())
    }
}

/// The shape is the number of bytes; [`Tensor::from_bytes`] gives a map a dtype and a shape. Immutable: the
/// pages are read-only, so a consumer that writes all the same faults (`SIGSEGV` on Unix).
///
/// Changes of the file change the map. If the file becomes shorter, an access to a lost page ends the process (`SIGBUS`
/// on Unix). If this or another process writes the file, the elements change. The caller of memmap2's unsafe
/// constructors promises that neither happens while the map lives; this crate adds no check.
impl From<Mmap> for Tensor {
    fn from(map: Mmap) -> Self {
        Self::from_whole(map)
    }
}

/// The shape is the number of bytes; [`Tensor::from_bytes`] gives a map a dtype and a shape. Exclusive: writes go to
/// the file (`map_mut`), or stay in memory (`map_copy`, `map_anon`). Changes of the file change the elements: see
/// `From<Mmap>`.
impl From<MmapMut> for Tensor {
    fn from(map: MmapMut) -> Self {
        Self::from_whole(map)
    }
}
