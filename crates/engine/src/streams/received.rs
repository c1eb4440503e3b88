//! Descriptors that a process has got from others, in messages.

use crate::kernel;

/// Where control data and their length stand in a message header, and how far apart headers are in a list.
const CONTROL: u64 = 32;
const STRIDE: u64 = 64;
/// No message has more, and no list more messages.
const MOST_CONTROL: u64 = 1 << 16;
const MOST_MESSAGES: u64 = 1024;
/// Length, level and type of a piece of control data.
const HEAD: u64 = 16;

/// The descriptors that came with the first `count` messages of a list.
pub fn in_messages(headers: u64, count: u64) -> Vec<i32> {
    (0..count.min(MOST_MESSAGES)).flat_map(|index| in_message(headers.wrapping_add(index * STRIDE))).collect()
}

/// The descriptors that came with the message of this header.
pub fn in_message(header: u64) -> Vec<i32> {
    let Ok([address, length]) = kernel::read::<[u64; 2]>(header.wrapping_add(CONTROL)) else { return Vec::new() };
    let mut control = vec![0; length.min(MOST_CONTROL) as usize];
    match kernel::read_bytes(address, &mut control) {
        Ok(()) => descriptors(&control),
        Err(_) => Vec::new(),
    }
}

fn descriptors(control: &[u8]) -> Vec<i32> {
    let word = |at: u64| control.get(at as usize..)?.first_chunk().copied().map(u64::from_le_bytes);
    let mut found = Vec::new();
    let mut at = 0;
    while let (Some(length), Some(kind)) = (word(at), word(at + 8)) {
        let end = at.saturating_add(length).min(control.len() as u64);
        if kind == u64::from(libc::SOL_SOCKET as u32) | u64::from(libc::SCM_RIGHTS as u32) << 32 {
            let data = control.get((at + HEAD) as usize..end as usize).unwrap_or_default();
            found.extend(data.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)));
        }
        // A piece without its own head would be looked at for ever.
        at = end.max(at + HEAD).next_multiple_of(8);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(length: u64, level: i32, kind: i32, data: &[i32]) -> Vec<u8> {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend([level, kind].iter().chain(data).flat_map(|word| word.to_le_bytes()));
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn descriptors_among_other_control_data() {
        let rights = piece(28, libc::SOL_SOCKET, libc::SCM_RIGHTS, &[7, 8, 9]);
        let credentials = piece(28, libc::SOL_SOCKET, libc::SCM_CREDENTIALS, &[1, 2, 3]);
        assert_eq!(descriptors(&[credentials.clone(), rights.clone()].concat()), [7, 8, 9]);
        assert_eq!(descriptors(&[rights.clone(), credentials].concat()), [7, 8, 9]);
        assert_eq!(descriptors(&rights[..24]), [7, 8]);
    }

    #[test]
    fn lengths_that_cannot_be() {
        for length in [0, 8, 15, 16, 1000, u64::MAX] {
            let bytes = piece(length, libc::SOL_SOCKET, libc::SCM_RIGHTS, &[7, 8]);
            assert!(descriptors(&bytes).len() <= 2, "{length}");
        }
        assert!(descriptors(&[]).is_empty());
    }
}
