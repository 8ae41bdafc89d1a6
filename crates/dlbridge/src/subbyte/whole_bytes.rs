//! Packs and unpacks contiguous elements of one, two and four bits, eight at a time in a word.

use core::mem::MaybeUninit;

/// The number of elements that fill a word with a byte each.
pub(crate) const GROUP: usize = 8;

/// True if elements of this number of bits fill bytes evenly.
pub(crate) const fn is_even(bits: u32) -> bool {
    matches!(bits, 1 | 2 | 4)
}

/// Gives each element a byte of its own, extended with its sign if it has one. Writes all of `unpacked`; `packed` has
/// exactly that number of elements.
pub(crate) fn unpack(packed: &[u8], unpacked: &mut [MaybeUninit<u8>], bits: u32, signed: bool) {
    match (bits, signed) {
        (1, false) => unpack_each::<1>(packed, unpacked, spread::<1>),
        (1, true) => unpack_each::<1>(packed, unpacked, |word| signed_each::<1>(spread::<1>(word))),
        (2, false) => unpack_each::<2>(packed, unpacked, spread::<2>),
        (2, true) => unpack_each::<2>(packed, unpacked, |word| signed_each::<2>(spread::<2>(word))),
        (_, false) => unpack_each::<4>(packed, unpacked, spread::<4>),
        (_, true) => unpack_each::<4>(packed, unpacked, |word| signed_each::<4>(spread::<4>(word))),
    }
}

/// Packs elements of a byte each one after the other, from the lowest bit on. Writes all of `packed`; `unpacked` has
/// exactly that number of elements.
pub(crate) fn pack(unpacked: &[u8], packed: &mut [MaybeUninit<u8>], bits: u32) {
    match bits {
        1 => pack_each::<1>(unpacked, packed),
        2 => pack_each::<2>(unpacked, packed),
        _ => pack_each::<4>(unpacked, packed),
    }
}

#[inline(always)]
fn unpack_each<const BITS: usize>(
    packed: &[u8],
    unpacked: &mut [MaybeUninit<u8>],
    unpacked_word: impl Fn(u64) -> u64,
) {
    let word = |bytes: &[u8]| {
        let mut word = [0; GROUP];
        word[..bytes.len()].copy_from_slice(bytes);
        unpacked_word(u64::from_le_bytes(word)).to_le_bytes().map(MaybeUninit::new)
    };
    let whole = unpacked.len() / GROUP;
    let (groups, rest) = unpacked.split_at_mut(whole * GROUP);
    let (words, last) = packed.split_at(whole * BITS);
    for (bytes, group) in words.as_chunks::<BITS>().0.iter().zip(groups.as_chunks_mut::<GROUP>().0)
    {
        *group = word(bytes);
    }
    if !rest.is_empty() {
        rest.copy_from_slice(&word(last)[..rest.len()]);
    }
}

fn pack_each<const BITS: usize>(unpacked: &[u8], packed: &mut [MaybeUninit<u8>]) {
    let word = |elements: &[u8]| {
        let mut word = [0; GROUP];
        word[..elements.len()].copy_from_slice(elements);
        let word = gathered::<BITS>(u64::from_le_bytes(word)).to_le_bytes();
        word.map(MaybeUninit::new)
    };
    let whole = unpacked.len() / GROUP;
    let (words, rest) = packed.split_at_mut(whole * BITS);
    let (groups, last) = unpacked.split_at(whole * GROUP);
    for (group, bytes) in groups.as_chunks::<GROUP>().0.iter().zip(words.as_chunks_mut::<BITS>().0)
    {
        bytes.copy_from_slice(&word(group)[..BITS]);
    }
    if !rest.is_empty() {
        rest.copy_from_slice(&word(last)[..rest.len()]);
    }
}

/// A byte repeated eight times.
const fn each_byte(byte: u8) -> u64 {
    u64::from_le_bytes([byte; GROUP])
}

/// The bits of the first `count` elements of each `count` bytes.
const fn mask<const BITS: usize>(count: usize) -> u64 {
    let (mut mask, mut at) = (0, 0);
    while at < GROUP {
        mask |= ((1 << (count * BITS)) - 1) << (8 * at);
        at += count;
    }
    mask
}

/// Spreads packed elements to a byte each: moves up the upper half, then the upper half of each half, and so on.
#[inline(always)]
fn spread<const BITS: usize>(mut word: u64) -> u64 {
    if BITS == 1 {
        // Each byte gets a copy of the packed byte and keeps its own bit; the addition then carries that bit to the
        // byte's highest bit.
        let kept = (word * each_byte(1)) & u64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, 128]);
        return (kept + each_byte(0x7f)) >> 7 & each_byte(1);
    }
    for count in [4, 2, 1] {
        word = (word | word << (count * (8 - BITS))) & mask::<BITS>(count);
    }
    word
}

/// Extends numbers of a byte each with their sign: a set sign sets all bits above it in the byte. Those bits are the
/// next byte's lowest bit minus twice the sign.
#[inline(always)]
fn signed_each<const BITS: usize>(word: u64) -> u64 {
    let signs = word & each_byte(1 << (BITS - 1));
    word | (signs << (9 - BITS)).wrapping_sub(signs << 1)
}

/// The reverse: gathers elements of a byte each into packed ones.
#[inline(always)]
fn gathered<const BITS: usize>(mut word: u64) -> u64 {
    word &= mask::<BITS>(1);
    for count in [1, 2, 4] {
        word = (word | word >> (count * (8 - BITS))) & mask::<BITS>(2 * count);
    }
    word
}
