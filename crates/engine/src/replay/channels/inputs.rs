//! What comes from outside after a recording was left: connections, what is sent through them, and signals, as recorded.
//!
//! An input comes as early as the recording shows that it was there, compared with those that had been taken before: what one wait
//! for events has reported comes together, so requests that were there at a time still are. Who is at the other end of a
//! connection has had the answers that it had then: input that followed an output comes when as much was sent. Both give
//! way, in this order, where nobody could run otherwise.

use super::super::answers::Answer;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Something that was recorded and not taken yet.
struct Input {
    /// The event that took it.
    position: u64,
    /// Nothing that was taken before this event may still be left.
    arrival: u64,
    /// So much was sent through the same socket before.
    after: Sent,
    what: What,
}

/// What went through a socket to its other end. An answer counts whole if it is another one than it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub n_bytes: u64,
    pub n_times: u64,
}

impl Sent {
    pub fn add(&mut self, count: u64) {
        self.n_bytes += count;
        self.n_times += u64::from(count > 0);
    }

    fn is_enough(&self, after: &Sent) -> bool {
        self.n_bytes >= after.n_bytes || self.n_times >= after.n_times
    }
}

enum What {
    Bytes(VecDeque<u8>),
    /// The end of what is sent, or why there will be no more.
    End(i64),
    Connection(Connection),
}

/// Somebody has connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub source: usize,
    /// The descriptor that it had when it was recorded.
    pub descriptor: u64,
    pub address: Vec<u8>,
}

/// A signal from outside, and the thread that got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alert {
    pub thread: u32,
    pub signal: i32,
}

#[derive(Default)]
struct Source {
    /// The descriptor that leads to it, of one that is still to be made.
    descriptor: Option<u64>,
    inputs: VecDeque<Input>,
    n_taken: u64,
    sent: Sent,
    /// What reading gives once the end was reached.
    end: Option<i64>,
    /// What other calls were answered, by their numbers.
    told: BTreeMap<u64, VecDeque<Answer>>,
}

/// What reading from a socket gives.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    Bytes(Vec<u8>),
    End(i64),
}

#[derive(Default)]
pub struct Inputs {
    sources: Vec<Source>,
    /// Positions of all that was not taken.
    left: BTreeSet<u64>,
    /// Inputs that arrive up to here need not wait for others.
    horizon: u64,
    alerts: VecDeque<Alert>,
}

/// What is to become of an input while the rest of a recording is read.
pub struct Recorded {
    pub position: u64,
    pub arrival: u64,
    pub after: Sent,
}

impl Inputs {
    /// With sources that are there already.
    pub fn with_sources(count: usize) -> Inputs {
        Inputs { sources: (0..count).map(|_| Source::default()).collect(), ..Inputs::default() }
    }

    /// A source that a call will make which gives this descriptor.
    pub fn expect(&mut self, descriptor: u64) -> usize {
        self.sources.push(Source { descriptor: Some(descriptor), ..Source::default() });
        self.sources.len() - 1
    }

    pub fn add(&mut self) -> usize {
        self.sources.push(Source::default());
        self.sources.len() - 1
    }

    /// The source behind a socket that has just been made.
    pub fn claim(&mut self, descriptor: u64) -> usize {
        let expected = self.sources.iter().position(|source| source.descriptor == Some(descriptor));
        match expected {
            Some(source) => {
                self.sources[source].descriptor = None;
                source
            }
            None => self.add(),
        }
    }

    pub fn keep_bytes(&mut self, source: usize, recorded: &Recorded, bytes: VecDeque<u8>) {
        self.keep(source, recorded, What::Bytes(bytes));
    }

    pub fn keep_end(&mut self, source: usize, recorded: &Recorded, result: i64) {
        self.keep(source, recorded, What::End(result));
    }

    pub fn keep_connection(&mut self, source: usize, recorded: &Recorded, connection: Connection) {
        self.keep(source, recorded, What::Connection(connection));
    }

    fn keep(&mut self, source: usize, recorded: &Recorded, what: What) {
        let Recorded { position, arrival, after } = *recorded;
        if let Some(source) = self.sources.get_mut(source) {
            source.inputs.push_back(Input { position, arrival, after, what });
            self.left.insert(position);
        }
    }

    pub fn keep_alert(&mut self, alert: Alert) {
        self.alerts.push_back(alert);
    }

    pub fn keep_told(&mut self, source: usize, answer: Answer) {
        if let Some(source) = self.sources.get_mut(source) {
            source.told.entry(answer.number).or_default().push_back(answer);
        }
    }

    /// What a call on a socket was answered next.
    pub fn told(&mut self, source: usize, number: u64) -> Option<Answer> {
        self.sources.get_mut(source)?.told.get_mut(&number)?.pop_front()
    }

    fn is_there(&self, source: &Source, input: &Input) -> bool {
        let first_left = self.left.first().copied().unwrap_or(u64::MAX);
        input.arrival <= first_left.max(self.horizon) && source.sent.is_enough(&input.after)
    }

    fn first(&self, source: usize) -> Option<&Input> {
        let source = self.sources.get(source)?;
        source.inputs.front().filter(|input| self.is_there(source, input))
    }

    /// Whether reading would not wait.
    pub fn is_readable(&self, source: usize) -> bool {
        self.first(source).is_some() || self.sources.get(source).is_some_and(|source| source.end.is_some())
    }

    /// Whether the other end has closed, and nothing is left before that.
    pub fn is_at_end(&self, source: usize) -> bool {
        let ends = |input: &Input| matches!(input.what, What::End(_));
        self.first(source).is_some_and(ends) || self.sources.get(source).is_some_and(|source| source.end.is_some())
    }

    /// Another number whenever something has come.
    pub fn version(&self, source: usize) -> u64 {
        self.sources.get(source).map_or(0, |source| {
            let n_there = source.inputs.iter().take_while(|input| self.is_there(source, input)).count() as u64;
            source.n_taken + n_there
        })
    }

    /// How many bytes could be read at once.
    pub fn n_bytes(&self, source: usize) -> usize {
        match self.first(source) {
            Some(Input { what: What::Bytes(bytes), .. }) => bytes.len(),
            _ => 0,
        }
    }

    /// Takes up to `most` bytes of what came in one piece; none if nothing is there yet.
    pub fn take(&mut self, source: usize, most: usize, peeks: bool) -> Option<Taken> {
        if self.first(source).is_none() {
            return self.sources.get(source)?.end.map(Taken::End);
        }
        match &mut self.sources[source].inputs.front_mut()?.what {
            What::Bytes(bytes) if peeks => Some(Taken::Bytes(bytes.iter().take(most).copied().collect())),
            What::Bytes(bytes) => {
                let taken = bytes.drain(..bytes.len().min(most)).collect();
                if bytes.is_empty() {
                    self.pop(source);
                }
                Some(Taken::Bytes(taken))
            }
            What::End(result) => {
                let result = *result;
                if !peeks {
                    // An error is told once; after that there is nothing more.
                    self.sources[source].end = Some(0);
                    self.pop(source);
                }
                Some(Taken::End(result))
            }
            What::Connection(_) => None,
        }
    }

    pub fn accept(&mut self, source: usize) -> Option<Connection> {
        let What::Connection(connection) = &self.first(source)?.what else { return None };
        let connection = connection.clone();
        self.pop(source);
        Some(connection)
    }

    fn pop(&mut self, source: usize) {
        let source = &mut self.sources[source];
        if let Some(input) = source.inputs.pop_front() {
            source.n_taken += 1;
            self.left.remove(&input.position);
        }
    }

    pub fn sent(&mut self, source: usize, count: u64) {
        if let Some(source) = self.sources.get_mut(source) {
            source.sent.add(count);
        }
    }

    /// Nobody will ever read what else comes through a socket.
    pub fn forget(&mut self, source: usize) {
        while self.sources.get(source).is_some_and(|source| !source.inputs.is_empty()) {
            self.pop(source);
        }
    }

    /// Nobody can run: lets the next input come, if only the others before it are in its way. Of those that may come, as
    /// `reaches` says.
    pub fn hasten(&mut self, reaches: impl Fn(usize) -> bool) -> bool {
        let first_left = self.left.first().copied().unwrap_or(u64::MAX);
        let known = first_left.max(self.horizon);
        let fronts = self.sources.iter().enumerate().filter(|(number, _)| reaches(*number));
        let late =
            fronts.filter_map(|(_, source)| source.inputs.front().filter(|input| source.sent.is_enough(&input.after)));
        let next = late.map(|input| input.arrival).filter(|arrival| *arrival > known).min();
        self.horizon = next.unwrap_or(self.horizon);
        next.is_some()
    }

    /// The same for input that would follow an output which has not come.
    pub fn hasten_unanswered(&mut self, reaches: impl Fn(usize) -> bool) -> bool {
        let fronts = self.sources.iter_mut().enumerate().filter(|(number, _)| reaches(*number));
        let unanswered = fronts.filter_map(|(_, source)| {
            let sent = source.sent;
            source.inputs.front_mut().filter(|input| !sent.is_enough(&input.after))
        });
        let Some(next) = unanswered.min_by_key(|input| input.position) else { return false };
        next.after = Sent::default();
        self.horizon = self.horizon.max(next.arrival);
        true
    }

    /// The next signal from outside.
    pub fn alert(&mut self) -> Option<Alert> {
        self.alerts.pop_front()
    }

    /// Has a connection end that nothing more comes through. False if it has ended already, or has not been heard out.
    pub fn end(&mut self, source: usize) -> bool {
        let Some(source) = self.sources.get_mut(source) else { return false };
        let is_silent = source.end.is_none() && source.inputs.is_empty();
        if is_silent {
            source.end = Some(0);
            source.n_taken += 1;
        }
        is_silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(position: u64, arrival: u64, n_bytes: u64) -> Recorded {
        Recorded { position, arrival, after: Sent { n_bytes, n_times: n_bytes.min(2) } }
    }

    fn bytes(text: &str) -> Option<Taken> {
        Some(Taken::Bytes(text.as_bytes().to_vec()))
    }

    fn inputs(pieces: &[(usize, Recorded, &str)]) -> Inputs {
        let mut inputs = Inputs::with_sources(3);
        for (source, recorded, text) in pieces {
            inputs.keep_bytes(*source, recorded, text.bytes().collect());
        }
        inputs
    }

    #[test]
    fn pieces_stay_pieces_and_come_in_order() {
        let mut inputs = inputs(&[(0, at(10, 5, 0), "first"), (0, at(11, 5, 0), "second")]);
        inputs.keep_end(0, &at(12, 5, 0), 0);
        assert_eq!(inputs.take(0, 3, true), bytes("fir"));
        assert_eq!(inputs.take(0, 3, false), bytes("fir"));
        assert_eq!(inputs.take(0, 100, false), bytes("st"));
        assert!(!inputs.is_at_end(0));
        assert_eq!(inputs.take(0, 100, false), bytes("second"));
        assert!(inputs.is_at_end(0));
        assert_eq!(inputs.take(0, 100, false), Some(Taken::End(0)));
        assert_eq!(inputs.take(0, 100, false), Some(Taken::End(0)), "the end stays");
    }

    #[test]
    fn what_was_reported_at_a_time_comes_together_and_the_rest_later() {
        let mut inputs = inputs(&[(0, at(10, 5, 0), "a"), (1, at(11, 5, 0), "b"), (2, at(20, 15, 0), "c")]);
        assert!(inputs.is_readable(0) && inputs.is_readable(1) && !inputs.is_readable(2));
        let version = inputs.version(2);
        inputs.take(1, 9, false);
        assert!(!inputs.is_readable(2), "the first one is still to be taken");
        inputs.take(0, 9, false);
        assert!(inputs.is_readable(2));
        assert_ne!(inputs.version(2), version);
    }

    #[test]
    fn a_question_waits_for_the_answer_to_the_one_before() {
        let mut inputs = inputs(&[(0, at(10, 5, 0), "question"), (0, at(20, 15, 6), "another")]);
        inputs.take(0, 9, false);
        assert_eq!(inputs.take(0, 9, false), None);
        inputs.sent(0, 2);
        assert_eq!(inputs.take(0, 9, false), None, "that is not all of the answer");
        inputs.sent(0, 4);
        assert_eq!(inputs.take(0, 9, false), bytes("another"));
    }

    #[test]
    fn an_answer_may_be_shorter_than_it_was() {
        let mut inputs = inputs(&[(0, at(20, 15, 6), "another")]);
        inputs.sent(0, 2);
        inputs.sent(0, 3);
        assert_eq!(inputs.take(0, 9, false), bytes("another"));
    }

    #[test]
    fn where_nobody_can_run_the_next_input_comes() {
        let mut inputs = inputs(&[(0, at(10, 5, 0), "held"), (1, at(20, 15, 0), "b"), (2, at(30, 25, 4), "c")]);
        assert!(!inputs.is_readable(1));
        assert!(inputs.hasten(|_| true));
        assert!(inputs.is_readable(1) && !inputs.is_readable(2));
        assert!(!inputs.hasten(|_| true), "the last one waits for an answer");
        assert!(inputs.hasten_unanswered(|_| true));
        assert!(inputs.is_readable(2));
        assert!(!inputs.hasten_unanswered(|_| true));
    }

    #[test]
    fn a_socket_that_is_closed_is_in_nobodys_way() {
        let mut inputs = inputs(&[(0, at(10, 5, 0), "never read"), (1, at(20, 15, 0), "b")]);
        inputs.forget(0);
        assert!(inputs.is_readable(1) && !inputs.is_readable(0));
    }

    #[test]
    fn connections_are_accepted_in_order_and_claimed_by_descriptor() {
        let mut inputs = Inputs::with_sources(1);
        let (later, address) = (inputs.expect(7), vec![2, 0]);
        let source = inputs.add();
        let connection = Connection { source, descriptor: 8, address };
        inputs.keep_connection(0, &at(10, 5, 0), connection.clone());
        assert_eq!(inputs.take(0, 9, false), None);
        assert_eq!(inputs.accept(0), Some(connection));
        assert_eq!(inputs.accept(0), None);
        assert_eq!(inputs.claim(7), later);
        assert_ne!(inputs.claim(7), later, "there was one only");
    }

    #[test]
    fn a_silent_connection_can_be_ended_once() {
        let mut inputs = inputs(&[(0, at(10, 5, 0), "more")]);
        assert!(!inputs.end(0), "there is more to come");
        inputs.take(0, 9, false);
        assert_eq!(inputs.take(0, 9, false), None);
        assert!(inputs.end(0));
        assert_eq!(inputs.take(0, 9, false), Some(Taken::End(0)));
        assert!(!inputs.end(0));
    }
}
