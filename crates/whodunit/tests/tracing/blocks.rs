//! Every function that hands out memory is known, and those that users name.

use super::place::{fields, record};

const ALLOCATORS: &str = r#"
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
static char store[256];
static size_t used;
char *carve(int kind, size_t size) { used += size; return store + used - size; }
void restore(char *block) { used = block - store; }
int main(void) {
    void *through = NULL;
    posix_memalign(&through, 64, 101);
    char *blocks[] = {aligned_alloc(64, 128), memalign(32, 40), reallocarray(NULL, 3, 7), valloc(10), calloc(3, 5), through};
    free(strdup("word"));
    for (size_t index = 0; index < sizeof blocks / sizeof *blocks; index++) {
        blocks[index][0] = 1;
        free(blocks[index]);
    }
    char *own = carve(1, 24);
    own[3] = 7; /* own */
    restore(own);
    return 0;
}
"#;

#[test]
fn each_way_to_get_memory_gives_a_block() {
    let recorded = record("allocators", ALLOCATORS, "-O0");
    let lines = recorded.lines(&["--only", "memory"]);
    let made: Vec<_> = lines.iter().filter(|line| line["kind"] == "allocate").cloned().collect();
    let sizes: Vec<String> = fields(&made, &["size"]).concat();
    assert_eq!(sizes, ["101", "128", "40", "21", "10", "15", "5"]);
    let given_back = lines.iter().filter(|line| line["kind"] == "free" && line["block"].is_object());
    assert_eq!(given_back.count(), sizes.len(), "blocks that came back");
}

#[test]
fn named_functions_give_blocks_too() {
    let recorded = record("own-allocator", ALLOCATORS, "-O0");
    let words = ["--function", "main", "--only", "accesses", "--alloc", "carve:restore:2"];
    let at = recorded.line("carve(1, 24)");
    let lines = recorded.lines(&words);
    let written: Vec<String> = fields(&lines, &["variable"]).concat();
    assert!(
        written.iter().any(|name| name.contains(&format!("a block of 24 bytes allocated at guest.c:{at}"))),
        "{written:?}"
    );
    assert!(!fields(&recorded.lines(&words[..4]), &["variable"]).concat().iter().any(|name| name.contains("24 bytes")));
    assert!(recorded.refusal(&["--alloc", "carve:gone"], 3).contains("no function with the symbol gone"));
}
