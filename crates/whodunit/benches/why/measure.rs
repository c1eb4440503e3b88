//! Owns one program's folder, and what it costs to run it in each way.

use crate::alone;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How much of the end is followed, in events.
const END: u64 = 20_000;
/// The status of a re-run that ends with the crash.
const FAILED: i32 = 1;

pub struct Workplace {
    folder: PathBuf,
    words: Vec<String>,
    times: u32,
}

/// What a diagnosis has found.
pub struct Diagnosed {
    /// The clock at the cause, and at the crash.
    pub cause: u64,
    pub end: u64,
    plan: Value,
    address: Value,
}

impl Workplace {
    /// Builds and records a program.
    pub fn prepare(name: &str, words: &[&str], times: u32) -> Result<Workplace, String> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("why-bench").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("benches/why/programs/{name}.c"));
        let compiler =
            Command::new("cc").args(["-O1", "-g", "-w", "-o", "program"]).arg(source).current_dir(&folder).status();
        if !compiler.is_ok_and(|status| status.success()) {
            return Err(format!("{name} could not be built"));
        }
        let native = std::iter::once("./program").chain(words.iter().copied()).map(str::to_owned).collect();
        let workplace = Workplace { folder, words: native, times };
        let record =
            [&["record", "--no-report", "-o", "recording", "--"].map(str::to_owned), workplace.words.as_slice()]
                .concat();
        workplace.whodunit(&record, alone::BY_SIGNAL)?;
        Ok(workplace)
    }

    /// What a command costs that ends with this status.
    fn cost(&self, words: &[String], status: i32) -> Result<f64, String> {
        let run = alone::run(words, &self.folder, Path::new("/dev/null"))?;
        if run.status == status { Ok(run.cpu) } else { Err(format!("{words:?} ended with status {}", run.status)) }
    }

    fn whodunit(&self, words: &[String], status: i32) -> Result<f64, String> {
        let command = std::env::var("WHODUNIT_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_whodunit").to_owned());
        self.cost(&[&[command], words].concat(), status)
    }

    fn best(&self, run: impl Fn() -> Result<f64, String>) -> Result<f64, String> {
        (0..self.times.max(1)).map(|_| run()).try_fold(f64::INFINITY, |best, cost| Ok(best.min(cost?)))
    }

    /// What the last command has written.
    fn written(&self) -> Result<Value, String> {
        let text = fs::read(self.folder.join(alone::WRITTEN)).map_err(|error| error.to_string())?;
        serde_json::from_slice(&text).map_err(|error| error.to_string())
    }

    pub fn native(&self) -> Result<f64, String> {
        self.best(|| self.cost(&self.words, alone::BY_SIGNAL))
    }

    pub fn replay(&self) -> Result<f64, String> {
        let words = ["replay", "--no-report", "--quiet", "./recording"].map(str::to_owned);
        self.best(|| self.whodunit(&words, alone::BY_SIGNAL))
    }

    fn rerun(&self, plan: &Value, status: i32) -> Result<f64, String> {
        fs::write(self.folder.join("plan.json"), plan.to_string()).map_err(|error| error.to_string())?;
        let words = ["rerun", "./recording", "--json", "--plan", "plan.json"].map(str::to_owned);
        self.best(|| self.whodunit(&words, status))
    }

    /// The seconds that `why` takes, and what it says.
    pub fn diagnose(&self) -> Result<(f64, Diagnosed), String> {
        let words = ["why", "./recording", "--format", "json"].map(str::to_owned);
        let cost = self.best(|| self.whodunit(&words, 1))?;
        let finding = self.written()?["findings"][0].take();
        let plan = finding["evidence"]["plan"].clone();
        let cause = plan["steps"][0]["suppress"]["clock"].as_u64().ok_or("nothing was suppressed")?;
        // A plan that never acts.
        self.rerun(&steps(json!([{ "stop": { "thread": 1, "clock": u64::MAX } }])), FAILED)?;
        let end = self.written()?["clock"].as_u64().ok_or("the end has no clock")?;
        Ok((cost, Diagnosed { cause, end, plan, address: finding["variable"]["address"].clone() }))
    }

    /// The end is followed, and the writers of the corrupt memory are sought.
    pub fn origins(&self, diagnosed: &Diagnosed) -> Result<f64, String> {
        let memory = json!([{ "address": diagnosed.address, "size": 8 }]);
        let origins = json!({ "origins": { "thread": 1, "clock": diagnosed.end - END } });
        self.rerun(&steps(json!([origins, { "writers": { "memory": memory } }])), FAILED)
    }

    /// The run up to where something is left out first.
    pub fn up_to_cause(&self, diagnosed: &Diagnosed) -> Result<f64, String> {
        let first = &diagnosed.plan["steps"][0]["suppress"];
        let point = json!({ "thread": first["thread"], "clock": first["clock"], "at": first["at"] });
        self.rerun(&steps(json!([{ "stop": point }])), 0)
    }

    /// The run without the cause, and how many events came after it.
    pub fn suppress(&self, diagnosed: &Diagnosed) -> Result<(f64, u64), String> {
        let cost = self.rerun(&diagnosed.plan, 0)?;
        Ok((cost, self.written()?["spent"].as_u64().unwrap_or(0)))
    }
}

fn steps(steps: Value) -> Value {
    json!({ "schema": "whodunit/plan/1", "steps": steps, "limit": 1_000_000_000 })
}
