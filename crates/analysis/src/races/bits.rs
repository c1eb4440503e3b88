//! A set of numbers that may take one for another: bits by a hash, such that neighbours have neighbouring bits.

const FEW_BITS: usize = 1 << 16;
const MOST_BITS: usize = 1 << 24;
/// How many bits there are for each member, so that few numbers that are not meant share one with one that is.
const BITS_EACH: usize = 32;

pub struct Bits(Vec<u64>);

impl Bits {
    /// For so many members.
    pub fn new(members: usize) -> Bits {
        let n_bits = (members * BITS_EACH).next_power_of_two().clamp(FEW_BITS, MOST_BITS);
        Bits(vec![0; n_bits / 64])
    }

    pub fn set(&mut self, member: u64) {
        let (word, bit) = self.place(member);
        self.0[word] |= bit;
    }

    #[inline]
    pub fn has(&self, member: u64) -> bool {
        let (word, bit) = self.place(member);
        self.0[word] & bit != 0
    }

    #[inline]
    fn place(&self, member: u64) -> (usize, u64) {
        let hash = (member ^ member >> 16) as usize;
        ((hash / 64) & (self.0.len() - 1), 1 << (hash % 64))
    }
}
