//! Sources of small programs, and comparing reports with files.

use std::path::Path;

use program::source::SourceCache;
use report::look::Look;

const LIST: &str = "\
#include \"list.h\"

static inline struct node *last(struct list *list) {
\treturn list->head->next;
}

void list_push(struct list *list, int value) {
\tlast(list)->value = value;
}

int main(void) {
    struct list list = {0};
    list_push(&list, 1);
    void (*callback)(void) = 0;
    callback();
    check(&list);
}
";

const CACHE: &str = "\
static pthread_mutex_t a, b;
static struct entry *newest;
static int hits;

int lookup(int key) {
	if (newest && newest->key == key) {
		hits = hits + 1;
		return newest->value;
	}
	return -1;
}

void evict(void) {
	free(newest);
	newest = NULL;
}

void *first(void *unused) {
	pthread_mutex_lock(&a);
	pthread_mutex_lock(&b);
	return unused;
}

void *second(void *unused) {
	pthread_mutex_lock(&b);
	pthread_mutex_lock(&a);
	return unused;
}
";

pub fn sources() -> SourceCache {
    let mut sources = SourceCache::new();
    sources.insert(Path::new("/home/you/list/src/cache.c"), CACHE);
    sources.insert(Path::new("/home/you/list/src/list.c"), LIST);
    sources.insert(Path::new("/usr/include/c++/12/bits/stl_vector.h"), LIST);
    sources
}

pub fn look(colour: bool) -> Look {
    Look::new(colour, Some("/home/you/list".into()))
}

/// Compares with the expected file, and checks what holds for every report. Commands may be wider: they are to be copied.
pub fn check(name: &str, width: usize, render: impl Fn(&mut SourceCache, &Look) -> String) {
    let plain = render(&mut sources(), &look(false).with_width(width));
    for line in plain.lines() {
        let is_command = line.starts_with("    whodunit ");
        assert!(is_command || line.chars().count() <= width, "{name}: too wide: {line}");
        assert_eq!(line.trim_end(), line, "{name}: space at the end");
        assert!(!line.chars().any(char::is_control), "{name}: {line:?}");
    }
    let coloured = render(&mut sources(), &look(true).with_width(width));
    assert_ne!(coloured, plain, "{name}: colours are missing");
    assert_eq!(without_colours(&coloured), plain, "{name}: colours change the text");
    compare(&format!("{name}.txt"), &plain);
}

/// Compares with a file in `tests/expected`; `BLESS=1` rewrites it.
pub fn compare(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(file);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{file} differs; BLESS=1 accepts this:\n{text}\nexpected:\n{expected}");
}

fn without_colours(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let first = pieces.next().unwrap().to_owned();
    pieces.fold(first, |plain, piece| plain + piece.split_once('m').unwrap().1)
}
