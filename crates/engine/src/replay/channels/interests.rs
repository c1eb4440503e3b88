//! What a set of events (`epoll`) waits for.

/// Bits of `epoll_event`.
pub const EDGE: u32 = libc::EPOLLET.cast_unsigned();
pub const ONCE: u32 = libc::EPOLLONESHOT.cast_unsigned();
/// These are told whether they are asked for or not.
pub const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP).cast_unsigned();
/// The size of an `epoll_event`.
pub const EVENT: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    pub descriptor: u64,
    pub description: usize,
    pub events: u32,
    pub data: u64,
    /// What its version was when it was last reported.
    pub seen: Option<u64>,
    /// It was to be reported once, and has been.
    pub is_over: bool,
}

/// In the order in which they are looked at.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Interests(pub Vec<Interest>);

/// Something that is ready, and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    pub events: u32,
    pub version: u64,
}

impl Interests {
    fn find(&self, descriptor: u64, description: usize) -> Option<usize> {
        self.0.iter().position(|item| (item.descriptor, item.description) == (descriptor, description))
    }

    /// What `epoll_ctl` does.
    pub fn control(&mut self, operation: i32, item: Interest) -> Result<(), i32> {
        let known = self.find(item.descriptor, item.description);
        match (operation, known) {
            (libc::EPOLL_CTL_ADD, Some(_)) => return Err(libc::EEXIST),
            (libc::EPOLL_CTL_ADD, None) => self.0.push(item),
            (libc::EPOLL_CTL_MOD, Some(at)) => self.0[at] = item,
            (libc::EPOLL_CTL_DEL, Some(at)) => {
                self.0.remove(at);
            }
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None) => return Err(libc::ENOENT),
            _ => return Err(libc::EINVAL),
        }
        Ok(())
    }

    /// Up to `most` events as the kernel writes them. Who was left out comes first the next time.
    pub fn report(&mut self, ready: &[Ready], most: usize) -> Vec<[u8; EVENT]> {
        let mut reported = Vec::new();
        let mut n_looked_at = 0;
        for (item, ready) in self.0.iter_mut().zip(ready) {
            if reported.len() == most {
                break;
            }
            n_looked_at += 1;
            if ready.events != 0 {
                reported.push(event(ready.events, item.data));
                item.reported(ready.version);
            }
        }
        let n_items = self.0.len();
        if n_looked_at < n_items {
            self.0.rotate_left(n_looked_at);
        }
        reported
    }

    /// The kernel has reported an event.
    pub fn note_reported(&mut self, data: u64, version: impl Fn(usize) -> u64) {
        for item in self.0.iter_mut().filter(|item| item.data == data) {
            item.reported(version(item.description));
        }
    }
}

impl Interest {
    fn reported(&mut self, version: u64) {
        self.seen = Some(version);
        self.is_over |= self.events & ONCE != 0;
    }

    /// What of a state is to be reported.
    pub fn ready(&self, state: u32, version: u64) -> Ready {
        let is_old = self.events & EDGE != 0 && self.seen == Some(version);
        let events = if self.is_over || is_old { 0 } else { state & (self.events | ALWAYS) };
        Ready { events, version }
    }
}

fn event(events: u32, data: u64) -> [u8; EVENT] {
    let mut bytes = [0; EVENT];
    bytes[..4].copy_from_slice(&events.to_le_bytes());
    bytes[4..].copy_from_slice(&data.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN: u32 = libc::EPOLLIN.cast_unsigned();
    const OUT: u32 = libc::EPOLLOUT.cast_unsigned();

    fn item(descriptor: u64, events: u32) -> Interest {
        let (description, data) = (descriptor as usize, 100 + descriptor);
        Interest { descriptor, description, events, data, seen: None, is_over: false }
    }

    fn set(items: &[Interest]) -> Interests {
        let mut set = Interests::default();
        items.iter().for_each(|item| set.control(libc::EPOLL_CTL_ADD, *item).unwrap());
        set
    }

    /// The descriptors that are reported if all are in a state and have a version.
    fn report(set: &mut Interests, state: u32, version: u64, most: usize) -> Vec<u8> {
        let ready: Vec<Ready> = set.0.iter().map(|item| item.ready(state, version)).collect();
        set.report(&ready, most).iter().map(|event| event[4] - 100).collect()
    }

    #[test]
    fn only_what_is_asked_for_is_reported_and_all_get_their_turn() {
        let mut set = set(&[item(3, IN), item(4, OUT), item(5, IN), item(6, IN)]);
        assert_eq!(report(&mut set, IN, 1, 9), [3, 5, 6]);
        assert_eq!(report(&mut set, IN, 1, 2), [3, 5]);
        assert_eq!(report(&mut set, IN, 1, 2), [6, 3], "who was left out comes first");
        assert_eq!(report(&mut set, ALWAYS, 1, 9).len(), 4);
    }

    #[test]
    fn edges_and_single_shots_are_reported_once() {
        let mut set = set(&[item(3, IN | EDGE), item(4, IN | ONCE)]);
        assert_eq!(report(&mut set, IN, 1, 9), [3, 4]);
        assert!(report(&mut set, IN, 1, 9).is_empty());
        assert_eq!(report(&mut set, IN, 2, 9), [3]);
        set.control(libc::EPOLL_CTL_MOD, item(4, IN | ONCE)).unwrap();
        assert_eq!(report(&mut set, IN, 2, 9), [4]);
        set.control(libc::EPOLL_CTL_MOD, item(3, IN | EDGE)).unwrap();
        set.note_reported(103, |_| 2);
        assert!(report(&mut set, IN, 2, 9).is_empty());
    }

    #[test]
    fn senseless_changes_are_refused() {
        let mut set = set(&[item(3, IN)]);
        assert_eq!(set.control(libc::EPOLL_CTL_ADD, item(3, OUT)), Err(libc::EEXIST));
        assert_eq!(set.control(libc::EPOLL_CTL_MOD, item(4, OUT)), Err(libc::ENOENT));
        assert_eq!(set.control(libc::EPOLL_CTL_DEL, item(3, 0)), Ok(()));
        assert_eq!(set.control(libc::EPOLL_CTL_DEL, item(3, 0)), Err(libc::ENOENT));
        assert_eq!(set.control(9, item(3, IN)), Err(libc::EINVAL));
    }
}
