//! Names that need demangling.

mod inner {
    pub struct Counter(pub u32);

    impl Counter {
        #[inline(never)]
        pub fn advance(&mut self) {
            self.0 = std::hint::black_box(self.0) + 1; // MARK advance
        }
    }
}

fn main() {
    let mut counter = inner::Counter(1);
    counter.advance();
    println!("{}", counter.0);
}
