//! The processes of a recording: who came from whom, with which threads, and how each ended.

use std::collections::{BTreeMap, BTreeSet};

use trace::State;

use super::image::{Image, ThreadLife};
use crate::recordings::ends;
use crate::recordings::text::{Ink, Paint, keep_start, width};

/// More threads of one process are only counted.
const MAX_THREADS: usize = 16;
/// Deeper levels are not indented any further.
const MAX_INDENT: usize = 20;
const LONGEST_COMMAND: usize = 50;

/// A process image with its distance from the first process.
pub struct Node<'a> {
    pub image: &'a Image,
    pub depth: usize,
}

/// Parents before their children, and programs behind the process that executed them.
pub fn tree(images: &[Image]) -> Vec<Node<'_>> {
    let by_log: BTreeMap<u32, &Image> = images.iter().map(|image| (image.log, image)).collect();
    let mut below: BTreeMap<u32, Vec<&Image>> = BTreeMap::new();
    let mut left = Vec::new();
    for image in images {
        match parent(image, images).filter(|parent| by_log.contains_key(parent)) {
            Some(parent) => below.entry(parent).or_default().push(image),
            None => left.push((image, 0)),
        }
    }
    left.reverse();
    let mut nodes = Vec::new();
    while let Some((image, depth)) = left.pop() {
        nodes.push(Node { image, depth });
        let is_next = |other: &&&Image| matches!(image.state, State::Executed { next_log } if next_log == other.log);
        let others = below.get(&image.log).map(Vec::as_slice).unwrap_or_default();
        left.extend(others.iter().filter(is_next).map(|next| (*next, depth)));
        left.extend(others.iter().filter(|other| !is_next(other)).rev().map(|child| (*child, depth + 1)));
    }
    nodes
}

/// A log gets its number after the one that it comes from, so a higher one is a lie and might go round in a circle.
fn parent(image: &Image, images: &[Image]) -> Option<u32> {
    let told = image.begin.as_ref().map(|begin| begin.parent.map(|parent| parent.log));
    let forked_by = || images.iter().find(|other| other.children.contains(&image.log)).map(|other| other.log);
    told.unwrap_or_else(forked_by).filter(|parent| *parent < image.log)
}

pub fn lines(images: &[Image], number: Option<u32>, paint: Paint) -> Vec<String> {
    let mut nodes = tree(images);
    if let Some(number) = number {
        nodes.retain(|node| node.image.log == number);
        nodes.iter_mut().for_each(|node| node.depth = 0);
    }
    let heads: Vec<String> = nodes.iter().map(head).collect();
    let widest = heads.iter().map(|head| width(head)).max().unwrap_or(0);
    let mut lines = vec![paint.paint(Ink::Strong, "Processes:")];
    for (node, head) in nodes.iter().zip(heads) {
        let pid = node.image.begin.as_ref().map(|begin| format!("pid {}, ", begin.pid)).unwrap_or_default();
        lines.push(format!("{head:<widest$}  {pid}{}", ends::words(&node.image.state)));
        lines.extend(threads(node));
    }
    lines
}

fn indent(node: &Node<'_>) -> usize {
    2 + 3 * node.depth.min(MAX_INDENT)
}

/// `  2  ls -l`
fn head(node: &Node<'_>) -> String {
    let command = node.image.begin.as_ref().map_or("?", |begin| &begin.command);
    format!("{:indent$}{}  {}", "", node.image.log, keep_start(command, LONGEST_COMMAND), indent = indent(node))
}

/// A process with one thread is that thread.
fn threads(node: &Node<'_>) -> Vec<String> {
    let threads = &node.image.threads;
    if threads.len() < 2 {
        return Vec::new();
    }
    let indent = " ".repeat(indent(node) + 3);
    let shown = threads.iter().take(MAX_THREADS);
    let mut lines: Vec<String> =
        shown.map(|(number, life)| format!("{indent}thread {number}{}", thread(life))).collect();
    if threads.len() > MAX_THREADS {
        lines.push(format!("{indent}... and {} more threads; --json lists all", threads.len() - MAX_THREADS));
    }
    lines
}

fn thread(life: &ThreadLife) -> String {
    let tid = life.tid.map(|tid| format!(", tid {tid}")).unwrap_or_default();
    let origin = life.origin.map(|(parent, event)| format!(", started by thread {parent} in event {event}"));
    let end = match life.status {
        Some(status) => format!("ended with status {status} at clock {}", life.clock),
        None => format!("last seen at clock {}", life.clock),
    };
    format!("{tid}{}, {end}", origin.unwrap_or_default())
}

/// Logs that other logs tell of and that are not there.
pub fn missing(images: &[Image]) -> Vec<u32> {
    let there: BTreeSet<u32> = images.iter().map(|image| image.log).collect();
    let told = images.iter().flat_map(|image| &image.children).copied();
    let missing: BTreeSet<u32> = told.filter(|log| !there.contains(log)).collect();
    missing.into_iter().collect()
}
