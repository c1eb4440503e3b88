//! `std`.

use super::{Program, ROUNDS, THREADS, in_threads};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock, mpsc};
use std::thread;

pub const PROGRAMS: &[Program] = &[
    ("std_mutex", mutex),
    ("std_rwlock", rwlock),
    ("std_condvar", condvar),
    ("std_channel", channel),
    ("std_sync_channel", sync_channel),
    ("std_once", once),
    ("std_lazy", lazy),
    ("std_barrier", barrier),
    ("std_arc", arc),
    ("std_atomic_counter", atomic_counter),
    ("std_published_flag", published_flag),
    ("std_scoped_slices", scoped_slices),
    ("std_park", park),
    ("std_thread_local", thread_local),
];

fn mutex() -> usize {
    let table = Mutex::new(BTreeMap::new());
    in_threads(|number| {
        for round in 0..ROUNDS {
            *table.lock().unwrap().entry(round % 7).or_insert(0) += number;
        }
    });
    table.into_inner().unwrap().values().sum()
}

fn rwlock() -> usize {
    let names = RwLock::new(vec![String::from("first")]);
    in_threads(|number| {
        for round in 0..ROUNDS {
            if round % 10 == number {
                names.write().unwrap().push(format!("name {round}"));
            } else {
                assert!(!names.read().unwrap().is_empty());
            }
        }
    });
    names.into_inner().unwrap().len()
}

fn condvar() -> usize {
    let state = (Mutex::new((Vec::new(), false)), Condvar::new());
    let sum = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let mut queue = state.0.lock().unwrap();
                    while queue.0.is_empty() && !queue.1 {
                        queue = state.1.wait(queue).unwrap();
                    }
                    match queue.0.pop() {
                        Some(number) => sum.fetch_add(number, Ordering::Relaxed),
                        None => return,
                    };
                }
            });
        }
        for number in 0..ROUNDS {
            state.0.lock().unwrap().0.push(number);
            state.1.notify_one();
        }
        state.0.lock().unwrap().1 = true;
        state.1.notify_all();
    });
    sum.into_inner()
}

fn channel() -> usize {
    let (send, receive) = mpsc::channel::<Vec<usize>>();
    thread::scope(|scope| {
        for number in 0..THREADS {
            let send = send.clone();
            scope.spawn(move || (0..ROUNDS).for_each(|round| send.send(vec![number, round]).unwrap()));
        }
        drop(send);
        receive.iter().map(|numbers| numbers.iter().sum::<usize>()).sum()
    })
}

fn sync_channel() -> usize {
    let (send, receive) = mpsc::sync_channel::<Box<usize>>(3);
    thread::scope(|scope| {
        scope.spawn(move || (0..ROUNDS).for_each(|round| send.send(Box::new(round)).unwrap()));
        receive.iter().map(|number| *number).sum()
    })
}

fn once() -> usize {
    let once = Once::new();
    let value = OnceLock::new();
    let sum = AtomicUsize::new(0);
    in_threads(|_| {
        once.call_once(|| value.set(vec![5; 10]).unwrap());
        sum.fetch_add(value.get().map_or(0, |value| value[3]), Ordering::Relaxed);
    });
    sum.into_inner()
}

fn lazy() -> usize {
    static TABLE: LazyLock<Vec<usize>> = LazyLock::new(|| (0..100).collect());
    static NAME: OnceLock<String> = OnceLock::new();
    let sum = AtomicUsize::new(0);
    in_threads(|number| {
        let length = NAME.get_or_init(|| "a name".to_owned()).len();
        sum.fetch_add(TABLE[number] + length, Ordering::Relaxed);
    });
    sum.into_inner()
}

fn barrier() -> usize {
    let barrier = Barrier::new(THREADS);
    let cells: Vec<Mutex<Vec<usize>>> = (0..THREADS).map(|_| Mutex::default()).collect();
    let total = AtomicUsize::new(0);
    in_threads(|number| {
        for round in 0..20 {
            cells[number].lock().unwrap().push(round);
            barrier.wait();
            let sum: usize = cells.iter().map(|cell| cell.lock().unwrap().iter().sum::<usize>()).sum();
            total.fetch_add(sum, Ordering::Relaxed);
            barrier.wait();
        }
    });
    total.into_inner()
}

fn arc() -> usize {
    let shared = Arc::new(vec![3_usize; 50]);
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared[number] + Arc::clone(&shared)[0])
        })
        .collect();
    drop(shared);
    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
}

fn atomic_counter() -> usize {
    let counter = AtomicUsize::new(0);
    in_threads(|_| {
        for _ in 0..ROUNDS {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    counter.into_inner()
}

fn published_flag() -> usize {
    let ready = AtomicBool::new(false);
    let value = AtomicUsize::new(0);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !ready.load(Ordering::Acquire) {
                thread::yield_now();
            }
            value.load(Ordering::Relaxed)
        });
        value.store(42, Ordering::Relaxed);
        ready.store(true, Ordering::Release);
        reader.join().unwrap()
    })
}

fn scoped_slices() -> usize {
    let mut numbers = vec![0_usize; THREADS * ROUNDS];
    thread::scope(|scope| {
        for (part, slice) in numbers.chunks_mut(ROUNDS).enumerate() {
            scope.spawn(move || slice.iter_mut().for_each(|number| *number = part));
        }
    });
    numbers.iter().sum()
}

fn park() -> usize {
    let value = Arc::new(Mutex::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let thread = {
        let (value, done) = (Arc::clone(&value), Arc::clone(&done));
        thread::spawn(move || {
            while !done.load(Ordering::Acquire) {
                thread::park();
            }
            *value.lock().unwrap() + 1
        })
    };
    *value.lock().unwrap() = 6;
    done.store(true, Ordering::Release);
    thread.thread().unpark();
    thread.join().unwrap()
}

fn thread_local() -> usize {
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(0) };
        static LIST: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }
    let sums = Mutex::new(Vec::new());
    in_threads(|number| {
        OWN.set(OWN.get() + number);
        LIST.with_borrow_mut(|list| list.extend(0..number));
        sums.lock().unwrap().push(OWN.get() + LIST.with_borrow(Vec::len));
    });
    sums.into_inner().unwrap().iter().sum()
}
