// A panic on an index that was computed elsewhere.

#[inline(never)]
fn position(words: usize) -> usize {
    words * 2 + 1 /* guilty */
}

#[inline(never)]
fn pick(values: &[u32], index: usize) -> u32 {
    values[index] /* panics */
}

fn main() {
    let values = [1, 2, 3, 4];
    let index = position(std::env::args().count() + 2);
    println!("{}", pick(&values, index));
}
