//! What the process was given before Rust's runtime changed it.
//!
//! The runtime ignores SIGPIPE and opens `/dev/null` on closed standard descriptors before `main`; the guest must get
//! what its parent left it.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

/// Bit 0 to 2: the standard descriptor was closed; bit 3: SIGPIPE was ignored.
static INHERITED: AtomicU32 = AtomicU32::new(0);
const PIPE_IGNORED: u32 = 1 << 3;

extern "C" fn remember() {
    let mut bits = 0;
    for descriptor in 0..3 {
        // SAFETY: asks about a descriptor.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
            bits |= 1 << descriptor;
        }
    }
    // SAFETY: reads a disposition.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut action);
        if action.sa_sigaction == libc::SIG_IGN {
            bits |= PIPE_IGNORED;
        }
    }
    INHERITED.store(bits, Ordering::SeqCst);
}

#[used]
// SAFETY: the section holds pointers to functions that the loader calls before main; `remember` is one.
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = remember;

/// Closes again what the runtime opened, and restores SIGPIPE.
pub fn restore() {
    let bits = INHERITED.load(Ordering::SeqCst);
    for descriptor in (0..3).filter(|descriptor| bits & (1 << descriptor) != 0) {
        crate::kernel::call(libc::SYS_close as u64, [descriptor, 0, 0, 0, 0, 0]);
    }
    if bits & PIPE_IGNORED == 0 {
        crate::signals::host::kernel_action(libc::SIGPIPE, Some(crate::signals::Action::default()));
    }
}

/// What this machine lacks of what translated code is made of; `None` if it has all.
pub fn missing_feature() -> Option<&'static str> {
    const HWCAP2_FSGSBASE: u64 = 1 << 1;
    if auxiliary_value(libc::AT_HWCAP2) & HWCAP2_FSGSBASE == 0 {
        return Some("FSGSBASE (Linux 5.9 or later enables it)");
    }
    if !std::arch::is_x86_feature_detected!("xsaveopt") {
        return Some("XSAVEOPT");
    }
    (!std::arch::is_x86_feature_detected!("bmi2")).then_some("BMI2")
}

/// An entry of the auxiliary vector that the kernel gave this process.
pub fn auxiliary_value(kind: u64) -> u64 {
    // SAFETY: looks a number up in a table.
    unsafe { libc::getauxval(kind) }
}
