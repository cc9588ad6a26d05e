//! The real `netsky` in throwaway homes.
#![forbid(unsafe_code)]

mod agent_prompts;
mod asked;
mod attached;
mod bad_input;
mod batch;
mod bounds;
mod bus_home;
#[path = "../../../disk/tests/it/bystander.rs"]
mod bystander;
mod calls;
// As `errno_points`.
#[cfg(target_arch = "x86_64")]
mod cells;
mod channel;
mod check;
mod clones;
mod constellation;
mod cost;
mod cron;
mod cron_points;
mod demo;
mod demo_run;
mod doctor;
mod down_full_disk;
mod drill;
mod driven;
mod durability;
// Elsewhere the stepper kills, but cannot yet make a call fail.
#[cfg(target_arch = "x86_64")]
mod errno_points;
mod everywhere;
mod few_files;
mod full_disk;
// As `errno_points`.
#[cfg(target_arch = "x86_64")]
mod group_cell;
mod handoff;
mod hang;
mod hostile;
mod identity;
mod journal;
mod kernel_full_disk;
mod kill_points;
mod killed;
mod landing;
mod large_inbox;
mod lineages;
mod loop_points;
mod loops;
mod markers;
mod ostk;
mod own_group;
mod owner;
mod pages;
mod passed_on;
mod power_cuts;
mod prompts;
mod racers;
mod real;
mod record;
mod record_walk;
mod replaced;
mod restarts;
mod rpc;
mod screen;
mod seed_lifecycle;
mod service;
#[path = "../../../bus/tests/it/skipped.rs"]
mod skipped;
mod stage;
mod task;
mod task_points;
mod tending;
mod ticker;
mod tidied;
mod tool_calls;
mod tries;
mod unread;
mod unseated;
mod ups_and_downs;
mod watch;
mod wishes;
mod worlds;
