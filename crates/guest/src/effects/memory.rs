//! Memory itself. Mappings are not buffers: what they show is the business of whoever keeps them.

use super::rules::{Row, Size, always_to, decided, nothing, to, unknown, writes};
use super::survey::{Answer, Outcome, Survey};

const PAGE: u64 = 4096;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    nothing(9, "mmap"),
    nothing(10, "mprotect"),
    nothing(11, "munmap"),
    nothing(12, "brk"),
    nothing(25, "mremap"),
    nothing(26, "msync"),
    decided(27, "mincore", mincore),
    nothing(28, "madvise"),
    nothing(149, "mlock"),
    nothing(150, "munlock"),
    nothing(151, "mlockall"),
    nothing(152, "munlockall"),
    nothing(216, "remap_file_pages"),
    nothing(237, "mbind"),
    nothing(238, "set_mempolicy"),
    decided(239, "get_mempolicy", get_mempolicy),
    nothing(256, "migrate_pages"),
    // Some pages may have got their status before the call failed.
    writes(279, "move_pages", &[always_to(4, Size::Argument { argument: 1, each: 4 })]),
    writes(310, "process_vm_readv", &[to(1, Size::Vectors { count: 2 })]),
    // Right if the other process is the caller itself, and harmless if not.
    writes(311, "process_vm_writev", &[to(3, Size::Vectors { count: 4 })]),
    nothing(323, "userfaultfd"),
    nothing(324, "membarrier"),
    nothing(325, "mlock2"),
    nothing(329, "pkey_mprotect"),
    nothing(330, "pkey_alloc"),
    nothing(331, "pkey_free"),
    unknown(335, "uretprobe"),
    unknown(336, "uprobe"),
    nothing(440, "process_madvise"),
    nothing(447, "memfd_secret"),
    nothing(448, "process_mrelease"),
    nothing(450, "set_mempolicy_home_node"),
    decided(453, "map_shadow_stack", map_shadow_stack),
    nothing(462, "mseal"),
];

/// One byte a page, filled piece by piece until something fails.
fn mincore(survey: &mut Survey) -> Answer {
    survey.report(survey.argument(2), survey.argument(1).div_ceil(PAGE));
    Ok(())
}

/// The kernel fills as many whole words as the guest's number of nodes needs; that number counts one too many.
fn get_mempolicy(survey: &mut Survey) -> Answer {
    if survey.may_have_written() {
        let n_bits = survey.argument(2).saturating_sub(1);
        survey.report(survey.argument(0), 4);
        survey.report(survey.argument(1), n_bits.div_ceil(64) * 8);
    }
    Ok(())
}

/// If asked for, the new stack starts with a token in its uppermost word.
fn map_shadow_stack(survey: &mut Survey) -> Answer {
    const SET_TOKEN: u32 = 1;
    if let Outcome::Done(stack) = survey.outcome
        && survey.int(2) & SET_TOKEN != 0
    {
        survey.report(stack.wrapping_add(survey.argument(1)).wrapping_sub(8), 8);
    }
    Ok(())
}
