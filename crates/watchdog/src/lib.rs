//! The watchdog: desired state, the one tick that reconciles it, and the restart protocol.
//!
//! Promise: `tick` is the only code that repairs a constellation. It runs under one lock, decides by
//! pure functions from one observation, and any of its triggers (the ticker, agentinfinity, a hand) may
//! die at any point. No model is called anywhere in here.
//! Leaves to others: printing (`cli`), sessions (`kernel`), messages (`bus`).
//!
//! Reading order: [`up`], [`tick`] → `observe` → `decide` → `perform`, the restart `child`, `down`.
#![forbid(unsafe_code)]

mod agentinit;
mod backlog;
mod between;
mod brief;
mod budget;
mod child;
mod clones;
mod context;
mod crashloop;
mod cron;
mod decide;
mod doctor;
mod down;
mod drivers;
mod error;
mod event;
mod failsafe;
mod handoff;
mod hang;
mod held;
mod keeper;
mod known;
mod loops;
mod mail;
mod markers;
mod notify;
mod observe;
mod overdue;
mod page;
mod pages;
mod pass_on;
mod perform;
mod prune;
mod quiet;
mod reach;
mod request;
mod reserve;
mod resume;
mod retention;
mod room;
mod scheduled;
mod serve;
pub mod service;
mod session_up;
mod silent;
mod standing;
mod status;
mod stop;
mod stuck;
mod tick;
mod ticker;
mod up;

pub use brief::handoff_draft;
pub use child::run as restart_child;
pub use clones::{clones, may_hand_out, plan_clone, stop_clone};
pub use context::Context;
pub use cron::cron_tick;
pub use doctor::{Examined, Health, doctor};
pub use down::{Downed, down};
pub use drivers::drivers;
pub use error::Error;
pub use failsafe::{Failsafe, Round, failsafe, is_home, last_failsafe, round};
pub use held::FailedTick;
pub use known::wanted;
pub use loops::loop_tick;
pub use markers::{Marker, markers};
pub use quiet::{LONGEST_QUIET, Quiet, begin_quiet, end_quiet};
pub use reach::send_pages;
pub use request::{Queued, request};
pub use resume::{MAX_RESUME, Resume, archive_resume, leave_resume, resume};
pub use serve::serve;
pub use session_up::session_up;
pub use status::{AgentStatus, Asked, Declared, Driven, Mailbox, RestartView, StatusReport, Trying, status};
pub use stop::stop;
pub use tick::{LastTick, Ticked, tick};
pub use ticker::{LastRun, ticker};
pub use up::{MAX_CLONES, Plan, Upped, Which, Wish, plan, ticker_interval, up};
