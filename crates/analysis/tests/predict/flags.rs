//! Flags that threads wait for under locks.

use super::Does::{Read, Update, Write};
use super::{
    Does, FLAG, FirstPass, LOCK, MOST_MEMORY, OBJECT, Valuing, allocate, begin_wait, candidates, contended,
    contended_by_hand_overs, end_wait, explored_by_hand_overs, free, half, lock, pairs, plain, sieve, tell, trusted,
    unlock, with_threads,
};
use analysis::predict::Kind;
use analysis::races::Flags;
use trace::stream::Thread;

/// Thread 2 looks at a block and says that it is done with it, by a flag; thread 3 waits for that and gives the block back.
fn awaited() -> Vec<(Thread, Does)> {
    vec![
        (3, allocate(OBJECT)),
        (3, lock(LOCK)),
        (3, Read(5, FLAG, 0)),
        (3, begin_wait(LOCK)),
        (2, Read(1, OBJECT + 8, 7)),
        (2, lock(LOCK)),
        (2, Write(4, FLAG, 0, 1)),
        (2, unlock(LOCK)),
        (3, end_wait(LOCK)),
        (3, Read(5, FLAG, 1)),
        (3, unlock(LOCK)),
        (3, free(OBJECT)),
    ]
}

/// The same with another block and its flag, but thread 3 comes too late to wait.
fn late() -> Vec<(Thread, Does)> {
    let (object, flag) = (OBJECT + 0x1000, FLAG + 64);
    vec![
        (3, allocate(object)),
        (2, Read(2, object + 8, 7)),
        (2, lock(LOCK)),
        (2, Write(4, flag, 0, 1)),
        (2, unlock(LOCK)),
        (3, lock(LOCK)),
        (3, Read(5, flag, 1)),
        (3, unlock(LOCK)),
        (3, free(object)),
    ]
}

const NOTHING: [u64; 0] = [];

/// Sites that would come to a block too late.
fn dangling(rest: &[(Thread, Does)]) -> Vec<u64> {
    pairs(rest).into_iter().filter(|(kind, ..)| *kind == Kind::Dangling).map(|(.., late)| late).collect()
}

fn replaced(mut stream: Vec<(Thread, Does)>, at: usize, by: &[Does]) -> Vec<(Thread, Does)> {
    let thread = stream[at].0;
    stream.splice(at..=at, by.iter().map(|does| (thread, does.clone())));
    stream
}

fn halves(stream: &[(Thread, Does)]) -> Vec<(Thread, Does)> {
    let of_flag = |does: &Does| matches!(does, Read(5, ..) | Write(4, ..));
    let smaller = |does: &Does| if of_flag(does) { half(does.clone()) } else { does.clone() };
    stream.iter().map(|(thread, does)| (*thread, smaller(does))).collect()
}

#[test]
fn a_flag_that_is_waited_for_under_a_lock_orders() {
    assert_eq!(contended(&awaited()), [1, 4, 5]);
    assert_eq!(contended_by_hand_overs(&awaited()), [4, 5]);
    assert_eq!(dangling(&awaited()), NOTHING);
    assert_eq!(contended_by_hand_overs(&halves(&awaited())), [4, 5], "of four bytes");
    assert_eq!(dangling(&halves(&awaited())), NOTHING);
    let both = [awaited(), late()].concat();
    assert_eq!(contended_by_hand_overs(&both), [4, 5], "who comes late would have waited too");
    assert_eq!(dangling(&both), NOTHING);
    let updated = replaced(awaited(), 6, &[Update(4, FLAG, 0, 1)]);
    assert_eq!(contended_by_hand_overs(&updated), [4, 5], "by an update");
    let woken = replaced(awaited(), 3, &[begin_wait(LOCK), end_wait(LOCK), Read(5, FLAG, 0), begin_wait(LOCK)]);
    assert_eq!(dangling(&woken), NOTHING, "woken for nothing");
}

/// As compilers do with loops: one instruction tests before it, another in it.
#[test]
fn several_instructions_may_wait_for_one_flag() {
    let rotated = replaced(awaited(), 9, &[Read(6, FLAG, 1)]);
    assert_eq!(contended_by_hand_overs(&rotated), [4, 5, 6]);
    assert_eq!(dangling(&rotated), NOTHING);
    assert_eq!(dangling(&[rotated.clone(), late()].concat()), NOTHING);
    let careless = [vec![(1, lock(LOCK)), (1, Read(6, FLAG + 128, 0)), (1, unlock(LOCK))], rotated].concat();
    assert_eq!(dangling(&careless), [1], "the other goes on with the old value");
}

#[test]
fn what_is_done_after_a_flag_was_set_is_looked_at() {
    let after = replaced(awaited(), 7, &[unlock(LOCK), Read(3, OBJECT + 8, 7)]);
    assert_eq!(contended_by_hand_overs(&after), [1, 3, 4, 5]);
    assert_eq!(dangling(&after), [3]);
}

#[test]
fn flags_that_nobody_has_to_wait_for_order_nothing() {
    assert_eq!(dangling(&late()), [2], "no wait ever");
    let lock_again = replaced(awaited(), 3, &[unlock(LOCK)]);
    assert_eq!(dangling(&replaced(lock_again, 8, &[lock(LOCK)])), [1], "who asks again has not waited");
    let passing = |site| vec![(1, lock(LOCK)), (1, Read(site, FLAG + 128, 0)), (1, unlock(LOCK))];
    assert_eq!(dangling(&[passing(5), awaited()].concat()), [1], "the old value was passed by before");
    assert_eq!(dangling(&[awaited(), passing(5)].concat()), [1], "or after");
    assert_eq!(dangling(&[vec![(1, Read(5, FLAG + 128, 0))], awaited()].concat()), [1], "or without a lock");
    assert_eq!(dangling(&[awaited(), passing(6)].concat()), NOTHING, "by another instruction");
    let once = replaced(awaited(), 9, &[]);
    assert_eq!(dangling(&once), [1], "it is not read again after the wait");
    let other = [(2, Read(5, FLAG + 128, 0)), (4, Read(3, OBJECT + 8, 7)), (6, Write(4, FLAG + 128, 0, 1))];
    let other = other.into_iter().fold(once, |stream, (at, does)| replaced(stream, at, &[does]));
    assert_eq!(dangling(&[other, awaited()].concat()), [3, 1], "not always");
}

#[test]
fn a_flag_orders_by_the_lock_and_the_address_of_its_writer_alone() {
    let elsewhere = replaced(awaited(), 5, &[lock(LOCK + 64)]);
    assert_eq!(dangling(&elsewhere), [1], "another lock");
    let mut unlocked = awaited();
    unlocked.remove(7);
    unlocked.remove(5);
    assert_eq!(dangling(&unlocked), [1], "no lock");
    let other = replaced(awaited(), 6, &[Write(4, FLAG, 0, 1), Write(9, FLAG, 1, 1)]);
    assert_eq!(dangling(&other), [1], "the old value is of another writer");
    let unknown = replaced(late(), 3, &[half(Write(9, FLAG + 64, 0, 1))]);
    let unknown = halves(&[awaited(), unknown].concat());
    assert_eq!(dangling(&unknown), [2], "a writer that nobody was seen to wait for");
    // The last to write to the granule has done nothing to what is read.
    let neighbour = |site| [Read(3, OBJECT + 16, 7), lock(LOCK), half(Write(site, FLAG + 4, 0, 1)), unlock(LOCK)];
    for site in [4, 9] {
        let mut beside = halves(&awaited());
        beside.splice(8..8, neighbour(site).map(|does| (1, does)));
        assert_eq!(dangling(&beside), [3], "the neighbour by site {site}");
        assert!(contended_by_hand_overs(&beside).contains(&3), "the neighbour by site {site}");
    }
}

/// Two have to be done with it, and who waits comes to see both numbers.
#[test]
fn a_value_that_is_waited_with_orders_nothing() {
    let mut counted = awaited();
    let second = [Read(3, OBJECT + 8, 7), lock(LOCK), Write(4, FLAG, 1, 2), unlock(LOCK)].map(|does| (1, does));
    let woken = [Read(5, FLAG, 1), begin_wait(LOCK)].map(|does| (3, does));
    counted.splice(9..10, [woken.to_vec(), second.to_vec(), vec![(3, end_wait(LOCK)), (3, Read(5, FLAG, 2))]].concat());
    assert_eq!(dangling(&counted), [1, 3]);
}

/// Something else may end the wait.
#[test]
fn conditions_with_an_alternative_order_nothing() {
    let (taken, queued, closed) = (FLAG, FLAG + 64, FLAG + 128);
    let test = |numbers: [u64; 2]| [Read(5, taken, numbers[0]), Read(6, queued, numbers[1])];
    let say = |does: &[Does]| does.iter().map(|does| (2, does.clone())).collect::<Vec<_>>();
    let mut stream = vec![(3, allocate(OBJECT)), (3, lock(LOCK))];
    stream.extend(test([0, 0]).map(|does| (3, does)));
    stream.extend([Read(7, closed, 0), begin_wait(LOCK)].map(|does| (3, does)));
    stream.extend(say(&[Read(1, OBJECT, 7), lock(LOCK), Write(8, queued, 0, 1), unlock(LOCK)]));
    stream.push((3, end_wait(LOCK)));
    stream.extend(test([0, 1]).map(|does| (3, does)));
    stream.extend([Write(9, taken, 0, 1), unlock(LOCK), lock(LOCK)].map(|does| (3, does)));
    stream.extend(test([1, 1]).map(|does| (3, does)));
    stream.extend([Read(7, closed, 0), begin_wait(LOCK)].map(|does| (3, does)));
    stream.extend(say(&[Read(2, OBJECT, 7), lock(LOCK), Write(10, closed, 0, 1), unlock(LOCK)]));
    stream.push((3, end_wait(LOCK)));
    stream.extend(test([1, 1]).map(|does| (3, does)));
    stream.extend([Read(7, closed, 1), unlock(LOCK), free(OBJECT)].map(|does| (3, does)));
    assert_eq!(dangling(&stream), [2]);
    assert_eq!(trusted(&with_threads(&stream)), Flags::default());
}

/// One pass that relies on flags, checks them and looks for more comes to the same as one pass for each.
#[test]
fn flags_are_checked_by_the_pass_that_relies_on_them() {
    let stream = with_threads(&awaited());
    let (flags, candidates) = (trusted(&stream), candidates(&stream));
    let first_pass = |stream: &[(Thread, Does)]| {
        let sieve = sieve(plain(), Vec::new(), MOST_MEMORY).trusting(flags.clone());
        let mut pass = FirstPass::new(sieve).checking(candidates.clone());
        tell(&mut Valuing { listener: &mut pass, instructions: candidates.instructions() }, stream);
        pass.into_found([plain(), plain()], Vec::new())
    };
    let found = first_pass(&stream);
    assert_eq!((&found.trusted, &found.sieved.hand_overs), (&flags, &candidates));
    assert_eq!(found.explored, Some(explored_by_hand_overs(&stream)));
    let mut doubtful = stream.clone();
    doubtful.extend([lock(LOCK), Read(5, FLAG + 128, 0), unlock(LOCK)].map(|does| (1, does)));
    let found = first_pass(&doubtful);
    assert!(
        flags.include(&found.trusted) && !found.trusted.include(&flags),
        "a value that was waited with is passed by"
    );
}
