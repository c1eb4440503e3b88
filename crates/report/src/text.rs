//! Text that fits: widths, wrapping, and characters that a terminal would obey.

/// Replaces what is not meant for the eye. Names and source lines come from the program under examination.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '\u{fffd}' } else { character }).collect()
}

pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

/// Cuts the end off.
pub(crate) fn keep_start(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let kept: String = text.chars().take(limit.saturating_sub(3)).collect();
    format!("{kept}...")
}

/// Cuts the start off: of a path, the end says more.
pub(crate) fn keep_end(text: &str, limit: usize) -> String {
    let excess = width(text).saturating_sub(limit);
    if excess == 0 {
        return text.to_owned();
    }
    let kept: String = text.chars().skip(excess + 3).collect();
    format!("...{kept}")
}

/// How far lines are indented: the first, and those after it.
#[derive(Clone, Copy)]
pub(crate) struct Indent(pub usize, pub usize);

/// Breaks text at spaces into lines of at most `limit`.
pub(crate) fn wrap(text: &str, limit: usize, indent: Indent) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = " ".repeat(indent.0);
    let mut line_is_empty = true;
    for word in text.split(' ') {
        let word = keep_start(word, limit - indent.1);
        if !line_is_empty && width(&line) + 1 + width(&word) > limit {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent.1)));
        } else if !line_is_empty {
            line.push(' ');
        }
        line.push_str(&word);
        line_is_empty = false;
    }
    lines.push(line);
    lines
}

/// "1 thread", "2 threads".
pub(crate) fn count(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapping() {
        assert_eq!(wrap("one two three", 8, Indent(0, 2)), ["one two", "  three"]);
        assert_eq!(wrap("one", 8, Indent(1, 2)), [" one"]);
        assert_eq!(wrap("a enormousword b", 8, Indent(0, 2)), ["a eno...", "  b"]);
    }

    #[test]
    fn cutting() {
        assert_eq!((keep_start("abcdef", 5).as_str(), keep_end("abcdef", 5).as_str()), ("ab...", "...ef"));
        assert_eq!((keep_start("abcde", 5).as_str(), keep_end("abcde", 5).as_str()), ("abcde", "abcde"));
    }

    #[test]
    fn escapes_are_shown_not_obeyed() {
        assert_eq!(printable("a\x1b[31mb\n"), "a\u{fffd}[31mb\u{fffd}");
    }
}
