//! Zip archives that a test makes byte by byte.

const STORED: u16 = 0;

/// A member of an archive.
pub(crate) struct Member {
    pub(crate) name: Vec<u8>,
    pub(crate) method: u16,
    pub(crate) flags: u16,
    pub(crate) data: Vec<u8>,
    /// The number of bytes when read.
    pub(crate) size: u64,
    /// Fields that only the header before the data has.
    pub(crate) extra: Vec<u8>,
}

pub(crate) fn stored(name: &str, data: impl Into<Vec<u8>>) -> Member {
    let data = data.into();
    let size = data.len() as u64;
    Member { name: name.into(), method: STORED, flags: 0, data, size, extra: Vec::new() }
}

/// An archive; one of zip64 has sizes and offsets of 64 bits in its list of members.
pub(crate) fn archive(members: &[Member], is_64: bool) -> Vec<u8> {
    let (mut file, mut list) = (Vec::new(), Vec::new());
    for member in members {
        let offset = file.len() as u64;
        let sizes = match is_64 {
            true => [u32::MAX; 2],
            false => [member.data.len() as u32, member.size as u32],
        };
        // The method, the time and the checksum.
        let mut common =
            [&20_u16.to_le_bytes()[..], &member.flags.to_le_bytes(), &member.method.to_le_bytes()]
                .concat();
        common.extend([0; 8]);
        common.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
        common.extend((member.name.len() as u16).to_le_bytes());
        let mut extra = Vec::new();
        if is_64 {
            extra.extend([1, 0, 24, 0]);
            let numbers = [member.size, member.data.len() as u64, offset];
            extra.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
        let local_extra = [&extra[..extra.len() * 20 / 28], &member.extra].concat();
        let local_extra = match is_64 {
            true => [&[1, 0, 16, 0][..], &local_extra[4..]].concat(),
            false => local_extra,
        };
        file.extend(b"PK\x03\x04");
        file.extend(&common);
        file.extend((local_extra.len() as u16).to_le_bytes());
        file.extend(&member.name);
        file.extend(&local_extra);
        file.extend(&member.data);
        list.extend(b"PK\x01\x02\x14\x00");
        list.extend(&common);
        list.extend((extra.len() as u16).to_le_bytes());
        list.extend([0; 10]);
        let short_offset = if is_64 { u32::MAX } else { offset as u32 };
        list.extend(short_offset.to_le_bytes());
        list.extend(&member.name);
        list.extend(&extra);
    }
    let (begin, len, count) = (file.len() as u64, list.len() as u64, members.len() as u64);
    file.extend(&list);
    if is_64 {
        let end = file.len() as u64;
        file.extend(b"PK\x06\x06");
        file.extend(44_u64.to_le_bytes());
        file.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        file.extend([count, count, len, begin].iter().flat_map(|number| number.to_le_bytes()));
        file.extend(b"PK\x06\x07\x00\x00\x00\x00");
        file.extend(end.to_le_bytes());
        file.extend(1_u32.to_le_bytes());
    }
    file.extend(b"PK\x05\x06\x00\x00\x00\x00");
    let narrow = |number: u64| if is_64 { u32::MAX } else { number as u32 };
    for _ in 0..2 {
        file.extend((narrow(count) as u16).to_le_bytes());
    }
    file.extend(narrow(len).to_le_bytes());
    file.extend(narrow(begin).to_le_bytes());
    file.extend([0, 0]);
    file
}
