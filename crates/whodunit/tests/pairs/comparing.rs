//! What is to blame is told first.

use super::place::Place;

/// Enough passing runs for small programs, and no what-if runs.
const FEW: [&str; 4] = ["--runs", "25", "--prove", "0"];

/// The first finding blames these marks, and was told by this procedure.
#[track_caller]
fn blames(name: &str, options: &[&str], marks: &[&str], ground: &str) {
    let place = Place::new(name, name);
    let found = place.pairs(options);
    let first = &found["findings"][0];
    let blamed = place.blamed(first);
    assert!(marks.iter().all(|mark| blamed.contains(*mark)), "{found:#}");
    assert!(first["grounds"][0].as_str().is_some_and(|text| text.starts_with(ground)), "{found:#}");
}

#[test]
fn a_lost_update_is_proved_by_a_run_without_it() {
    let place = Place::new("s_counter", "s_counter");
    let found = place.pairs(&["--runs", "12", "--sensitivity"]);
    let first = &found["findings"][0];
    assert_eq!(place.blamed(first), ["read", "write"].map(str::to_owned).into(), "{found:#}");
    assert!(first["grounds"][0].as_str().is_some_and(|text| text.starts_with("Procedure I: none of")), "{found:#}");
    assert_eq!(first["status"], "proved", "{found:#}");
    assert!(first["rerun"].as_str().is_some_and(|command| command.starts_with("whodunit rerun guest-")), "{found:#}");
    let evidence = &first["evidence"];
    let recording = evidence["recording"].as_str().expect("a recording");
    let rerun = place.whodunit(&["rerun", recording, "--json", "--plan", &evidence["plan"].to_string()]);
    // The failing run passes, or a passing one fails.
    let is_failing_run = found["recording"] == evidence["recording"];
    assert_eq!(rerun.status.success(), is_failing_run, "{}", String::from_utf8_lossy(&rerun.stdout));
    let points = found["narrowing"].as_array().expect("points");
    assert_eq!(points.last().map(|point| &point["runs"]), Some(&12.into()), "{points:?}");
}

#[test]
fn a_pair_that_foretells_the_guilty_one_is_not_told() {
    blames("locon_figure_3", &["--runs", "15"], &["clear", "use"], "Procedure I: none of");
}

#[test]
fn a_run_that_ended_too_soon_is_blamed_on_the_order_that_it_lacks() {
    blames("transmission_bandwidth", &["--runs", "15", "--procedure", "2"], &["read", "initialise"], "Procedure II: ");
    // No procedure was asked for: I has nothing to say of a store that never came.
    let check = [&FEW[..], &["--check", "grep -q 'total time 197'"]].concat();
    blames("fft_end_time", &check, &["read", "store"], "Procedure II: ");
}

#[test]
fn an_access_between_two_of_another_thread_is_told_by_procedure_1() {
    let ground = "Procedure I: none of";
    blames("mysql_log_closed", &FEW, &["close", "look", "open"], ground);
    blames("mozilla_current_script", &FEW, &["load", "clear", "compile"], ground);
    blames("l_proc_sweep", &FEW, &["clear", "use"], ground);
}

#[test]
fn an_order_that_only_the_failing_run_has_is_told_by_procedure_1() {
    blames("accidental_order", &FEW, &["default", "override"], "Procedure I: none of");
}

#[test]
fn accesses_to_two_variables_that_never_came_together_are_told_by_procedure_3() {
    blames("smcm_two_writes", &FEW, &["write-x", "write-y", "read-x", "read-y"], "Procedure III: of");
}

#[test]
fn recordings_are_compared_as_well() {
    let place = Place::new("given", "s_counter");
    place.pairs(&["--runs", "2"]);
    let passing: Vec<String> = (1..=3).map(|number| format!("./passing-{number}")).collect();
    for folder in &passing {
        // The ordinary order of threads passes.
        let recorded = place.whodunit(&["record", "-o", folder, "--", "./guest"]);
        assert_eq!(recorded.status.code(), Some(0), "{}", String::from_utf8_lossy(&recorded.stderr));
    }
    let words = ["--failing", "guest-1", "--passing"].into_iter().chain(passing.iter().map(String::as_str));
    let found = place.compare(&words.collect::<Vec<_>>());
    assert_eq!(place.blamed(&found["findings"][0]), ["read", "write"].map(str::to_owned).into());
    assert_eq!(found["summary"]["text"], "1 failing run and 3 passing runs.");
    let words = ["--prove", "0", "--failing", "guest-1", "guest-1", "--passing", &passing[0]];
    let found = place.compare(&words);
    assert_eq!(found["findings"][0]["status"], "suspected");
    assert_eq!(found["summary"]["text"], "2 failing runs and 1 passing run.");
}
