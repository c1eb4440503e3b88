//! `parking_lot`.

use super::{Program, ROUNDS, THREADS, in_threads};
use parking_lot::{
    Condvar, FairMutex, MappedMutexGuard, Mutex, MutexGuard, Once, OnceState, ReentrantMutex, RwLock,
    RwLockUpgradableReadGuard, RwLockWriteGuard,
};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

pub const PROGRAMS: &[Program] = &[
    ("parking_mutex", mutex),
    ("parking_contended", contended),
    ("parking_fair", fair),
    ("parking_try_lock", try_lock),
    ("parking_timed", timed),
    ("parking_reentrant", reentrant),
    ("parking_rwlock", rwlock),
    ("parking_upgradable", upgradable),
    ("parking_downgraded", downgraded),
    ("parking_condvar", condvar),
    ("parking_once", once),
    ("parking_mapped", mapped),
    ("parking_arc_mutex", arc_mutex),
];

fn mutex() -> usize {
    let list = Mutex::new(Vec::new());
    in_threads(|number| (0..ROUNDS).for_each(|_| list.lock().push(number)));
    list.into_inner().len()
}

fn contended() -> usize {
    let counter = Mutex::new(0_usize);
    in_threads(|_| {
        for _ in 0..ROUNDS {
            let mut counter = counter.lock();
            thread::yield_now();
            *counter += 1;
        }
    });
    counter.into_inner()
}

fn fair() -> usize {
    let (fair, handed_over) = (FairMutex::new(0_usize), Mutex::new(0_usize));
    in_threads(|number| {
        for _ in 0..ROUNDS {
            *fair.lock() += 1;
            let mut guard = handed_over.lock();
            *guard += number;
            MutexGuard::unlock_fair(guard);
        }
    });
    fair.into_inner() + handed_over.into_inner()
}

fn try_lock() -> usize {
    let counter = Mutex::new(0_usize);
    in_threads(|_| {
        let mut left = ROUNDS;
        while left > 0 {
            if let Some(mut counter) = counter.try_lock() {
                *counter += 1;
                left -= 1;
            } else {
                thread::yield_now();
            }
        }
    });
    counter.into_inner()
}

fn timed() -> usize {
    let counter = Mutex::new(0_usize);
    in_threads(|_| {
        let mut left = ROUNDS;
        while left > 0 {
            if let Some(mut counter) = counter.try_lock_for(Duration::from_millis(50)) {
                *counter += 1;
                left -= 1;
            }
        }
    });
    counter.into_inner()
}

fn reentrant() -> usize {
    let counter = ReentrantMutex::new(Cell::new(0_usize));
    in_threads(|_| {
        for _ in 0..ROUNDS {
            let outer = counter.lock();
            let inner = counter.lock();
            inner.set(outer.get() + 1);
        }
    });
    counter.into_inner().into_inner()
}

fn rwlock() -> usize {
    let numbers = RwLock::new(vec![0_usize; THREADS]);
    in_threads(|number| {
        for round in 0..ROUNDS {
            if round % 5 == 0 {
                numbers.write()[number] += round;
            } else {
                assert_eq!(numbers.read().len(), THREADS);
            }
        }
    });
    numbers.into_inner().iter().sum()
}

fn upgradable() -> usize {
    let list = RwLock::new(Vec::new());
    in_threads(|number| {
        for round in 0..ROUNDS {
            let view = list.upgradable_read();
            if view.len() < 40 {
                RwLockUpgradableReadGuard::upgrade(view).push(number * round);
            }
        }
    });
    list.into_inner().len()
}

fn downgraded() -> usize {
    let value = RwLock::new(0_usize);
    in_threads(|_| {
        for _ in 0..ROUNDS {
            let mut guard = value.write();
            *guard += 1;
            let now = *guard;
            let view = RwLockWriteGuard::downgrade(guard);
            assert_eq!(*view, now);
        }
    });
    value.into_inner()
}

fn condvar() -> usize {
    let state = Mutex::new((VecDeque::new(), false));
    let changed = Condvar::new();
    let sum = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let mut queue = state.lock();
                    changed.wait_while(&mut queue, |queue| queue.0.is_empty() && !queue.1);
                    let Some(number) = queue.0.pop_front() else { return };
                    sum.fetch_add(number, Ordering::Relaxed);
                }
            });
        }
        for number in 0..ROUNDS {
            state.lock().0.push_back(number);
            changed.notify_one();
        }
        state.lock().1 = true;
        changed.notify_all();
    });
    sum.into_inner()
}

fn once() -> usize {
    let once = Once::new();
    let value = Mutex::new(0_usize);
    in_threads(|_| {
        once.call_once(|| *value.lock() = 11);
        assert_eq!(once.state(), OnceState::Done);
    });
    value.into_inner()
}

fn mapped() -> usize {
    let pair = Mutex::new((0_usize, String::new()));
    in_threads(|number| {
        for _ in 0..ROUNDS {
            let mut count: MappedMutexGuard<'_, usize> = MutexGuard::map(pair.lock(), |pair| &mut pair.0);
            *count += number;
        }
    });
    pair.into_inner().0
}

fn arc_mutex() -> usize {
    let shared = Arc::new(Mutex::new(vec![1_usize]));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.lock().push(number))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    Arc::try_unwrap(shared).unwrap().into_inner().iter().sum()
}
