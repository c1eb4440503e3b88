//! `ls`, `rm` and `show` on recordings that are written here, event by event: whole, of several processes, killed, damaged,
//! still being made, and made to deceive.

mod recordings {
    mod builder;
    mod failing;
    mod listing;
    mod machines;
    mod removing;
    mod showing;
}
