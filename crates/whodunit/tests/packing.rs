//! `pack`, and recordings that come packed: carried elsewhere, damaged on the way, or made to deceive.

mod packing {
    mod bench;
    mod carried;
    mod hostile;
    mod material;
}
