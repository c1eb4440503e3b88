//! Text for people: what a terminal would obey is escaped, numbers and times are short, columns are straight.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// No line of a table is wider, as in reports.
pub const WIDTH: usize = 100;

/// What a piece of text is, as far as colours care.
#[derive(Clone, Copy)]
pub enum Ink {
    Alarm,
    Strong,
    Function,
    Faint,
}

#[derive(Clone, Copy)]
pub struct Paint {
    pub colour: bool,
}

impl Paint {
    /// The colours of reports.
    pub fn paint(self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Alarm => "1;31",
            Ink::Strong => "1",
            Ink::Function => "36",
            Ink::Faint => "2",
        };
        match self.colour {
            true if !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}

fn is_printable(character: char) -> bool {
    matches!(character, '\'' | '"' | '\\') || character.escape_debug().len() == 1
}

/// Everything in a recording may have been made up to fool a terminal.
pub fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for character in text.chars() {
        match is_printable(character) {
            true => safe.push(character),
            false => safe.extend(character.escape_debug()),
        }
    }
    safe
}

/// As [`escaped`], for bytes that need not be text.
pub fn escaped_bytes(bytes: &[u8]) -> String {
    let mut safe = String::new();
    for chunk in bytes.utf8_chunks() {
        safe += &escaped(chunk.valid());
        chunk.invalid().iter().for_each(|byte| safe += &format!("\\x{byte:02x}"));
    }
    safe
}

/// A command line that a shell would take.
pub fn command_line<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> String {
    let words: Vec<String> = words.into_iter().map(word).collect();
    words.join(" ")
}

fn word(bytes: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./-+=:,@%^".contains(byte);
    match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.is_empty() && bytes.iter().all(is_plain) => text.to_owned(),
        Ok(text) if text.chars().all(|character| is_printable(character) && character != '\'') => format!("'{text}'"),
        _ => format!("$'{}'", with_escapes(bytes)),
    }
}

/// What a shell understands between `$'` and `'`.
fn with_escapes(bytes: &[u8]) -> String {
    let mut safe = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\'' | '\\' => safe.extend(['\\', character]),
                '\n' => safe += "\\n",
                '\t' => safe += "\\t",
                _ if is_printable(character) => safe.push(character),
                '\0'..='\x7f' => safe += &format!("\\x{:02x}", u32::from(character)),
                '\u{80}'..='\u{ffff}' => safe += &format!("\\u{:04x}", u32::from(character)),
                _ => safe += &format!("\\U{:08x}", u32::from(character)),
            }
        }
        chunk.invalid().iter().for_each(|byte| safe += &format!("\\x{byte:02x}"));
    }
    safe
}

pub fn width(text: &str) -> usize {
    text.chars().count()
}

/// Cuts the end off.
pub fn keep_start(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let kept: String = text.chars().take(limit.saturating_sub(3)).collect();
    format!("{kept}...")
}

/// Breaks text at spaces into lines that start at column `indent` and end at [`WIDTH`]; the first has no indent.
pub fn wrap(text: &str, indent: usize) -> String {
    let mut wrapped = String::new();
    let mut column = indent;
    for word in text.split(' ') {
        if column > indent && column + 1 + width(word) > WIDTH {
            wrapped += &format!("\n{:indent$}", "");
            column = indent;
        } else if column > indent {
            wrapped.push(' ');
            column += 1;
        }
        wrapped += word;
        column += width(word);
    }
    wrapped
}

/// "1 thread", "2 threads", "3 processes".
pub fn count(number: usize, thing: &str) -> String {
    let plural = match number {
        1 => "",
        _ if thing.ends_with('s') || thing.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{number} {thing}{plural}")
}

/// `640 B`, `1.3 kB`, `20.0 MB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `3 min ago`. What is yet to come is new.
pub fn age(then: SystemTime, now: SystemTime) -> String {
    let seconds = now.duration_since(then).unwrap_or_default().as_secs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} ago", count((seconds / 86_400) as usize, "day")),
    }
}

/// `2026-11-16 00:41:50 UTC`.
pub fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Year, month and day of a day counted from 1970. Years are taken to begin in March, so that a leap day is the last of
/// its year.
fn civil_date(days_since_1970: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970: u64 = 719_468;
    const DAYS_IN_400_YEARS: u64 = 146_097;
    let days = days_since_1970.saturating_add(DAYS_TO_1970);
    let (era, day_of_era) = (days / DAYS_IN_400_YEARS, days % DAYS_IN_400_YEARS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// For JSON.
pub fn seconds_since_1970(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_shown_not_obeyed() {
        assert_eq!(escaped("a\x1b[31m\u{202e}\n'é'"), "a\\u{1b}[31m\\u{202e}\\n'é'");
        assert_eq!(escaped_bytes(b"a\xff\0b"), "a\\xff\\0b");
    }

    #[test]
    fn words_of_a_command_line() {
        let words: [&[u8]; 6] = [b"./a", b"", b"b c", b"it's", b"\x1b\n", b"\xff\xc3\xa9"];
        assert_eq!(command_line(words), r"./a '' 'b c' $'it\'s' $'\x1b\n' $'\xffé'");
    }

    #[test]
    fn sizes() {
        let shown = [0, 999, 1000, 1_250, 999_949, 999_950, 3_000_000, u64::MAX].map(size);
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "1.2 kB", "999.9 kB", "1.0 MB", "3.0 MB", "18.4 EB"]);
    }

    #[test]
    fn ages() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let shown = [0, 59, 60, 3_599, 3_600, 86_399, 86_400, 200_000].map(|s| age(now - Duration::from_secs(s), now));
        let expected =
            ["0 s ago", "59 s ago", "1 min ago", "59 min ago", "1 h ago", "23 h ago", "1 day ago", "2 days ago"];
        assert_eq!(shown, expected);
        assert_eq!(age(now + Duration::from_secs(5), now), "0 s ago");
    }

    #[test]
    fn dates() {
        let shown = [0, 951_782_399, 951_782_400, 951_868_800, 1_763_251_200, 4_107_542_400];
        let shown = shown.map(|seconds| date(UNIX_EPOCH + Duration::from_secs(seconds)));
        let expected = [
            "1970-01-01 00:00:00 UTC",
            "2000-02-28 23:59:59 UTC",
            "2000-02-29 00:00:00 UTC",
            "2000-03-01 00:00:00 UTC",
            "2025-11-16 00:00:00 UTC",
            "2100-03-01 00:00:00 UTC",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn wrapping_and_counting() {
        let text = format!("{} {} end", "x".repeat(60), "y".repeat(60));
        assert_eq!(wrap(&text, 4), format!("{}\n    {} end", "x".repeat(60), "y".repeat(60)));
        assert_eq!([count(1, "process"), count(2, "process"), count(0, "log")], ["1 process", "2 processes", "0 logs"]);
    }
}
