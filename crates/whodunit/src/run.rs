use std::os::unix::ffi::OsStringExt;
struct H;
impl engine::Host for H {
    fn crashed(&self, crash: &engine::Crash) {
        if std::env::var_os("WCRASH").is_some() { eprintln!("crash {} {:x?} pc {:x?}", crash.signal, crash.fault, crash.threads); }
    }
    fn deadlocked(&self, threads: &[engine::ThreadFacts]) { eprintln!("deadlock {:x?}", threads); }
    fn finished(&self, stats: &engine::Stats) { if std::env::var_os("WSTATS").is_some() { eprintln!("{stats:?}"); } }
    fn notice(&self, line: &str) { eprintln!("whodunit: {line}"); }
}
pub fn main() -> i32 {
    let mut args: Vec<_> = std::env::args_os().skip(1).collect();
    let (path, arguments) = if args[0] == "__exec" { args.remove(0); let p = args.remove(0); (p, args) } else { (args[0].clone(), args) };
    let environment = std::env::vars_os().map(|(k, v)| { let mut s = k.into_vec(); s.push(b'='); s.extend(v.into_vec()); std::ffi::OsString::from_vec(s) }).collect();
    let program = engine::Program { path, arguments, environment };
    let options = engine::Options { follow: Some(vec![b"whodunit".to_vec(), b"__exec".to_vec()]), report_deadlock: true, seed: 0 };
    let q = std::env::var("WQ").ok().and_then(|v| v.parse().ok()).unwrap_or(50_000);
    match engine::launch(program, options, Box::new(sched::RoundRobin::new(q)), Box::new(H)) {
        Ok(never) => match never {},
        Err(error) => { eprintln!("whodunit: {error}"); i32::from(error.status()) }
    }
}
