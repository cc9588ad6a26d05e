//! A worker's death, by pidfd: known within milliseconds, and never mistaken for another process with the same pid.

use std::os::fd::OwnedFd;
use std::process::Child;
use std::rc::Rc;
use std::time::Duration;

use netsky_disk::process::{PidFd, probe};
use netsky_model::process::{Life, ProcessId};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::settle::{self, Found};
use super::state::Anchor;
use crate::journal::About;
use crate::log::say;

/// How often a worker is looked at when there is no descriptor to watch it with.
const FALLBACK: Duration = Duration::from_secs(1);

/// Watches a session's worker and settles the session once it is gone. `child` is given where it is ours to wait for.
pub(super) fn start(anchor: &Rc<Anchor>, about: About, worker: ProcessId, child: Option<Child>) {
    let anchor = Rc::clone(anchor);
    tokio::task::spawn_local(async move {
        gone(&worker).await;
        wait_for(child).await;
        settle::session(&anchor, &about, Found::Watched).await;
    });
}

/// Returns once that very process is proved gone; one that cannot be looked at from here is not.
pub(super) async fn gone(worker: &ProcessId) {
    let mut told = false;
    loop {
        match PidFd::open(worker) {
            Ok(None) => return,
            Ok(Some(held)) => {
                #[expect(
                    deprecated,
                    reason = "its successor is unsafe and asks for what an owned descriptor always keeps"
                )]
                let watched = AsyncFd::with_interest(OwnedFd::from(held), Interest::READABLE);
                if let Ok(watched) = watched
                    && watched.readable().await.is_ok()
                {
                    return;
                }
            }
            Err(error) if !told => {
                told = true;
                say!("watching a worker without a descriptor: {error}");
            }
            Err(_) => {}
        }
        if probe(worker) == Life::Dead {
            return;
        }
        tokio::time::sleep(FALLBACK).await;
    }
}

/// Takes a child's status, so that no zombie keeps its pid.
pub(super) async fn wait_for(child: Option<Child>) {
    if let Some(mut child) = child {
        // Its end is known already; what its status says was said by its files.
        let _ = tokio::task::spawn_blocking(move || child.wait()).await;
    }
}
