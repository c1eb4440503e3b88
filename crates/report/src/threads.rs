//! What is known of a thread when its program has stopped.

use program::symbols::SourceFrame;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadFacts {
    /// Our own number, counted from one in order of creation: the same in every run, as `tid` is not.
    pub id: u32,
    pub tid: i32,
    pub name: Option<String>,
    /// The end of the sentence "the thread is …": `crashed`, `runnable`, `waiting for a futex at 0x7f10`.
    pub state: String,
    /// Innermost first.
    pub frames: Vec<FrameFacts>,
    /// Whether the stack goes on after the last frame.
    pub truncated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameFacts {
    pub pc: u64,
    /// The functions at `pc`, the innermost inlined one first.
    pub resolved: Vec<SourceFrame>,
}

impl ThreadFacts {
    /// Every function of the stack, inlined ones too, innermost first.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &SourceFrame> {
        self.frames.iter().flat_map(|frame| &frame.resolved)
    }
}
