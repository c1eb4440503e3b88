//! Names with `::` in them: which one is meant by which.

/// The name of a namespace that has none. Nobody types it.
pub(crate) const ANONYMOUS_NAMESPACE: &str = "(anonymous namespace)";

/// Whether somebody who types `query` can mean the variable or function with the name `full`: it is its whole name or
/// the last segments of it. After `::` it is the whole name.
pub(crate) fn name_matches(full: &str, query: &str) -> bool {
    qualifier(full, query).is_some()
}

/// What has to be put in front of `query` to get the whole name; empty, or ending in `::`.
pub(crate) fn qualifier(full: &str, query: &str) -> Option<String> {
    let (full, query) = (plain(full), plain(query));
    match query.strip_prefix("::") {
        Some(whole) => (full == whole).then(String::new),
        None => full.strip_suffix(&query).filter(|rest| rest.is_empty() || rest.ends_with("::")).map(str::to_owned),
    }
}

pub(crate) fn last_segment(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

/// Without anonymous namespaces, and with the arguments of templates written in one way: compilers and demanglers differ
/// in spaces and in the names of integers.
fn plain(name: &str) -> String {
    let mut name = name.replace(&format!("{ANONYMOUS_NAMESPACE}::"), "");
    if name.contains('<') {
        for (long, short) in [("long unsigned int", "unsigned long"), ("short unsigned int", "unsigned short")] {
            name = name.replace(long, short);
        }
        name = name.replace("long int", "long").replace("short int", "short").replace(' ', "");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_from_the_right() {
        assert!(name_matches("a::b", "b") && name_matches("a::b", "a::b") && name_matches("b", "b"));
        assert!(name_matches("a::(anonymous namespace)::b", "a::b"));
        assert!(!name_matches("ab", "b") && !name_matches("a::b", "c::b") && !name_matches("b", "a::b"));
        assert!(name_matches("b", "::b") && !name_matches("a::b", "::b"));
        assert_eq!(qualifier("a::b::c", "c").as_deref(), Some("a::b::"));
    }

    #[test]
    fn template_arguments_have_several_spellings() {
        assert!(name_matches("Map<long unsigned int, short int>::size", "Map<unsigned long,short>::size"));
        assert!(!name_matches("Map<long>::size", "Map<int>::size"));
    }
}
