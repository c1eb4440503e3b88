mod run;
fn main() {
    std::process::exit(run::main());
}
