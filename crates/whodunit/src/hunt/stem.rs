//! A process that has run the program up to its second thread, and is copied there for each schedule: what comes before is
//! the same for all of them.
//!
//! It also learns from the first copies what code they ran, and translates that before it makes more.

use super::hunted::{tell, watch, write_to};
use super::order::{Answer, Errand, Order, READY};
use engine::{Departure, PrivateFile};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::setpgid;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdin, stdout};
use sched::Steps;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a copy is to do, for those who are asked when it has begun.
#[derive(Clone, Default)]
pub struct Chosen(Arc<Mutex<Option<Order>>>);

impl Chosen {
    fn set(&self, order: &Order) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(order.clone());
    }

    pub fn get(&self) -> Option<Order> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub struct Stem {
    orders: BufReader<File>,
    replies: File,
    /// What the program has written so far.
    output: PathBuf,
    errors: PathBuf,
    chosen: Chosen,
    /// How many copies are still to tell what they ran.
    lessons: u32,
}

/// Where a copy's choices and its answer go, and what it is to tell.
pub struct Copied {
    pub departure: Departure,
    pub steps: Option<Steps>,
    pub answer: PrivateFile,
    pub tells_units: bool,
    pub tells_places: bool,
}

/// Descriptors from here on are hardly the program's.
const HIGH: i32 = 200;
/// From so many copies a stem learns; what only later ones run is not worth a list.
const LESSONS: u32 = 3;

impl Stem {
    /// Takes over the pipes to who gives orders, which are standard input and output so far.
    pub fn new(order: &Order, chosen: Chosen) -> io::Result<Stem> {
        let orders = File::from(fcntl_dupfd_cloexec(stdin(), HIGH)?);
        let replies = File::from(fcntl_dupfd_cloexec(stdout(), HIGH)?);
        let (output, errors) = (order.output.clone(), order.errors.clone());
        Ok(Stem { orders: BufReader::new(orders), replies, output, errors, chosen, lessons: LESSONS })
    }

    /// Makes copies as it is told. Comes back in each of them; the process itself ends here.
    pub fn serve(mut self) -> io::Result<Copied> {
        tell(&mut self.replies, &READY)?;
        let mut line = String::new();
        while self.orders.read_line(&mut line)? > 0 {
            let Errand::Run(order) = serde_json::from_str(&line)? else { break };
            match engine::copy_process()? {
                None => return self.depart(&order),
                Some(pid) => {
                    tell(&mut self.replies, &pid)?;
                    let ended = watch(pid, Duration::from_millis(order.limit))?;
                    self.learn(&order);
                    tell(&mut self.replies, &ended)?;
                }
            }
            line.clear();
        }
        engine::leave(0)
    }

    fn learn(&mut self, order: &Order) {
        if let Some(left) = self.lessons.checked_sub(1) {
            self.lessons = left;
            let answer = std::fs::read(&order.answer).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            engine::translate(&answer.map_or(Vec::new(), |answer: Answer| answer.units));
        }
    }

    /// In the copy: leaves what is the stem's.
    fn depart(self, order: &Order) -> io::Result<Copied> {
        // What the program does to its process group is none of the hunt's business.
        let _ = setpgid(None, None);
        self.chosen.set(order);
        dup2_stdin(File::open(&order.input)?)?;
        dup2_stdout(continued(&self.output, &order.output)?)?;
        dup2_stderr(continued(&self.errors, &order.errors)?)?;
        let (policy, steps) = order.policy().map_err(io::Error::other)?;
        Ok(Copied {
            departure: Departure { policy, patience: order.patience },
            steps,
            answer: PrivateFile::new(write_to(&order.answer)?)?,
            tells_units: self.lessons > 0,
            tells_places: order.tells_places,
        })
    }
}

/// A file that begins with what another one holds.
fn continued(from: &Path, to: &Path) -> io::Result<File> {
    let mut file = write_to(to)?;
    if std::fs::metadata(from)?.len() > 0 {
        io::copy(&mut File::open(from)?, &mut file)?;
        file.seek(SeekFrom::End(0))?;
    }
    Ok(file)
}
