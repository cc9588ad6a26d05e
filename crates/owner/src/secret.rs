//! Secrets of transports: read when used, kept nowhere, and shown by nothing.

use std::path::Path;
use std::time::Duration;

use netsky_disk::fs;
use netsky_disk::spawn::{Ended, Program};
use netsky_model::paging::Secret;

/// Most bytes of one.
const LONGEST: usize = 4 * 1024;

/// The bytes of a secret, without white space at its ends; or why there are none, in words that do not have it.
pub(crate) fn read(secret: &Secret, limit: Duration) -> Result<Vec<u8>, String> {
    let bytes = match secret {
        Secret::File(path) => fs::read_users_file(Path::new(path), LONGEST as u64)
            .map_err(|_| "its secret's file does not read".to_owned())?,
        Secret::Command(argv) => printed(argv, limit)?,
    };
    match bytes.trim_ascii() {
        [] => Err("its secret is empty".to_owned()),
        secret => Ok(secret.to_vec()),
    }
}

fn printed(argv: &[String], limit: Duration) -> Result<Vec<u8>, String> {
    let [path, args @ ..] = argv else { return Err("its secret's command is empty".to_owned()) };
    let program = Program { path: path.into(), args: args.to_vec(), ..Program::default() };
    match program.errand(&[], LONGEST, limit) {
        Ok((Ended::Exited(Some(0)), printed)) => Ok(printed),
        Ok((Ended::TooLate, _)) => Err("its secret's command did not end in time".to_owned()),
        Ok(_) => Err("its secret's command failed".to_owned()),
        Err(error) => Err(format!("its secret's command: {}", error.source.kind())),
    }
}
