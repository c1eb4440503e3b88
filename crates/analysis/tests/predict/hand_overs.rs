//! What threads hand to each other under locks.

use super::Does::{Read, Write};
use super::{
    Does, FLAG, LOCK, OBJECT, OTHER, POINTER, allocate, begin_wait, checked, contended, contended_by_hand_overs,
    end_wait, explored, explored_by_hand_overs, free, lock, places, predicted_from, records, trusted, unlock,
    with_threads,
};
use analysis::races::Flags;
use std::collections::BTreeMap;
use trace::stream::Thread;

/// Thread 2 fills an object and puts a pointer to it where thread 3 finds it, both under a lock.
fn queue(value: u64) -> Vec<(Thread, Does)> {
    vec![
        (2, Write(1, OBJECT, 0, 7)),
        (2, lock(LOCK)),
        (2, Write(2, POINTER, 0, value)),
        (2, unlock(LOCK)),
        (3, lock(LOCK)),
        (3, Read(3, POINTER, value)),
        (3, unlock(LOCK)),
        (3, Read(4, OBJECT, 7)),
    ]
}

#[test]
fn what_is_handed_over_under_a_lock_is_not_looked_at() {
    assert_eq!(contended_by_hand_overs(&queue(OBJECT)), [2, 3]);
    assert_eq!(contended(&queue(OBJECT)), [1, 2, 3, 4]);
    for number in [0, 12, 1 << 47] {
        assert_eq!(contended_by_hand_overs(&queue(number)), [1, 2, 3, 4], "{number} is no pointer");
    }
    let mut unlocked = queue(OBJECT);
    unlocked.remove(6);
    unlocked.remove(4);
    assert_eq!(contended_by_hand_overs(&unlocked), [1, 2, 3, 4], "the reader holds no lock");
    let other = |does: &Does| matches!(does, Does::Event(_)).then(|| lock(LOCK + 64));
    let mut elsewhere = queue(OBJECT);
    elsewhere[4].1 = other(&elsewhere[4].1).expect("an event");
    assert_eq!(contended_by_hand_overs(&elsewhere), [1, 2, 3, 4], "another lock");
}

/// The same instructions hand over a pointer one time, and something else another time.
#[test]
fn each_value_is_judged_by_itself() {
    let mut stream = queue(OBJECT);
    let again = [(2, lock(LOCK)), (2, Write(2, POINTER, OBJECT, 0)), (2, unlock(LOCK)), (3, lock(LOCK))];
    stream.extend(again);
    stream.extend([(3, Read(3, POINTER, 0)), (3, unlock(LOCK))]);
    assert_eq!(contended_by_hand_overs(&stream), [2, 3], "the pointer was an order");
    stream.extend([(2, Write(7, OTHER, 0, 7)), (2, lock(LOCK)), (2, Write(2, POINTER, 0, 12)), (2, unlock(LOCK))]);
    stream.extend([(3, lock(LOCK)), (3, Read(3, POINTER, 12)), (3, unlock(LOCK)), (3, Read(8, OTHER, 7))]);
    assert_eq!(contended_by_hand_overs(&stream), [2, 3, 7, 8], "12 is none");
}

/// Who mostly handles numbers that are no pointers is not told with values, which would have to be told for a whole run.
#[test]
fn who_hands_over_numbers_is_found_out() {
    let readers_and_writers = |values: &[u64]| {
        let stream = with_threads(&values.iter().flat_map(|value| queue(*value)).collect::<Vec<_>>());
        let checked = checked(&stream);
        [checked.readers, checked.writers].map(|instructions| instructions.into_iter().collect::<Vec<u64>>())
    };
    assert_eq!(readers_and_writers(&[OBJECT]), [[0x300], [0x200]]);
    assert_eq!(
        readers_and_writers(&[OBJECT, 0, 0, 12]),
        [[0x300], [0x200]],
        "NULL speaks neither for it nor against it"
    );
    assert_eq!(readers_and_writers(&[12, 13, OBJECT]), [Vec::new(), Vec::new()] as [Vec<u64>; 2]);
}

#[test]
fn what_is_done_after_a_hand_over_is_looked_at() {
    let mut late = queue(OBJECT);
    late.insert(3, (2, Write(5, OBJECT, 7, 8)));
    assert_eq!(contended_by_hand_overs(&late), [1, 2, 3, 4, 5]);
    let mut replaced = queue(OBJECT);
    replaced.insert(4, (1, Write(6, POINTER, OBJECT, OBJECT)));
    assert_eq!(contended_by_hand_overs(&replaced), [1, 2, 3, 4, 6], "the pointer is of another thread's making");
}

/// A run whose threads hand objects to each other, and now and then do something else to what they share.
struct RandomRun {
    random: fastrand::Rng,
    memory: BTreeMap<u64, u64>,
    done: Vec<(Thread, Does)>,
}

impl RandomRun {
    fn stream(seed: u64) -> Vec<(Thread, Does)> {
        let mut run = RandomRun { random: fastrand::Rng::with_seed(seed), memory: BTreeMap::new(), done: Vec::new() };
        for object in 0..run.random.u64(2..9) {
            let (thread, slot, object) = (run.random.u32(1..4), 8 * run.random.u64(0..3), OBJECT + 64 * object);
            run.put(thread, POINTER + slot, object);
            let (thread, slot) = (run.random.u32(1..4), 8 * run.random.u64(0..3));
            run.get(thread, POINTER + slot);
        }
        for block in 0..run.random.u64(0..9) {
            let (thread, other) = *run.random.choice(&[(1, 2), (2, 3), (3, 1), (3, 2)]).expect("there are some");
            run.wait(thread, other, block);
        }
        run.done
    }

    /// A thread waits until another has done with a block, unless that is so already, and gives the block back.
    fn wait(&mut self, thread: Thread, other: Thread, block: u64) {
        let (object, flag) = (OBJECT + 0x1000 + 64 * block, FLAG + 8 * block);
        let comes_late = self.random.bool();
        let in_loop = if self.random.bool() { 20 } else { 21 };
        self.done.push((thread, allocate(object)));
        if comes_late {
            self.finish(other, object, flag);
        }
        self.done.push((thread, lock(LOCK)));
        let mut value = self.read(thread, 20, flag);
        while value == 0 && !self.rarely() {
            self.done.push((thread, begin_wait(LOCK)));
            if !self.rarely() {
                self.finish(other, object, flag);
            }
            self.done.push((thread, end_wait(LOCK)));
            value = if self.rarely() { 1 } else { self.read(thread, in_loop, flag) };
        }
        self.done.push((thread, unlock(LOCK)));
        self.done.push((thread, free(object)));
    }

    fn finish(&mut self, thread: Thread, object: u64, flag: u64) {
        self.read(thread, 22, object);
        let flag_lock = if self.rarely() { LOCK + 64 } else { LOCK };
        self.done.push((thread, lock(flag_lock)));
        let site = if self.rarely() { 24 } else { 23 };
        self.write(thread, site, flag, 1);
        if self.rarely() {
            self.read(thread, 25, object + 8);
        }
        self.done.push((thread, unlock(flag_lock)));
        if self.rarely() {
            self.read(thread, 26, object + 16);
        }
    }

    fn read(&mut self, thread: Thread, site: u32, address: u64) -> u64 {
        let value = self.memory.get(&address).copied().unwrap_or(0);
        self.done.push((thread, Read(site, address, value)));
        value
    }

    fn write(&mut self, thread: Thread, site: u32, address: u64, value: u64) {
        let before = self.memory.insert(address, value).unwrap_or(0);
        self.done.push((thread, Write(site, address, before, value)));
    }

    fn rarely(&mut self) -> bool {
        self.random.u32(0..16) == 0
    }

    fn put(&mut self, thread: Thread, slot: u64, object: u64) {
        self.done.push((thread, allocate(object)));
        self.write(thread, 1, object, 7);
        let object_lock = if self.rarely() { LOCK + 64 } else { LOCK };
        self.done.push((thread, lock(object_lock)));
        let value = if self.rarely() { self.random.u64(0..3) } else { object };
        self.write(thread, 2, slot, value);
        if self.rarely() {
            self.write(thread, 3, object + 8, 9);
        }
        self.done.push((thread, unlock(object_lock)));
        if self.rarely() {
            self.write(thread, 4, object + 16, 9);
        }
    }

    fn get(&mut self, thread: Thread, slot: u64) {
        let is_locked = !self.rarely();
        if is_locked {
            self.done.push((thread, lock(LOCK)));
        }
        let site = 10 + ((slot - POINTER) / 8) as u32;
        let object = self.read(thread, site, slot);
        if self.random.bool() {
            self.write(thread, 14, slot, 0);
        }
        if is_locked {
            self.done.push((thread, unlock(LOCK)));
        }
        if object >= OBJECT {
            self.read(thread, 15, object);
            self.read(thread, 16, object + 8);
            self.write(thread, 17, object + 16, 3);
        }
        if object >= OBJECT && self.rarely() {
            self.done.push((thread, free(object)));
        }
    }
}

#[test]
fn hand_overs_take_nothing_from_predictions() {
    let (mut less, mut by_flags) = (0, 0);
    for seed in 0..300 {
        let stream = with_threads(&RandomRun::stream(seed));
        let flags = trusted(&stream);
        let (all, by_hand_overs) = (explored(&stream), explored_by_hand_overs(&stream));
        assert!(by_hand_overs.contended.instructions.is_subset(&all.contended.instructions), "seed {seed}");
        assert_eq!(
            records::contended_by_hand_overs(&stream),
            by_hand_overs.contended.memory,
            "seed {seed}, by records"
        );
        less += u32::from(by_hand_overs.contended.memory != all.contended.memory);
        let without_flags = predicted_from(all.clone(), &Flags::default(), &stream);
        let [all, by_hand_overs] = [all, by_hand_overs].map(|explored| predicted_from(explored, &flags, &stream));
        assert_eq!(places(&all), places(&by_hand_overs), "seed {seed}");
        by_flags += u32::from(places(&all) != places(&without_flags));
    }
    assert!(less > 100, "hand-overs made a difference in {less} runs only");
    assert!(by_flags > 50, "flags made a difference in {by_flags} runs only");
}
