//! Memory by strips: pieces of equal size, of which a part is looked at where memory is like much other.

/// A strip is so many bytes, as a power of two.
pub const STRIP_BITS: u32 = 9;
pub const STRIP_SIZE: u64 = 1 << STRIP_BITS;
/// Strips are told apart by numbers, of which there are so many: those that lie 32 MB apart share one.
pub const NUMBERS: usize = 1 << 16;

/// The number of the strip that an address is on. Neighbours have neighbouring numbers.
#[inline]
pub fn number_of(address: u64) -> u16 {
    (address >> STRIP_BITS) as u16
}

/// Whether strips of this number are among a few that are spread over all memory: one in so many, which is a power of two. Those that are
/// among fewer are among more, too.
#[inline]
pub fn is_one_in(many: u32, number: u16) -> bool {
    // The upper bits of the product depend on all bits of the number, so these strips are not at equal distances.
    u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15).leading_zeros() >= many.ilog2()
}

/// The numbers of such strips.
pub fn one_in(many: u32) -> impl Iterator<Item = u16> {
    (0..=u16::MAX).filter(move |number| is_one_in(many, *number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_few_and_everywhere() {
        for many in [64, 256] {
            let samples: Vec<u16> = one_in(many).collect();
            let expected = NUMBERS / many as usize;
            assert!((expected / 2..expected * 2).contains(&samples.len()), "{} samples", samples.len());
            assert!(samples.windows(2).all(|pair| u32::from(pair[1] - pair[0]) < 16 * many));
        }
    }

    #[test]
    fn neighbours_have_neighbouring_numbers() {
        assert_eq!([0, STRIP_SIZE - 1, STRIP_SIZE, NUMBERS as u64 * STRIP_SIZE].map(number_of), [0, 0, 1, 0]);
    }
}
