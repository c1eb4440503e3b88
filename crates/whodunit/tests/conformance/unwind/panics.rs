// Rust panics: caught, resumed, in threads, with drops on the way; and the poisoned lock they leave.
//@ threaded
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex};
use std::thread;

struct Tracer(&'static str);
impl Drop for Tracer {
    fn drop(&mut self) {
        println!("drop {}{}", self.0, if thread::panicking() { " while panicking" } else { "" });
    }
}

#[inline(never)]
fn descend(depth: u32) -> u32 {
    let boxed = Box::new(depth);
    if depth == 0 {
        panic!("bottom");
    }
    descend(depth - 1) + *boxed
}

fn main() {
    panic::set_hook(Box::new(|info| {
        let text = info.payload().downcast_ref::<&str>().copied();
        println!("hook: {}", text.unwrap_or("other payload"));
    }));
    let caught = panic::catch_unwind(|| {
        let _outer = Tracer("outer");
        let _inner = Tracer("inner");
        descend(200)
    });
    println!("caught {}", caught.is_err());

    let resumed = panic::catch_unwind(|| {
        let first = panic::catch_unwind(|| panic::panic_any(42_i32)).unwrap_err();
        panic::resume_unwind(first)
    });
    println!("payload {:?}", resumed.unwrap_err().downcast_ref::<i32>());

    let lock = Arc::new(Mutex::new(1));
    let inside = Arc::clone(&lock);
    let joined = thread::spawn(move || {
        let mut guard = inside.lock().unwrap();
        *guard = 2;
        let _tracer = Tracer("in thread");
        panic!("in a thread");
    })
    .join();
    println!("thread failed {}, lock poisoned {}", joined.is_err(), lock.is_poisoned());
    println!("value {}", lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));

    let mut count = 0;
    for i in 0..50 {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| [1, 2, 3][std::hint::black_box(i % 5)]));
        count += outcome.is_ok() as i32;
    }
    println!("{count} in bounds");
}
