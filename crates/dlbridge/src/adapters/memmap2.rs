//! memmap2 0.9: maps of files, and of no file, out as owners.

use memmap2::{Mmap, MmapMut};

use crate::{Access, Owner, Tensor};

// SAFETY: the map stays where it is when its handle moves, is initialised, and is only read. Nobody else
// writes it as long as it lives: the contract of the unsafe functions that make a map demands that.
unsafe impl Owner for Mmap {
    type Item = u8;
    const ACCESS: Access = Access::Immutable;

    fn items(&mut self) -> *mut [u8] {
        core::ptr::slice_from_raw_parts_mut(self.as_ptr().cast_mut(), self.len())
    }
}

// SAFETY: as above; writable, and that nobody else reads or writes it is the promise of who made it,
// because its handle gives `&mut [u8]` out.
unsafe impl Owner for MmapMut {
    type Item = u8;
    const ACCESS: Access = Access::Exclusive;

    fn items(&mut self) -> *mut [u8] {
        core::ptr::slice_from_raw_parts_mut(self.as_mut_ptr(), self.len())
    }
}

/// The shape is the number of bytes; [`Tensor::from_bytes`] gives a map a dtype and a shape. Immutable: a
/// consumer that writes all the same meets a page that the system does not let it write.
///
/// A map is memory that the outside world can take away: when the file becomes shorter, an access to
/// the pages it lost ends the process (`SIGBUS` on Unix), and when another process writes the file,
/// the elements change. That neither happens while the map lives is the promise of whoever calls the
/// unsafe constructors of memmap2; here nothing is added to it.
impl From<Mmap> for Tensor {
    fn from(map: Mmap) -> Self {
        Self::from_whole(map)
    }
}

/// The shape is the number of bytes; [`Tensor::from_bytes`] gives a map a dtype and a shape. Exclusive: what
/// is written goes to the file (`map_mut`), or stays in memory (`map_copy`, `map_anon`). What happens
/// to the file happens to the elements: see `From<Mmap>`.
impl From<MmapMut> for Tensor {
    fn from(map: MmapMut) -> Self {
        Self::from_whole(map)
    }
}
