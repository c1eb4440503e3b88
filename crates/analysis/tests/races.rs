//! The race detector on streams that are written down as tables, and on random ones.

mod races {
    mod atomics;
    mod locks;
    mod memory;
    mod oracle;
    mod random;
    mod sieving;
    mod spinning;
    mod streams;
    mod threads;
    mod written;
}
