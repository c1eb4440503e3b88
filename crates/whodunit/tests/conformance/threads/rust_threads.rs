// The Rust standard library: spawn, scoped threads, channels, Mutex, RwLock, Condvar, Barrier, Once, park, thread-locals.
//@ threaded
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Barrier, Condvar, Mutex, Once, OnceLock, RwLock};
use std::thread;

thread_local! {
    static LOCAL: Cell<u32> = const { Cell::new(7) };
}

fn channels() {
    let (sender, receiver) = mpsc::channel();
    for id in 0..4 {
        let sender = sender.clone();
        thread::spawn(move || (0..100).for_each(|n| sender.send((id, n)).unwrap()));
    }
    drop(sender);
    let mut per_thread = BTreeMap::<u32, Vec<u32>>::new();
    for (id, n) in receiver {
        per_thread.entry(id).or_default().push(n);
    }
    for (id, numbers) in &per_thread {
        println!("sender {id}: {} in order {}", numbers.len(), numbers.is_sorted());
    }
    let (sender, receiver) = mpsc::sync_channel(0);
    let worker = thread::spawn(move || (0..50).for_each(|n| sender.send(n).unwrap()));
    println!("rendezvous {}", receiver.iter().sum::<u32>());
    worker.join().unwrap();
    let (sender, receiver) = mpsc::channel::<u32>();
    drop(receiver);
    println!("send to nobody: {}", sender.send(1).is_err());
}

fn locks() {
    let total = Mutex::new(0);
    let table = RwLock::new(vec![0; 10]);
    thread::scope(|scope| {
        for id in 0..5 {
            let (total, table) = (&total, &table);
            scope.spawn(move || {
                for n in 0..200 {
                    *total.lock().unwrap() += n;
                    if n % 10 == id {
                        table.write().unwrap()[n] += 1;
                    } else {
                        assert!(table.read().unwrap().len() == 10);
                    }
                    if n == 9 {
                        break;
                    }
                }
            });
        }
    });
    println!("total {} table {:?}", total.into_inner().unwrap(), table.into_inner().unwrap());
    let pair = Arc::new((Mutex::new(0), Condvar::new()));
    let workers: Vec<_> = (0..4)
        .map(|id| {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                let mut turn = pair.1.wait_while(pair.0.lock().unwrap(), |turn| *turn != id).unwrap();
                println!("turn of {id}");
                *turn += 1;
                pair.1.notify_all();
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
}

fn others() {
    static ONCE: Once = Once::new();
    static CELL: OnceLock<String> = OnceLock::new();
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let barrier = Barrier::new(4);
    let leaders = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                ONCE.call_once(|| {
                    CALLS.fetch_add(1, Ordering::Relaxed);
                });
                CELL.get_or_init(|| "made once".into());
                for _ in 0..10 {
                    if barrier.wait().is_leader() {
                        leaders.fetch_add(1, Ordering::Relaxed);
                    }
                }
                LOCAL.with(|local| local.set(local.get() + 1));
                assert_eq!(LOCAL.get(), 8);
            });
        }
    });
    println!("calls {} cell {} leaders {} local {}", CALLS.load(Ordering::Relaxed), CELL.get().unwrap(), leaders.into_inner(), LOCAL.get());
    let flag = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&flag);
    let parked = thread::Builder::new()
        .name("parked".into())
        .stack_size(64 * 1024)
        .spawn(move || {
            while seen.load(Ordering::Acquire) == 0 {
                thread::park();
            }
            thread::current().name().map(str::to_owned)
        })
        .unwrap();
    flag.store(1, Ordering::Release);
    parked.thread().unpark();
    println!("unparked {:?}", parked.join().unwrap());
}

fn main() {
    channels();
    locks();
    others();
}
