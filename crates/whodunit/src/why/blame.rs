//! Whose mistake it is that a block was written to beyond its end: that of the code that wrote, or of the code that made it.
//!
//! A function that gets a block without its size, and goes by what it reads alone, cannot know where the block ends. If the
//! function that called it made the block before, and computed how large it must be, that is where too little was asked for. A
//! block that is always of the same size is no such estimate: then a check is missing where it is written to. May miss: sizes that
//! such a loop asks another function for, and blocks that an earlier call of the same function made.

use super::chain::number;
use super::sites::{Sites, is_library};
use super::verdict::{place_of, words_for};
use session::rerun::Frame;
use trace::finding::{Cause, Class, Finding, Place, Step};

/// Who asked for a block that is too small.
struct Maker {
    place: Place,
    /// The function that it was handed to.
    writer: Option<String>,
}

/// What is known of a store behind the end of a block.
pub struct Overrun<'a> {
    pub thread: u32,
    pub size: u64,
    /// The stack of the store, innermost first.
    pub stack: &'a [Frame],
    /// Where the calls that led to the block return to, innermost first.
    pub made_by: &'a [u64],
}

/// Blames who made the block, if it is not the one to blame who wrote to it.
pub fn assign(finding: &mut Finding, overrun: &Overrun<'_>, sites: &Sites) {
    if finding.class != Class::HeapOverflow {
        return;
    }
    let Some(Maker { place, writer }) = maker(overrun, sites) else { return };
    let maker = words_for(&place);
    let writer = writer.map_or_else(|| "The function that writes to it".to_owned(), |writer| format!("`{writer}`"));
    let text = format!("makes a block of {} bytes, which is too small", overrun.size);
    finding.title = format!("{maker} makes a block that is too small for what is written to it");
    let cause = Cause { place: place.clone(), thread: Some(overrun.thread), text: text.clone() };
    let stores = std::mem::replace(&mut finding.causes, vec![cause]);
    if finding.steps.is_empty() {
        let step = |store: Cause| Step { thread: overrun.thread, place: store.place, text: store.text, guilty: false };
        finding.steps = stores.into_iter().map(step).collect();
    }
    for step in &mut finding.steps {
        step.guilty = false;
    }
    finding.steps.insert(0, Step { thread: overrun.thread, place, text, guilty: true });
    finding.grounds.push(format!(
        "{writer} writes as much as it reads, and is not told how large the block is: {maker} has to know, which makes the \
         block and hands it on."
    ));
}

fn maker(overrun: &Overrun<'_>, sites: &Sites) -> Option<Maker> {
    let own = overrun.stack.iter().skip_while(|frame| is_library(&frame.module));
    let mut writing: Vec<u64> = own.map(|frame| number(&frame.pc)).collect();
    // Functions that were inlined share an address.
    writing.dedup();
    let in_store = overrun.stack.first().map(|frame| number(&frame.pc));
    let making: Vec<u64> =
        overrun.made_by.iter().copied().skip_while(|pc| sites.is_in_c_library(pc.saturating_sub(1))).collect();
    let n_shared = writing.iter().rev().zip(making.iter().rev()).take_while(|(one, other)| one == other).count();
    let handing = writing.len().checked_sub(n_shared + 1)?;
    let asking = *making.get(making.len().checked_sub(n_shared + 1)?)? - 1;
    let function = sites.function_around(asking)?;
    if handing == 0 || !function.contains(&writing[handing]) || sites.asks_for_constant(asking + 1) {
        return None;
    }
    let within = writing[..handing].iter().map(|pc| if Some(*pc) == in_store { *pc } else { pc - 1 });
    let bounds: Vec<bool> = within.filter_map(|pc| sites.loops_are_unbounded(pc)).collect();
    if bounds.is_empty() || bounds.contains(&false) {
        return None;
    }
    let place = sites.frames(asking).iter().find(|frame| frame.line.is_some()).map(|frame| place_of(asking, frame))?;
    let outermost = sites.frames(writing[handing - 1].saturating_sub(1));
    Some(Maker { place, writer: outermost.last().and_then(|frame| frame.function.clone()) })
}
