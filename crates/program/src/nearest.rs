//! Names that somebody may have meant.

/// At most this many are offered.
const MAX_OFFERED: usize = 3;

/// The candidates closest to `wanted`, best first: at most a third of its letters differ.
pub(crate) fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let limit = (wanted.chars().count() / 3).max(1);
    let scored = candidates.into_iter().filter_map(|candidate| Some((distance(wanted, candidate, limit)?, candidate)));
    let mut scored: Vec<_> = scored.collect();
    scored.sort();
    scored.dedup();
    scored.into_iter().take(MAX_OFFERED).map(|(_, name)| name.to_owned()).collect()
}

/// The question at the end of a complaint; empty if there is nothing to offer.
pub(crate) fn offer(nearest: &[String]) -> String {
    let quoted: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
    if quoted.is_empty() { String::new() } else { format!("; did you mean {}?", quoted.join(" or ")) }
}

/// How many letters must be added, removed, changed or swapped with their neighbour; `None` if more than `limit`. Letter
/// case does not count.
fn distance(wanted: &str, candidate: &str, limit: usize) -> Option<usize> {
    if wanted.len().abs_diff(candidate.len()) > 4 * limit {
        return None;
    }
    let letters = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<Vec<char>>();
    let (wanted, candidate) = (letters(wanted), letters(candidate));
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=candidate.len()).collect();
    for (row, letter) in wanted.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in candidate.iter().enumerate() {
            let changed = above[column] + usize::from(letter != other);
            let mut best = changed.min(above[column + 1] + 1).min(current[column] + 1);
            let swapped = row > 0 && column > 0 && wanted[row - 1] == *other && candidate[column - 1] == *letter;
            if swapped {
                best = best.min(before[column - 1] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut above, current);
    }
    above.last().copied().filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_recognised() {
        let names = ["counter", "count", "encounter", "table", "COUNTER", "refs"];
        assert_eq!(nearest("conuter", names), ["COUNTER", "counter"]);
        assert_eq!(nearest("tabel", names), ["table"]);
        assert_eq!(nearest("ref", names), ["refs"]);
        assert!(nearest("session", names).is_empty());
    }
}
