//! Variables of the kinds that Rust has. Prints what is true of them, and fails in `inner::work`.

use std::sync::atomic::{AtomicU32, Ordering};

pub static COUNTER: AtomicU32 = AtomicU32::new(7);

// SAFETY: these are the functions of facts.h, with the types that they have there.
unsafe extern "C" {
    fn state_facts(folder: *const std::ffi::c_char);
    fn state_place(expression: *const std::ffi::c_char, address: usize, size: usize);
    fn state_value(expression: *const std::ffi::c_char, text: *const std::ffi::c_char);
}

fn place<T>(expression: &std::ffi::CStr, value: &T) {
    // SAFETY: the text ends in a NUL; the address is only printed.
    unsafe { state_place(expression.as_ptr(), value as *const T as usize, size_of::<T>()) }
}

fn value(expression: &std::ffi::CStr, text: &std::ffi::CStr) {
    // SAFETY: both texts end in a NUL.
    unsafe { state_value(expression.as_ptr(), text.as_ptr()) }
}

mod inner {
    use super::{place, value};

    pub static COUNTER: super::AtomicU32 = super::AtomicU32::new(8);
    pub static PAIR: (u16, Point) = (1, Point { x: 2, y: -3 });

    pub struct Point {
        pub x: i32,
        pub y: i64,
    }

    pub enum Shape {
        Empty,
        Circle { radius: u64 },
        Square(u32),
    }

    #[inline(never)]
    pub fn work(number: u32, shape: &Shape, text: &str, owned: &String) -> u32 {
        let none: Option<&Point> = None;
        let some: Option<u32> = Some(number);
        let point = Point { x: 5, y: 6 };
        let list = [1u8, 2, 3];
        let letter = 'é';
        let square = Shape::Square(9);
        let empty = Shape::Empty;
        place(c"statics::COUNTER", &super::COUNTER);
        place(c"inner::COUNTER", &COUNTER);
        place(c"PAIR.__1.y", &PAIR.1.y);
        place(c"point.x", &point.x);
        place(c"list", &list);
        value(c"number", c"2");
        value(c"*shape", c"Circle {radius = 3}");
        value(c"square", c"Square {__0 = 9}");
        value(c"empty", c"Empty");
        value(c"text", c"\"borrowed\"");
        value(c"*owned", c"\"owned text\"");
        value(c"none", c"None");
        value(c"some", c"Some {__0 = 2}");
        value(c"point", c"{x = 5, y = 6}");
        value(c"letter", c"'é'");
        for thing in [&raw const none as usize, &raw const some as usize, &raw const letter as usize] {
            std::hint::black_box(thing);
        }
        std::hint::black_box((&square, &empty, text, owned, shape));
        // Not a function of the library, which would have a frame of its own.
        // SAFETY: the program is to fail here, and does; it goes no further.
        unsafe { std::arch::asm!("mov dword ptr [{0}], 1", in(reg) 8usize) } // MARK fault
        std::hint::black_box((&none, &some, &point, &list, &letter, &square, &empty));
        number
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = std::ffi::CString::new(arguments[2].as_str()).unwrap();
    // SAFETY: the text ends in a NUL and outlives the call.
    unsafe { state_facts(folder.as_ptr()) }
    let owned = String::from("owned text");
    let shape = inner::Shape::Circle { radius: 3 };
    // Hidden from the optimiser, which would otherwise leave nothing to find.
    let (number, shape, text, owned) = std::hint::black_box((2, &shape, "borrowed", &owned));
    COUNTER.store(inner::work(number, shape, text, owned), Ordering::SeqCst);
}
