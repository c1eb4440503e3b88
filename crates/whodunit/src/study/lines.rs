//! A stream as lines: what was selected of it, in numbers, on standard output. Names are for whoever reads them.
//!
//! Every event but calls and returns has an ordinal, whether it is selected or not, so ordinals are the same however much
//! is asked for. Calls and returns have that of the event that comes next.

mod calls;
mod line;
mod selection;

pub use line::{Access, Line, Mode, Told, What};
pub use selection::{Kind, Selection};

use super::Student;
use crate::inquiry::Reply;
use crate::naming::Blocks;
use calls::{Calls, Open};
use session::stream::Detail;
use std::io::Write;
use trace::stream::{self, Event, Listener, Moment, Site, Thread, Values};

/// What is written at once.
const PIECE: usize = 1 << 16;
/// Nobody looks at more bytes of a value.
const LONGEST_VALUE: usize = 65;

pub struct Lines {
    selection: Selection,
    /// Instructions by their numbers.
    sites: Vec<u64>,
    blocks: Blocks,
    calls: Calls,
    moment: Moment,
    ordinal: u64,
    /// How many lines there have been.
    count: u64,
    text: Vec<u8>,
    /// Nothing more is told: there is enough, or nobody reads it.
    is_over: bool,
}

impl Lines {
    pub fn new(selection: Selection) -> Lines {
        Lines {
            selection,
            sites: Vec::new(),
            blocks: Blocks::default(),
            calls: Calls::default(),
            moment: Moment::default(),
            ordinal: 1,
            count: 0,
            text: Vec::new(),
            is_over: false,
        }
    }

    /// What the replay has to observe.
    pub fn detail(selection: &Selection) -> Detail {
        let follows_calls = selection.frames && selection.kinds.contains(&Kind::Accesses);
        match selection {
            _ if selection.values => Detail::Values,
            _ if follows_calls || selection.kinds.contains(&Kind::Calls) => Detail::Calls,
            _ => Detail::Accesses,
        }
    }

    fn access(&mut self, thread: Thread, access: &stream::Access, values: Values<'_>) {
        if self.is_wanted(thread, Kind::Accesses) {
            let pc = self.sites.get(access.site.0 as usize).copied().unwrap_or(0);
            let (address, size, mode) = (access.address, access.size, Mode::from(access.kind));
            let bytes = |bytes: Option<&[u8]>| bytes.map(|bytes| bytes[..bytes.len().min(LONGEST_VALUE)].to_vec());
            let (before, after) = (bytes(values.before), bytes(values.after));
            self.select(thread, What::Access(Access { pc, address, size, mode, before, after }));
        }
        self.ordinal += 1;
    }

    /// Whether lines of a kind can be asked for at this moment, of this thread.
    fn is_wanted(&self, thread: Thread, kind: Kind) -> bool {
        !self.is_over && self.selection.has(thread, kind, self.moment)
    }

    fn select(&mut self, thread: Thread, what: What) {
        if self.is_wanted(thread, what.kind()) && self.selection.covers(&what) {
            self.tell(thread, what);
        }
    }

    fn tell(&mut self, thread: Thread, what: What) {
        let Moment { event, inherited } = self.moment;
        let place = what.memory().filter(|_| what.kind() != Kind::Memory || matches!(what, What::Free { .. }));
        let block = place.as_ref().and_then(|place| self.blocks.at(place.start)).copied();
        let place = place.filter(|_| block.is_none());
        let frame = place.and_then(|place| self.calls.frame(thread, place.start, what.code()[0].unwrap_or(0)));
        self.write(&Told::Line(Line { ordinal: self.ordinal, event, inherited, thread, block, frame, what }));
        self.count += 1;
        if self.selection.limit.is_some_and(|limit| self.count >= limit) {
            self.write(&Told::Enough);
            self.write_out();
            self.is_over = true;
        }
    }

    fn write(&mut self, told: &Told) {
        self.is_over |= serde_json::to_writer(&mut self.text, told).is_err();
        self.text.push(b'\n');
        if self.text.len() >= PIECE {
            self.write_out();
        }
    }

    fn write_out(&mut self) {
        let mut out = std::io::stdout().lock();
        self.is_over |= out.write_all(&self.text).and_then(|()| out.flush()).is_err();
        self.text.clear();
    }

    fn called(&mut self, thread: Thread, open: Open) {
        let gone = self.calls.left_before(thread, &open);
        self.leave(thread, gone, 0);
        self.select(thread, What::Call { site: open.site, target: open.target });
        self.calls.enter(thread, open);
    }

    /// Of calls that are over, the last `returned` did return; the others were jumped out of.
    fn leave(&mut self, thread: Thread, gone: Vec<Open>, returned: usize) {
        let jumped = gone.len() - returned;
        for (position, open) in gone.into_iter().enumerate() {
            let (site, target) = (open.return_address, open.target);
            self.select(thread, What::Return { site, target, is_jump: position < jumped });
        }
    }
}

impl Listener for Lines {
    fn accesses(&mut self, thread: Thread, accesses: &[stream::Access]) {
        if !self.is_wanted(thread, Kind::Accesses) {
            self.ordinal += accesses.len() as u64;
            return;
        }
        for access in accesses {
            self.access(thread, access, Values::default());
        }
    }

    fn valued(&mut self, thread: Thread, access: &stream::Access, values: Values<'_>) {
        self.access(thread, access, values);
    }

    fn event(&mut self, thread: Thread, event: &Event) {
        match *event {
            Event::Called { site, target, return_address, stack } => {
                self.called(thread, Open { site, target, return_address, stack });
            }
            Event::Returned { target } => {
                let gone = self.calls.returned(thread, target);
                let returned = gone.len().min(1);
                self.leave(thread, gone, returned);
            }
            _ => {
                if let Some(what) = What::of(event) {
                    self.select(thread, what);
                }
                self.blocks.hear(event);
                self.ordinal += 1;
            }
        }
    }

    fn coming(&mut self, moment: Moment) {
        self.moment = moment;
    }

    fn site(&mut self, _site: Site, pc: u64) {
        self.sites.push(pc);
    }

    fn finished(&mut self) {
        self.write_out();
    }
}

impl Student for Lines {
    fn report(&mut self) -> Reply {
        Reply::of(&Told::End { events: self.ordinal - 1 })
    }
}

#[cfg(test)]
mod tests;
