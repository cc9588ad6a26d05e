//! From the command line to an exit code, the same way for both programs.
//!
//! Promise: one line on standard error for every failure, nothing else there (a running consumer says so of each message
//! that comes back, and `logs` how many bytes are no longer kept); `--version` and `--help` open no file of the
//! home. What a verb does is left to its own file.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use netsky_disk::{clock, process};

use crate::context::Context;
use crate::error::{Error, Kind};
use crate::output;

/// A parsed verb (or a group of verbs) that can be run.
pub(crate) trait Run {
    /// Does the work and prints its result through [`output`].
    fn run(self, cx: &Context) -> Result<(), Error>;
}

/// The root of a program's command tree.
pub(crate) trait Program: CommandFactory + FromArgMatches + Run {
    /// What the global options say.
    fn context(&self) -> Context;

    /// Called once after a verb ended; a program that records nothing leaves it out.
    fn record(_cx: &Context, _matches: &ArgMatches, _ended: Ended) {}
}

/// How a verb ended.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    /// Its exit code.
    pub(crate) exit: u8,
    /// How long it took.
    pub(crate) took: Duration,
}

/// Declares a group of verbs: a clap subcommand enum whose variants are run by their own files.
///
/// Each line is `Name(module::Args)`, with the attributes clap understands.
macro_rules! verbs {
    ($(#[$outer:meta])* $group:ident { $($(#[$inner:meta])* $name:ident($args:ty)),* $(,)? }) => {
        $(#[$outer])*
        #[derive(clap::Subcommand)]
        pub(crate) enum $group { $($(#[$inner])* $name($args)),* }

        impl $crate::run::Run for $group {
            fn run(self, cx: &$crate::context::Context) -> Result<(), $crate::error::Error> {
                let _ = cx; // A group may still be empty.
                match self { $(Self::$name(verb) => $crate::run::Run::run(verb, cx)),* }
            }
        }
    };
}
pub(crate) use verbs;

/// Runs a program on the process's own arguments and says how it ended.
pub(crate) fn main<P: Program>(name: &'static str) -> ExitCode {
    process::private_umask();
    let matches = match P::command().try_get_matches() {
        Ok(matches) => matches,
        Err(refusal) => return before_any_verb(name, &refusal),
    };
    let program = match P::from_arg_matches(&matches) {
        Ok(program) => program,
        Err(refusal) => return before_any_verb(name, &refusal),
    };
    let started = clock::boot();
    let cx = program.context();
    let exit = match cx.with_unpaged(program.run(&cx)) {
        Ok(()) => 0,
        Err(error) => {
            output::complain(name, &error.to_string());
            error.kind as u8
        }
    };
    P::record(&cx, &matches, Ended { exit, took: clock::boot().saturating_sub(started) });
    ExitCode::from(exit)
}

/// Help and version are answers and go to standard output; everything else clap refuses is a usage error.
fn before_any_verb(name: &str, refusal: &clap::Error) -> ExitCode {
    if refusal.use_stderr() {
        if refusal.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            let _ = write!(std::io::stdout(), "{}", refusal.render());
        }
        output::complain(name, &usage(refusal).to_string());
        return ExitCode::from(Kind::Usage as u8);
    }
    let mut out = std::io::stdout();
    match write!(out, "{}", refusal.render()).and_then(|()| out.flush()) {
        // A reader that went away has seen what it wanted.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            output::complain(name, &format!("failed to write to standard output: {error}"));
            ExitCode::from(Kind::Failed as u8)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Whether what no option is called is `-` and a digit: clap reads a value below 0 as options, and names the first.
fn is_negative(refusal: &clap::Error) -> bool {
    let named = refusal.get(ContextKind::InvalidArg);
    matches!(named, Some(ContextValue::String(word)) if word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())))
}

/// The first paragraph of clap's message on one line: what follows it is the usage text, one `--help` away.
fn usage(refusal: &clap::Error) -> Error {
    let text = refusal.render().to_string();
    let told = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = told.trim_start_matches("error: ").split_whitespace().collect();
    let what = match refusal.kind() {
        // The list that clap would add has verbs that are nobody's.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            "a verb is missing".to_owned()
        }
        ErrorKind::UnknownArgument if is_negative(refusal) => {
            format!("{}: no value here is below 0; one that begins with - stands behind --", words.join(" "))
        }
        _ => words.join(" "),
    };
    Error::new(Kind::Usage, what).hint("see --help")
}
