//! Owns generated input: text that compresses like prose and logs, and a large C file. The same every time.

// Writing to a string cannot fail, so the results of `write!` below are of no interest.
use std::fmt::Write;

/// A linear congruential generator: the workloads need variety, not randomness.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// At least `length` bytes of sentences, with a log line or a record between them now and then.
pub fn text(length: usize) -> String {
    let mut sequence = Sequence(2_024);
    let vocabulary: Vec<String> = (0..6_000).map(|_| word(&mut sequence)).collect();
    let mut text = String::with_capacity(length + 4_096);
    while text.len() < length {
        match sequence.below(8) {
            0 => push_log_line(&mut text, &mut sequence),
            1 => push_record(&mut text, &mut sequence, &vocabulary),
            _ => push_sentence(&mut text, &mut sequence, &vocabulary),
        }
    }
    text
}

fn word(sequence: &mut Sequence) -> String {
    const SYLLABLES: [&str; 16] =
        ["ka", "ren", "ti", "mo", "lus", "ed", "an", "pre", "ing", "o", "ster", "vi", "qua", "e", "sh", "dor"];
    (0..1 + sequence.below(4)).map(|_| SYLLABLES[sequence.below(16) as usize]).collect()
}

/// Early words of the vocabulary are chosen far more often than late ones, as in real text.
fn choose<'a>(vocabulary: &'a [String], sequence: &mut Sequence) -> &'a str {
    let limit = 1 + sequence.below(vocabulary.len() as u64);
    &vocabulary[sequence.below(limit) as usize]
}

fn push_sentence(text: &mut String, sequence: &mut Sequence, vocabulary: &[String]) {
    for _ in 0..5 + sequence.below(15) {
        text.push_str(choose(vocabulary, sequence));
        text.push_str(if sequence.below(9) == 0 { ", " } else { " " });
    }
    text.push_str(choose(vocabulary, sequence));
    text.push_str(".\n");
}

fn push_log_line(text: &mut String, sequence: &mut Sequence) {
    let (hour, minute, second) = (sequence.below(24), sequence.below(60), sequence.below(60));
    let (host, bytes) = (sequence.below(40), sequence.next());
    let _ = writeln!(
        text,
        "2020-03-17T{hour:02}:{minute:02}:{second:02}Z host-{host} served {bytes} bytes in {}us",
        bytes % 977
    );
}

fn push_record(text: &mut String, sequence: &mut Sequence, vocabulary: &[String]) {
    let (name, id, key) = (choose(vocabulary, sequence), sequence.below(100_000), sequence.next());
    let _ = writeln!(text, "{{\"id\": {id}, \"name\": \"{name}\", \"key\": \"{key:08x}\", \"tags\": [null, true]}}");
}

/// A C file of many functions with loops, switches, structures and calls between them.
pub fn c_source(n_functions: u64) -> String {
    let mut sequence = Sequence(77);
    let mut source = String::from("struct item { int kind; long weight; struct item *next; double values[8]; };\n");
    for index in 0..n_functions {
        push_function(&mut source, &mut sequence, index);
    }
    source
}

fn push_function(source: &mut String, sequence: &mut Sequence, index: u64) {
    let call = match index {
        0 => "total".to_owned(),
        _ => format!("function_{}(item->next, total, depth - 1)", sequence.below(index)),
    };
    let (offset, factor) = (sequence.below(7), sequence.below(90));
    let _ = write!(
        source,
        "long function_{index}(struct item *item, long total, int depth)\n{{\n\
         if (depth <= 0 || !item)\n    return total;\n\
         for (int i = 0; i < 8; i++)\n    item->values[i] = item->values[(i + {offset}) % 8] * {factor}.5 + total;\n\
         switch (item->kind) {{\n",
    );
    for case in 0..4 + sequence.below(8) {
        push_case(source, sequence, case);
    }
    let _ = write!(source, "default:\n    total = {call};\n}}\nreturn {call} + total;\n}}\n\n");
}

fn push_case(source: &mut String, sequence: &mut Sequence, case: u64) {
    let (shift, constant, other) = (1 + sequence.below(20), sequence.next(), sequence.below(8));
    let _ = write!(
        source,
        "case {case}:\n    total ^= (item->weight << {shift}) + {constant}L;\n    \
         while (total % {} > 3)\n        total = total / 3 + (long)item->values[{other}];\n    break;\n",
        5 + other,
    );
}
