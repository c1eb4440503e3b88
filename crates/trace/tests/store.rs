//! Recordings in folders: named, found, listed, removed; told live from dead.

mod support;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use support::*;
use trace::event::{Abort, End, EndKind, Exec, Start};
use trace::{
    Ending, Event, FileSink, List, Manifest, NewLog, NewRecording, Recording, State, Store, StoreError, Unopened,
    Writer,
};

const TAIL: usize = 16 << 10;

/// A folder that goes away with the test.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Temporary {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("whodunit-trace-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Temporary(path)
    }

    fn store(&self) -> Store {
        Store::at(self.0.join("store"))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn manifest(program: &str, started: u64) -> Manifest {
    Manifest {
        tool: "whodunit 0.1.0".into(),
        program: program.into(),
        arguments: vec![program.into(), "-x".into()],
        directory: "/tmp".into(),
        started: UNIX_EPOCH + Duration::from_secs(started),
    }
}

/// Writes events the way a recorder does, but for the mapping: the tail goes to its file at the end.
fn record(new: NewLog, events: &[Event<'_>], is_killed: bool) {
    let mut writer = Writer::create(new.id, vec![0; TAIL], FileSink::new(new.log)).unwrap();
    for event in events {
        writer.append(event).unwrap();
    }
    if is_killed {
        fs::write(&new.tail_path, writer.memory()).unwrap();
    } else {
        writer.seal().unwrap();
        fs::remove_file(&new.tail_path).unwrap();
    }
}

fn start() -> Event<'static> {
    Event::Start(Start { program: b"/bin/prog", arguments: List::of(&[b"prog" as &[u8]]), ..Start::default() })
}

fn recorded(store: &Store, program: &str, started: u64, events: &[Event<'_>]) -> PathBuf {
    let new = store.create(&manifest(program, started), TAIL).unwrap();
    record(new.first_log, events, false);
    new.folder
}

fn error_of<T>(result: Result<T, StoreError>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn a_recording_is_written_and_read() {
    let temporary = Temporary::new();
    let store = temporary.store();
    let new = store.create(&manifest("/bin/prog", 1000), TAIL).unwrap();
    let NewRecording { folder, id, first_log } = new;
    assert_eq!(folder, store.root().join("prog-1"));
    let child = NewLog::create(&folder, id, TAIL).unwrap();
    assert_eq!((child.id.log, child.id.recording), (2, id));
    assert_eq!(child.tail.metadata().unwrap().len(), TAIL as u64);
    record(first_log, &[start(), marked(1), exited(0)], false);
    record(child, &[start(), marked(1)], true);

    let recording = store.open(OsStr::new("prog-1")).unwrap();
    assert_eq!(recording.logs(), [1, 2]);
    assert_eq!(recording.manifest(), Some(&manifest("/bin/prog", 1000)));
    assert_eq!(prefix(recording.log(1).unwrap().cursor(), &[start(), marked(1), exited(0)]), (3, Ending::Whole));
    assert_eq!(prefix(recording.log(2).unwrap().cursor(), &[start(), marked(1)]), (2, Ending::Cut));
    assert_eq!(recording.log(2).unwrap().header().id.log, 2);
    assert!(matches!(recording.log(3).err().unwrap().why, Unopened::Missing));
}

#[test]
fn recorders_never_share_a_folder() {
    let temporary = Temporary::new();
    let store = temporary.store();
    let create = || {
        let numbers = (0..10).map(|_| store.create(&manifest("prog", 0), 1024).unwrap().folder);
        numbers.collect::<Vec<_>>()
    };
    let folders: Vec<PathBuf> = thread::scope(|scope| {
        let handles: Vec<_> = (0..4).map(|_| scope.spawn(create)).collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect()
    });
    let distinct: BTreeSet<&PathBuf> = folders.iter().collect();
    assert_eq!(distinct.len(), 40);
    assert_eq!(folders.iter().max_by_key(|folder| number_of(folder)).map(|folder| number_of(folder)), Some(40));
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries.collect::<BTreeSet<_>>().into_iter().collect()
}

fn number_of(folder: &Path) -> u32 {
    folder.to_str().unwrap().rsplit_once('-').unwrap().1.parse().unwrap()
}

#[test]
fn one_named_folder_takes_one_recorder() {
    let temporary = Temporary::new();
    let store = temporary.store();
    let folder = temporary.0.join("mine");
    let attempts: Vec<bool> = thread::scope(|scope| {
        let create = || store.create_at(&folder, &manifest("prog", 0), 1024).is_ok();
        let handles: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    assert_eq!(attempts.iter().filter(|&&won| won).count(), 1);
    assert_eq!(names_in(&folder), ["1.log", "1.tail", "recording.json"]);
    fs::remove_dir_all(&folder).unwrap();

    let new = store.create_at(&folder, &manifest("prog", 0), TAIL).unwrap();
    record(new.first_log, &[start()], false);
    let again = error_of(store.create_at(&folder, &manifest("prog", 0), TAIL));
    let place = folder.display();
    assert_eq!(
        again,
        format!("{place} already holds a recording; name another folder, or remove it with `whodunit rm`")
    );

    let other = temporary.0.join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("diary.txt"), "dear").unwrap();
    let occupied = error_of(store.create_at(&other, &manifest("prog", 0), TAIL));
    assert_eq!(occupied, format!("{} is not empty; name a new or an empty folder", other.display()));
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
}

#[test]
fn users_find_recordings_by_path_name_program_and_alias() {
    let temporary = Temporary::new();
    let store = temporary.store();
    let events = [start(), exited(0)];
    for index in 0..11 {
        recorded(&store, "prog", index, &events);
    }
    recorded(&store, "other-2", 20, &events);
    let found = |argument: &str| {
        let path = store.resolve(OsStr::new(argument)).unwrap();
        path.file_name().unwrap().to_str().unwrap().to_owned()
    };
    assert_eq!(found("prog-2"), "prog-2");
    assert_eq!(found("prog"), "prog-11");
    assert_eq!(found("other-2"), "other-2-1");
    assert_eq!(found("latest"), "other-2-1");
    assert_eq!(store.resolve(OsStr::new("some/where")).unwrap(), Path::new("some/where"));
    assert_eq!(store.resolve(OsStr::new(".")).unwrap(), Path::new("."));

    let root = store.root().display();
    let unknown = error_of(store.resolve(OsStr::new("nobody")));
    assert_eq!(unknown, format!("there is no recording `nobody` in {root}; `whodunit ls` lists those there are"));
    assert!(store.resolve(OsStr::new("")).is_err());

    let elsewhere = temporary.0.join("elsewhere");
    let new = store.create_at(&elsewhere, &manifest("prog", 0), TAIL).unwrap();
    record(new.first_log, &events, false);
    assert_eq!(found("latest"), "elsewhere");
}

#[test]
fn lists_tell_how_recordings_ended() {
    let temporary = Temporary::new();
    let store = temporary.store();
    assert!(store.list().unwrap().is_empty());
    let abort = End {
        kind: EndKind::Aborted(Abort::SizeLimit),
        thread: 1,
        clock: 5,
        registers: &[],
        backtrace: List::EMPTY,
        details: &[],
    };
    let exec = Event::Exec(Exec { thread: 1, clock: 3, next_log: 2 });
    recorded(&store, "exited", 1, &[start(), exited(7)]);
    recorded(&store, "aborted", 2, &[start(), Event::End(abort)]);
    recorded(&store, "executed", 3, &[start(), exec]);
    let killed = store.create(&manifest("killed", 4), TAIL).unwrap();
    record(killed.first_log, &[start(), marked(1)], true);
    let damaged = recorded(&store, "damaged", 5, &[start(), exited(0)]);
    let mut log = fs::read(damaged.join("1.log")).unwrap();
    *log.last_mut().unwrap() ^= 1;
    fs::write(damaged.join("1.log"), log).unwrap();
    fs::create_dir(store.root().join("empty-1")).unwrap();
    fs::write(store.root().join("unrelated"), "").unwrap();
    let live = store.create(&manifest("live", 6), TAIL).unwrap();
    let mut writer = Writer::create(live.first_log.id, vec![0; TAIL], FileSink::new(live.first_log.log)).unwrap();
    writer.append(&start()).unwrap();

    let mut summaries = store.list().unwrap();
    // Its time is that of its folder.
    let empty = summaries.pop().unwrap();
    assert!(matches!(empty.state, State::Unreadable(error) if matches!(error.why, Unopened::Empty)));
    let programs: Vec<&str> = summaries.iter().map(|summary| &*summary.program).collect();
    assert_eq!(programs, ["exited", "aborted", "executed", "killed", "damaged", "live"]);
    let state = |index: usize| &summaries[index].state;
    assert!(matches!(state(0), State::Ended(EndKind::Exited(7))));
    assert!(matches!(state(1), State::Ended(EndKind::Aborted(Abort::SizeLimit))));
    assert!(matches!(state(2), State::Executed { next_log: 2 }));
    assert!(matches!(state(3), State::Cut));
    assert!(matches!(state(4), State::Damaged(damage) if damage.offset == 64));
    assert!(matches!(state(5), State::Live));
    let files = fs::read_dir(&summaries[3].folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    assert_eq!(summaries[3].size, files.sum::<u64>());
    drop(writer);
    assert!(matches!(store.list().unwrap()[5].state, State::Cut));
}

#[test]
fn a_recording_without_its_manifest_is_still_one() {
    let temporary = Temporary::new();
    let store = temporary.store();
    let folder = recorded(&store, "prog", 1, &[start(), exited(0)]);
    fs::write(folder.join("recording.json"), "{").unwrap();
    let summary = store.list().unwrap().pop().unwrap();
    assert_eq!((&*summary.program, &summary.arguments[..]), ("/bin/prog", &["prog".to_owned()][..]));
    assert!(matches!(summary.state, State::Ended(EndKind::Exited(0))));
    assert_eq!(Recording::open(&folder).unwrap().manifest(), None);
}

#[test]
fn only_recordings_are_removed() {
    let temporary = Temporary::new();
    let store = temporary.store();
    let first = recorded(&store, "prog", 1, &[start(), exited(0)]);
    let second = recorded(&store, "prog", 2, &[start(), exited(0)]);
    let latest = || store.resolve(OsStr::new("latest")).ok();
    assert_eq!(latest(), Some(second.clone()));

    let home = temporary.0.join("home");
    fs::create_dir(&home).unwrap();
    assert!(error_of(store.remove(&home)).contains("is empty"));
    fs::write(home.join("1.log"), "log of my boat, which is longer than the header of a recording is").unwrap();
    assert!(error_of(store.remove(&home)).contains("is not a recording"));
    assert!(error_of(store.remove(&home.join("1.log"))).contains("is not a folder"));
    assert!(error_of(store.remove(&temporary.0.join("nothing"))).contains("does not exist"));
    assert!(home.join("1.log").exists());

    fs::write(second.join("notes.txt"), "mine").unwrap();
    assert!(error_of(store.remove(&second)).contains("notes.txt is no part of a recording"));
    assert!(second.join("1.log").exists());
    fs::remove_file(second.join("notes.txt")).unwrap();

    fs::create_dir(second.join("files")).unwrap();
    fs::write(second.join("files/0123"), [0; 1000]).unwrap();
    let size = store.list().unwrap()[1].size;
    assert!(size > 1000);
    assert_eq!(store.remove(&second).unwrap(), size);
    assert!(!second.exists());
    assert_eq!(latest(), Some(first.clone()));
    store.remove(&store.root().join("latest")).unwrap();
    assert_eq!((first.exists(), latest()), (false, None));
    assert!(fs::symlink_metadata(store.root().join("latest")).is_err());
}

#[test]
fn what_is_being_recorded_is_not_removed() {
    let temporary = Temporary::new();
    let store = temporary.store();
    let new = store.create(&manifest("prog", 1), TAIL).unwrap();
    let child = NewLog::create(&new.folder, new.id, TAIL).unwrap();
    record(new.first_log, &[start(), exited(0)], false);
    let recording = Recording::open(&new.folder).unwrap();
    assert!(recording.is_live() && !recording.is_log_live(1) && recording.is_log_live(2));
    assert!(error_of(store.remove(&new.folder)).ends_with("is still being recorded; end the program first"));
    // The lock goes with the last that has the file open, as when a process dies.
    let inherited = child.log.try_clone().unwrap();
    drop(child);
    assert!(recording.is_live());
    drop(inherited);
    assert!(!recording.is_live());
    store.remove(&new.folder).unwrap();
}

#[test]
fn a_recorder_that_died_early_leaves_what_can_be_removed() {
    let temporary = Temporary::new();
    let store = temporary.store();
    let new = store.create(&manifest("prog", 1), TAIL).unwrap();
    drop(new.first_log);
    let error = Recording::open(&new.folder).unwrap_err().to_string();
    let log = new.folder.join("1.log");
    let place = log.display();
    assert_eq!(error, format!("{place} is empty: the recorder ended before its first event; record again"));
    store.remove(&new.folder).unwrap();
}

#[test]
fn what_cannot_be_opened_is_told_in_one_sentence() {
    let temporary = Temporary::new();
    let open = |name: &str| Recording::open(&temporary.0.join(name)).unwrap_err().to_string();
    let place = temporary.0.display();
    let list = "`whodunit ls` lists the recordings there are";
    assert_eq!(open("none"), format!("{place}/none does not exist; {list}"));
    fs::write(temporary.0.join("file"), "").unwrap();
    assert_eq!(open("file"), format!("{place}/file is not a folder, and a recording is one; name the folder"));
    fs::create_dir(temporary.0.join("folder")).unwrap();
    fs::write(temporary.0.join("folder/x"), "").unwrap();
    assert_eq!(open("folder"), format!("{place}/folder is not a recording; {list}"));

    let folder = recorded(&Store::at(&temporary.0), "prog", 0, &[start()]);
    let good = fs::read(folder.join("1.log")).unwrap();
    let mut newer = good.clone();
    newer[8..12].copy_from_slice(&[3, 0, 1, 0]);
    fs::write(folder.join("1.log"), newer).unwrap();
    let words = "has format 3.1, and this whodunit reads up to 1.x; use the whodunit that recorded it, or a newer one";
    assert_eq!(open("prog-1"), format!("{place}/prog-1/1.log {words}"));
    let mut damaged = good;
    damaged[30] ^= 1;
    fs::write(folder.join("1.log"), damaged).unwrap();
    let words = "is damaged in its first bytes and cannot be read; take a copy of it if there is one, or record again";
    assert_eq!(open("prog-1"), format!("{place}/prog-1/1.log {words}"));
}

#[test]
fn a_place_that_cannot_be_written_to_is_told_and_left_as_it_was() {
    let temporary = Temporary::new();
    fs::write(temporary.0.join("file"), "").unwrap();
    let blocked = Store::at(temporary.0.join("file/store"));
    let words = error_of(blocked.create(&manifest("prog", 0), TAIL));
    assert!(words.starts_with("cannot make ") && words.contains("set WHODUNIT_DIR"), "{words}");
    assert_eq!(names_in(&temporary.0), ["file"]);
}
