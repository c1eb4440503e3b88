//! `crossbeam`.

use super::{Program, ROUNDS, THREADS, in_threads};
use crossbeam::atomic::AtomicCell;
use crossbeam::channel;
use crossbeam::deque::{Injector, Steal, Worker};
use crossbeam::queue::{ArrayQueue, SegQueue};
use crossbeam::sync::{Parker, ShardedLock, WaitGroup};
use crossbeam::utils::{Backoff, CachePadded};
use crossbeam_skiplist::SkipMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub const PROGRAMS: &[Program] = &[
    ("crossbeam_scope", scope),
    ("crossbeam_unbounded", unbounded),
    ("crossbeam_bounded", bounded),
    ("crossbeam_rendezvous", rendezvous),
    ("crossbeam_select", select),
    ("crossbeam_segments", segments),
    ("crossbeam_array", array),
    ("crossbeam_deque", deque),
    ("crossbeam_injector", injector),
    ("crossbeam_epoch", reclaimed),
    ("crossbeam_cell", cell),
    ("crossbeam_sharded", sharded),
    ("crossbeam_waiting", waiting),
    ("crossbeam_padded", padded),
];

fn scope() -> usize {
    let numbers: Vec<usize> = (0..ROUNDS).collect();
    crossbeam::scope(|scope| {
        let parts: Vec<_> = numbers.chunks(10).map(|part| scope.spawn(|_| part.iter().sum::<usize>())).collect();
        parts.into_iter().map(|part| part.join().unwrap()).sum()
    })
    .unwrap()
}

fn unbounded() -> usize {
    let (send, receive) = channel::unbounded();
    gather(send, receive)
}

fn bounded() -> usize {
    let (send, receive) = channel::bounded(4);
    gather(send, receive)
}

fn rendezvous() -> usize {
    let (send, receive) = channel::bounded(0);
    gather(send, receive)
}

/// Several senders, and one receiver that adds up.
fn gather(send: channel::Sender<Box<usize>>, receive: channel::Receiver<Box<usize>>) -> usize {
    thread::scope(|scope| {
        for number in 0..THREADS {
            let send = send.clone();
            scope.spawn(move || (0..ROUNDS).for_each(|round| send.send(Box::new(number + round)).unwrap()));
        }
        drop(send);
        receive.iter().map(|number| *number).sum()
    })
}

fn select() -> usize {
    let (left, from_left) = channel::bounded::<Vec<usize>>(1);
    let (right, from_right) = channel::unbounded::<Vec<usize>>();
    thread::scope(|scope| {
        scope.spawn(move || (0..ROUNDS).for_each(|round| left.send(vec![round]).unwrap()));
        scope.spawn(move || (0..ROUNDS).for_each(|round| right.send(vec![round, round]).unwrap()));
        let (mut sum, mut received) = (0, 0);
        while received < 2 * ROUNDS {
            let numbers = crossbeam::select! {
                recv(from_left) -> numbers => numbers,
                recv(from_right) -> numbers => numbers,
            };
            // A sender that has gone is always ready.
            if let Ok(numbers) = numbers {
                received += 1;
                sum += numbers.iter().sum::<usize>();
            }
        }
        sum
    })
}

fn segments() -> usize {
    let queue = SegQueue::new();
    let sum = AtomicUsize::new(0);
    in_threads(|number| {
        for round in 0..ROUNDS {
            queue.push(vec![number, round]);
            if let Some(numbers) = queue.pop() {
                sum.fetch_add(numbers.iter().sum(), Ordering::Relaxed);
            }
        }
    });
    queue.into_iter().flatten().sum::<usize>() + sum.into_inner()
}

fn array() -> usize {
    let queue = ArrayQueue::new(8);
    let sum = AtomicUsize::new(0);
    in_threads(|number| {
        for round in 0..ROUNDS {
            let mut item = Box::new(number + round);
            while let Err(refused) = queue.push(item) {
                item = refused;
                if let Some(taken) = queue.pop() {
                    sum.fetch_add(*taken, Ordering::Relaxed);
                }
            }
        }
    });
    queue.into_iter().map(|number| *number).sum::<usize>() + sum.into_inner()
}

fn deque() -> usize {
    let worker = Worker::new_lifo();
    let stealer = worker.stealer();
    let sum = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut idle = 0;
                while idle < 50 {
                    match stealer.steal() {
                        Steal::Success(number) => {
                            let number: Box<usize> = number;
                            sum.fetch_add(*number, Ordering::Relaxed);
                        }
                        _ => {
                            idle += 1;
                            thread::yield_now();
                        }
                    }
                }
            });
        }
        for round in 0..ROUNDS {
            worker.push(Box::new(round));
            if round % 3 == 0
                && let Some(number) = worker.pop()
            {
                sum.fetch_add(*number, Ordering::Relaxed);
            }
        }
    });
    std::iter::from_fn(|| worker.pop()).map(|number| *number).sum::<usize>() + sum.into_inner()
}

fn injector() -> usize {
    let injector = Injector::new();
    (0..ROUNDS).for_each(|round| injector.push(vec![round]));
    let sum = AtomicUsize::new(0);
    in_threads(|_| {
        loop {
            match injector.steal() {
                Steal::Success(numbers) => {
                    sum.fetch_add(numbers.iter().sum(), Ordering::Relaxed);
                }
                Steal::Retry => {}
                Steal::Empty => return,
            }
        }
    });
    sum.into_inner()
}

/// Nodes that others may still look at are kept until nobody does.
fn reclaimed() -> usize {
    let map = SkipMap::new();
    in_threads(|number| {
        for round in 0..ROUNDS {
            map.insert(round % 13, vec![number, round]);
            if round % 3 == 0 {
                map.remove(&(round % 7));
            }
            assert!(map.iter().all(|entry| entry.value().len() == 2));
        }
    });
    map.len().min(1)
}

fn cell() -> usize {
    let small = AtomicCell::new(0_usize);
    let large = AtomicCell::new([0_usize; 6]);
    in_threads(|number| {
        for round in 0..ROUNDS {
            small.fetch_add(number);
            large.store([round; 6]);
            let numbers = large.load();
            assert!(numbers.iter().all(|number| *number == numbers[0]));
        }
    });
    small.load()
}

fn sharded() -> usize {
    let table = ShardedLock::new(vec![0_usize; 8]);
    in_threads(|number| {
        for round in 0..ROUNDS {
            if round % 25 == 0 {
                table.write().unwrap()[number] += round;
            } else {
                assert_eq!(table.read().unwrap().len(), 8);
            }
        }
    });
    table.into_inner().unwrap().iter().sum()
}

fn waiting() -> usize {
    let group = WaitGroup::new();
    let parker = Parker::new();
    let sum = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (group, unparker, sum) = (group.clone(), parker.unparker().clone(), &sum);
            scope.spawn(move || {
                sum.fetch_add(number, Ordering::Relaxed);
                unparker.unpark();
                drop(group);
            });
        }
        parker.park();
        group.wait();
    });
    sum.into_inner()
}

fn padded() -> usize {
    let ready = CachePadded::new(AtomicUsize::new(0));
    let cells: Vec<CachePadded<AtomicUsize>> = (0..THREADS).map(|_| CachePadded::new(AtomicUsize::new(0))).collect();
    in_threads(|number| {
        cells[number].store(number + 1, Ordering::Relaxed);
        ready.fetch_add(1, Ordering::Release);
        let backoff = Backoff::new();
        while ready.load(Ordering::Acquire) < THREADS {
            backoff.snooze();
        }
        assert!(cells.iter().all(|cell| cell.load(Ordering::Relaxed) > 0));
    });
    cells.iter().map(|cell| cell.load(Ordering::Relaxed)).sum()
}
