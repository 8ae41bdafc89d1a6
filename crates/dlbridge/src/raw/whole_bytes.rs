//! Elements of one, two and four bits, adjacent: packed and unpacked a byte at a time.

/// Whether elements of so many bits fill bytes evenly.
pub(super) const fn is_even(bits: u32) -> bool {
    matches!(bits, 1 | 2 | 4)
}

/// Gives each element a byte of its own, extended with its sign if it has one.
pub(super) fn unpack(packed: &[u8], unpacked: &mut [u8], bits: u32, signed: bool) {
    match bits {
        1 => unpack_each::<1>(packed, unpacked, signed),
        2 => unpack_each::<2>(packed, unpacked, signed),
        _ => unpack_each::<4>(packed, unpacked, signed),
    }
}

/// Puts elements that have a byte each one behind the other, from the lowest bit on.
pub(super) fn pack(unpacked: &[u8], packed: &mut [u8], bits: u32) {
    match bits {
        1 => pack_each::<1>(unpacked, packed),
        2 => pack_each::<2>(unpacked, packed),
        _ => pack_each::<4>(unpacked, packed),
    }
}

fn unpack_each<const BITS: u32>(packed: &[u8], unpacked: &mut [u8], signed: bool) {
    let (mask, sign) = ((1 << BITS) - 1, if signed { 1 << (BITS - 1) } else { 0 });
    for (byte, elements) in packed.iter().zip(unpacked.chunks_mut(8 / BITS as usize)) {
        for (nth, element) in (0..).zip(elements) {
            let bits = byte >> (nth * BITS) & mask;
            // The sign is moved to where subtracting it extends it.
            *element = (bits ^ sign).wrapping_sub(sign);
        }
    }
}

fn pack_each<const BITS: u32>(unpacked: &[u8], packed: &mut [u8]) {
    let mask = (1 << BITS) - 1;
    for (byte, elements) in packed.iter_mut().zip(unpacked.chunks(8 / BITS as usize)) {
        *byte = (0..)
            .zip(elements)
            .fold(0, |byte, (nth, element)| byte | (element & mask) << (nth * BITS));
    }
}
