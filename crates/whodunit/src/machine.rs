//! What a recording says of the machine it was made on.

use std::sync::OnceLock;

fn processor_line(key: &str) -> Option<String> {
    // The kernel takes its time to tell.
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default());
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

/// The processor's name.
pub fn processor() -> String {
    processor_line("model name").unwrap_or_default()
}

/// What the processor can do, by the kernel's names.
pub fn features() -> Vec<String> {
    let flags = processor_line("flags").unwrap_or_default();
    flags.split_whitespace().map(str::to_owned).collect()
}
